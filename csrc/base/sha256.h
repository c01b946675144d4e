// SHA-256 (FIPS 180-4) of one contiguous piece of memory. No Python here.
//
// For content ids and wherever a checksum is shown to a user. Nothing is kept between calls, so any
// number of threads may hash at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace hotstart {

using Sha256Digest = std::array<std::uint8_t, 32>;

// Uses the CPU's SHA extensions where it has them.
Sha256Digest sha256(Bytes data);

// The plain C++ path, whatever the CPU: the twin that tests compare with.
Sha256Digest sha256_portable(Bytes data);

// "sha-ni" or "portable": what sha256() uses on this machine.
const char* sha256_implementation();

std::string to_hex(const Sha256Digest& digest);

namespace detail {

// Eight chaining words, and the loop over whole 64-byte blocks that updates them.
using Sha256State = std::array<std::uint32_t, 8>;
using Sha256Blocks = void (*)(Sha256State& state, const std::byte* data, std::size_t blocks);

extern const std::array<std::uint32_t, 64> kSha256RoundConstants;

// The hardware loop, or null where this CPU (or this build) has none.
Sha256Blocks sha256_hardware();

}  // namespace detail
}  // namespace hotstart
