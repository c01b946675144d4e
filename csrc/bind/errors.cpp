// The one table from status codes to Python exceptions. The classes live in hotstart/errors.py, so
// that they pickle and carry docstrings; they are looked up here only once something has failed.
#include "bind/prelude.h"

#include <cerrno>

namespace hotstart::bind {

void raise(const Status& status) {
  const auto errors = py::module_::import("hotstart.errors");
  switch (status.code) {
    case Code::kCorrupt: {
      const auto type = errors.attr("CorruptPackageError");
      PyErr_SetObject(type.ptr(), type(status.reason, status.offset).ptr());
      break;
    }
    case Code::kUnsupported: {
      const auto type = errors.attr("UnsupportedValueError");
      PyErr_SetObject(type.ptr(), type(status.reason).ptr());
      break;
    }
    case Code::kSystem:
      errno = status.error;
      PyErr_SetFromErrnoWithFilename(PyExc_OSError, status.path.c_str());
      break;
    case Code::kOk:
      PyErr_SetString(PyExc_SystemError, "raise() called with an ok status");
      break;
  }
  throw py::error_already_set();
}

}  // namespace hotstart::bind
