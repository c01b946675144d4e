#include "codec/decode.h"

#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/limits.h"
#include "codec/code_object.h"
#include "codec/walk.h"
#include "python/integer.h"

namespace hotstart::codec {
namespace {

// Builds Python objects. What it returns null for has either `refusal` failed or a Python exception
// set.
class PythonBuilder {
 public:
  using Value = Ref;
  using HashCounts = std::unordered_map<Py_hash_t, std::uint32_t>;

  // A dict or set that is being filled.
  struct Open {
    Ref made;
    std::unique_ptr<HashCounts> hashes;  // only where there are enough keys to do harm
  };

  PythonBuilder(StringCache& strings, PyObject* hook) : strings_(strings), hook_(hook) {}

  Status refusal;

  std::uint32_t string_count() const { return strings_.count(); }
  Ref none() { return Ref::share(Py_None); }
  Ref boolean(bool value) { return Ref::share(value ? Py_True : Py_False); }
  Ref ellipsis() { return Ref::share(Py_Ellipsis); }
  Ref integer(std::int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }
  Ref big_integer(Bytes data) { return Ref::steal(integer_from_bytes(data)); }
  Ref real(double value) { return Ref::steal(PyFloat_FromDouble(value)); }
  Ref complex(double re, double im) { return Ref::steal(PyComplex_FromDoubles(re, im)); }
  Ref string(std::uint32_t index) { return Ref::share(strings_.get(index, refusal)); }
  Ref bytes(Bytes data) {
    return Ref::steal(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data.data()),
                                                static_cast<Py_ssize_t>(data.size())));
  }

  Ref tuple(std::uint64_t count) { return Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(count))); }
  void put_in_tuple(Ref& tuple, std::uint64_t place, Ref item) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(place), item.release());
  }
  bool put_name(Ref& tuple, std::uint64_t place, std::uint32_t index) {
    PyObject* name = strings_.get_interned(index, refusal);
    if (name == nullptr) return false;
    const Py_ssize_t slot = static_cast<Py_ssize_t>(place);
    const Ref former = Ref::steal(PyTuple_GET_ITEM(tuple.get(), slot));  // of a brief tuple
    Py_INCREF(name);
    PyTuple_SET_ITEM(tuple.get(), slot, name);
    return true;
  }

  // The names of locals and the bytecode only pass through the code constructor (since 3.11), so
  // the objects for them are used again. A tuple may still hold the names of its last use.
  Ref brief_tuple(std::uint64_t count) {
    if (count < kBriefTuples && brief_tuples_[count]) return std::move(brief_tuples_[count]);
    return tuple(count);
  }
  Ref brief_bytes(Bytes data) {
    if (!fits_brief(data.size())) return bytes(data);
    Ref made = std::move(brief_bytes_);
    if (!made) made = Ref::steal(PyBytes_FromStringAndSize(nullptr, kBriefBytes));
    if (!made) return made;
    // Shorter than its memory is, which nothing minds: it is ours alone until it is long again.
    Py_SET_SIZE(reinterpret_cast<PyVarObject*>(made.get()), static_cast<Py_ssize_t>(data.size()));
    char* to = PyBytes_AS_STRING(made.get());
    std::memcpy(to, data.data(), data.size());
    to[data.size()] = '\0';
    return made;
  }
  Ref list(std::uint64_t count) { return Ref::steal(PyList_New(static_cast<Py_ssize_t>(count))); }
  void put_in_list(Ref& list, std::uint64_t place, Ref item) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(place), item.release());
  }

  Open set(bool frozen, std::uint64_t count) {
    return {Ref::steal(frozen ? PyFrozenSet_New(nullptr) : PySet_New(nullptr)), counts_for(count)};
  }
  bool put_in_set(Open& open, Ref item) {
    if (!countable(open, item.get())) return false;
    const Py_ssize_t before = PySet_GET_SIZE(open.made.get());
    if (PySet_Add(open.made.get(), item.get()) < 0) return refuse_unhashable();
    return PySet_GET_SIZE(open.made.get()) == before + 1 ||
           refuse("an element that is there twice");
  }

  Open dict(std::uint64_t count) { return {Ref::steal(PyDict_New()), counts_for(count)}; }
  bool put_in_dict(Open& open, Ref key, Ref item) {
    if (!countable(open, key.get())) return false;
    const Py_ssize_t before = PyDict_GET_SIZE(open.made.get());
    if (PyDict_SetItem(open.made.get(), key.get(), item.get()) < 0) return refuse_unhashable();
    return PyDict_GET_SIZE(open.made.get()) == before + 1 || refuse("a key that is there twice");
  }

  Ref slice(Ref start, Ref stop, Ref step) {
    return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
  }
  Ref hook(Ref tag, Ref payload) {
    if (hook_ != nullptr)
      return Ref::steal(PyObject_CallFunctionObjArgs(hook_, tag.get(), payload.get(), nullptr));
    const char* utf8 = PyUnicode_AsUTF8(tag.get());
    if (utf8 == nullptr) PyErr_Clear();
    refusal = Status::unsupported("cannot decode a value that a hook wrote as '" +
                                  std::string(utf8 != nullptr ? utf8 : "?") + "': no hook given");
    return {};
  }

  bool accept_magic(std::uint16_t magic) { return accept_code_magic(magic, refusal); }
  Ref code(CodeParts<Ref>& parts) {
    Ref made = build_code(parts, refusal);
    for (Ref* names : {&parts.varnames, &parts.cellvars, &parts.freevars})
      keep_brief(std::move(*names));
    const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(parts.code.get()));
    if (fits_brief(size) && Py_REFCNT(parts.code.get()) == 1) brief_bytes_ = std::move(parts.code);
    return made;
  }

 private:
  static constexpr std::size_t kBriefTuples = 16;
  static constexpr Py_ssize_t kBriefBytes = 2048;

  // Whether brief_bytes() gives bytes of this size in the memory of kBriefBytes.
  static bool fits_brief(std::size_t size) {
    return kConstructorCopies && size <= static_cast<std::size_t>(kBriefBytes);
  }

  void keep_brief(Ref names) {
    const auto size = static_cast<std::size_t>(PyTuple_GET_SIZE(names.get()));
    if (kConstructorCopies && size > 0 && size < kBriefTuples && Py_REFCNT(names.get()) == 1)
      brief_tuples_[size] = std::move(names);
  }

  bool refuse(const char* reason) {
    refusal = Status::corrupt(0, reason);
    return false;
  }
  bool refuse_unhashable() {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    PyErr_Clear();
    return refuse("a key or element that cannot be hashed");
  }

  static std::unique_ptr<HashCounts> counts_for(std::uint64_t count) {
    return count > limits::kMaxEqualHashes ? std::make_unique<HashCounts>() : nullptr;
  }
  // The hashes of strings are randomised, so nobody can aim them.
  bool countable(Open& open, PyObject* key) {
    if (!open.hashes || PyUnicode_CheckExact(key)) return true;
    const Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1 && PyErr_Occurred()) return refuse_unhashable();
    return ++(*open.hashes)[hash] <= limits::kMaxEqualHashes || refuse("too many keys of one hash");
  }

  StringCache& strings_;
  PyObject* hook_;
  Ref brief_tuples_[kBriefTuples];  // by size
  Ref brief_bytes_;
};

}  // namespace

Ref Decoder::decode(Bytes stream, Status& status) {
  PythonBuilder builder(strings_, hook_.get());
  Walker<PythonBuilder> walker(builder, stream);
  Ref made = walker.run();
  status = walker.status();
  return status.ok() ? std::move(made) : Ref();
}

}  // namespace hotstart::codec
