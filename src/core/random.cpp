// Philox 4x32-10 (Salmon et al. 2011), and normal numbers by Box and Muller.
#include "heed/random.h"

#include <cmath>

namespace heed {

std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                        std::uint64_t counter_high) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low),
                c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high),
                c3 = static_cast<std::uint32_t>(counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0;
    const std::uint64_t p1 = 0xCD9E8D57ull * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

float RandomStream::normal(std::uint64_t index) const {
  const float u = uniform_from_bits(word(2 * index)) + 0x1.0p-25f;  // never 0
  const float v = uniform_from_bits(word(2 * index + 1));
  return std::sqrt(-2.0f * std::log(u)) * std::cos(6.28318530717958647692f * v);
}

}  // namespace heed
