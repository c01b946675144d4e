#include "guards/plan.h"

#include <cstring>

namespace hotstart::guards {
namespace {

// An operation takes a byte of the tape.
constexpr std::uint64_t kMaxOperations = 256;
constexpr std::uint64_t kMaxName = 64;
constexpr std::uint64_t kMaxArguments = 16;

std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool are_argument_kinds(std::string_view text) {
  return text.find_first_not_of("vsnNmu") == std::string_view::npos;
}

}  // namespace

Status Plan::open(Bytes data) {
  if (data.size() < kPlanHeader) return Status::corrupt(0, "too short for a guard plan");
  if (as_text(data.first(kPlanMagic.size())) != kPlanMagic)
    return Status::corrupt(0, "not a guard plan");
  std::uint32_t fields[6];
  std::memcpy(fields, data.data() + kPlanMagic.size(), sizeof fields);
  const auto [value_count_, node_count_, values_size, tape_size, cold_size, reserved] = fields;
  const Bytes body = data.subspan(kPlanHeader);
  if (reserved != 0) return Status::corrupt(28, "reserved bytes of a guard plan are not zero");
  if (std::uint64_t{values_size} + tape_size + cold_size != body.size())
    return Status::corrupt(16, "sections of a guard plan do not fill it");
  value_count = value_count_;
  node_count = node_count_;
  values = body.first(values_size);
  tape = body.subspan(values_size, tape_size);
  cold = body.last(cold_size);
  // Making a node takes five bytes at least; nothing is allocated for nodes that cannot be there.
  if (node_count == 0 || node_count - 1 > tape.size() / 5)
    return Status::corrupt(12, "a guard plan has more nodes than its tape can make");
  return {};
}

TapeReader::TapeReader(const Plan& plan)
    : at_(plan.tape), value_count_(plan.value_count), node_count_(plan.node_count) {
  read_operations();
}

void TapeReader::read_operations() {
  std::uint64_t count = 0;
  if (!at_.read_varint(count) || count > kMaxOperations) {
    fail("the operations of a guard plan are not readable");
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t name_size = 0;
    std::uint64_t argument_count = 0;
    std::uint8_t shape = 0;
    Bytes name;
    Bytes arguments;
    const bool read = at_.read_varint(name_size) && name_size <= kMaxName &&
                      at_.read_bytes(name_size, name) && at_.read(shape) &&
                      shape <= static_cast<std::uint8_t>(Shape::kFunction) &&
                      at_.read_varint(argument_count) && argument_count <= kMaxArguments &&
                      at_.read_bytes(argument_count, arguments);
    if (!read || !are_argument_kinds(as_text(arguments))) {
      fail("an operation of a guard plan is not readable");
      return;
    }
    operations_.push_back({as_text(name), static_cast<Shape>(shape), as_text(arguments)});
  }
}

bool TapeReader::next(Step& step) {
  if (!ok()) return false;
  step.receiver = 0;
  step.arguments.clear();
  step.nodes.clear();
  if (at_.done()) {
    if (nodes_made_ != node_count_) fail("a guard plan lacks nodes");
    return false;
  }
  std::uint8_t operation = 0;
  if (!at_.read(operation) || operation >= operations_.size())
    return fail("a call of an unknown operation");
  step.operation = operation;
  const Operation& called = operations_[operation];
  switch (called.shape) {
    case Shape::kAccessor:
      return read_node(step.receiver) && read_accessor(step);
    case Shape::kKeyedAccessor:
      return read_node(step.receiver) && read_value(step.key) && read_accessor(step);
    case Shape::kLeaf:
      return read_node(step.receiver) && read_arguments(called, step);
    case Shape::kFunction:
      return read_arguments(called, step);
  }
  return fail("an operation of no shape");
}

bool TapeReader::read_accessor(Step& step) {
  if (!at_.read(step.flags) || (step.flags & ~kNodeFlags) != 0 ||
      (step.flags & kExampleMask) > static_cast<std::uint8_t>(Example::kValue))
    return fail("flags of a node that do not exist");
  const bool has_value = (step.flags & kExampleMask) == static_cast<std::uint8_t>(Example::kValue);
  if (has_value && !read_value(step.example)) return false;
  if (!read_number(step.cut) || !read_value(step.suffix)) return false;
  if (nodes_made_ == node_count_) return fail("more nodes than a guard plan says");
  ++nodes_made_;
  return true;
}

bool TapeReader::read_arguments(const Operation& operation, Step& step) {
  for (const char kind : operation.arguments) {
    std::uint32_t number = 0;
    switch (static_cast<ArgKind>(kind)) {
      case ArgKind::kValue:
        if (!read_value(number)) return false;
        break;
      case ArgKind::kNode:
        if (!read_node(number)) return false;
        break;
      case ArgKind::kNodes:
        if (!read_number(number)) return false;
        for (std::uint32_t i = 0; i < number; ++i) {
          std::uint32_t node = 0;
          if (!read_node(node)) return false;
          step.nodes.push_back(node);
        }
        break;
      case ArgKind::kSource:
      case ArgKind::kMessages:
      case ArgKind::kStack:
        break;
    }
    step.arguments.push_back(number);
  }
  return true;
}

bool TapeReader::read_number(std::uint32_t& out) {
  std::uint64_t number = 0;
  if (!at_.read_varint(number) || number > UINT32_MAX)
    return fail("a number of a guard plan is not readable");
  out = static_cast<std::uint32_t>(number);
  return true;
}

bool TapeReader::read_value(std::uint32_t& out) {
  if (!read_number(out)) return false;
  return out < value_count_ || fail("a value that a guard plan does not have");
}

// Written as the distance back from the node that would come next.
bool TapeReader::read_node(std::uint32_t& out) {
  std::uint32_t back = 0;
  if (!read_number(back)) return false;
  if (back == 0 || back > nodes_made_) return fail("a node that is not made yet");
  out = nodes_made_ - back;
  return true;
}

bool TapeReader::fail(const char* reason) {
  status_ = Status::corrupt(at_.offset(), reason);
  return false;
}

Status validate_plan(Bytes data) {
  Plan plan;
  if (Status status = plan.open(data); !status.ok()) return status;
  TapeReader reader(plan);
  Step step;
  while (reader.next(step)) {
  }
  return reader.status();
}

}  // namespace hotstart::guards
