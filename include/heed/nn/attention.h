// Multi-head attention (Vaswani et al. 2017, section 3.2.2), self and cross, with a cache for decoding.
//
// Taps below the part's name: `q`, `k`, `v` [B, H, T, d] before the scores, `weights` [B, H, T, S] after the
// softmax, `out` [B, T, D] after the output projection. Nobody listening to `weights` means that they are
// never formed; replacing them changes the result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/nn/context.h"
#include "heed/nn/linear.h"
#include "heed/nn/positions.h"
#include "heed/ops/attention.h"
#include "heed/tensor.h"

namespace heed {

/// Keys and values of the places seen so far. Rows may have different numbers of places.
struct KeyValueCache {
  Tensor keys;                        // [R, K, capacity, d]
  Tensor values;                      // [R, K, capacity, e]
  std::int64_t length = 0;            ///< places of a row; the most, where `lengths` is not empty
  std::vector<std::int64_t> lengths;  ///< of each row; empty while all have `length`

  /// Adds the keys and values [R, K, T, d] of T more places to every row.
  void append(const Tensor& k, const Tensor& v);
  /// Of the T places added last, row i keeps the first kept[i].
  void drop_padding(std::int64_t time, std::span<const std::int64_t> kept);
  Tensor filled_keys() const;    // [R, K, length, d], a view
  Tensor filled_values() const;  // [R, K, length, e], a view
  /// The places that come next.
  Places places() const;
  /// Row i becomes what row rows[i] was (i64 [R']). Where R' is not more than R, rows copy only what they
  /// have not in common with the one they become: among beams, little.
  void reorder(const Tensor& rows);

 private:
  void reserve(const Tensor& k, const Tensor& v, std::int64_t places);
  void reorder_in_place(std::span<const std::int64_t> rows);
  std::int64_t length_of(std::int64_t row) const {
    return lengths.empty() ? length : lengths[static_cast<std::size_t>(row)];
  }
  // Which writing filled each place of each row: rows agree up to where these numbers do.
  std::vector<std::vector<std::int64_t>> written_;
  std::int64_t writings_ = 0;
};

/// How one matrix for queries, keys and values orders what it gives: all queries, all keys, all values; or
/// query, key and value of the first head, of the second, ...
enum class QkvOrder { by_part, by_head };

/// Queries, keys and values by one product, whose result is cut into views.
struct FusedQkv {
  Linear projection;  // [3 * H * d, D]
  QkvOrder order = QkvOrder::by_part;
  std::optional<double> clip = {};  ///< numbers beyond +-clip are set to it
};

struct MultiHeadAttention {
  std::string name;  ///< prefix of the taps, e.g. "decoder.layers.0.self_attn"
  Linear q = {}, k = {}, v = {}, out = {};
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  double dropout = 0.0;                  ///< on the weights
  const Positions* positions = nullptr;  ///< rotation and score bias; may be null
  std::optional<double> scale = {};      ///< of the scores; 1/sqrt(d) when absent
  std::int64_t window = 0;               ///< if > 0, a query sees only as many keys, its own included
  std::optional<FusedQkv> fused = {};    ///< in the place of q, k and v, for self-attention

  /// Self-attention over x [B, T, D]. With a cache, the T places come after those it holds, and join them.
  Tensor operator()(const Tensor& x, AttentionOptions options, KeyValueCache* cache, Context& context) const;
  /// Attention from x [B, T, D] to `memory` [B, S, D'], or to what `remember` put into the cache, if there is
  /// one.
  Tensor cross(const Tensor& x, const Tensor& memory, AttentionOptions options, KeyValueCache* cache,
               Context& context) const;
  /// Puts the keys and values of `memory` [B, S, D'] into an empty cache, for `cross`.
  void remember(const Tensor& memory, KeyValueCache& cache) const;

 private:
  struct Projected {
    Tensor queries, keys, values;  // [B, H, T, d], views
  };
  Projected project(const Tensor& x) const;
  Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values, AttentionOptions options,
                Context& context) const;
};

}  // namespace heed
