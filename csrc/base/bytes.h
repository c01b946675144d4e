// Bounds-checked reading and appending of little-endian bytes. No Python here.
//
// Cursor borrows the bytes it reads: whoever made it keeps them alive. Nothing here locks; a Cursor
// or Sink belongs to one thread.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hotstart {

// The formats are little-endian and are read in place.
static_assert(std::endian::native == std::endian::little,
              "hotstart's formats are read in place on little-endian machines only");

using Bytes = std::span<const std::byte>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Reads forward through borrowed bytes. A read past the end returns false, changes nothing and
// never looks at the missing bytes.
class Cursor {
 public:
  explicit Cursor(Bytes data) : begin_(data.data()), at_(begin_), end_(begin_ + data.size()) {}

  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  std::size_t remaining() const { return static_cast<std::size_t>(end_ - at_); }
  bool done() const { return at_ == end_; }

  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  [[nodiscard]] bool read(T& out) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&out, at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // An unsigned LEB128 integer. Refuses more than 64 bits.
  [[nodiscard]] bool read_varint(std::uint64_t& out) {
    if (remaining() >= 2) {
      const auto first = static_cast<std::uint8_t>(at_[0]);
      const auto second = static_cast<std::uint8_t>(at_[1]);
      // Nearly all have one byte or two, but which of the two nobody can predict: no branch on it.
      if ((first & second & 0x80U) == 0) {
        const std::uint64_t more = first >> 7U;
        out = (first & 0x7fU) | ((std::uint64_t{second} << 7U) & (0 - more));
        at_ += 1 + more;
        return true;
      }
    }
    return read_long_varint(out);
  }

  // The next `size` bytes, borrowed.
  [[nodiscard]] bool read_bytes(std::uint64_t size, Bytes& out) {
    if (size > remaining()) return false;
    out = {at_, static_cast<std::size_t>(size)};
    at_ += size;
    return true;
  }

 private:
  bool read_long_varint(std::uint64_t& out) {
    std::uint64_t value = 0;
    const std::byte* at = at_;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at == end_) return false;
      const auto byte = static_cast<std::uint8_t>(*at++);
      if (shift == 63 && byte > 1) return false;
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) {
        out = value;
        at_ = at;
        return true;
      }
    }
    return false;
  }

  const std::byte* begin_;
  const std::byte* at_;
  const std::byte* end_;
};

// Appends little-endian bytes to a buffer it owns.
class Sink {
 public:
  template <typename T>
    requires std::integral<T> || std::floating_point<T>
  void write(T value) {
    buffer_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void write_varint(std::uint64_t value) {
    while (value >= 0x80) {
      buffer_.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
      value >>= 7;
    }
    buffer_.push_back(static_cast<char>(value));
  }

  void write_bytes(Bytes data) {
    buffer_.append(reinterpret_cast<const char*>(data.data()), data.size());
  }

  std::size_t size() const { return buffer_.size(); }
  const std::string& buffer() const { return buffer_; }
  std::string take() { return std::move(buffer_); }
  void clear() { buffer_.clear(); }

 private:
  std::string buffer_;
};

}  // namespace hotstart
