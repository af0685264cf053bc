// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). The n-th number of a stream depends only on (seed, stream, n), so dropout and
// initialization are the same for any number of threads.
#pragma once

#include <array>
#include <cstdint>

#include "heed/export.h"

namespace HEED_API heed {

/// One Philox4x32-10 block: four random 32-bit words for a 64-bit key and a 128-bit counter.
std::array<std::uint32_t, 4> philox4x32(std::uint64_t key, std::uint64_t counter_low,
                                        std::uint64_t counter_high);

/// A float in [0, 1) from a random word (24 bits).
inline float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1.0p-24f; }

/// A random stream for one operation: element i is word i % 4 of block (counter_low = i / 4, counter_high =
/// stream).
/// Threads: several may use one object at once.
struct RandomStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint32_t word(std::uint64_t index) const { return philox4x32(seed, index / 4, stream)[index % 4]; }
  float uniform(std::uint64_t index) const { return uniform_from_bits(word(index)); }
  /// Standard normal (Box-Muller on words 2i and 2i+1).
  float normal(std::uint64_t index) const;
};

/// Returns streams in order. Its state is two integers, which checkpoints store.
/// Threads: one at a time.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) : seed_(seed) {}
  RandomStream next() { return {seed_, next_stream_++}; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t position() const { return next_stream_; }
  void seek(std::uint64_t position) { next_stream_ = position; }

 private:
  std::uint64_t seed_;
  std::uint64_t next_stream_ = 0;
};

}  // namespace heed
