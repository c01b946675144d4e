// Integers of any size to and from two's complement bytes. The only place that knows how that
// differs between Pythons. Needs the GIL.
#pragma once

#include <Python.h>

#include <string>

#include "base/bytes.h"

namespace hotstart {

// False with a Python exception set. The bytes come out as short as possible.
inline bool integer_to_bytes(PyObject* integer, std::string& out) {
#if PY_VERSION_HEX >= 0x030D0000
  const int flags = Py_ASNATIVEBYTES_LITTLE_ENDIAN;
  const Py_ssize_t size = PyLong_AsNativeBytes(integer, nullptr, 0, flags);
  if (size < 0) return false;
  out.resize(static_cast<std::size_t>(size));
  if (PyLong_AsNativeBytes(integer, out.data(), size, flags) < 0) return false;
#else
  const std::size_t bits = _PyLong_NumBits(integer);
  if (bits == static_cast<std::size_t>(-1) && PyErr_Occurred()) return false;
  out.resize(bits / 8 + 1);
  auto* data = reinterpret_cast<unsigned char*>(out.data());
  if (_PyLong_AsByteArray(reinterpret_cast<PyLongObject*>(integer), data, out.size(), 1, 1) < 0)
    return false;
#endif
  const auto redundant = [&] {
    const auto last = static_cast<unsigned char>(out[out.size() - 1]);
    const bool sign = (static_cast<unsigned char>(out[out.size() - 2]) & 0x80U) != 0;
    return sign ? last == 0xff : last == 0;
  };
  while (out.size() > 1 && redundant()) out.pop_back();
  return true;
}

inline PyObject* integer_from_bytes(Bytes data) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyLong_FromNativeBytes(data.data(), data.size(), Py_ASNATIVEBYTES_LITTLE_ENDIAN);
#else
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  return _PyLong_FromByteArray(bytes, data.size(), 1, 1);
#endif
}

}  // namespace hotstart
