// SHA-256's block loop on x86's SHA extensions, and the CPUID question whether they are there.
//
// Compiled with the extensions enabled for one function only, so that the library still runs on a
// CPU without them. Owns no state.
#include "base/sha256.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

namespace hotstart::detail {
namespace {

bool cpu_has_sha() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kSsse3 = 1U << 9, kSse41 = 1U << 19;
  if ((c & kSsse3) == 0 || (c & kSse41) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kSha = 1U << 29;
  return (b & kSha) != 0;
}

// The instructions keep the state as (A,B,E,F) and (C,D,G,H), not in the order of the standard.
__attribute__((target("sha,ssse3,sse4.1"))) void sha_ni_blocks(Sha256State& state,
                                                               const std::byte* data,
                                                               std::size_t blocks) {
  auto* words = reinterpret_cast<__m128i*>(state.data());
  const __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(words), 0xB1);
  const __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(words + 1), 0x1B);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);

  for (; blocks > 0; --blocks, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[16];  // the message schedule, four words each
    for (int i = 0; i < 16; ++i) {
      if (i < 4) {
        const __m128i raw = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i);
        w[i] = _mm_shuffle_epi8(raw, big_endian);
      } else {
        const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                          _mm_alignr_epi8(w[i - 1], w[i - 2], 4));
        w[i] = _mm_sha256msg2_epu32(sum, w[i - 1]);
      }
      const auto* constants = reinterpret_cast<const __m128i*>(kSha256RoundConstants.data());
      const __m128i mixed = _mm_add_epi32(w[i], _mm_loadu_si128(constants + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, mixed);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(mixed, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(words, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(words + 1, _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace

Sha256Blocks sha256_hardware() { return cpu_has_sha() ? sha_ni_blocks : nullptr; }

}  // namespace hotstart::detail

#else

namespace hotstart::detail {

Sha256Blocks sha256_hardware() { return nullptr; }

}  // namespace hotstart::detail

#endif
