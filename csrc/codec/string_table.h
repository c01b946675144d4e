// A checked view of a string table. No Python here.
//
// Borrows the table's bytes. Opening checks the header and the sizes; each entry is checked when it
// is asked for, so opening a large table costs nothing. Read-only after open(), from any thread.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/status.h"
#include "codec/tags.h"

namespace hotstart::codec {

class StringTableView {
 public:
  struct Entry {
    Bytes data;
    StringKind kind;
    unsigned unit;  // bytes of a code unit
  };

  [[nodiscard]] Status open(Bytes table) {
    if (table.size() < kTableHeader) return Status::corrupt(0, "the string table is too short");
    if (std::memcmp(table.data(), kTableMagic, sizeof kTableMagic) != 0)
      return Status::corrupt(0, "not a string table: it does not start with \"hsc\"");
    if (static_cast<std::uint8_t>(table[3]) != kFormatVersion)
      return Status::corrupt(3, "string table of an unknown format version");
    std::uint32_t count = 0;
    std::memcpy(&count, table.data() + 4, sizeof count);
    if (count > (table.size() - kTableHeader) / 4)
      return Status::corrupt(4, "more strings than the table has room for");
    index_ = table.data() + kTableHeader;
    heap_ = table.subspan(kTableHeader + std::size_t{4} * count);
    count_ = count;
    if (end_of(count) != heap_.size())
      return Status::corrupt(kTableHeader, "the strings do not end where the table ends");
    return {};
  }

  std::uint32_t count() const { return count_; }

  // Null when sound, else what is wrong with the entry. `index` must be below count().
  const char* entry(std::uint32_t index, Entry& out) const {
    const std::uint32_t begin = end_of(index);
    const std::uint32_t end = end_of(index + 1);
    const auto kind = static_cast<StringKind>(raw(index) & 3U);
    const std::uint32_t shift = kind == StringKind::kName ? 0 : static_cast<std::uint32_t>(kind);
    if (begin > end || end > heap_.size()) return "a string outside the table";
    if (((end - begin) & ((1U << shift) - 1)) != 0) return "a string that ends inside a character";
    out = {heap_.subspan(begin, end - begin), kind, 1U << shift};
    return kind == StringKind::kUcs4 && !ucs4_sound(out.data) ? "a character above U+10FFFF"
                                                              : nullptr;
  }

  [[nodiscard]] Status check_all() const {
    Entry ignored;
    for (std::uint32_t i = 0; i < count_; ++i)
      if (const char* wrong = entry(i, ignored))
        return Status::corrupt(kTableHeader + std::size_t{4} * i, wrong);
    return {};
  }

 private:
  std::uint32_t raw(std::uint32_t index) const {
    std::uint32_t value = 0;
    std::memcpy(&value, index_ + std::size_t{4} * index, sizeof value);
    return value;
  }

  // Where the first `index` strings end in the heap.
  std::uint32_t end_of(std::uint32_t index) const { return index == 0 ? 0 : raw(index - 1) >> 2; }

  static bool ucs4_sound(Bytes data) {
    for (std::size_t i = 0; i < data.size(); i += 4) {
      std::uint32_t point = 0;
      std::memcpy(&point, data.data() + i, sizeof point);
      if (point > 0x10ffff) return false;
    }
    return true;
  }

  const std::byte* index_ = nullptr;
  Bytes heap_;
  std::uint32_t count_ = 0;
};

}  // namespace hotstart::codec
