// How a model knows the order of its tokens. Each kind of position acts at one of three places: on the
// embeddings (sinusoidal, learned), on queries and keys (rotary), or on the scores (ALiBi, relative bias); a
// model asks its positions at all three and does not know which kind it has. Without positions attention is
// blind to order.
#pragma once

#include <memory>
#include <vector>

#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace heed {

class Positions {
 public:
  virtual ~Positions() = default;
  /// The embeddings x [B, T, D] of the tokens at places first .. first + T - 1, with their positions.
  virtual Tensor embed(const Tensor& x, std::int64_t first) const;
  /// Turns queries or keys [B, H, T, d] of the places from `first` on.
  virtual Tensor rotate(const Tensor& x, std::int64_t first) const;
  /// Adds what the scores of T queries over S keys need to the options of the attention.
  virtual void bias(AttentionOptions& options, std::int64_t queries, std::int64_t keys) const;
};

/// How a table of sinusoids is laid out: sines and cosines by turns (Vaswani et al. 2017, section 3.5), or
/// all sines before all cosines (Marian).
enum class SinusoidLayout { interleaved, halves };

/// Row p holds sin and cos of p / 10000^(2i / D) for i = 0 .. D/2 - 1; f32 [count, D]. With odd D there is
/// one sine more than cosines.
Tensor sinusoidal_table(std::int64_t count, std::int64_t width, SinusoidLayout layout);

/// A row for each place, added to the embeddings: sinusoidal when the table is computed, learned when it is a
/// parameter. `offset` places are skipped (2 in BART). Throws Error for a place the table does not reach.
class AdditivePositions : public Positions {
 public:
  explicit AdditivePositions(Tensor table, std::int64_t offset = 0)
      : table_(std::move(table)), offset_(offset) {}
  Tensor embed(const Tensor& x, std::int64_t first) const override;

 private:
  Tensor table_;  // [P, D]
  std::int64_t offset_;
};

/// ALiBi (Press et al. 2022): a penalty on the score that grows with the distance, steeper for later heads.
class AlibiPositions : public Positions {
 public:
  explicit AlibiPositions(std::int64_t heads);
  void bias(AttentionOptions& options, std::int64_t queries, std::int64_t keys) const override;

 private:
  Tensor slopes_;  // [H]
};

/// The slopes of the ALiBi paper: 2^(-8/n), 2^(-16/n), ... for n heads when n is a power of two; otherwise
/// those of the next lower power of two followed by every other slope of the next higher one.
std::vector<double> alibi_slopes(std::int64_t heads);

}  // namespace heed
