// Mono samples at another rate, by libsoxr.
#pragma once

#include <soxr.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "sound/decoder.h"

namespace heed::sound {

class Resampler {
 public:
  /// `decoder` must outlive this.
  Resampler(Decoder& decoder, std::int64_t rate);

  /// Writes the next samples and returns their number, fewer only at the end. N samples of the decoder become
  /// ceil(N · ratio) in all. Errors as the decoder's.
  std::size_t read(std::span<float> samples);

 private:
  struct Delete {
    void operator()(soxr* resampler) const { soxr_delete(resampler); }
  };
  std::size_t supply(soxr_in_t* data, std::size_t most);

  Decoder& decoder_;
  std::int64_t rate_;
  std::unique_ptr<soxr, Delete> soxr_;
  std::vector<float> input_;
  std::exception_ptr failure_;  // exceptions must not pass through libsoxr
  std::int64_t position_ = 0;
};

}  // namespace heed::sound
