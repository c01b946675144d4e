// The caps of the container, each with its reason. No Python here.
#pragma once

#include <cstdint>

namespace hotstart {

// Opening checks every entry of the table of contents, so the count bounds the work of an open:
// 65,536 entries are 2.6 MB and about a millisecond. A package has tens of sections; a large model
// with a thousand compiled regions and three sections for each stays far below.
inline constexpr std::uint32_t kMaxSections = 65536;

// Files are mapped whole, and offsets travel through signed types (off_t, Py_ssize_t). 2^47 is what
// a process of a 64-bit machine can map at all.
inline constexpr std::uint64_t kMaxFileSize = std::uint64_t{1} << 47;

}  // namespace hotstart
