// Appends little-endian values to a bytes object in the making, so that a large result is never
// copied. Throws std::bad_alloc. Needs the GIL; belongs to one thread.
#pragma once

#include <Python.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "python/ref.h"

namespace hotstart {

class BytesBuilder {
 public:
  BytesBuilder() = default;
  BytesBuilder(BytesBuilder&& other) noexcept { swap(other); }
  BytesBuilder(const BytesBuilder&) = delete;
  BytesBuilder& operator=(const BytesBuilder&) = delete;
  ~BytesBuilder() { Py_XDECREF(bytes_); }

  void swap(BytesBuilder& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(at_, other.at_);
    std::swap(end_, other.end_);
  }

  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  void write(T value) {
    need(sizeof value);
    std::memcpy(at_, &value, sizeof value);
    at_ += sizeof value;
  }

  void write_varint(std::uint64_t value) {
    constexpr std::size_t kLongest = 10;
    need(kLongest);
    for (; value >= 0x80; value >>= 7) *at_++ = static_cast<char>(value | 0x80U);
    *at_++ = static_cast<char>(value);
  }

  void write_bytes(Bytes data) {
    if (data.empty()) return;
    need(data.size());
    std::memcpy(at_, data.data(), data.size());
    at_ += data.size();
  }

  std::string_view view() const {
    return bytes_ != nullptr ? std::string_view(PyBytes_AS_STRING(bytes_), size())
                             : std::string_view();
  }

  // The bytes so far, as an object of their own; the builder is empty again.
  Ref finish() {
    if (bytes_ == nullptr) return Ref::steal(PyBytes_FromStringAndSize(nullptr, 0));
    _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(size()));
    at_ = end_ = nullptr;
    return Ref::steal(std::exchange(bytes_, nullptr));
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(at_ - PyBytes_AS_STRING(bytes_)); }

  void need(std::size_t count) {
    if (static_cast<std::size_t>(end_ - at_) < count) grow(count);
  }

  void grow(std::size_t count) {
    constexpr std::size_t kFirst = 256;
    const std::size_t used = bytes_ != nullptr ? size() : 0;
    const std::size_t room = std::max({kFirst, 2 * used, used + count});
    if (bytes_ == nullptr) {
      bytes_ = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(room));
    } else {
      _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(room));
    }
    if (bytes_ == nullptr) {  // a failed resize has freed what was there
      at_ = end_ = nullptr;
      PyErr_Clear();
      throw std::bad_alloc();
    }
    at_ = PyBytes_AS_STRING(bytes_) + used;
    end_ = PyBytes_AS_STRING(bytes_) + room;
  }

  PyObject* bytes_ = nullptr;  // owned, and nobody else's yet
  char* at_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace hotstart
