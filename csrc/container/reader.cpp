// See reader.h. The checks run in the order of docs/format.md: size, magic, version, header
// checksum, header fields, section bounds and padding; payload checksums wait for the first use.
#include "container/reader.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>

#include "base/xxh64.h"
#include "container/limits.h"

namespace hotstart {
namespace {

template <typename T>
T get(Bytes data, std::size_t at) {
  T value;
  std::memcpy(&value, data.data() + at, sizeof value);
  return value;
}

std::string hex(std::uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

Status expected(std::size_t offset, std::string_view what, std::uint64_t want,
                std::uint64_t found) {
  return Status::corrupt(offset, std::string(what) + ": expected " + std::to_string(want) +
                                     ", found " + std::to_string(found));
}

Status bad_checksum(std::size_t offset, std::string_view what, std::uint64_t want,
                    std::uint64_t found) {
  return Status::corrupt(offset, std::string(what) + " checksum mismatch: expected " + hex(want) +
                                     ", found " + hex(found));
}

std::string name(const SectionInfo& section) {
  return "section (kind " + std::to_string(section.kind) + ", ordinal " +
         std::to_string(section.ordinal) + ")";
}

Status check_magic(Bytes data) {
  if (std::memcmp(data.data(), kMagic.data(), kMagic.size()) == 0) return {};
  if (std::memcmp(data.data(), kMagic.data(), 4) == 0) {
    return Status::corrupt(4, "line-end bytes of the magic changed: a text-mode transfer?");
  }
  return Status::corrupt(0, "not a hotstart container: wrong magic");
}

// The fields that say how long the header is, then its checksum.
Status check_header(Bytes data, std::uint32_t& sections) {
  if (data.size() < kMinFileSize) {
    return Status::corrupt(data.size(), "too short for a hotstart container: expected at least " +
                                            std::to_string(kMinFileSize) + " bytes, found " +
                                            std::to_string(data.size()));
  }
  if (const Status status = check_magic(data); !status.ok()) return status;
  const auto version = get<std::uint32_t>(data, kVersionAt);
  if (version != kFormatVersion) {
    return expected(kVersionAt, "unknown format version", kFormatVersion, version);
  }
  sections = get<std::uint32_t>(data, kSectionCountAt);
  if (sections > kMaxSections) {
    return Status::corrupt(kSectionCountAt, "too many sections: expected at most " +
                                                std::to_string(kMaxSections) + ", found " +
                                                std::to_string(sections));
  }
  const auto checksum_at = static_cast<std::size_t>(header_checksum_at(sections));
  if (checksum_at + kHeaderChecksumSize > data.size()) {
    return Status::corrupt(data.size(), "the table of contents does not fit: expected " +
                                            std::to_string(checksum_at + kHeaderChecksumSize) +
                                            " bytes, found " + std::to_string(data.size()));
  }
  const auto stored = get<std::uint64_t>(data, checksum_at);
  const std::uint64_t found = xxh64(data.first(checksum_at));
  return stored == found ? Status{} : bad_checksum(checksum_at, "header", stored, found);
}

Status check_fields(Bytes data) {
  if (const auto flags = get<std::uint32_t>(data, kFileFlagsAt); (flags & kCriticalFlags) != 0) {
    return Status::corrupt(kFileFlagsAt, "the file needs a newer reader: critical file flags " +
                                             std::to_string(flags & kCriticalFlags));
  }
  if (const auto size = get<std::uint64_t>(data, kFileSizeAt); size != data.size()) {
    return expected(kFileSizeAt, "file size", size, data.size());
  }
  if (const auto reserved = get<std::uint32_t>(data, kReservedAt); reserved != 0) {
    return expected(kReservedAt, "reserved header field", 0, reserved);
  }
  return {};
}

SectionInfo read_entry(Bytes data, std::size_t at) {
  return {get<std::uint32_t>(data, at + kEntryKindAt),
          get<std::uint32_t>(data, at + kEntryOrdinalAt),
          get<std::uint32_t>(data, at + kEntryFlagsAt),
          get<std::uint64_t>(data, at + kEntryOffsetAt),
          get<std::uint64_t>(data, at + kEntryLengthAt),
          get<std::uint64_t>(data, at + kEntryChecksumAt)};
}

Status check_identity(Bytes data, std::size_t at, const SectionInfo& section,
                      const SectionInfo* previous) {
  if (section.kind < kFirstKind) {
    return Status::corrupt(at + kEntryKindAt, "section kind 0 is reserved");
  }
  if (previous != nullptr &&
      std::tuple(previous->kind, previous->ordinal) >= std::tuple(section.kind, section.ordinal)) {
    return Status::corrupt(at, name(section) + " does not follow " + name(*previous) +
                                   ": the table of contents must ascend");
  }
  if (const auto flags = section.flags & kCriticalFlags & ~kMustUnderstand; flags != 0) {
    return Status::corrupt(
        at + kEntryFlagsAt,
        name(section) + " needs a newer reader: critical flags " + std::to_string(flags));
  }
  if ((section.flags & kMustUnderstand) != 0 && section.kind > kLastKnownKind) {
    return Status::corrupt(at + kEntryKindAt,
                           name(section) + " must be understood and its kind is unknown");
  }
  if (const auto reserved = get<std::uint32_t>(data, at + kEntryReservedAt); reserved != 0) {
    return expected(at + kEntryReservedAt, "reserved field of " + name(section), 0, reserved);
  }
  return {};
}

// There is one valid place for each section: the first aligned byte after the one before. So no
// two overlap and nothing hides between them.
Status check_place(Bytes data, std::size_t at, const SectionInfo& section, std::uint64_t end) {
  const std::uint64_t offset = align_up(end);
  if (section.offset != offset) {
    return expected(at + kEntryOffsetAt, "offset of " + name(section), offset, section.offset);
  }
  if (offset > data.size() || section.length > data.size() - offset) {
    return Status::corrupt(at + kEntryLengthAt, name(section) + " ends outside the file: offset " +
                                                    std::to_string(offset) + ", length " +
                                                    std::to_string(section.length) +
                                                    ", file size " + std::to_string(data.size()));
  }
  const auto padding = data.subspan(end, offset - end);
  const auto dirt = std::find_if(padding.begin(), padding.end(),
                                 [](std::byte byte) { return byte != std::byte{0}; });
  if (dirt == padding.end()) return {};
  return Status::corrupt(end + static_cast<std::size_t>(dirt - padding.begin()),
                         "padding before " + name(section) + " is not zero");
}

Status read_sections(Bytes data, std::uint32_t count, std::vector<SectionInfo>& sections) {
  sections.reserve(count);
  std::uint64_t end = header_checksum_at(count) + kHeaderChecksumSize;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t at = kHeaderSize + i * kTocEntrySize;
    const SectionInfo section = read_entry(data, at);
    const SectionInfo* previous = i == 0 ? nullptr : &sections.back();
    if (Status status = check_identity(data, at, section, previous); !status.ok()) return status;
    if (Status status = check_place(data, at, section, end); !status.ok()) return status;
    end = section.offset + section.length;
    sections.push_back(section);
  }
  if (end != data.size()) return expected(end, "end of the file", end, data.size());
  return {};
}

}  // namespace

Status ContainerReader::open(Bytes data) {
  std::uint32_t count = 0;
  if (Status status = check_header(data, count); !status.ok()) return status;
  if (Status status = check_fields(data); !status.ok()) return status;
  std::vector<SectionInfo> sections;
  if (Status status = read_sections(data, count, sections); !status.ok()) return status;
  data_ = data;
  version_ = kFormatVersion;
  sections_ = std::move(sections);
  verified_ = std::make_unique<std::atomic<bool>[]>(count);
  return {};
}

std::optional<std::size_t> ContainerReader::find(std::uint32_t kind, std::uint32_t ordinal) const {
  const auto wanted = std::tuple(kind, ordinal);
  const auto at = std::lower_bound(sections_.begin(), sections_.end(), wanted,
                                   [](const SectionInfo& section, const auto& key) {
                                     return std::tuple(section.kind, section.ordinal) < key;
                                   });
  if (at == sections_.end() || std::tuple(at->kind, at->ordinal) != wanted) return {};
  return static_cast<std::size_t>(at - sections_.begin());
}

Status ContainerReader::check_payload(std::size_t index) const {
  const SectionInfo& section = sections_[index];
  const std::uint64_t found = xxh64(payload(index));
  if (found == section.checksum) {
    verified_[index].store(true, std::memory_order_release);
    return {};
  }
  return bad_checksum(section.offset, "payload of " + name(section), section.checksum, found);
}

Status ContainerReader::verify(std::size_t index) const {
  return verified(index) ? Status{} : check_payload(index);
}

Status ContainerReader::verify_all() const {
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    if (Status status = check_payload(i); !status.ok()) return status;
  }
  return {};
}

}  // namespace hotstart
