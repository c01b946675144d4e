// An owning reference to a Python object. Plain PyObject* in signatures are borrowed.
//
// Needs the GIL wherever it is copied, assigned or destroyed.
#pragma once

#include <Python.h>

#include <utility>

namespace hotstart {

class Ref {
 public:
  Ref() = default;
  // Takes over a new reference; null means that the call that made it failed.
  static Ref steal(PyObject* object) { return Ref(object); }
  static Ref share(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }

  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    Ref old(std::exchange(object_, std::exchange(other.object_, nullptr)));
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit Ref(PyObject* object) : object_(object) {}

  PyObject* object_ = nullptr;
};

}  // namespace hotstart
