// The one reader of streams. It checks every count, length, index and depth, and tells a Builder
// what it found: Python objects are built from the same walk that validation runs without Python.
//
// A Builder has a `Value` type whose falseness means failure, one function per kind of value, and
// `refusal`, a status that it sets when it fails because of the bytes. (It leaves `refusal` ok when
// it failed for a reason of its own, such as an exception of a hook.) The bytes are
// borrowed for the walk. Belongs to one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "codec/code_tables.h"
#include "codec/tags.h"

namespace hotstart::codec {

// What a code object is made of.
template <typename Value>
struct CodeParts {
  std::uint16_t magic = 0;
  int flags = 0, argcount = 0, posonlyargcount = 0, kwonlyargcount = 0, stacksize = 0;
  int firstlineno = 0;
  Value code, linetable, exceptiontable;
  Value filename, name, qualname;
  Value names, varnames, cellvars, freevars, consts;
  std::size_t varname_count = 0;
  std::vector<std::uint32_t> hidden;  // places among all locals that locals() does not show
};

template <typename Builder>
class Walker {
 public:
  using Value = typename Builder::Value;

  Walker(Builder& builder, Bytes stream)
      : builder_(builder),
        in_(stream),
        locals_work_(limits::kFreeLocalsWork + limits::kLocalsWorkPerByte * stream.size()) {}

  // The stream's value; false means failure, with status() failed unless the builder's own affair.
  Value run() {
    Value result = value(0);
    if (result && !in_.done()) return fail("bytes after the end of the value");
    return result;
  }

  const Status& status() const { return status_; }

 private:
  Value fail(std::string reason) {
    status_ = Status::corrupt(in_.offset(), std::move(reason));
    return Value{};
  }
  Value early() { return fail("the value ends early"); }

  // After the builder failed: if it refused, says at which byte.
  bool refused() {
    if (!builder_.refusal.ok()) {
      status_ = std::move(builder_.refusal);
      status_.offset = in_.offset();
    }
    return false;
  }

  Value value(unsigned depth) {
    std::uint8_t tag = 0;
    if (!in_.read(tag)) return early();
    switch (static_cast<Tag>(tag)) {
      case Tag::kString:
        return string();
      case Tag::kNone:
        return builder_.none();
      case Tag::kInt:
        return integer();
      case Tag::kBytes:
        return blob();
      case Tag::kTrue:
        return builder_.boolean(true);
      case Tag::kFalse:
        return builder_.boolean(false);
      case Tag::kEllipsis:
        return builder_.ellipsis();
      case Tag::kFloat:
        return real();
      case Tag::kComplex:
        return complex();
      case Tag::kBigInt:
        return big_integer();
      default:
        return nested(static_cast<Tag>(tag), depth);
    }
  }

  Value nested(Tag tag, unsigned depth) {
    if (depth == limits::kMaxDepth) return fail("values nested too deep");
    switch (tag) {
      case Tag::kTuple:
        return tuple(depth + 1);
      case Tag::kCode:
        return code(depth + 1);
      case Tag::kList:
        return list(depth + 1);
      case Tag::kDict:
        return dict(depth + 1);
      case Tag::kSet:
        return set(false, depth + 1);
      case Tag::kFrozenSet:
        return set(true, depth + 1);
      case Tag::kSlice:
        return slice(depth + 1);
      case Tag::kHook:
        return hook(depth + 1);
      default:
        return fail("an unknown kind of value");
    }
  }

  // -- Plain values

  Value string() {
    std::uint64_t index = 0;
    if (!index_of_string(index)) return Value{};
    Value made = builder_.string(static_cast<std::uint32_t>(index));
    if (!made) refused();
    return made;
  }

  bool index_of_string(std::uint64_t& index) {
    if (!in_.read_varint(index)) return early(), false;
    if (index >= builder_.string_count()) return fail("a string that is not in the table"), false;
    return true;
  }

  Value integer() {
    std::uint64_t raw = 0;
    return in_.read_varint(raw) ? builder_.integer(unzigzag(raw)) : early();
  }

  Value big_integer() {
    Bytes data;
    if (!read_blob(data)) return Value{};
    if (data.size() <= 8) return fail("a small integer in the form of a large one");
    return builder_.big_integer(data);
  }

  Value real() {
    double number = 0;
    return in_.read(number) ? builder_.real(number) : early();
  }

  Value complex() {
    double re = 0;
    double im = 0;
    return in_.read(re) && in_.read(im) ? builder_.complex(re, im) : early();
  }

  Value blob() {
    Bytes data;
    return read_blob(data) ? builder_.bytes(data) : Value{};
  }

  bool read_blob(Bytes& data) {
    std::uint64_t size = 0;
    if (!in_.read_varint(size) || !in_.read_bytes(size, data)) return early(), false;
    return true;
  }

  // -- Containers

  // Reads a count of things of at least `each` bytes. Every thing that an open container still
  // waits for needs a byte of its own, so what is set aside can never exceed the input.
  bool read_count(std::uint64_t& count, std::uint64_t each = 1) {
    if (!in_.read_varint(count)) return early(), false;
    const std::uint64_t room = in_.remaining() > owed_ ? in_.remaining() - owed_ : 0;
    if (count > room / each) return fail("a count larger than the bytes that are left"), false;
    return true;
  }

  Value next(unsigned depth) {
    --owed_;
    return value(depth);
  }

  Value tuple(unsigned depth) {
    std::uint64_t count = 0;
    if (!read_count(count)) return Value{};
    Value made = builder_.tuple(count);
    if (!made) return made;
    owed_ += count;
    for (std::uint64_t i = 0; i < count; ++i) {
      Value item = next(depth);
      if (!item) return item;
      builder_.put_in_tuple(made, i, std::move(item));
    }
    return made;
  }

  Value list(unsigned depth) {
    std::uint64_t count = 0;
    if (!read_count(count)) return Value{};
    Value made = builder_.list(count);
    if (!made) return made;
    owed_ += count;
    for (std::uint64_t i = 0; i < count; ++i) {
      Value item = next(depth);
      if (!item) return item;
      builder_.put_in_list(made, i, std::move(item));
    }
    return made;
  }

  Value set(bool frozen, unsigned depth) {
    std::uint64_t count = 0;
    if (!read_count(count)) return Value{};
    auto open = builder_.set(frozen, count);
    if (!open.made) return Value{};
    owed_ += count;
    for (std::uint64_t i = 0; i < count; ++i) {
      Value item = next(depth);
      if (!item) return item;
      if (!builder_.put_in_set(open, std::move(item))) return refused(), Value{};
    }
    return std::move(open.made);
  }

  Value dict(unsigned depth) {
    std::uint64_t count = 0;
    if (!read_count(count, 2)) return Value{};
    auto open = builder_.dict(count);
    if (!open.made) return Value{};
    owed_ += 2 * count;
    for (std::uint64_t i = 0; i < count; ++i) {
      Value key = next(depth);
      if (!key) return key;
      Value item = next(depth);
      if (!item) return item;
      if (!builder_.put_in_dict(open, std::move(key), std::move(item))) return refused(), Value{};
    }
    return std::move(open.made);
  }

  Value slice(unsigned depth) {
    Value start = value(depth);
    if (!start) return start;
    Value stop = value(depth);
    if (!stop) return stop;
    Value step = value(depth);
    if (!step) return step;
    return builder_.slice(std::move(start), std::move(stop), std::move(step));
  }

  Value hook(unsigned depth) {
    Value tag = string();
    if (!tag) return tag;
    Value payload = value(depth);
    if (!payload) return payload;
    Value made = builder_.hook(std::move(tag), std::move(payload));
    if (!made) refused();
    return made;
  }

  // -- Code objects

  // The constants come first: once they are there, nothing can come between the rest and the code
  // object that is made of it, and a builder can keep the rest in scratch space.
  Value code(unsigned depth) {
    CodeParts<Value> parts;
    if (!in_.read(parts.magic)) return early();
    if (!builder_.accept_magic(parts.magic)) return refused(), Value{};
    parts.consts = tuple(depth);
    if (!parts.consts || !code_numbers(parts) || !code_strings(parts) || !code_blobs(parts))
      return Value{};
    Value made = builder_.code(parts);
    if (!made) refused();
    return made;
  }

  bool code_numbers(CodeParts<Value>& parts) {
    if (!read_int(parts.flags) || !read_int(parts.argcount) || !read_int(parts.posonlyargcount) ||
        !read_int(parts.kwonlyargcount) || !read_int(parts.stacksize))
      return false;
    std::uint64_t raw = 0;
    if (!in_.read_varint(raw)) return early(), false;
    const std::int64_t line = unzigzag(raw);
    if (line != static_cast<int>(line)) return fail("a code object's line is too large"), false;
    parts.firstlineno = static_cast<int>(line);
    if (static_cast<std::uint64_t>(parts.stacksize) > limits::kMaxStackSize)
      return fail("a code object's stack size is too large"), false;
    if (parts.posonlyargcount > parts.argcount)
      return fail("a code object has more positional-only arguments than arguments"), false;
    return true;
  }

  // Not negative, and fits a C int.
  bool read_int(int& out) {
    std::uint64_t raw = 0;
    if (!in_.read_varint(raw)) return early(), false;
    if (raw > INT32_MAX) return fail("a code object's number is too large"), false;
    out = static_cast<int>(raw);
    return true;
  }

  bool code_blobs(CodeParts<Value>& parts) {
    Bytes lines, exceptions, code;
    if (!read_blob(lines) || !read_blob(exceptions) || !read_blob(code)) return false;
    if (std::max({lines.size(), exceptions.size(), code.size()}) > limits::kMaxCodeBytes)
      return fail("a code object is too large"), false;
    const char* wrong = check_line_table(lines, parts.magic);
    if (wrong == nullptr) wrong = check_exception_table(exceptions, parts.magic);
    if (wrong == nullptr && code.size() % 2 != 0) wrong = "bytecode of odd length";
    if (wrong != nullptr) return fail(wrong), false;
    parts.linetable = builder_.bytes(lines);
    parts.exceptiontable = builder_.bytes(exceptions);
    parts.code = builder_.brief_bytes(code);
    return parts.linetable && parts.exceptiontable && parts.code;
  }

  bool code_strings(CodeParts<Value>& parts) {
    for (Value* text : {&parts.filename, &parts.name, &parts.qualname}) {
      *text = string();
      if (!*text) return false;
    }
    std::size_t names = 0, cells = 0, frees = 0;
    if (!read_names(parts.names, names, false) ||
        !read_names(parts.varnames, parts.varname_count, true) ||
        !read_names(parts.cellvars, cells, true) || !read_names(parts.freevars, frees, true))
      return false;
    return check_locals(parts, cells) && read_hidden(parts, parts.varname_count + cells + frees);
  }

  // `brief`: the tuple only serves to make the code object that comes next.
  bool read_names(Value& out, std::size_t& count, bool brief) {
    std::uint64_t size = 0;
    if (!read_count(size)) return false;
    out = brief ? builder_.brief_tuple(size) : builder_.tuple(size);
    if (!out) return false;
    for (std::uint64_t i = 0; i < size; ++i) {
      std::uint64_t index = 0;
      if (!index_of_string(index)) return false;
      if (!builder_.put_name(out, i, static_cast<std::uint32_t>(index))) return refused();
    }
    count = static_cast<std::size_t>(size);
    return true;
  }

  bool check_locals(const CodeParts<Value>& parts, std::size_t cells) {
    constexpr int kVarArgs = 4, kVarKeywords = 8;
    const auto flag = [&](int bit) { return (parts.flags & bit) != 0 ? std::int64_t{1} : 0; };
    const std::int64_t arguments =
        std::int64_t{parts.argcount} + parts.kwonlyargcount + flag(kVarArgs) + flag(kVarKeywords);
    if (arguments > static_cast<std::int64_t>(parts.varname_count))
      return fail("a code object has more arguments than local variables"), false;
    const std::uint64_t work = std::uint64_t{parts.varname_count} * cells;
    if (work > locals_work_) return fail("code objects with too many local variables"), false;
    locals_work_ -= work;
    return true;
  }

  bool read_hidden(CodeParts<Value>& parts, std::size_t locals) {
    std::uint64_t count = 0;
    if (!read_count(count)) return false;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t place = 0;
      if (!in_.read_varint(place)) return early(), false;
      if (place >= locals || (i > 0 && place <= parts.hidden.back()))
        return fail("a hidden local variable that is not there"), false;
      parts.hidden.push_back(static_cast<std::uint32_t>(place));
    }
    return true;
  }

  Builder& builder_;
  Cursor in_;
  std::uint64_t owed_ = 0;  // values that open containers still wait for
  std::uint64_t locals_work_;
  Status status_;
};

}  // namespace hotstart::codec
