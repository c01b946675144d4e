// XXH64 after the algorithm's public specification (doc/xxhash_spec.md of Cyan4973/xxHash).
#include "base/xxh64.h"

#include <bit>
#include <cstring>

namespace hotstart {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrime1 + kPrime4;
}

// Consumes whole stripes of 32 bytes, in four independent lanes.
std::uint64_t stripes(const std::byte*& at, const std::byte* end, std::uint64_t seed) {
  std::uint64_t v1 = seed + kPrime1 + kPrime2;
  std::uint64_t v2 = seed + kPrime2;
  std::uint64_t v3 = seed;
  std::uint64_t v4 = seed - kPrime1;
  for (; end - at >= 32; at += 32) {
    v1 = round(v1, load<std::uint64_t>(at));
    v2 = round(v2, load<std::uint64_t>(at + 8));
    v3 = round(v3, load<std::uint64_t>(at + 16));
    v4 = round(v4, load<std::uint64_t>(at + 24));
  }
  std::uint64_t hash = std::rotl(v1, 1) + std::rotl(v2, 7) + std::rotl(v3, 12) + std::rotl(v4, 18);
  for (const std::uint64_t lane : {v1, v2, v3, v4}) hash = merge(hash, lane);
  return hash;
}

std::uint64_t tail(std::uint64_t hash, const std::byte* at, const std::byte* end) {
  for (; end - at >= 8; at += 8) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (end - at >= 4) {
    hash = std::rotl(hash ^ (load<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at) {
    hash = std::rotl(hash ^ (static_cast<std::uint64_t>(*at) * kPrime5), 11) * kPrime1;
  }
  return hash;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint64_t xxh64(Bytes data, std::uint64_t seed) {
  const std::byte* at = data.data();
  const std::byte* end = at + data.size();
  std::uint64_t hash = data.size() >= 32 ? stripes(at, end, seed) : seed + kPrime5;
  return avalanche(tail(hash + data.size(), at, end));
}

}  // namespace hotstart
