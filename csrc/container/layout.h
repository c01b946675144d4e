// The container's layout: one place for every offset and constant of docs/format.md. No Python
// here.
//
//   header (32 bytes) | table of contents (40 bytes a section) | header checksum (8 bytes)
//   | zero padding to 64 | payload | zero padding to 64 | payload ... exact end
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hotstart {

// Not text in any encoding; each of the last four bytes is changed by some text-mode transfer.
inline constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'H', 'O', 'T', '\r', '\n', 0x1A, '\n'};

inline constexpr std::uint32_t kFormatVersion = 1;

inline constexpr std::size_t kHeaderSize = 32;
inline constexpr std::size_t kTocEntrySize = 40;
inline constexpr std::size_t kHeaderChecksumSize = 8;
inline constexpr std::size_t kMinFileSize = kHeaderSize + kHeaderChecksumSize;

// A cache line: payloads may be read in place as any scalar type.
inline constexpr std::uint64_t kAlignment = 64;

// Offsets within the header.
inline constexpr std::size_t kVersionAt = 8;
inline constexpr std::size_t kFileFlagsAt = 12;
inline constexpr std::size_t kFileSizeAt = 16;
inline constexpr std::size_t kSectionCountAt = 24;
inline constexpr std::size_t kReservedAt = 28;

// Offsets within an entry of the table of contents.
inline constexpr std::size_t kEntryKindAt = 0;
inline constexpr std::size_t kEntryOrdinalAt = 4;
inline constexpr std::size_t kEntryFlagsAt = 8;
inline constexpr std::size_t kEntryReservedAt = 12;
inline constexpr std::size_t kEntryOffsetAt = 16;
inline constexpr std::size_t kEntryLengthAt = 24;
inline constexpr std::size_t kEntryChecksumAt = 32;

// The low half of either flags word changes how the file must be read: a reader refuses a bit that
// it does not know. The high half does not.
inline constexpr std::uint32_t kCriticalFlags = 0x0000FFFF;
// Of a section: a reader that does not know the kind must refuse the file.
inline constexpr std::uint32_t kMustUnderstand = 1;

// The kinds of format version 1 (their names are in hotstart/container.py). Zero is no kind.
inline constexpr std::uint32_t kFirstKind = 1;
inline constexpr std::uint32_t kLastKnownKind = 8;

inline constexpr std::uint64_t align_up(std::uint64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

// Where the header checksum sits, which covers every byte before it.
inline constexpr std::uint64_t header_checksum_at(std::uint64_t sections) {
  return kHeaderSize + sections * kTocEntrySize;
}

struct SectionInfo {
  std::uint32_t kind = 0;
  std::uint32_t ordinal = 0;
  std::uint32_t flags = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
};

}  // namespace hotstart
