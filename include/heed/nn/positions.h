// Positions: how a model represents the order of its tokens. Each kind acts in one of three ways: on the
// embeddings (sinusoidal, learned), on queries and keys (rotary), or on the scores (ALiBi, relative bias).
// Without positions, attention ignores order.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heed/export.h"
#include "heed/ops/attention.h"
#include "heed/ops/rotary.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Position ids of the T tokens of each of B rows. An integer p converts to p, p + 1, ... for every row.
struct PositionIds {
  PositionIds(std::int64_t from = 0) : first(from) {}
  /// i64 [B]: row b has positions ids[b], ids[b] + 1, ...; i64 [B, T]: one position per token.
  explicit PositionIds(Tensor of_rows);

  std::int64_t first = 0;
  Tensor ids;  ///< undefined when all rows have positions first, first + 1, ...

  /// The position of every token, i64 [B, T]. Throws Error when `ids` has another shape.
  Tensor of_tokens(std::int64_t batch, std::int64_t time) const;
};

/// Positions that skip padding: for `present` bool [B, T], the number of true entries before each in its row,
/// and `absent` where it is false; i64 [B, T].
Tensor unpadded_positions(const Tensor& present, std::int64_t absent = 0);

/// Column order of a sinusoidal table: sines and cosines alternate (Vaswani et al. 2017, section 3.5), or all
/// sines come before all cosines (Marian).
enum class SinusoidLayout { interleaved, halves };

/// Row p holds sin and cos of p / 10000^(2i / D) for i = 0 .. D/2 - 1; f32 [count, D]. With odd D there is
/// one more sine than cosines.
Tensor sinusoidal_table(std::int64_t count, std::int64_t d_model, SinusoidLayout layout);

/// Row 0 is 0, for tokens without a position (padding). Row 1 + r holds the sines, then the cosines, of
/// (first + r) * 10000^(-i / (D/2 - 1)) for i = 0 .. D/2 - 1: the slowest wave is exactly 1/10000 (M2M100).
/// f32 [1 + count, D]; with odd D, the last column is 0.
Tensor sinusoidal_table_to_10000(std::int64_t first, std::int64_t count, std::int64_t d_model);

/// Adds a row of a table to each embedding: sinusoidal if the table is computed, learned if it is a
/// parameter. Position p uses row p + offset (2 in BART; in RoBERTa, where padding has position -1, one more
/// than the padding id). Throws Error for a position outside the table.
/// Threads: several may use one object at once.
class AdditivePositions {
 public:
  /// `padding_row` gets no gradient.
  explicit AdditivePositions(Tensor table, std::int64_t offset = 0,
                             std::optional<std::int64_t> padding_row = {})
      : table_(std::move(table)), offset_(offset), padding_row_(padding_row) {}
  /// Adds positions to the embeddings x [B, T, D] of the tokens at `positions`.
  Tensor embed(const Tensor& x, const PositionIds& positions) const;
  /// The rows of table() that it adds, i64 [B, T]. Throws Error for positions beyond the table.
  Tensor rows(std::int64_t batch, std::int64_t time, const PositionIds& positions) const;
  const Tensor& table() const { return table_; }

 private:
  Tensor table_;  // [P, D]
  std::int64_t offset_;
  std::optional<std::int64_t> padding_row_;
};

/// A term of the attention scores that depends on the distance of query and key.
/// Threads: several may use one object at once.
class ScoreBias {
 public:
  virtual ~ScoreBias() = default;
  /// Adds the term to the options, for queries [B, H, T, d] and keys [B, K, S, d].
  virtual void add_to(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const = 0;
};

/// ALiBi (Press et al. 2022): adds -slope * distance to the scores, with one slope per head. If
/// `skips_padding`, distances count only the tokens that the key mask allows (BLOOM).
/// Threads: several may use one object at once.
class AlibiPositions : public ScoreBias {
 public:
  explicit AlibiPositions(const std::vector<double>& slopes, bool skips_padding = false);
  void add_to(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const override;

 private:
  Tensor slopes_;  // f32 [H]
  bool skips_padding_;
};

/// The slopes of the ALiBi paper: 2^(-m/n), 2^(-2m/n), ... for n heads when n is a power of two; otherwise
/// those of the next lower power of two followed by every other slope of the next higher one. m, the
/// exponent of the smallest slope, is 8 in the paper.
std::vector<double> alibi_slopes(std::int64_t heads, double flattest = 8);

/// Buckets of relative positions (Raffel et al. 2020, "T5", section 2.1): small distances have a bucket each;
/// larger ones share buckets whose width grows logarithmically, up to `max_distance`.
struct RelativeBuckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = true;  ///< half of the buckets are for keys after the query; else those share bucket 0
  /// The bucket of a key `offset` positions after the query (before it, if negative).
  std::int64_t of(std::int64_t offset) const;
};

/// Adds a learned bias per bucket and head to the scores. Throws Error when the table [rows, H] has
/// fewer rows than buckets (further rows are not used), or when there are too few buckets.
/// Threads: several may use one object at once.
class RelativePositions : public ScoreBias {
 public:
  RelativePositions(Tensor table, const RelativeBuckets& buckets);
  void add_to(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const override;

 private:
  Tensor table_;  // [rows, H]
  RelativeBuckets buckets_;
};

// Rotary position embedding, RoPE (Su et al. 2021, "RoFormer"): the rotation frequencies of pairs of
// dimensions, and the ways of scaling them for texts longer than those of training. The numbers equal those
// of Hugging Face transformers, because checkpoints were trained with them.

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
