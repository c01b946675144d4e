// Checks of the byte tables inside a code object, as CPython 3.10 to 3.14 read them. No Python
// here.
//
// CPython parses these tables without looking at their end, so a table that ends inside an entry
// would make co_positions() or a traceback read past the bytes. Each function answers null for a
// sound table, else what is wrong. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace hotstart::codec {

// Pythons before 3.11 (magic numbers up to 3439) have line tables of pairs and no exception table.
inline constexpr std::uint16_t kFirstMagic311 = 3450;

namespace detail {

inline constexpr unsigned kMaxVarintBytes = 6;  // 6 bits each; CPython shifts a 32-bit integer

// Steps over one of CPython's own variable-length integers: 6 bits a byte, 0x40 means "more".
inline bool skip_varint(const std::uint8_t*& at, const std::uint8_t* end) {
  for (unsigned i = 0; i < kMaxVarintBytes; ++i) {
    if (at == end || (*at & 0x80U) != 0) return false;
    if ((*at++ & 0x40U) == 0) return true;
  }
  return false;
}

inline bool skip_varints(unsigned count, const std::uint8_t*& at, const std::uint8_t* end) {
  while (count-- > 0)
    if (!skip_varint(at, end)) return false;
  return true;
}

// The bytes after the head of an entry of kind 0 to 12 and 15: columns, or nothing.
inline constexpr std::uint8_t kPlainBytes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 0, 0, 0};

inline bool skip_location(const std::uint8_t*& at, const std::uint8_t* end) {
  const std::uint8_t head = *at++;
  if ((head & 0x80U) == 0) return false;
  const unsigned kind = (head >> 3) & 15U;
  if (kind == 14) return skip_varints(4, at, end);
  if (kind == 13) return skip_varints(1, at, end);
  for (unsigned i = kPlainBytes[kind]; i > 0; --i)
    if (at == end || (*at++ & 0x80U) != 0) return false;
  return true;
}

}  // namespace detail

inline const char* check_line_table(Bytes table, std::uint16_t magic) {
  if (magic < kFirstMagic311) return table.size() % 2 == 0 ? nullptr : "a line table of odd length";
  const auto* at = reinterpret_cast<const std::uint8_t*>(table.data());
  const auto* end = at + table.size();
  while (at != end)
    if (!detail::skip_location(at, end)) return "a line table with a broken entry";
  return nullptr;
}

// Entries of four integers: start, length, target, depth and lasti. The first byte of an entry, and
// only that, has bit 7 set.
inline const char* check_exception_table(Bytes table, std::uint16_t magic) {
  if (table.empty()) return nullptr;
  if (magic < kFirstMagic311) return "an exception table in the code of a Python that has none";
  const auto* at = reinterpret_cast<const std::uint8_t*>(table.data());
  const auto* end = at + table.size();
  while (at != end) {
    if ((*at & 0x80U) == 0) return "an exception table with a broken entry";
    const bool more = (*at++ & 0x40U) != 0;
    if ((more && !detail::skip_varint(at, end)) || !detail::skip_varints(3, at, end))
      return "an exception table with a broken entry";
  }
  return nullptr;
}

}  // namespace hotstart::codec
