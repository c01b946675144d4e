// A guard plan's reader: any bytes must be accepted or refused, nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "guards/plan.h"

using namespace hotstart;

namespace {

void expect_clear_answer(const Status& status, std::size_t size) {
  if (status.ok()) return;
  if (status.code != Code::kCorrupt || status.reason.empty() || status.offset > size) std::abort();
}

// What a replay relies on, for every call that the reader lets through.
void expect_in_range(Bytes bytes) {
  guards::Plan plan;
  if (!plan.open(bytes).ok()) return;
  guards::TapeReader reader(plan);
  std::uint32_t nodes = 1;
  guards::Step step;
  while (reader.next(step)) {
    const guards::Operation& operation = reader.operations()[step.operation];
    if (step.receiver >= nodes || step.arguments.size() > operation.arguments.size()) std::abort();
    for (const std::uint32_t node : step.nodes)
      if (node >= nodes) std::abort();
    if (operation.shape <= guards::Shape::kKeyedAccessor) ++nodes;
  }
  if (reader.ok() && nodes != plan.node_count) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  expect_clear_answer(guards::validate_plan(bytes), size);
  expect_in_range(bytes);
  // Once more as the tape of a plan with many values and nodes, so that a wrong header is not the
  // end of it.
  std::string plan(guards::kPlanMagic);
  Sink header;
  const auto tape_size = static_cast<std::uint32_t>(size);
  for (const std::uint32_t field : {100U, 1 + tape_size / 5, 0U, tape_size, 0U, 0U})
    header.write(field);
  plan += header.buffer();
  plan.append(reinterpret_cast<const char*>(data), size);
  expect_clear_answer(guards::validate_plan(as_bytes(plan)), plan.size());
  expect_in_range(as_bytes(plan));
  return 0;
}
