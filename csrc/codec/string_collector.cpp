#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/limits.h"
#include "codec/encode.h"
#include "codec/tags.h"

namespace hotstart::codec {
namespace {

constexpr std::size_t kFirstSlots = 64;

std::size_t byte_size(PyObject* text) {
  return static_cast<std::size_t>(PyUnicode_GET_LENGTH(text)) * PyUnicode_KIND(text);
}

bool same_text(PyObject* a, PyObject* b) {
  return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) &&
         PyUnicode_KIND(a) == PyUnicode_KIND(b) &&
         std::memcmp(PyUnicode_DATA(a), PyUnicode_DATA(b), byte_size(a)) == 0;
}

std::uint32_t hash_of(PyObject* text) {
  // Of an exact str, so this cannot fail. Before 3.12 it also makes the text's bytes ready.
  return static_cast<std::uint32_t>(PyObject_Hash(text));
}

// Letters, digits and underscores: what CPython interns among constants.
constexpr std::array<bool, 256> kNameBytes = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
    table[static_cast<std::uint8_t>(c)] = true;
  return table;
}();

bool like_a_name(Bytes latin1) {
  return std::all_of(latin1.begin(), latin1.end(),
                     [](std::byte byte) { return kNameBytes[static_cast<std::uint8_t>(byte)]; });
}

StringKind kind_of(PyObject* text) {
  if (PyUnicode_KIND(text) == PyUnicode_2BYTE_KIND) return StringKind::kUcs2;
  if (PyUnicode_KIND(text) == PyUnicode_4BYTE_KIND) return StringKind::kUcs4;
  const std::string_view latin1(static_cast<const char*>(PyUnicode_DATA(text)), byte_size(text));
  return like_a_name(as_bytes(latin1)) ? StringKind::kName : StringKind::kLatin1;
}

char* put_u32(char* at, std::size_t value) {
  const auto narrow = static_cast<std::uint32_t>(value);
  std::memcpy(at, &narrow, sizeof narrow);
  return at + sizeof narrow;
}

}  // namespace

bool StringCollector::index_of(PyObject* text, std::uint32_t& index) {
  if (2 * strings_.size() >= slots_.size()) grow();
  const std::uint32_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.text == nullptr) {
      if (!add(text, hash, slot)) return false;
    } else if (slot.text != text && (slot.hash != hash || !same_text(slot.text, text))) {
      continue;
    }
    index = slot.index;
    return true;
  }
}

bool StringCollector::add(PyObject* text, std::uint32_t hash, Slot& slot) {
  const std::size_t size = byte_size(text);
  if (size > limits::kMaxStringHeap - heap_size_) return false;
  heap_size_ += size;
  slot = {text, hash, static_cast<std::uint32_t>(strings_.size())};
  strings_.push_back(Ref::share(text));
  return true;
}

void StringCollector::grow() {
  const std::size_t size = slots_.empty() ? kFirstSlots : 2 * slots_.size();
  std::vector<Slot> old(size);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.text == nullptr) continue;
    std::size_t at = slot.hash & (size - 1);
    while (slots_[at].text != nullptr) at = (at + 1) & (size - 1);
    slots_[at] = slot;
  }
}

Ref StringCollector::serialise() const {
  const std::size_t size = kTableHeader + 4 * strings_.size() + heap_size_;
  Ref made = Ref::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!made) return made;
  char* at = PyBytes_AS_STRING(made.get());
  std::memcpy(at, kTableMagic, sizeof kTableMagic);
  at[3] = static_cast<char>(kFormatVersion);
  at = put_u32(at + 4, strings_.size());
  char* heap = at + 4 * strings_.size();
  std::size_t end = 0;
  for (const Ref& text : strings_) {
    std::memcpy(heap + end, PyUnicode_DATA(text.get()), byte_size(text.get()));
    end += byte_size(text.get());
    at = put_u32(at, end << 2 | static_cast<std::size_t>(kind_of(text.get())));
  }
  return made;
}

}  // namespace hotstart::codec
