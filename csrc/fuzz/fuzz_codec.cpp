// The codec's reader without Python: any bytes must be accepted or refused, nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "codec/code_tables.h"
#include "codec/validate.h"

using namespace hotstart;

namespace {

void expect_clear_answer(const Status& status, std::size_t size) {
  if (status.ok()) return;
  if (status.code != Code::kCorrupt || status.reason.empty() || status.offset > size) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  expect_clear_answer(codec::validate(bytes), size);
  // The quick look at a block of a line table, where there is one, sees what the portable one does.
  using namespace codec::detail;
  if (size >= kBlock && look_at_block(data) != look_at_block_portably(data)) std::abort();
  // Once more with a cut wherever the first byte says, so that a wrong size is not the end of it.
  if (size == 0) return 0;
  const std::size_t cut = 1 + (size - 1) * data[0] / 255;
  expect_clear_answer(codec::validate(bytes.subspan(1, cut - 1), bytes.subspan(cut)), size);
  const Bytes no_strings = as_bytes({"hsc\x01\0\0\0\0", 8});
  expect_clear_answer(codec::validate(no_strings, bytes), size);
  return 0;
}
