// Opens any bytes as a container, as they are and with the outermost checks made to pass so that
// mutations reach the deep ones. What reads as good must be exactly what the writer writes.
#include <algorithm>
#include <cstdlib>
#include "base/xxh64.h"
#include "container/reader.h"
#include "container/writer.h"
using namespace hotstart;
static void read_all(Bytes data) {
  ContainerReader reader;
  if (!reader.open(data).ok() || !reader.verify_all().ok()) return;
  std::vector<SectionInput> sections;
  for (const SectionInfo& s : reader.sections()) {
    if (reader.find(s.kind, s.ordinal) != sections.size()) std::abort();
    sections.push_back({s.kind, s.ordinal, s.flags, reader.payload(sections.size())});
  }
  std::uint64_t size = 0;
  if (!plan_container(sections, size).ok() || size != data.size()) std::abort();
  std::vector<std::byte> again(size);
  write_container(sections, size, again.data());
  std::copy_n(&data[kFileFlagsAt], 4, &again[kFileFlagsAt]);  // may differ, as may the checksum
  std::copy_n(&data[header_checksum_at(sections.size())], 8,
              &again[header_checksum_at(sections.size())]);
  if (!std::equal(data.begin(), data.end(), again.begin())) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::byte* bytes, std::size_t size) {
  read_all({bytes, size});
  if (size < kMinFileSize) return 0;
  std::vector<std::byte> data(bytes, bytes + size);
  std::memcpy(&data[0], kMagic.data(), 8);
  std::memcpy(&data[kVersionAt], &kFormatVersion, 4);
  std::memcpy(&data[kFileSizeAt], &size, 8);
  std::uint32_t count = 0;
  std::memcpy(&count, &data[kSectionCountAt], 4);
  const std::size_t end = header_checksum_at(std::min<std::size_t>(count, (size - 40) / 40));
  *reinterpret_cast<std::uint64_t*>(&data[end]) = xxh64({data.data(), end});
  return read_all(data), 0;
}
