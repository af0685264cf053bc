// Multi-head attention (Vaswani et al. 2017, section 3.2.2), self and cross, with a cache for decoding.
//
// Taps below the part's name: `q`, `k`, `v` [B, H, T, d] before the scores, `weights` [B, H, T, S] after the
// softmax, `out` [B, T, D] after the output projection. Without a listener for `weights`, they are never
// computed; replacing them changes the result.
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

/// Keys and values of the positions so far. Rows may have different lengths.
struct KeyValueCache {
  Tensor keys;                        // [R, K, capacity, d]
  Tensor values;                      // [R, K, capacity, e]
  std::int64_t length = 0;            ///< positions per row; the maximum, if `lengths` is not empty
  std::vector<std::int64_t> lengths;  ///< per row; empty while all rows have `length`

  /// Appends the keys and values [R, K, T, d] of T more positions to every row.
  void append(const Tensor& k, const Tensor& v);
  /// Of the last `time` appended positions, row i keeps the first kept[i].
  void drop_padding(std::int64_t time, std::span<const std::int64_t> kept);
  Tensor filled_keys() const;    // [R, K, length, d], a view
  Tensor filled_values() const;  // [R, K, length, e], a view
  /// The positions that follow.
  Places places() const;
  /// Row i becomes a copy of the old row rows[i] (i64 [R']). If R' <= R, a row copies only the entries that
  /// differ from its new parent; for beams, these are few.
  void reorder(const Tensor& rows);

 private:
  void reserve(const Tensor& k, const Tensor& v, std::int64_t places);
  void reorder_in_place(std::span<const std::int64_t> rows);
  std::int64_t length_of(std::int64_t row) const {
    return lengths.empty() ? length : lengths[static_cast<std::size_t>(row)];
  }
  // The number of the append that filled each position of each row: rows have the same entries as long as
  // these numbers are equal.
  std::vector<std::vector<std::int64_t>> written_;
  std::int64_t writings_ = 0;
};

/// Order of the outputs of a fused QKV projection: all queries, all keys, all values; or query, key and value
/// of the first head, then of the second, ...
enum class QkvOrder { by_part, by_head };

/// Queries, keys and values by one matrix product, whose result is split into views.
struct FusedQkv {
  Linear projection;  // [3 * H * d, D]
  QkvOrder order = QkvOrder::by_part;
  std::optional<double> clip = {};  ///< results are clamped to [-clip, clip]
};

struct MultiHeadAttention {
  std::string name;  ///< prefix of the taps, e.g. "decoder.layers.0.self_attn"
  Linear q = {}, k = {}, v = {}, out = {};
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  double dropout = 0.0;                  ///< on the weights
  const Positions* positions = nullptr;  ///< rotation and score bias; may be null
  std::optional<double> scale = {};      ///< factor on the scores; 1/sqrt(d) when absent
  std::int64_t window = 0;  ///< if > 0, a query attends to this many keys, its own position included
  std::optional<FusedQkv> fused = {};  ///< replaces q, k and v, for self-attention

  /// Self-attention over x [B, T, D]. With a cache, the T positions follow the cached ones and are appended.
  Tensor operator()(const Tensor& x, AttentionOptions options, KeyValueCache* cache, Context& context) const;
  /// Cross-attention from x [B, T, D] to `memory` [B, S, D'], or, with a cache, to the keys and values that
  /// `remember` stored.
  Tensor cross(const Tensor& x, const Tensor& memory, AttentionOptions options, KeyValueCache* cache,
               Context& context) const;
  /// Stores the keys and values of `memory` [B, S, D'] in an empty cache, for `cross`.
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
