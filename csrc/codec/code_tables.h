// Checks of the byte tables inside a code object, as CPython 3.10 to 3.14 read them. No Python
// here.
//
// CPython parses these tables without looking at their end, so a table that ends inside an entry
// would make co_positions() or a traceback read past the bytes. Each function answers null for a
// sound table, else what is wrong. Pure functions, any thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

// Each byte of a word on its own: bit 7 of every byte, the same small number in every byte.
inline constexpr std::uint64_t kHeads = 0x8080808080808080U;
inline constexpr std::uint64_t in_every_byte(std::uint64_t value) {
  return 0x0101010101010101U * value;
}

inline std::uint64_t load_word(const std::uint8_t* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline constexpr std::ptrdiff_t kBlock = 64, kLookAhead = 16;

// Of each byte of a block one bit: whether it is a head, and whether its kind would be so or more.
struct Block {
  std::uint64_t heads = 0, from_10 = 0, from_13 = 0, is_15 = 0;

  bool operator==(const Block&) const = default;
};

// Bits 3 to 6 of a head are its kind. Adding this to them carries into bit 7 from kind n on.
inline constexpr std::uint8_t carry_from(unsigned n) {
  return static_cast<std::uint8_t>(128 - (n << 3));
}

inline Block look_at_block_portably(const std::uint8_t* at) {
  const auto top_bits = [](std::uint64_t bytes) {
    return ((bytes & kHeads) * 0x0002040810204081U) >> 56;
  };
  Block block;
  for (int done = 0; done < kBlock; done += 8) {
    const std::uint64_t bytes = load_word(at + done);
    const std::uint64_t kinds = bytes & in_every_byte(15 << 3);
    block.heads |= top_bits(bytes) << done;
    block.from_10 |= top_bits(kinds + in_every_byte(carry_from(10))) << done;
    block.from_13 |= top_bits(kinds + in_every_byte(carry_from(13))) << done;
    block.is_15 |= top_bits(kinds + in_every_byte(carry_from(15))) << done;
  }
  return block;
}

#if defined(__SSE2__)
inline Block look_at_block(const std::uint8_t* at) {
  const auto top_bits = [](__m128i bytes) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(bytes)));
  };
  const auto every_byte = [](std::uint8_t value) {
    return _mm_set1_epi8(static_cast<char>(value));
  };
  Block block;
  for (int done = 0; done < kBlock; done += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + done));
    const __m128i kinds = _mm_and_si128(bytes, every_byte(15 << 3));
    block.heads |= top_bits(bytes) << done;
    block.from_10 |= top_bits(_mm_add_epi8(kinds, every_byte(carry_from(10)))) << done;
    block.from_13 |= top_bits(_mm_add_epi8(kinds, every_byte(carry_from(13)))) << done;
    block.is_15 |= top_bits(_mm_add_epi8(kinds, every_byte(carry_from(15)))) << done;
  }
  return block;
}
#else
inline Block look_at_block(const std::uint8_t* at) { return look_at_block_portably(at); }
#endif

// One entry of kind 14 (four numbers) or 13 (one). The byte that ends a number has neither bit 7
// nor bit 6; enough of them must come before the next head.
inline bool number_entry_sound(const std::uint8_t* entry, const std::uint8_t* end) {
  constexpr std::uint64_t kMore = 0x4040404040404040U, kSixBytes = (std::uint64_t{1} << 48) - 1;
  const bool four = ((*entry++ >> 3) & 15U) == 14;
  const std::uint64_t word = load_word(entry);
  const std::uint64_t heads = word & kHeads;
  const std::uint64_t ends = ~(word | heads >> 1) & kMore;
  std::uint64_t rest = ends & (ends - 1);
  rest &= rest - 1;
  rest &= rest - 1;
  const std::uint64_t left = four ? rest : ends & kSixBytes;
  const std::uint64_t last = left & (~left + 1);
  if (last != 0 && last < (heads & (~heads + 1)) - 1) return true;
  return skip_varints(four ? 4 : 1, entry, end);
}

// A block at `at`, which has kLookAhead bytes more. An entry is a head, a byte with bit 7 set, and
// data bytes without. Kinds 0 to 9 have at least one data byte, 10 to 12 two, 13 and 14 numbers of
// variable length, 15 none.
inline bool block_sound(const std::uint8_t* at, const std::uint8_t* end) {
  const Block block = look_at_block(at);
  const std::uint64_t last_two =
      (std::uint64_t{at[kBlock]} >> 7 << 62) | (std::uint64_t{at[kBlock + 1]} >> 7 << 63);
  const std::uint64_t next = block.heads >> 1 | (last_two & (std::uint64_t{1} << 62)) << 1;
  const std::uint64_t after = block.heads >> 2 | last_two;
  const std::uint64_t data = block.heads & ~block.from_13;
  if ((data & (next | (block.from_10 & after))) != 0) return false;
  for (std::uint64_t numbers = block.heads & block.from_13 & ~block.is_15; numbers != 0;
       numbers &= numbers - 1)
    if (!number_entry_sound(at + std::countr_zero(numbers), end)) return false;
  return true;
}

// By blocks rather than by entries, for these tables are a third of a code object.
inline bool locations_sound(const std::uint8_t* at, const std::uint8_t* end) {
  if (at != end && (*at & 0x80U) == 0) return false;
  for (; end - at >= kBlock + kLookAhead; at += kBlock)
    if (!block_sound(at, end)) return false;
  // The end of the table counts as a head, which no entry may reach.
  std::uint8_t rest[2 * kBlock + kLookAhead];
  std::memset(rest, 0xf8, sizeof rest);
  const std::ptrdiff_t size = end - at;
  if (size > 0) std::memcpy(rest, at, static_cast<std::size_t>(size));
  return block_sound(rest, rest + size) &&
         (size <= kBlock || block_sound(rest + kBlock, rest + size));
}

}  // namespace detail

inline const char* check_line_table(Bytes table, std::uint16_t magic) {
  if (magic < kFirstMagic311) return table.size() % 2 == 0 ? nullptr : "a line table of odd length";
  const auto* at = reinterpret_cast<const std::uint8_t*>(table.data());
  const auto* end = at + table.size();
  return detail::locations_sound(at, end) ? nullptr : "a line table with a broken entry";
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
