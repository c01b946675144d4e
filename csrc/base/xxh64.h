// XXH64, the fast 64-bit checksum of sections and headers. No Python here.
//
// It finds accidents (a torn page, a flipped bit), not attacks: whoever can write the file can
// write the checksum too. Stateless, so any number of threads may use it.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace hotstart {

std::uint64_t xxh64(Bytes data, std::uint64_t seed = 0);

}  // namespace hotstart
