// Python values to bytes.
//
// An Encoder owns the string table that its streams share, and references to its hook and to the
// strings. Not thread-safe: the GIL guards it. A hook may call the same Encoder again.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"
#include "python/ref.h"

namespace hotstart::codec {

// Numbers strings in the order of their first use. Keeps them alive.
class StringCollector {
 public:
  // False when there is no room for more.
  bool index_of(PyObject* text, std::uint32_t& index);
  // The table's bytes, as a new bytes object; null with a Python exception set.
  Ref serialise() const;

 private:
  struct Slot {
    PyObject* text = nullptr;  // borrowed from strings_
    std::uint32_t hash = 0;
    std::uint32_t index = 0;
  };

  bool add(PyObject* text, std::uint32_t hash, Slot& slot);
  void grow();

  std::vector<Ref> strings_;
  std::vector<Slot> slots_;  // open addressing, a power of two
  std::size_t heap_size_ = 0;
};

class Encoder {
 public:
  // `hook` may be null. It is called with a value of no built-in kind and answers (tag, payload)
  // or None.
  explicit Encoder(PyObject* hook) : hook_(Ref::share(hook)) {}

  // A new bytes object. Null: `status` failed, or it is ok and a Python exception is set.
  Ref encode(PyObject* value, Status& status);
  Ref string_table() const { return strings_.serialise(); }

  PyObject* hook() const { return hook_.get(); }
  void clear_hook() { hook_ = Ref(); }

 private:
  StringCollector strings_;
  Ref hook_;
};

// The digest of what a code object does: equal in two processes of one Python exactly where it does
// the same, wherever it was written. Kept with the code: a load asks for the methods of a base as
// often as classes derive from it. False as encode() is null.
bool digest_code(PyObject* code, Sha256Digest& digest, Status& status);

}  // namespace hotstart::codec
