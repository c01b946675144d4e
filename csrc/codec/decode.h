// Bytes to Python values.
//
// A Decoder borrows the string table's bytes (whoever makes it keeps them alive) and owns the
// strings it has made of them and its hook. Not thread-safe: the GIL guards it. A hook may call the
// same Decoder again. Decoding runs no Python code but the hook and what the hook's objects define.
#pragma once

#include <Python.h>

#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "codec/string_table.h"
#include "python/ref.h"

namespace hotstart::codec {

// The strings of a table, each made on first use and shared from then on.
class StringCache {
 public:
  [[nodiscard]] Status open(Bytes table);
  std::uint32_t count() const { return view_.count(); }

  // Borrowed. Null: `refusal` failed, or a Python exception is set. `index` must be below count().
  PyObject* get(std::uint32_t index, Status& refusal) {
    PyObject* made = strings_[index].get();
    return made != nullptr ? made : make(index, false, refusal);
  }
  // The same, interned.
  PyObject* get_interned(std::uint32_t index, Status& refusal) {
    PyObject* made = strings_[index].get();
    return made != nullptr && PyUnicode_CHECK_INTERNED(made) ? made : make(index, true, refusal);
  }

 private:
  PyObject* make(std::uint32_t index, bool intern, Status& refusal);

  StringTableView view_;
  std::vector<Ref> strings_;
};

class Decoder {
 public:
  // `hook` may be null. It is called with (tag, payload).
  explicit Decoder(PyObject* hook) : hook_(Ref::share(hook)) {}

  [[nodiscard]] Status open(Bytes string_table) { return strings_.open(string_table); }

  // Null: `status` failed, or it is ok and a Python exception is set.
  Ref decode(Bytes stream, Status& status);

  PyObject* hook() const { return hook_.get(); }
  void clear_hook() { hook_ = Ref(); }

 private:
  StringCache strings_;
  Ref hook_;
};

}  // namespace hotstart::codec
