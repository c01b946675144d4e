// Python paths to bytes and back, as the os module does it.
#pragma once

#include <string>

#include "bind/prelude.h"

namespace hotstart::bind {

// os.fsencode() of a str, bytes or os.PathLike. Raises ValueError for an embedded NUL.
inline std::string fs_path(py::handle object) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(object.ptr(), &encoded) == 0) throw py::error_already_set();
  const auto owned = py::reinterpret_steal<py::bytes>(encoded);
  return owned;
}

// os.fsdecode().
inline py::object fs_str(const std::string& path) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(text);
}

}  // namespace hotstart::bind
