// Hashes of line ranges of Python source, with the line semantics of inspect and linecache.
//
// Only UTF-8 source is done here. Whatever Python's tokenizer would read in another way (another
// declared encoding, invalid UTF-8, a file with no lines, a NUL near the top) is left to the
// caller, which asks Python. Stateless. No Python here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/sha256.h"

namespace hotstart {

// A Python slice of 1-based line numbers: lines[first - 1 : last - 1].
struct LineSpan {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// SHA-256 of each span's text as UTF-8 with "\n" line ends, or nothing where Python must decide.
std::optional<std::vector<Sha256Digest>> hash_source_spans(Bytes file,
                                                           std::span<const LineSpan> spans);

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_valid_utf8(Bytes text);

}  // namespace hotstart
