// Rotary position embedding, RoPE (Su et al. 2021, "RoFormer"): the rotation frequencies of pairs of
// dimensions, and the ways of scaling them for texts longer than those of training. The numbers equal those
// of Hugging Face transformers, because checkpoints were trained with them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/nn/positions.h"
#include "heed/ops/rotary.h"

namespace HEED_API heed {

enum class RotaryScalingKind {
  none,
  linear,        ///< all frequencies divided by `factor` (Chen et al. 2023, position interpolation)
  dynamic,       ///< theta grows with the length once it is beyond `original_length` (dynamic NTK)
  llama3,        ///< low frequencies divided by `factor`, high ones kept, a linear ramp between
  yarn,          ///< a ramp by number of rotations; queries and keys scaled up (Peng et al. 2023)
  proportional,  ///< only the first pairs rotate, frequencies divided by `factor` (Gemma)
  longrope,      ///< a factor per frequency, others beyond `original_length` (Ding et al. 2024)
};

/// How frequencies are scaled. Each member is used only by the kinds that its comment names.
struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::none;
  double factor = 1;                 // all kinds
  double part = 1;                   // proportional: fraction of the head that rotates
  std::int64_t original_length = 0;  // trained length: dynamic, llama3, yarn, longrope
  double low_freq_factor = 1;        // llama3
  double high_freq_factor = 4;       // llama3
  double beta_fast = 32;  // yarn: pairs with more rotations than this in the original length are kept
  double beta_slow = 1;   // yarn: pairs with fewer rotations are divided by `factor`
  bool truncate = true;   // yarn: the ends of the ramp are rounded to integers
  std::optional<double> mscale = {};  // yarn: the two mscales give the attention factor
  std::optional<double> mscale_all_dim = {};
  std::optional<double> attention_factor = {};  // yarn, longrope; computed from `factor` when absent
  std::vector<double> short_factor = {};        // longrope, r/2 numbers each
  std::vector<double> long_factor = {};
};

struct RotaryOptions {
  /// r: the rotary dims of a head; the others are unchanged. An odd number rotates one more dimension, with
  /// the frequencies of the odd number, as in GPT-NeoX.
  std::int64_t dim = 0;
  double theta = 10000;
  RotaryLayout layout = RotaryLayout::halves;
  RotaryScaling scaling = {};
};

/// Radians per position of each pair of dims, for a text of `length` tokens: theta^(-2i / r) for 2i = 0, 2,
/// ... < r, scaled.
std::vector<float> rotary_frequencies(const RotaryOptions& options, std::int64_t length);
/// The factor on cosines and sines, which scales queries and keys (YaRN, LongRoPE); else 1.
double rotary_attention_factor(const RotaryScaling& scaling);

/// Rotary positions for texts of any length: cosines and sines are computed when a text first needs them.
/// Threads: several may use one object at once.
class RotaryPositions {
 public:
  /// Throws Error when dim is 0, or when a setting that the scaling needs is missing.
  explicit RotaryPositions(RotaryOptions options);
  ~RotaryPositions();
  RotaryLayout layout() const { return options_.layout; }
  /// Cosines, then sines, times the attention factor, for `time` tokens: f32 [T, r], or [B, T, r]
  /// where rows have their own positions.
  Tensor cos_sin(const PositionIds& positions, std::int64_t batch, std::int64_t time) const;
  /// Rotates queries or keys [B, H, T, d] of the tokens at `positions`.
  Tensor rotate(const Tensor& x, const PositionIds& positions) const;

 private:
  struct Tables;
  RotaryOptions options_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace heed
