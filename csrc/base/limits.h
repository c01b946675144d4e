// Every cap of the codec in one place, each with its reason. No Python here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hotstart::limits {

// Containers and code objects inside one another. Real values stay under 30; a recursive C++ call,
// CPython's hash, comparison and deallocation of the result each use the C stack once per level.
inline constexpr unsigned kMaxDepth = 500;

// Bytes of all strings of one table: an entry keeps its end in 30 bits.
inline constexpr std::size_t kMaxStringHeap = (std::size_t{1} << 30) - 1;

// Bytes of one code object's instructions, line table or exception table: CPython counts them in an
// int, and multiplies.
inline constexpr std::size_t kMaxCodeBytes = std::size_t{1} << 28;

// Slots of a frame's value stack: CPython adds the locals and multiplies by eight in an int.
inline constexpr std::uint64_t kMaxStackSize = std::uint64_t{1} << 24;

// The code constructor compares each cell variable with each local: a quadratic loop. Comparisons
// allowed for one stream: a fixed part plus so many for each byte of it.
inline constexpr std::uint64_t kFreeLocalsWork = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kLocalsWorkPerByte = 64;

// Keys of one dict or set that hash alike. Python's hash of a number is not randomised, so a file
// could otherwise make every insertion walk through all the others.
inline constexpr std::uint32_t kMaxEqualHashes = 64;

// Segments of an error's path before its middle is left out.
inline constexpr std::size_t kMaxPathSegments = 24;

}  // namespace hotstart::limits
