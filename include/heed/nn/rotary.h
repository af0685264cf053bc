// Rotary positions as a part of a model (Su et al. 2021, "RoFormer"): the frequencies at which pairs of a
// head's elements turn, and the ways of stretching them for texts longer than those of training. The numbers
// are those of Hugging Face's transformers, whose checkpoints were trained with them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heed/nn/positions.h"
#include "heed/ops/rotary.h"

namespace heed {

enum class RotaryScalingKind {
  none,
  linear,        ///< all frequencies divided by `factor` (Chen et al. 2023, position interpolation)
  dynamic,       ///< theta grows with the length once it is beyond `original_length` (dynamic NTK)
  llama3,        ///< long waves divided by `factor`, short ones kept, a ramp between
  yarn,          ///< the same by number of turns, and longer queries and keys (Peng et al. 2023)
  proportional,  ///< all pairs in the table, only the first of them turning, divided by `factor` (Gemma)
  longrope,      ///< each frequency its own factor, other ones beyond `original_length` (Ding et al. 2024)
};

/// How frequencies are stretched. What a kind does not name is not used by it.
struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::none;
  double factor = 1;                 // all kinds
  double part = 1;                   // proportional: of the head that turns
  std::int64_t original_length = 0;  // of training: dynamic, llama3, yarn, longrope
  double low_freq_factor = 1;        // llama3
  double high_freq_factor = 4;       // llama3
  double beta_fast = 32;  // yarn: pairs that turn oftener than this in the original length are kept
  double beta_slow = 1;   // yarn: those that turn more seldom are divided by `factor`
  bool truncate = true;   // yarn: the ends of the ramp are whole numbers
  std::optional<double> mscale = {};  // yarn: together they give the attention factor
  std::optional<double> mscale_all_dim = {};
  std::optional<double> attention_factor = {};  // yarn, longrope; worked out from `factor` when absent
  std::vector<double> short_factor = {};        // longrope, r/2 each
  std::vector<double> long_factor = {};
};

struct RotaryOptions {
  /// r: elements of a head that turn; the others pass. An odd number turns one more, at the frequencies of
  /// the odd number, as in GPT-NeoX.
  std::int64_t dim = 0;
  double theta = 10000;
  RotaryLayout layout = RotaryLayout::halves;
  RotaryScaling scaling = {};
};

/// Radians per place of each pair, f32, for a text of `length` tokens:
/// theta^(-2i / r), 2i = 0, 2 .. below r, scaled.
std::vector<float> rotary_frequencies(const RotaryOptions& options, std::int64_t length);
/// What cosines and sines are multiplied by, which makes queries and keys longer (YaRN, LongRoPE); else 1.
double rotary_attention_factor(const RotaryScaling& scaling);

/// Rotary positions for texts of any length: cosines and sines are worked out when a text first needs them.
class RotaryPositions : public Positions {
 public:
  /// Throws Error for no elements or a scaling that lacks what it needs.
  explicit RotaryPositions(RotaryOptions options);
  ~RotaryPositions() override;
  Tensor rotate(const Tensor& x, const Places& places) const override;
  /// Cosines, then sines, times the attention factor, of `time` tokens: f32 [T, r], or [B, T, r] where
  /// rows have their own places.
  Tensor turns(const Places& places, std::int64_t batch, std::int64_t time) const;

 private:
  struct Tables;
  RotaryOptions options_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace heed
