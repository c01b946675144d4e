#include "codec/encode.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/limits.h"
#include "codec/code_object.h"
#include "codec/tags.h"
#include "python/bytes_builder.h"
#include "python/integer.h"

namespace hotstart::codec {
namespace {

Bytes bytes_of(PyObject* bytes) {
  return as_bytes({PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))});
}

// Writes one value. Every function answers false when it failed; on the way out each level adds its
// segment of the path, so that a place costs nothing until something is wrong there.
class ValueWriter {
 public:
  // A stream that a decoder reads, or bytes that only go into a digest.
  enum class Purpose { kStream, kDigest };

  ValueWriter(StringCollector& strings, PyObject* hook, Purpose purpose = Purpose::kStream)
      : strings_(strings),
        hook_(hook),
        purpose_(purpose),
        spelling_(purpose == Purpose::kDigest ? 1 : 0) {}

  bool write(PyObject* value, unsigned depth);

  Ref finish() { return out_.finish(); }
  Bytes bytes() const { return as_bytes(out_.view()); }
  // Whether the value is written the same ever after: nothing in it can change.
  bool settled() const { return settled_; }
  Status status() const;

 private:
  // A hook's answer is kept while a set is being sorted, for its elements are written twice.
  using Answers = std::unordered_map<PyObject*, Ref>;

  bool fail(std::string reason);
  bool inside(std::string segment);
  bool cannot_encode(PyObject* value);

  void tag(Tag value) { out_.write(static_cast<std::uint8_t>(value)); }
  void size(Py_ssize_t value) { out_.write_varint(static_cast<std::uint64_t>(value)); }

  bool text(PyObject* value);
  bool integer(PyObject* value);
  bool blob(PyObject* bytes);
  bool nested(PyObject* value, unsigned depth);
  bool tuple(PyObject* value, unsigned depth);
  bool list(PyObject* value, unsigned depth);
  bool dict(PyObject* value, unsigned depth);
  bool pair(PyObject* key, PyObject* value, Py_ssize_t place, unsigned depth);
  bool slice(PyObject* value, unsigned depth);

  bool set(PyObject* value, unsigned depth);
  bool sorted(PyObject* items, unsigned depth);
  bool spell(PyObject* value, unsigned depth, std::string& spelled);

  bool hooked(PyObject* value, unsigned depth);
  Ref ask_hook(PyObject* value);

  bool code(PyObject* value, unsigned depth);
  bool behaviour(const CodeFields& fields, unsigned depth);
  void code_numbers(const CodeFields& fields);
  bool code_blob(PyObject* bytes, const char* name);
  bool code_text(PyObject* text, const char* name);
  bool code_names(const CodeFields& fields);
  bool code_hidden(const CodeFields& fields);
  bool code_consts(PyObject* consts, unsigned depth);

  StringCollector& strings_;
  PyObject* hook_;
  const Purpose purpose_;
  BytesBuilder out_;
  // Strings are spelled out where not 0: in a digest, and in sets that are being sorted.
  unsigned spelling_;
  unsigned sorting_ = 0;
  bool settled_ = true;
  Answers answers_;
  std::string reason_;
  std::vector<std::string> path_;  // innermost first
};

// -- Failure

bool ValueWriter::fail(std::string reason) {
  reason_ = std::move(reason);
  return false;
}

bool ValueWriter::inside(std::string segment) {
  path_.push_back(std::move(segment));
  return false;
}

bool ValueWriter::cannot_encode(PyObject* value) {
  const Ref type = Ref::steal(PyObject_Repr(reinterpret_cast<PyObject*>(Py_TYPE(value))));
  const char* name = type ? PyUnicode_AsUTF8(type.get()) : nullptr;
  PyErr_Clear();
  return fail(std::string("cannot encode a ") + (name != nullptr ? name : Py_TYPE(value)->tp_name));
}

Status ValueWriter::status() const {
  if (reason_.empty()) return {};
  std::string place = "value";
  const std::size_t count = path_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const bool shown = count <= limits::kMaxPathSegments || i < limits::kMaxPathSegments / 2 ||
                       i >= count - limits::kMaxPathSegments / 2;
    if (shown) place += path_[count - 1 - i];
    if (!shown && i == limits::kMaxPathSegments / 2) place += "...";
  }
  return Status::unsupported(place + ": " + reason_);
}

// (Not operator+, in which GCC 12 imagines an overlapping copy.)
std::string bracketed(std::string_view text) { return std::string("[").append(text).append("]"); }

std::string at_index(Py_ssize_t index) { return bracketed(std::to_string(index)); }

// How to reach the value of a key: its repr for strings and numbers, which is short and harmless.
std::string at_key(PyObject* key, Py_ssize_t place) {
  constexpr Py_ssize_t kLongest = 60;
  if (PyErr_Occurred() != nullptr) return {};  // the hook's own exception, which names no place
  Ref text;
  if (PyUnicode_CheckExact(key) || PyLong_CheckExact(key) || PyBytes_CheckExact(key))
    text = Ref::steal(PyObject_Repr(key));
  const bool shown = text && PyUnicode_GET_LENGTH(text.get()) <= kLongest;
  const char* utf8 = shown ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return utf8 != nullptr ? bracketed(utf8) : ".values()" + at_index(place);
}

// -- Plain values

bool ValueWriter::write(PyObject* value, unsigned depth) {
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyUnicode_Type) return tag(Tag::kString), text(value);
  if (value == Py_None) return tag(Tag::kNone), true;
  if (type == &PyLong_Type) return integer(value);
  if (type == &PyBytes_Type) return tag(Tag::kBytes), blob(value);
  if (type == &PyBool_Type) return tag(value == Py_True ? Tag::kTrue : Tag::kFalse), true;
  if (type == &PyFloat_Type) {
    tag(Tag::kFloat);
    out_.write(PyFloat_AS_DOUBLE(value));
    return true;
  }
  if (value == Py_Ellipsis) return tag(Tag::kEllipsis), true;
  if (type == &PyComplex_Type) {
    tag(Tag::kComplex);
    out_.write(PyComplex_RealAsDouble(value));
    out_.write(PyComplex_ImagAsDouble(value));
    return true;
  }
  return nested(value, depth);
}

bool ValueWriter::text(PyObject* value) {
  if (spelling_ > 0) {
    size(PyUnicode_GET_LENGTH(value));
    out_.write(static_cast<std::uint8_t>(PyUnicode_KIND(value)));
    const auto bytes =
        static_cast<std::size_t>(PyUnicode_GET_LENGTH(value)) * PyUnicode_KIND(value);
    out_.write_bytes(as_bytes({static_cast<const char*>(PyUnicode_DATA(value)), bytes}));
    return true;
  }
  std::uint32_t index = 0;
  if (!strings_.index_of(value, index)) return fail("the strings are too long for one table");
  out_.write_varint(index);
  return true;
}

bool ValueWriter::integer(PyObject* value) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow == 0) {
    tag(Tag::kInt);
    out_.write_varint(zigzag(small));
    return true;
  }
  std::string data;
  if (!integer_to_bytes(value, data)) return false;
  tag(Tag::kBigInt);
  out_.write_varint(data.size());
  out_.write_bytes(as_bytes(data));
  return true;
}

bool ValueWriter::blob(PyObject* bytes) {
  size(PyBytes_GET_SIZE(bytes));
  out_.write_bytes(bytes_of(bytes));
  return true;
}

// -- Containers

bool ValueWriter::nested(PyObject* value, unsigned depth) {
  if (depth == limits::kMaxDepth)
    return fail("nested more than " + std::to_string(limits::kMaxDepth) +
                " deep, or a container that contains itself");
  PyTypeObject* type = Py_TYPE(value);
  if (type == &PyTuple_Type) return tuple(value, depth + 1);
  if (type == &PyCode_Type) return code(value, depth + 1);
  if (type == &PyFrozenSet_Type) return set(value, depth + 1);
  if (type == &PySlice_Type) return slice(value, depth + 1);
  settled_ = false;
  if (type == &PyDict_Type) return dict(value, depth + 1);
  if (type == &PyList_Type) return list(value, depth + 1);
  if (type == &PySet_Type) return set(value, depth + 1);
  return hooked(value, depth + 1);
}

bool ValueWriter::tuple(PyObject* value, unsigned depth) {
  const Py_ssize_t count = PyTuple_GET_SIZE(value);
  tag(Tag::kTuple);
  size(count);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!write(PyTuple_GET_ITEM(value, i), depth)) return inside(at_index(i));
  return true;
}

// A hook may change lists and dicts while they are being written, hence the owned references and
// the second look at the size.
bool ValueWriter::list(PyObject* value, unsigned depth) {
  const Py_ssize_t count = PyList_GET_SIZE(value);
  tag(Tag::kList);
  size(count);
  for (Py_ssize_t i = 0; i < count && i < PyList_GET_SIZE(value); ++i) {
    const Ref item = Ref::share(PyList_GET_ITEM(value, i));
    if (!write(item.get(), depth)) return inside(at_index(i));
  }
  return PyList_GET_SIZE(value) == count || fail("a list that changed while it was encoded");
}

bool ValueWriter::dict(PyObject* value, unsigned depth) {
  const Py_ssize_t count = PyDict_GET_SIZE(value);
  tag(Tag::kDict);
  size(count);
  Py_ssize_t at = 0;
  Py_ssize_t place = 0;
  PyObject *key = nullptr, *item = nullptr;
  while (PyDict_Next(value, &at, &key, &item)) {
    const Ref held_key = Ref::share(key);
    const Ref held_item = Ref::share(item);
    if (!pair(key, item, place++, depth)) return false;
    if (PyDict_GET_SIZE(value) != count) break;
  }
  return (place == count && PyDict_GET_SIZE(value) == count) ||
         fail("a dict that changed while it was encoded");
}

bool ValueWriter::pair(PyObject* key, PyObject* value, Py_ssize_t place, unsigned depth) {
  if (!write(key, depth)) return inside(".keys()" + at_index(place));
  if (!write(value, depth)) return inside(at_key(key, place));
  return true;
}

bool ValueWriter::slice(PyObject* value, unsigned depth) {
  const auto* parts = reinterpret_cast<PySliceObject*>(value);
  tag(Tag::kSlice);
  if (!write(parts->start, depth)) return inside(".start");
  if (!write(parts->stop, depth)) return inside(".stop");
  return write(parts->step, depth) || inside(".step");
}

// -- Sets: in the order of what their elements look like with strings spelled out, because the
// order of iteration, and so the numbers of strings, change from process to process.

bool ValueWriter::set(PyObject* value, unsigned depth) {
  const Ref items = Ref::steal(PySequence_List(value));
  if (!items) return false;
  tag(PySet_CheckExact(value) ? Tag::kSet : Tag::kFrozenSet);
  size(PyList_GET_SIZE(items.get()));
  ++sorting_;
  const bool done = sorted(items.get(), depth) || inside(".<element>");
  if (--sorting_ == 0) answers_.clear();
  return done;
}

bool ValueWriter::sorted(PyObject* items, unsigned depth) {
  std::vector<std::pair<std::string, PyObject*>> order;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); ++i) {
    order.emplace_back(std::string(), PyList_GET_ITEM(items, i));
    if (!spell(order.back().second, depth, order.back().first)) return false;
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [spelled, item] : order) {
    if (spelling_ > 0) {
      out_.write_bytes(as_bytes(spelled));
    } else if (!write(item, depth)) {
      return false;
    }
  }
  return true;
}

bool ValueWriter::spell(PyObject* value, unsigned depth, std::string& spelled) {
  BytesBuilder scratch;
  out_.swap(scratch);
  ++spelling_;
  const bool done = write(value, depth);
  --spelling_;
  out_.swap(scratch);
  spelled = scratch.view();
  return done;
}

// -- Values of other kinds

bool ValueWriter::hooked(PyObject* value, unsigned depth) {
  const Ref answer = ask_hook(value);
  if (!answer) return PyErr_Occurred() ? false : cannot_encode(value);
  PyObject* name = PyTuple_GET_ITEM(answer.get(), 0);
  tag(Tag::kHook);
  if (!text(name)) return false;
  if (write(PyTuple_GET_ITEM(answer.get(), 1), depth)) return true;
  const char* utf8 = PyUnicode_AsUTF8(name);
  if (utf8 == nullptr && !reason_.empty()) PyErr_Clear();
  return inside(".<payload of " + std::string(utf8 != nullptr ? utf8 : "its hook") + ">");
}

// The hook's (tag, payload); null for "no", or with a Python exception set.
Ref ValueWriter::ask_hook(PyObject* value) {
  if (hook_ == nullptr) return {};
  if (const auto known = answers_.find(value); known != answers_.end())
    return Ref::share(known->second.get());
  Ref answer = Ref::steal(PyObject_CallOneArg(hook_, value));
  if (!answer || answer.get() == Py_None) return {};
  if (!PyTuple_CheckExact(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2 ||
      !PyUnicode_CheckExact(PyTuple_GET_ITEM(answer.get(), 0))) {
    PyErr_Format(PyExc_TypeError, "an encode hook must return (str, payload) or None, not %R",
                 answer.get());
    return {};
  }
  if (sorting_ > 0) answers_.insert_or_assign(value, Ref::share(answer.get()));
  return answer;
}

// -- Code objects

bool ValueWriter::code(PyObject* value, unsigned depth) {
  CodeFields fields;
  if (const char* wrong = fields.take_apart(value))
    return *wrong == '\0' ? false : fail(std::string("cannot encode ") + wrong);
  tag(Tag::kCode);
  if (purpose_ == Purpose::kDigest) return behaviour(fields, depth);
  out_.write(code_magic());
  if (!code_consts(fields.consts, depth)) return false;
  code_numbers(fields);
  return code_text(fields.filename, ".co_filename") && code_text(fields.name, ".co_name") &&
         code_text(fields.qualname, ".co_qualname") && code_names(fields) && code_hidden(fields) &&
         code_blob(fields.linetable, ".co_linetable") &&
         code_blob(fields.exceptiontable, ".co_exceptiontable") &&
         code_blob(fields.code.get(), ".co_code");
}

// Everything that decides what a call does. Not the stack size, which follows from the rest, nor
// anything that tells where the code was written.
bool ValueWriter::behaviour(const CodeFields& fields, unsigned depth) {
  if (!code_consts(fields.consts, depth)) return false;
  size(fields.flags);
  size(fields.argcount);
  size(fields.posonlyargcount);
  size(fields.kwonlyargcount);
  return code_text(fields.name, ".co_name") && code_names(fields) &&
         code_blob(fields.exceptiontable, ".co_exceptiontable") &&
         code_blob(fields.code.get(), ".co_code");
}

void ValueWriter::code_numbers(const CodeFields& fields) {
  size(fields.flags);
  size(fields.argcount);
  size(fields.posonlyargcount);
  size(fields.kwonlyargcount);
  size(fields.stacksize);
  out_.write_varint(zigzag(fields.firstlineno));
}

bool ValueWriter::code_blob(PyObject* bytes, const char* name) {
  if (bytes == nullptr) return size(0), true;
  if (!PyBytes_CheckExact(bytes)) return cannot_encode(bytes) || inside(name);
  return blob(bytes);
}

bool ValueWriter::code_text(PyObject* value, const char* name) {
  if (!PyUnicode_CheckExact(value)) return cannot_encode(value) || inside(name);
  return text(value) || inside(name);
}

bool ValueWriter::code_names(const CodeFields& fields) {
  size(PyTuple_GET_SIZE(fields.names));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields.names); ++i)
    if (!code_text(PyTuple_GET_ITEM(fields.names, i), ".co_names")) return false;
  constexpr std::pair<Locals, const char*> kGroups[] = {{Locals::kVarnames, ".co_varnames"},
                                                        {Locals::kCellvars, ".co_cellvars"},
                                                        {Locals::kFreevars, ".co_freevars"}};
  for (const auto& [group, label] : kGroups) {
    size(fields.count(group));
    const auto put = [&](PyObject* name) { return code_text(name, label); };
    if (!fields.each(group, put)) return false;
  }
  return true;
}

bool ValueWriter::code_hidden(const CodeFields& fields) {
  size(fields.hidden_count());
  fields.each_hidden([&](std::uint64_t place) { out_.write_varint(place); });
  return true;
}

bool ValueWriter::code_consts(PyObject* consts, unsigned depth) {
  const Py_ssize_t count = PyTuple_GET_SIZE(consts);
  size(count);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (!write(PyTuple_GET_ITEM(consts, i), depth)) return inside(".co_consts" + at_index(i));
  return true;
}

}  // namespace

Ref Encoder::encode(PyObject* value, Status& status) {
  ValueWriter writer(strings_, hook_.get());
  if (!writer.write(value, 0)) {
    if (!PyErr_Occurred()) status = writer.status();
    return {};
  }
  return writer.finish();
}

bool digest_code(PyObject* code, Sha256Digest& digest, Status& status) {
  if (const Sha256Digest* kept = kept_digest(code)) {
    digest = *kept;
    return true;
  }
  StringCollector unused;
  ValueWriter writer(unused, nullptr, ValueWriter::Purpose::kDigest);
  if (!writer.write(code, 0)) {
    if (!PyErr_Occurred()) status = writer.status();
    return false;
  }
  digest = sha256(writer.bytes());
  if (writer.settled()) keep_digest(code, digest);
  return true;
}

}  // namespace hotstart::codec
