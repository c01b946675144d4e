// The only place that includes pybind11. Each topic of the extension has one register function.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "base/status.h"

namespace hotstart::bind {

namespace py = pybind11;

// Raises the Python exception that stands for a failed Status. Never returns.
[[noreturn]] void raise(const Status& status);

inline void check(const Status& status) {
  if (!status.ok()) raise(status);
}

// `item` as a T, or TypeError saying what it should have been. (pybind11's own cast raises
// RuntimeError, and does not say.)
template <typename T>
T cast_item(py::handle item, const char* expected) {
  try {
    return item.cast<T>();
  } catch (const py::cast_error&) {
    throw py::type_error(std::string("expected ") + expected + ", found " +
                         py::repr(item).cast<std::string>());
  }
}

void register_codec(py::module_& m);
void register_hash(py::module_& m);
void register_container(py::module_& m);
void register_store(py::module_& m);
void register_guards(py::module_& m);

}  // namespace hotstart::bind
