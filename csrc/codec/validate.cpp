#include "codec/validate.h"

#include <cstring>

#include "codec/string_table.h"
#include "codec/walk.h"

namespace hotstart::codec {
namespace {

// Builds nothing and refuses nothing.
class NullBuilder {
 public:
  using Value = bool;
  struct Open {
    Value made;
  };

  explicit NullBuilder(std::uint32_t string_count) : string_count_(string_count) {}

  Status refusal;

  std::uint32_t string_count() const { return string_count_; }
  Value none() { return true; }
  Value boolean(bool) { return true; }
  Value ellipsis() { return true; }
  Value integer(std::int64_t) { return true; }
  Value big_integer(Bytes) { return true; }
  Value real(double) { return true; }
  Value complex(double, double) { return true; }
  Value string(std::uint32_t) { return true; }
  Value bytes(Bytes) { return true; }
  Value brief_bytes(Bytes) { return true; }
  Value tuple(std::uint64_t) { return true; }
  Value brief_tuple(std::uint64_t) { return true; }
  void put_in_tuple(Value&, std::uint64_t, Value) {}
  bool put_name(Value&, std::uint64_t, std::uint32_t) { return true; }
  Value list(std::uint64_t) { return true; }
  void put_in_list(Value&, std::uint64_t, Value) {}
  Open set(bool, std::uint64_t) { return {true}; }
  bool put_in_set(Open&, Value) { return true; }
  Open dict(std::uint64_t) { return {true}; }
  bool put_in_dict(Open&, Value, Value) { return true; }
  Value slice(Value, Value, Value) { return true; }
  Value hook(Value, Value) { return true; }
  bool accept_magic(std::uint16_t) { return true; }
  Value code(CodeParts<Value>&) { return true; }

 private:
  std::uint32_t string_count_;
};

}  // namespace

Status validate(Bytes string_table, Bytes stream) {
  StringTableView table;
  if (Status status = table.open(string_table); !status.ok()) return status;
  if (Status status = table.check_all(); !status.ok()) return status;
  NullBuilder builder(table.count());
  Walker<NullBuilder> walker(builder, stream);
  walker.run();
  return walker.status();
}

Status split(Bytes data, Bytes& string_table, Bytes& stream) {
  std::uint32_t size = 0;
  if (data.size() < sizeof size) return Status::corrupt(0, "too short to hold a value");
  std::memcpy(&size, data.data(), sizeof size);
  if (size > data.size() - sizeof size)
    return Status::corrupt(0, "the string table is longer than the bytes");
  string_table = data.subspan(sizeof size, size);
  stream = data.subspan(sizeof size + size);
  return {};
}

Status validate(Bytes data) {
  Bytes string_table;
  Bytes stream;
  if (Status status = split(data, string_table, stream); !status.ok()) return status;
  return validate(string_table, stream);
}

}  // namespace hotstart::codec
