// The samples of a recording, window by window, in the memory of one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/sound/sound.h"
#include "heed/tensor.h"

namespace heed::tasks {

class SampleWindows {
 public:
  /// Throws Error for a reader of another rate than the model's, and for a recording of fewer samples than
  /// `least`.
  SampleWindows(SoundReader reader, std::int64_t rate, std::int64_t least);

  /// Returns the next `count` samples, fewer at the end.
  std::span<const float> peek(std::int64_t count);
  /// Leaves out the next `count`, which have been seen.
  void skip(std::int64_t count);
  /// How many have been left out.
  std::int64_t position() const { return position_; }
  double seconds(std::int64_t samples) const;
  /// The seconds of the recording, as its header says; those until now where it does not.
  double expected_seconds() const;

 private:
  SoundReader reader_;
  std::vector<float> held_;
  std::int64_t position_ = 0;
};

/// Samples as a tensor [samples].
Tensor tensor_of(std::span<const float> samples);

}  // namespace heed::tasks
