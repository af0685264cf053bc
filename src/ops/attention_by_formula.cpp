// Attention by its plain formula, made of other operations: what the fused one must equal.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "ops/attention.h"
#include "ops/attention_operands.h"

namespace heed {
namespace {

// The position of each row's first query.
std::vector<std::int64_t> first_positions(const AttentionSizes& n, const AttentionOptions& options) {
  if (options.query_offsets.defined()) return options.query_offsets.to_vector<std::int64_t>();
  return std::vector<std::int64_t>(static_cast<std::size_t>(n.batch), n.keys - n.queries);
}

using ScoreIndices = std::vector<std::int64_t>;

Tensor index_tensor_of(const ScoreIndices& indices) {
  return Tensor::from(indices, {static_cast<std::int64_t>(indices.size())});
}

Shape wanted_shape(const AttentionSizes& n, const WantedWeights& wanted) {
  return {n.batch, static_cast<std::int64_t>(wanted.heads.size()),
          static_cast<std::int64_t>(wanted.queries.size()), n.keys};
}

// The wanted heads and queries of x [B, H or 1, T or 1, ...]; x itself where all are wanted.
Tensor wanted_rows(Tensor x, const AttentionSizes& n, const WantedWeights& wanted) {
  if (x.size(1) > 1 && static_cast<std::int64_t>(wanted.heads.size()) < n.heads)
    x = gather(x, 1, index_tensor_of(wanted.heads));
  if (x.size(2) > 1 && static_cast<std::int64_t>(wanted.queries.size()) < n.queries)
    x = gather(x, 2, index_tensor_of(wanted.queries));
  return x;
}

// A mask that broadcasts to [B, H, T, S] as one of that rank, with the wanted rows.
Tensor wanted_mask(const Tensor& mask, const AttentionSizes& n, const WantedWeights& wanted) {
  Shape shape{1, 1, 1, 1};
  for (int axis = 0; axis < mask.rank(); ++axis) shape[4 - mask.rank() + axis] = mask.size(axis);
  return wanted_rows(reshape(mask, shape), n, wanted);
}

// relative_bias as [B, heads, queries, S]: each score's entry looked up.
Tensor spread_relative_bias(const AttentionSizes& n, const AttentionOptions& options,
                            const WantedWeights& wanted) {
  const std::vector<std::int64_t> first = first_positions(n, options);
  const auto queries = static_cast<std::int64_t>(wanted.queries.size());
  const Tensor index = Tensor::empty({n.batch * queries * n.keys}, DType::i64);
  std::int64_t* at = index.data<std::int64_t>();
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (const std::int64_t t : wanted.queries) {
      for (std::int64_t s = 0; s < n.keys; ++s) {
        const std::int64_t r = s - t - first[static_cast<std::size_t>(b)];
        *at++ = std::clamp<std::int64_t>(r + n.keys - 1, 0, n.queries + n.keys - 2);
      }
    }
  }
  Tensor table = options.relative_bias;
  if (static_cast<std::int64_t>(wanted.heads.size()) < n.heads)
    table = gather(table, 0, index_tensor_of(wanted.heads));
  const Tensor spread = gather(table, 1, index);  // [heads, B*queries*S]
  return transpose(reshape(spread, {table.size(0), n.batch, queries, n.keys}), 0, 1);
}

// What the options forbid or add, as one additive tensor [B, heads, queries, S] (zeros and -inf, and ALiBi).
Tensor additive_mask(const AttentionSizes& n, const AttentionOptions& options, const WantedWeights& wanted,
                     DType dtype) {
  const Shape full = wanted_shape(n, wanted);
  std::vector<double> slopes(static_cast<std::size_t>(n.heads), 0.0);
  if (options.alibi_slopes.defined()) slopes = options.alibi_slopes.to(DType::f64).to_vector<double>();
  std::vector<bool> seen(static_cast<std::size_t>(full.numel()), true);
  if (options.mask.defined() && options.mask.dtype() == DType::boolean) {
    const auto m = broadcast_to(wanted_mask(options.mask, n, wanted), full).to_vector<bool>();
    seen.assign(m.begin(), m.end());
  }
  std::vector<bool> present(static_cast<std::size_t>(n.batch * n.keys), true);
  if (options.key_mask.defined()) present = options.key_mask.to_vector<bool>();
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(n.batch), n.keys);
  if (options.key_lengths.defined()) lengths = options.key_lengths.to_vector<std::int64_t>();
  std::vector<std::int64_t> starts(static_cast<std::size_t>(n.batch * n.queries), 0);
  if (options.key_starts.defined()) starts = options.key_starts.to_vector<std::int64_t>();
  const std::vector<std::int64_t> first = first_positions(n, options);
  std::vector<double> sum(static_cast<std::size_t>(full.numel()));
  std::size_t i = 0;
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (const std::int64_t h : wanted.heads) {
      for (const std::int64_t t : wanted.queries) {
        for (std::int64_t s = 0; s < n.keys; ++s, ++i) {
          const std::int64_t distance = t + first[static_cast<std::size_t>(b)] - s;
          const bool visible = seen[i] && s < lengths[static_cast<std::size_t>(b)] &&
                               present[static_cast<std::size_t>(b * n.keys + s)] &&
                               s >= starts[static_cast<std::size_t>(b * n.queries + t)] &&
                               (!options.causal || distance >= 0) &&
                               (options.window == 0 || std::abs(distance) < options.window);
          sum[i] = visible ? -slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(distance))
                           : -std::numeric_limits<double>::infinity();
        }
      }
    }
  }
  return Tensor::from(sum, full).to(dtype);
}

// Each key-value head once for every query head that reads it.
Tensor repeat_heads(const Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  const Shape& s = x.shape();
  return reshape(broadcast_to(unsqueeze(x, 2), {s[0], s[1], times, s[2], s[3]}),
                 {s[0], s[1] * times, s[2], s[3]});
}

// The scores of the wanted heads and queries, [B, heads, queries, S].
Tensor scores_by_formula(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                         const AttentionOptions& options, const WantedWeights& wanted) {
  Tensor keys = repeat_heads(k, n.heads / n.kv_heads);
  if (static_cast<std::int64_t>(wanted.heads.size()) < n.heads) {
    ScoreIndices read;
    for (const std::int64_t h : wanted.heads) read.push_back(h / (n.heads / n.kv_heads));
    keys = gather(k, 1, index_tensor_of(read));
  }
  Tensor scores = matmul(wanted_rows(q, n, wanted), transpose(keys, -1, -2)) * attention_scale(options, n);
  if (options.score_cap > 0) scores = softcap(scores, options.score_cap);
  scores = scores + additive_mask(n, options, wanted, q.dtype());
  if (options.mask.defined() && options.mask.dtype() != DType::boolean)
    scores = scores + wanted_mask(options.mask, n, wanted);
  if (options.relative_bias.defined()) scores = scores + spread_relative_bias(n, options, wanted);
  return scores;
}

}  // namespace

Tensor attention_by_formula(const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value);
  const DType compute = attention_compute_type(query);
  check_attention_options(n, compute, options);
  const Tensor q = query.to(compute), k = widened(key, compute), v = widened(value, compute);
  const Tensor scores = scores_by_formula(n, q, k, options, WantedWeights({}, n));  // [B, H, T, S]
  const Tensor probabilities = softmax(scores, -1);                                 // over the keys
  if (weights != nullptr) {
    const WantedWeights wanted(*weights, n);
    weights->values =
        gather(gather(probabilities, 1, index_tensor_of(wanted.heads)), 2, index_tensor_of(wanted.queries));
  }
  const Tensor kept =
      options.dropout > 0 ? dropout(probabilities, options.dropout, options.stream) : probabilities;
  return matmul(kept, repeat_heads(v, n.heads / n.kv_heads)).to(query.dtype());  // [B, H, T, e]
}

void attention_scores(const Tensor& query, const Tensor& key, const Tensor& value,
                      const AttentionOptions& options, AttentionWeights& scores) {
  const NoGradients guard;
  const AttentionSizes n = attention_sizes(query, key, value);
  const DType compute = attention_compute_type(query);
  check_attention_options(n, compute, options);
  scores.values =
      scores_by_formula(n, query.to(compute), widened(key, compute), options, WantedWeights(scores, n));
}

}  // namespace heed
