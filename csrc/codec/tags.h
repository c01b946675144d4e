// The codec's bytes: one tag per value, and the string table's header. No Python here.
//
// A stream is one value. A value is a tag byte and what the table below says; "n" is an unsigned
// LEB128 integer, "str" the index of a string of the table as LEB128, "blob" an n and n bytes.
//
//   kNone, kFalse, kTrue, kEllipsis   nothing
//   kInt                              n, zigzag: -2^63 <= value < 2^63
//   kBigInt                           blob: two's complement, little-endian, as short as possible
//   kFloat, kComplex                  one or two IEEE-754 doubles, 8 bytes each
//   kString                           str
//   kBytes                            blob
//   kTuple, kList                     n, then n values
//   kSet, kFrozenSet                  n, then n values, in the order of their bytes with strings
//                                     spelled out, so that hash randomisation does not show
//   kDict                             n, then n times key and value, in insertion order
//   kSlice                            three values
//   kHook                             str (the hook's tag), one value (its payload)
//   kCode                             u16 the magic number of the Python that wrote it; n and n
//                                     values: the constants; n flags, argcount, posonlyargcount,
//                                     kwonlyargcount, stacksize; zigzag firstlineno; str filename,
//                                     name, qualname; names, varnames, cellvars, freevars, each n
//                                     and n str; n and n hidden locals (places among all locals,
//                                     rising); blob line table, exception table, code
//
// The string table: "hsc", a version byte, u32 count, u32 entry[count], then the heap. An entry is
// (end of the string in the heap) << 2 | StringKind.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hotstart::codec {

enum class Tag : std::uint8_t {
  kNone = 1,
  kFalse = 2,
  kTrue = 3,
  kEllipsis = 4,
  kInt = 5,
  kBigInt = 6,
  kFloat = 7,
  kComplex = 8,
  kString = 9,
  kBytes = 10,
  kTuple = 11,
  kList = 12,
  kDict = 13,
  kSet = 14,
  kFrozenSet = 15,
  kSlice = 16,
  kCode = 17,
  kHook = 18,
};

// Code units of one, two or four bytes, as few as the string can do with. A name is Latin-1 of only
// letters, digits and underscores: the reader interns it, as CPython does with such constants.
enum class StringKind : std::uint8_t { kLatin1 = 0, kUcs2 = 1, kUcs4 = 2, kName = 3 };

inline constexpr char kTableMagic[] = {'h', 's', 'c'};
inline constexpr std::uint8_t kFormatVersion = 1;
inline constexpr std::size_t kTableHeader = 8;

inline constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

inline constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

}  // namespace hotstart::codec
