// How C++ below the bindings reports failure: a value, never an exception. bind/errors.cpp maps the
// codes to the Python classes of hotstart/errors.py.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace hotstart {

enum class Code {
  kOk,
  kCorrupt,      // the bytes are not what the format says   -> CorruptPackageError
  kUnsupported,  // a value or a version we cannot handle    -> UnsupportedValueError
  kSystem,       // a system call failed, `error` is errno   -> OSError with the file name
};

struct Status {
  Code code = Code::kOk;
  std::string reason;      // what was expected and what was found
  std::size_t offset = 0;  // kCorrupt: where in the bytes
  int error = 0;           // kSystem: errno
  std::string path;        // kSystem: the file

  bool ok() const { return code == Code::kOk; }

  static Status corrupt(std::size_t offset, std::string reason) {
    return {Code::kCorrupt, std::move(reason), offset, 0, {}};
  }
  static Status unsupported(std::string reason) {
    return {Code::kUnsupported, std::move(reason), 0, 0, {}};
  }
  static Status system(int error, std::string path) {
    return {Code::kSystem, {}, 0, error, std::move(path)};
  }
};

}  // namespace hotstart
