#include "codec/code_object.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>

namespace hotstart::codec {
namespace {

constexpr bool kHasCaches = PY_VERSION_HEX >= 0x030B0000;

// Entries of `caches` are written by the code constructor and by every reading of co_code.
struct Instructions {
  static constexpr std::uint8_t kForbidden = 0x80;

  std::array<std::uint8_t, 256> caches;  // cache entries after each opcode, or kForbidden
  Py_ssize_t most_caches = 0;            // of any one instruction
  std::uint16_t magic = 0;
};
Instructions instructions;  // written once by load_instruction_table(), then read only

// -- The instruction table, from the standard library's `opcode`

Ref attribute(const Ref& object, const char* name) {
  return Ref::steal(PyObject_GetAttrString(object.get(), name));
}

// Opcodes that only a running interpreter puts into code. Found in a file they would make CPython
// follow pointers that are not there.
bool internal(const char* name) {
  const std::string_view text(name);
  return text.starts_with("INSTRUMENTED_") || text == "ENTER_EXECUTOR" || text == "RESERVED";
}

// The cache entries of one instruction; -1 with a Python exception set.
long caches_of(PyObject* table, PyObject* name, PyObject* opcode) {
  const bool by_name = PyDict_Check(table);  // since 3.13, and only those that have any
  Ref found = Ref::steal(PyObject_GetItem(table, by_name ? name : opcode));
  if (found) return PyLong_AsLong(found.get());
  if (!by_name || !PyErr_ExceptionMatches(PyExc_KeyError)) return -1;
  PyErr_Clear();
  return 0;
}

bool fill_caches(PyObject* opmap, PyObject* table) {
  Py_ssize_t at = 0;
  PyObject *name = nullptr, *opcode = nullptr;
  while (PyDict_Next(opmap, &at, &name, &opcode)) {
    const char* text = PyUnicode_AsUTF8(name);
    const long number = PyLong_AsLong(opcode);
    if (text == nullptr || (number == -1 && PyErr_Occurred())) return false;
    if (number < 0 || number > 255 || internal(text)) continue;
    const long caches = caches_of(table, name, opcode);
    if (caches < 0) return false;
    if (caches >= Instructions::kForbidden) continue;
    instructions.most_caches = std::max(instructions.most_caches, Py_ssize_t{caches});
    instructions.caches[static_cast<std::size_t>(number)] = static_cast<std::uint8_t>(caches);
  }
  return true;
}

// -- Checks of instructions

// Four code units at a time: one load, and look-ups that do not wait for each other.
bool all_known(const std::uint8_t* units, Py_ssize_t count) {
  const auto* caches = instructions.caches.data();
  Py_ssize_t i = 0;
  for (; i + 4 <= count; i += 4) {
    std::uint64_t word = 0;
    std::memcpy(&word, units + 2 * i, sizeof word);
    const unsigned found = caches[word & 0xff] | caches[(word >> 16) & 0xff] |
                           caches[(word >> 32) & 0xff] | caches[(word >> 48) & 0xff];
    if ((found & Instructions::kForbidden) != 0) return false;
  }
  for (; i < count; ++i)
    if (caches[units[2 * i]] == Instructions::kForbidden) return false;
  return true;
}

// Every opcode must be one that a compiler writes, and none may have cache entries past the end.
// Looks at each code unit as if it were an instruction: a cache entry of sound code is all zeros,
// which reads as an instruction without caches.
const char* check_instructions(PyObject* code) {
  const auto* units = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(code));
  const Py_ssize_t count = PyBytes_GET_SIZE(code) / 2;
  if (!all_known(units, count)) return "an instruction that this Python does not have";
  for (Py_ssize_t i = std::max(count - instructions.most_caches, Py_ssize_t{0}); i < count; ++i)
    if (instructions.caches[units[2 * i]] > count - 1 - i)
      return "bytecode that ends inside an instruction";
  return nullptr;
}

// -- Building

PyObject* construct(const CodeParts<Ref>& p) {
#if PY_VERSION_HEX >= 0x030C0000
  return reinterpret_cast<PyObject*>(PyUnstable_Code_NewWithPosOnlyArgs(
#else
  return reinterpret_cast<PyObject*>(PyCode_NewWithPosOnlyArgs(
#endif
      p.argcount, p.posonlyargcount, p.kwonlyargcount, static_cast<int>(p.varname_count),
      p.stacksize, p.flags, p.code.get(), p.consts.get(), p.names.get(), p.varnames.get(),
      p.freevars.get(), p.cellvars.get(), p.filename.get(), p.name.get(),
#if PY_VERSION_HEX >= 0x030B0000
      p.qualname.get(), p.firstlineno, p.linetable.get(), p.exceptiontable.get()));
#else
      p.firstlineno, p.linetable.get()));
#endif
}

// The constructor cannot be told that a local is hidden (the variable of a comprehension that
// Python 3.12 inlines into a class body or module). It guesses so of all locals of code that is not
// CO_OPTIMIZED; this makes sure. The kinds are bytes that it made for this very object, which
// nobody has seen yet.
bool hide_locals(PyObject* object, const std::vector<std::uint32_t>& places) {
  if (places.empty()) return true;
#if PY_VERSION_HEX >= 0x030C0000
  PyObject* kinds = reinterpret_cast<PyCodeObject*>(object)->co_localspluskinds;
  for (const std::uint32_t place : places) {
    if (place >= PyBytes_GET_SIZE(kinds)) return false;
    PyBytes_AS_STRING(kinds)[place] |= 0x10;
  }
  return true;
#else
  (void)object;
  return false;
#endif
}

// Turns the constructor's complaint into a refusal. A lack of memory is nobody's fault.
void refuse_from_exception(Status& refusal) {
  if (PyErr_ExceptionMatches(PyExc_MemoryError)) return;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref held[] = {Ref::steal(type), Ref::steal(value), Ref::steal(traceback)};
  const Ref text = Ref::steal(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  refusal = Status::corrupt(0, std::string("a code object that Python refuses: ") +
                                   (utf8 != nullptr ? utf8 : "no reason given"));
}

}  // namespace

bool load_instruction_table() {
  auto& caches = instructions.caches;
  instructions.magic = static_cast<std::uint16_t>(PyImport_GetMagicNumber() & 0xffff);
  caches.fill(kHasCaches ? Instructions::kForbidden : std::uint8_t{0});
  if (!kHasCaches) return true;  // 3.10 never looks into the bytecode before it runs
  const Ref module = Ref::steal(PyImport_ImportModule("opcode"));
  if (!module) return false;
  const Ref opmap = attribute(module, "opmap");
  const Ref table = attribute(module, "_inline_cache_entries");
  return opmap && table && fill_caches(opmap.get(), table.get());
}

std::uint16_t code_magic() { return instructions.magic; }

bool accept_code_magic(std::uint16_t magic, Status& refusal) {
  if (magic == instructions.magic) return true;
  refusal = Status::unsupported("code object of another Python: its magic number is " +
                                std::to_string(magic) + ", this Python's is " +
                                std::to_string(instructions.magic));
  return false;
}

Ref build_code(CodeParts<Ref>& parts, Status& refusal) {
  if (const char* wrong = check_instructions(parts.code.get())) {
    refusal = Status::corrupt(0, wrong);
    return {};
  }
  Ref made = Ref::steal(construct(parts));
  if (!made) {
    refuse_from_exception(refusal);
  } else if (!hide_locals(made.get(), parts.hidden)) {
    refusal = Status::corrupt(0, "a hidden local variable that is not there");
    return {};
  }
  return made;
}

// -- Keeping a digest: in the space that Python lets every code object have for others

#if PY_VERSION_HEX < 0x030C0000
#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

// Our place in that space; negative where others have taken all of them.
static Py_ssize_t digest_place() {
  static const Py_ssize_t place = PyUnstable_Eval_RequestCodeExtraIndex(
      [](void* kept) { delete static_cast<Sha256Digest*>(kept); });
  return place;
}

const Sha256Digest* kept_digest(PyObject* code) {
  void* kept = nullptr;
  if (digest_place() < 0 || PyUnstable_Code_GetExtra(code, digest_place(), &kept) < 0) {
    PyErr_Clear();
    return nullptr;
  }
  return static_cast<const Sha256Digest*>(kept);
}

void keep_digest(PyObject* code, const Sha256Digest& digest) {
  if (digest_place() < 0) return;
  auto kept = std::make_unique<Sha256Digest>(digest);
  if (PyUnstable_Code_SetExtra(code, digest_place(), kept.get()) < 0) {
    PyErr_Clear();
  } else {
    static_cast<void>(kept.release());  // Python's now
  }
}

// -- Taking apart

#if PY_VERSION_HEX >= 0x030B0000

bool CodeFields::names_a_varname(PyObject* cell) const {
  for (Py_ssize_t i = 0; i < counts_[0]; ++i)
    if (PyUnicode_Compare(PyTuple_GET_ITEM(locals_, i), cell) == 0) return true;
  return false;
}

// Counts one local. The constructor puts plain locals first, then cells, then free variables, and
// merges a cell into the local of the same name; `phase` is the group that we are in.
const char* CodeFields::take_kind(Py_ssize_t place, std::uint8_t& phase) {
  const std::uint8_t kind = kinds_[place] & (kLocal | kCell | kFree);
  const std::uint8_t group = (kind & kLocal) != 0 ? kLocal : kind;
  if (group < phase || (group == kLocal && (kind & kFree) != 0) || (group & (group - 1)) != 0)
    return "a code object whose local variables are in an order of their own";
  if (group == kCell && names_a_varname(PyTuple_GET_ITEM(locals_, place)))
    return "a code object with a local and a cell variable of one name";
  phase = group;
  counts_[0] += (kind & kLocal) != 0;
  counts_[1] += (kind & kCell) != 0;
  counts_[2] += (kind & kFree) != 0;
  hidden_ += (kinds_[place] & kHidden) != 0;
  return nullptr;
}

const char* CodeFields::take_locals(PyObject* locals, PyObject* kinds) {
  locals_ = locals;
  kinds_ = reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(kinds));
  std::uint8_t phase = kLocal;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); ++i)
    if (const char* wrong = take_kind(i, phase)) return wrong;
  return nullptr;
}

const char* CodeFields::take_apart(PyObject* object) {
  auto* co = reinterpret_cast<PyCodeObject*>(object);
  flags = co->co_flags;
  argcount = co->co_argcount;
  posonlyargcount = co->co_posonlyargcount;
  kwonlyargcount = co->co_kwonlyargcount;
  stacksize = co->co_stacksize;
  firstlineno = co->co_firstlineno;
  linetable = co->co_linetable;
  exceptiontable = co->co_exceptiontable;
  filename = co->co_filename;
  name = co->co_name;
  qualname = co->co_qualname;
  names = co->co_names;
  consts = co->co_consts;
  code = Ref::steal(PyCode_GetCode(co));
  if (!code) return "";
  return take_locals(co->co_localsplusnames, co->co_localspluskinds);
}

#else

const char* CodeFields::take_locals(PyObject*, PyObject*) { return nullptr; }

const char* CodeFields::take_apart(PyObject* object) {
  auto* co = reinterpret_cast<PyCodeObject*>(object);
  flags = co->co_flags;
  argcount = co->co_argcount;
  posonlyargcount = co->co_posonlyargcount;
  kwonlyargcount = co->co_kwonlyargcount;
  stacksize = co->co_stacksize;
  firstlineno = co->co_firstlineno;
  linetable = co->co_linetable;
  filename = co->co_filename;
  name = qualname = co->co_name;
  names = co->co_names;
  consts = co->co_consts;
  code = Ref::share(co->co_code);
  PyObject* groups[] = {co->co_varnames, co->co_cellvars, co->co_freevars};
  for (unsigned i = 0; i < 3; ++i) {
    groups_[i] = Ref::share(groups[i]);
    counts_[i] = PyTuple_GET_SIZE(groups[i]);
  }
  return co->co_nlocals == counts_[0] ? nullptr
                                      : "a code object whose co_nlocals is not its co_varnames";
}

#endif

}  // namespace hotstart::codec
