// Code objects taken apart and put together. With code_object.cpp the only place of the codec that
// knows how Pythons differ (3.10 to 3.14). Needs the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

#include "base/sha256.h"
#include "codec/walk.h"
#include "python/ref.h"

namespace hotstart::codec {

// Whether the code constructor copies instructions and names of locals rather than keep what it
// gets.
inline constexpr bool kConstructorCopies = PY_VERSION_HEX >= 0x030B0000;

enum class Locals { kVarnames, kCellvars, kFreevars };

// A code object taken apart. Borrows from it, except `code`, which may be a copy.
class CodeFields {
 public:
  // Null when done. Otherwise what cannot be stored, or "" with a Python exception set.
  const char* take_apart(PyObject* object);

  int flags = 0, argcount = 0, posonlyargcount = 0, kwonlyargcount = 0, stacksize = 0;
  int firstlineno = 0;
  Ref code;  // as the compiler wrote it: neither specialised nor instrumented
  PyObject *linetable = nullptr, *exceptiontable = nullptr;  // exceptiontable: null where none
  PyObject *filename = nullptr, *name = nullptr, *qualname = nullptr;
  PyObject *names = nullptr, *consts = nullptr;

  Py_ssize_t count(Locals group) const;
  Py_ssize_t hidden_count() const { return hidden_; }

  // Calls `use` with each name of the group, in order, until it answers false.
  template <typename Use>
  bool each(Locals group, Use&& use) const;

  // Calls `use` with the place among all locals of each one that locals() does not show.
  template <typename Use>
  void each_hidden(Use&& use) const {
    for (Py_ssize_t i = 0; hidden_ > 0 && i < PyTuple_GET_SIZE(locals_); ++i)
      if ((kinds_[i] & kHidden) != 0) use(static_cast<std::uint64_t>(i));
  }

 private:
  // Bits of a local's kind in 3.11 and later (pycore_code.h).
  static constexpr std::uint8_t kHidden = 0x10, kLocal = 0x20, kCell = 0x40, kFree = 0x80;

  const char* take_locals(PyObject* locals, PyObject* kinds);
  const char* take_kind(Py_ssize_t place, std::uint8_t& phase);
  bool names_a_varname(PyObject* cell) const;

  Py_ssize_t counts_[3] = {0, 0, 0};
  Py_ssize_t hidden_ = 0;
  PyObject* locals_ = nullptr;           // 3.11 and later: all of them,
  const std::uint8_t* kinds_ = nullptr;  // and the kind of each
  Ref groups_[3];                        // 3.10: varnames, cellvars, freevars
};

inline Py_ssize_t CodeFields::count(Locals group) const {
  return counts_[static_cast<unsigned>(group)];
}

template <typename Use>
bool CodeFields::each(Locals group, Use&& use) const {
  const auto which = static_cast<unsigned>(group);
  if (counts_[which] == 0) return true;
  PyObject* from = locals_ != nullptr ? locals_ : groups_[which].get();
  constexpr std::uint8_t kMasks[] = {kLocal, kCell, kFree};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); ++i) {
    if (kinds_ != nullptr && (kinds_[i] & kMasks[which]) == 0) continue;
    if (!use(PyTuple_GET_ITEM(from, i))) return false;
  }
  return true;
}

// A new code object, or null: with `refusal` failed when the parts are to blame, else with a Python
// exception set.
Ref build_code(CodeParts<Ref>& parts, Status& refusal);

// A digest that is kept with a code object for as long as that lives; null where there is none.
const Sha256Digest* kept_digest(PyObject* code);
// Where there is no room for it, it is not kept.
void keep_digest(PyObject* code, const Sha256Digest& digest);

// Whether this Python runs code of the given magic number; says so in `refusal` if not.
bool accept_code_magic(std::uint16_t magic, Status& refusal);
std::uint16_t code_magic();

// Reads this Python's instruction table. To be called once, before anything above; false with a
// Python exception set.
bool load_instruction_table();

}  // namespace hotstart::codec
