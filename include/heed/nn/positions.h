// How a model knows the order of its tokens. Each kind of position acts at one of three places: on the
// embeddings (sinusoidal, learned), on queries and keys (rotary, in heed/nn/rotary.h), or on the scores
// (ALiBi, relative bias); a model asks its positions at all three and does not know which kind it has.
// Without positions attention is blind to order.
#pragma once

#include <memory>
#include <vector>

#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace heed {

/// Where the T tokens of each of B rows stand in their texts. A number converts to the places from it on.
struct Places {
  Places(std::int64_t from = 0) : first(from) {}
  /// i64 [B]: row b stands at each[b], each[b] + 1, ...; i64 [B, T]: every token has its own place.
  explicit Places(Tensor of_rows);

  std::int64_t first = 0;
  Tensor each;  ///< not defined when all rows stand at first, first + 1, ...

  /// The place of every token, i64 [B, T]. Throws Error when `each` is of another shape.
  Tensor of_tokens(std::int64_t batch, std::int64_t time) const;
};

/// Places that count the tokens which are there: for `present` bool [B, T], the number of true ones before
/// it in its row, and `absent` where it is false; i64 [B, T].
Tensor counted_places(const Tensor& present, std::int64_t absent = 0);

class Positions {
 public:
  virtual ~Positions() = default;
  /// The embeddings x [B, T, D] of the tokens at `places`, with their positions.
  virtual Tensor embed(const Tensor& x, const Places& places) const;
  /// Turns queries or keys [B, H, T, d] of the tokens at `places`.
  virtual Tensor rotate(const Tensor& x, const Places& places) const;
  /// Adds what the scores of queries [B, H, T, d] over keys [B, K, S, d] need to the options of the
  /// attention.
  virtual void bias(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const;
};

/// How a table of sinusoids is laid out: sines and cosines by turns (Vaswani et al. 2017, section 3.5), or
/// all sines before all cosines (Marian).
enum class SinusoidLayout { interleaved, halves };

/// Row p holds sin and cos of p / 10000^(2i / D) for i = 0 .. D/2 - 1; f32 [count, D]. With odd D there is
/// one sine more than cosines.
Tensor sinusoidal_table(std::int64_t count, std::int64_t width, SinusoidLayout layout);

/// A row for each place, added to the embeddings: sinusoidal when the table is computed, learned when it is a
/// parameter. Place p is row p + offset (2 in BART; in RoBERTa, whose padding stands at place -1, one more
/// than the padding id). Throws Error for a place the table does not reach.
class AdditivePositions : public Positions {
 public:
  explicit AdditivePositions(Tensor table, std::int64_t offset = 0)
      : table_(std::move(table)), offset_(offset) {}
  Tensor embed(const Tensor& x, const Places& places) const override;

 private:
  Tensor table_;  // [P, D]
  std::int64_t offset_;
};

/// ALiBi (Press et al. 2022): a penalty on the score that grows with the distance, steeper for later heads.
/// Where `counted`, the distance counts the tokens that the attention's key mask leaves (BLOOM).
class AlibiPositions : public Positions {
 public:
  explicit AlibiPositions(const std::vector<double>& slopes, bool counted = false);
  void bias(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const override;

 private:
  Tensor slopes_;  // f32 [H]
  bool counted_;
};

/// The slopes of the ALiBi paper: 2^(-m/n), 2^(-2m/n), ... for n heads when n is a power of two; otherwise
/// those of the next lower power of two followed by every other slope of the next higher one. m, the
/// exponent of the flattest head, is 8 in the paper.
std::vector<double> alibi_slopes(std::int64_t heads, double flattest = 8);

/// How distances share the rows of a table of relative biases (Raffel et al. 2020, "T5", section 2.1): near
/// ones have a row each, farther ones share rows whose width grows with the logarithm, up to `max_distance`.
struct RelativeBuckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = true;  ///< half of the rows for keys after the query; else those share row 0
  /// The row of a key `offset` places after the query (before it, if negative).
  std::int64_t of(std::int64_t offset) const;
};

/// A learned number per bucket of distances and head, added to the score. Throws Error when the buckets are
/// not the table's rows or too few for their use.
class RelativePositions : public Positions {
 public:
  RelativePositions(Tensor table, const RelativeBuckets& buckets);
  void bias(AttentionOptions& options, const Tensor& queries, const Tensor& keys) const override;

 private:
  Tensor table_;  // [buckets, H]
  RelativeBuckets buckets_;
};

}  // namespace heed
