// See writer.h. Owns nothing: input payloads and output memory are the caller's.
#include "container/writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "base/xxh64.h"
#include "container/layout.h"
#include "container/limits.h"

namespace hotstart {
namespace {

auto key(const SectionInput& section) { return std::tuple(section.kind, section.ordinal); }

std::string name(const SectionInput& section) {
  return "section (kind " + std::to_string(section.kind) + ", ordinal " +
         std::to_string(section.ordinal) + ")";
}

Status check_section(const SectionInput& section) {
  if (section.kind < kFirstKind) {
    return Status::unsupported(name(section) + ": kind 0 is reserved");
  }
  if ((section.flags & kCriticalFlags & ~kMustUnderstand) != 0) {
    return Status::unsupported(name(section) + ": flag bits 1 to 15 are reserved, found " +
                               std::to_string(section.flags));
  }
  return {};
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void write_header(std::byte* out, std::size_t sections, std::uint64_t size) {
  std::memcpy(out, kMagic.data(), kMagic.size());
  put(out + kVersionAt, kFormatVersion);
  put(out + kFileFlagsAt, std::uint32_t{0});
  put(out + kFileSizeAt, size);
  put(out + kSectionCountAt, static_cast<std::uint32_t>(sections));
  put(out + kReservedAt, std::uint32_t{0});
}

void write_entry(std::byte* entry, const SectionInput& section, std::uint64_t offset,
                 std::uint64_t checksum) {
  put(entry + kEntryKindAt, section.kind);
  put(entry + kEntryOrdinalAt, section.ordinal);
  put(entry + kEntryFlagsAt, section.flags);
  put(entry + kEntryReservedAt, std::uint32_t{0});
  put(entry + kEntryOffsetAt, offset);
  put(entry + kEntryLengthAt, static_cast<std::uint64_t>(section.payload.size()));
  put(entry + kEntryChecksumAt, checksum);
}

}  // namespace

Status plan_container(std::vector<SectionInput>& sections, std::uint64_t& size) {
  if (sections.size() > kMaxSections) {
    return Status::unsupported("a container holds at most " + std::to_string(kMaxSections) +
                               " sections, found " + std::to_string(sections.size()));
  }
  std::sort(sections.begin(), sections.end(),
            [](const auto& a, const auto& b) { return key(a) < key(b); });
  std::uint64_t end = header_checksum_at(sections.size()) + kHeaderChecksumSize;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    if (const Status status = check_section(sections[i]); !status.ok()) return status;
    if (i > 0 && key(sections[i - 1]) == key(sections[i])) {
      return Status::unsupported(name(sections[i]) + " is given twice");
    }
    const std::uint64_t offset = align_up(end);
    if (sections[i].payload.size() > kMaxFileSize - offset) {
      return Status::unsupported("a container is at most 2^47 bytes long");
    }
    end = offset + sections[i].payload.size();
  }
  size = end;
  return {};
}

void write_container(const std::vector<SectionInput>& sections, std::uint64_t size,
                     std::byte* out) {
  write_header(out, sections.size(), size);
  const std::uint64_t checksum_at = header_checksum_at(sections.size());
  std::uint64_t end = checksum_at + kHeaderChecksumSize;
  std::byte* entry = out + kHeaderSize;
  for (const SectionInput& section : sections) {
    const std::uint64_t offset = align_up(end);
    std::memset(out + end, 0, offset - end);
    const std::size_t length = section.payload.size();
    if (length != 0) std::memcpy(out + offset, section.payload.data(), length);
    // The copy is what is summed: another thread may be writing to the caller's buffer.
    write_entry(entry, section, offset, xxh64({out + offset, length}));
    entry += kTocEntrySize;
    end = offset + length;
  }
  put(out + checksum_at, xxh64({out, static_cast<std::size_t>(checksum_at)}));
}

}  // namespace hotstart
