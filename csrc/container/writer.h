// Lays sections out as a container and writes it into memory the caller owns. No Python here.
//
// The same sections give the same bytes, in whatever order they are handed over. Stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace hotstart {

// A section to write; the payload is borrowed until write_container() has returned.
struct SectionInput {
  std::uint32_t kind = 0;
  std::uint32_t ordinal = 0;
  std::uint32_t flags = 0;
  Bytes payload;
};

// Sorts the sections as the file has them and computes its size. kUnsupported for what no container
// can hold: a repeated (kind, ordinal), kind 0, reserved flags, too many sections.
Status plan_container(std::vector<SectionInput>& sections, std::uint64_t& size);

// Writes a planned container of exactly `size` bytes to `out`.
void write_container(const std::vector<SectionInput>& sections, std::uint64_t size, std::byte* out);

}  // namespace hotstart
