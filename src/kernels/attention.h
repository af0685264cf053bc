// Scaled dot-product attention (Vaswani et al. 2017), forward and backward, without ever holding the whole
// matrix of scores: keys come in blocks, and a running maximum and sum make the softmax (Milakov and
// Gimelshein 2018; Dao et al. 2022, "FlashAttention"). The backward pass recomputes probabilities from the
// logarithm of their sums.
//
// What is promised of the numbers: a query's result depends on its own q, on the keys and values it may see
// and their positions among the S, and on the options that concern it: not on the batch, the other queries,
// the number of threads, or on keys that key_lengths or the end of key_mask hide. It is the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "heed/random.h"

namespace heed::kernels {

/// Where element (b, h, t, c) of a tensor lies: b * batch + h * head + t * row + c.
struct AttentionStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  const std::int64_t* starts = nullptr;  // [B], optional: starts[b] * row in place of b * batch
};

/// q: [B, H, T, head_dim], k: [B, K, S, head_dim], v: [B, K, S, value_dim], o: [B, H, T, value_dim]. Query
/// head h reads key-value head h / (H / K); K divides H.
struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t head_dim = 0;
  std::int64_t value_dim = 0;
  AttentionStrides q, k, v, o;
};

/// Where element (b, h, t, s) of a mask or bias lies; 0 repeats it along that axis.
struct MaskStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;
};

/// Query t of row b has position t + P, and key s has distance t + P - s from it. P is query_offsets[b],
/// or S - T: queries are the last T of S positions, as when a cache holds the keys before them. The score of
/// (t, s) is
///   scale * q[t] . k[s] + bias[t, s] + relative_bias[h, s - t - P + S - 1] - alibi_slopes[h] * |t + P - s|,
/// the first term x replaced by cap * tanh(x / cap) where there is a cap, and -inf where any mask forbids it.
/// A query that may see no key gets output 0 and logsumexp -inf.
template <class T>
struct AttentionOptions {
  double scale = 1;
  double cap = 0;                  // if > 0, of the scaled products (Gemma Team 2024, "Gemma 2")
  bool causal = false;             // only keys at distance >= 0
  std::int64_t window = 0;         // if > 0, only keys at distance < window, itself included (and > -window)
  const bool* key_mask = nullptr;  // [B, S], true where the key may be seen
  const std::int64_t* key_lengths = nullptr;  // [B], keys from this one on may not be seen
  // [B], queries from this one on are left out: nothing is written for them. Forward only, without weights.
  const std::int64_t* query_lengths = nullptr;
  const std::int64_t* query_offsets = nullptr;  // [B], the position P of the row's first query
  const std::int64_t* key_starts = nullptr;     // [B, T], growing with T: keys before it may not be seen
  const bool* mask = nullptr;                   // [B|1, H|1, T|1, S|1], true where the key may be seen
  MaskStrides mask_strides;
  const T* bias = nullptr;  // [B|1, H|1, T|1, S|1], added to the scores; may hold -inf
  MaskStrides bias_strides;
  const T* relative_bias = nullptr;  // [H, T + S - 1]; an index beyond its ends means the nearest end
  const T* alibi_slopes = nullptr;   // [H] (Press et al. 2022)
  double dropout = 0;                // on the probabilities; element ((b * H + h) * T + t) * S + s
  RandomStream random;               // the same in forward and backward
};

/// Positions of a page of keys or values.
inline constexpr std::int64_t kAttentionPage = 128;

/// Keys or values of width w that each row of the batch has in pages of its own: position s of row b is
/// position s % kAttentionPage of page p = b * row_pages + s / kAttentionPage, [K, capacities[p], w], dense.
template <class S>
struct AttentionPages {
  const S* const* data = nullptr;  // [B, row_pages]; null where none of a page's keys may be seen
  const std::int64_t* capacities = nullptr;
  std::int64_t row_pages = 0;
};

/// What attention calculates in when keys and values are stored as S: double for double, else float.
template <class S>
using AttentionCompute = std::conditional_t<std::is_same_v<S, double>, double, float>;

/// Arguments of attention. Null marks what is optional. Keys and values are stored as S; std::uint8_t stands
/// for rows of int8 (kernels/int8_rows.h), whose strides count bytes.
template <class S>
struct AttentionForward {
  using T = AttentionCompute<S>;
  const T* q = nullptr;
  const S* k = nullptr;
  const S* v = nullptr;
  // In place of k and v, if they have data; of the strides of k and v, `row` alone is read then.
  AttentionPages<S> k_pages = {}, v_pages = {};
  T* o = nullptr;
  T* logsumexp = nullptr;  // [B, H, T], optional (backward and weights need it)
  // The probabilities before dropout, [B, W, R, S], optional: of the W heads with weight_heads[h] (null: all)
  // and the R queries weight_rows (null: all). Costs the scores of those heads and queries a second time.
  T* weights = nullptr;
  const bool* weight_heads = nullptr;         // [H]
  const std::int64_t* weight_rows = nullptr;  // [weight_row_count]
  std::int64_t weight_row_count = 0;
};

/// o[t] = sum_s dropout(softmax_s(score[t, s])) v[s]. S: float, double, bfloat16, float16,
/// std::uint8_t.
template <class S>
void attention(const AttentionShape& shape, const AttentionOptions<AttentionCompute<S>>& options,
               const AttentionForward<S>& args);

/// What the backward pass of every kind of attention has. Each gradient is laid out by its own strides and
/// overwritten.
template <class T>
struct AttentionGradients {
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* o = nullptr;  // from the forward pass
  const T* d_o = nullptr;
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
  AttentionStrides d_o_strides, dq_strides, dk_strides, dv_strides;
};

/// Arguments of attention_backward. A null gradient is not computed.
template <class T>
struct AttentionBackward : AttentionGradients<T> {
  const T* logsumexp = nullptr;  // from attention
  T* dbias = nullptr;            // laid out by options.bias_strides, summed where the bias was repeated
  T* d_relative_bias = nullptr;  // [H, T + S - 1]
  // The keys are a part of those that o and logsumexp are over, and gradients are added to what is there.
  // Batches may then share keys and values, with batch strides of 0.
  bool partial = false;
};

/// T: float, double.
template <class T>
void attention_backward(const AttentionShape& shape, const AttentionOptions<T>& options,
                        const AttentionBackward<T>& args);

// Position terms of disentangled attention by relative position (He et al. 2021), and the scatter of their
// gradients.

/// Sizes of c2p [outer * heads, queries, rows], p2c [outer * heads, keys, rows] and y [outer * heads,
/// queries, keys].
struct Disentangled {
  std::int64_t outer = 0;  // B
  std::int64_t heads = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t rows = 0;                  // R
  const std::int64_t* buckets = nullptr;  // [queries + keys - 1], each in [0, rows)
  const bool* present = nullptr;          // [outer, keys], optional; then queries == keys
};

/// y[t, s] = c2p[t, i] + p2c[s, i], i = buckets[t - s + keys - 1]; a null operand is left out. -inf where key
/// s is absent, 0 for all keys where query t is.
template <class T>
void disentangled_bias(const Disentangled& args, const T* c2p, const T* p2c, T* y);

/// dc2p[t, i] += dy[t, s] and dp2c[s, i] += dy[t, s] where both are present; a null gradient is left out. In
/// the order of t and s.
template <class T>
void disentangled_bias_backward(const Disentangled& args, const T* dy, T* dc2p, T* dp2c);

}  // namespace heed::kernels
