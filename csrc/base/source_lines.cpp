// See source_lines.h. The rules are those of tokenize.open() and io's universal newlines: a BOM is
// dropped, "\r\n" and "\r" become "\n", only these end a line, and a missing final newline is
// added.
#include "base/source_lines.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace hotstart {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

bool names_utf8(std::string_view name, bool bom) {
  std::string lower;
  for (const char c : name) {
    lower.push_back(c == '_' ? '-' : (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c));
  }
  // Beside a BOM some Python versions accept only "utf-8" and call "utf8" an encoding problem.
  return lower == "utf-8" || (lower == "utf8" && !bom);
}

// True if this line cannot make Python read the file as anything but UTF-8. Errs on the side of
// false: the caller then asks Python itself.
bool line_keeps_utf8(std::string_view line, bool bom) {
  if (line.find('\0') != line.npos) return false;  // some Python versions refuse the file
  const std::size_t start = line.find_first_not_of(" \t\f");
  if (start == line.npos || line[start] != '#') return true;
  std::size_t at = start;
  do {
    at = line.find("coding", at);
    if (at == line.npos) return true;
    at += 6;
  } while (at >= line.size() || (line[at] != ':' && line[at] != '='));
  const std::size_t begin = line.find_first_not_of(" \t", at + 1);
  if (begin == line.npos || line.find('\r') < line.size() - 1) return false;
  std::size_t end = begin;
  while (end < line.size() && is_name_char(line[end])) ++end;
  return names_utf8(line.substr(begin, end - begin), bom);
}

// The first two lines, split at "\n" alone as tokenize.detect_encoding() does.
bool head_keeps_utf8(std::string_view text, bool bom) {
  for (int i = 0; i < 2; ++i) {
    const std::size_t end = text.find('\n');
    if (!line_keeps_utf8(text.substr(0, end), bom)) return false;
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return true;
}

std::string with_plain_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t cr = std::min(text.find('\r', at), text.size());
    out.append(text, at, cr - at);
    if (cr == text.size()) break;
    out.push_back('\n');
    at = cr + (cr + 1 < text.size() && text[cr + 1] == '\n' ? 2 : 1);
  }
  return out;
}

// Where each line begins, and at the end where the text ends.
std::vector<std::size_t> line_starts(std::string_view text) {
  std::vector<std::size_t> starts{0};
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos;) starts.push_back(++at);
  return starts;
}

// One bound of a Python slice over `count` items.
std::size_t slice_bound(std::int64_t line, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  // Compared before the subtraction, so that no value overflows.
  if (line > size) return count;
  if (line <= -size) return 0;
  const std::int64_t index = line - 1;
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

// The length of the UTF-8 sequence at `at`, or 0 if it is not valid.
std::size_t sequence_length(const unsigned char* at, std::size_t left) {
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return i < left && at[i] >= low && at[i] <= high;
  };
  const unsigned lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead < 0xF0) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead > 0xF4) return 0;
  const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
  return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
}

}  // namespace

bool is_valid_utf8(Bytes text) {
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t word = 0;
    if (text.size() - at >= sizeof word) {
      std::memcpy(&word, data + at, sizeof word);
      if ((word & 0x8080808080808080U) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const std::size_t length = sequence_length(data + at, text.size() - at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::optional<std::vector<Sha256Digest>> hash_source_spans(Bytes file,
                                                           std::span<const LineSpan> spans) {
  std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  const bool bom = text.starts_with(kBom);
  if (bom) text.remove_prefix(kBom.size());
  if (text.empty() || !head_keeps_utf8(text, bom) || !is_valid_utf8(as_bytes(text))) return {};

  std::string copy;
  if (text.find('\r') != text.npos) text = copy = with_plain_newlines(text);
  if (!text.ends_with('\n')) text = copy = std::string(text) + '\n';

  const auto starts = line_starts(text);
  const std::size_t count = starts.size() - 1;
  std::vector<Sha256Digest> digests;
  digests.reserve(spans.size());
  for (const LineSpan& span : spans) {
    const std::size_t first = slice_bound(span.first, count);
    const std::size_t last = std::max(first, slice_bound(span.last, count));
    digests.push_back(sha256(as_bytes(text.substr(starts[first], starts[last] - starts[first]))));
  }
  return digests;
}

}  // namespace hotstart
