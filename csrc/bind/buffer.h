// A borrowed view of any object with the buffer protocol, through the raw C API.
//
// Holds the exporter and its buffer; made and destroyed with the GIL held. The bytes may be read
// without it.
#pragma once

#include "base/bytes.h"
#include "bind/prelude.h"

namespace hotstart::bind {

class BufferView {
 public:
  // Raises TypeError for an object without contiguous bytes.
  explicit BufferView(py::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  BufferView(BufferView&& other) noexcept : view_(other.view_) { other.view_ = Py_buffer{}; }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  BufferView& operator=(BufferView&&) = delete;
  ~BufferView() { PyBuffer_Release(&view_); }

  Bytes bytes() const {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  bool readonly() const { return view_.readonly != 0; }

 private:
  Py_buffer view_ = {};
};

// Hashing less than this takes less time than giving the GIL up and getting it back.
inline constexpr std::size_t kReleaseGilFrom = 64 * 1024;

// Runs `work` without the GIL where there is enough of it.
template <typename Work>
auto without_gil_if_large(std::size_t size, Work&& work) {
  if (size < kReleaseGilFrom) return work();
  py::gil_scoped_release release;
  return work();
}

}  // namespace hotstart::bind
