// SHA-256: padding, the portable block loop, and the choice between it and the hardware's.
//
// Owns no state. The choice is made once, on first use (a thread-safe local static).
#include "base/sha256.h"

#include <bit>
#include <cstring>

namespace hotstart {
namespace detail {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) const std::array<std::uint32_t, 64> kSha256RoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace detail

namespace {

using detail::kSha256RoundConstants;
using detail::Sha256Blocks;
using detail::Sha256State;

constexpr std::size_t kBlock = 64;
constexpr Sha256State kInitial = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t load_be32(const std::byte* at) {
  std::uint32_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return __builtin_bswap32(word);
}

std::array<std::uint32_t, 64> message_schedule(const std::byte* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) w[t] = load_be32(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t a = w[t - 15];
    const std::uint32_t b = w[t - 2];
    const std::uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const std::uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  return w;
}

void compress(Sha256State& state, const std::byte* block) {
  const auto w = message_schedule(block);
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256RoundConstants[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const Sha256State mixed = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < mixed.size(); ++i) state[i] += mixed[i];
}

void portable_blocks(Sha256State& state, const std::byte* data, std::size_t blocks) {
  for (; blocks > 0; --blocks, data += kBlock) compress(state, data);
}

// The last partial block, the 0x80 mark, zeros and the length in bits: one block or two.
std::size_t pad(Bytes data, std::array<std::byte, 2 * kBlock>& out) {
  const std::size_t tail = data.size() % kBlock;
  out.fill(std::byte{0});
  if (tail != 0) std::memcpy(out.data(), data.data() + data.size() - tail, tail);
  out[tail] = std::byte{0x80};
  const std::size_t blocks = tail + 9 <= kBlock ? 1 : 2;
  const std::uint64_t bits = __builtin_bswap64(static_cast<std::uint64_t>(data.size()) * 8);
  std::memcpy(out.data() + blocks * kBlock - sizeof bits, &bits, sizeof bits);
  return blocks;
}

Sha256Digest digest_with(Sha256Blocks run, Bytes data) {
  Sha256State state = kInitial;
  run(state, data.data(), data.size() / kBlock);
  std::array<std::byte, 2 * kBlock> last;
  run(state, last.data(), pad(data, last));
  Sha256Digest digest;
  for (std::size_t i = 0; i < state.size(); ++i) {
    const std::uint32_t word = __builtin_bswap32(state[i]);
    std::memcpy(digest.data() + 4 * i, &word, sizeof word);
  }
  return digest;
}

Sha256Blocks hardware() {
  static const Sha256Blocks chosen = detail::sha256_hardware();
  return chosen;
}

}  // namespace

Sha256Digest sha256(Bytes data) {
  return digest_with(hardware() != nullptr ? hardware() : portable_blocks, data);
}

Sha256Digest sha256_portable(Bytes data) { return digest_with(portable_blocks, data); }

const char* sha256_implementation() { return hardware() != nullptr ? "sha-ni" : "portable"; }

std::string to_hex(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

}  // namespace hotstart
