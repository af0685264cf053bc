// Attention by its plain formula, made of other operations: what the fused one must equal.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/dropout.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "ops/attention_checks.h"

namespace heed {
namespace {

// The position of each row's first query.
std::vector<std::int64_t> first_positions(const AttentionSizes& n, const AttentionOptions& options) {
  if (options.query_offsets.defined()) return options.query_offsets.to_vector<std::int64_t>();
  return std::vector<std::int64_t>(static_cast<std::size_t>(n.batch), n.keys - n.queries);
}

// relative_bias as [B, H, T, S]: each score's entry looked up.
Tensor spread_relative_bias(const AttentionSizes& n, const AttentionOptions& options) {
  const std::vector<std::int64_t> first = first_positions(n, options);
  const Tensor index = Tensor::empty({n.batch * n.queries * n.keys}, DType::i64);
  std::int64_t* place = index.data<std::int64_t>();
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t t = 0; t < n.queries; ++t) {
      for (std::int64_t s = 0; s < n.keys; ++s) {
        const std::int64_t r = s - t - first[static_cast<std::size_t>(b)];
        *place++ = std::clamp<std::int64_t>(r + n.keys - 1, 0, n.queries + n.keys - 2);
      }
    }
  }
  const Tensor spread = gather(options.relative_bias, 1, index);  // [H, B*T*S]
  return transpose(reshape(spread, {n.heads, n.batch, n.queries, n.keys}), 0, 1);
}

// What the options forbid or add, as one additive tensor [B, H, T, S] (zeros and -inf, and ALiBi).
Tensor additive_mask(const AttentionSizes& n, const AttentionOptions& options, DType dtype) {
  const Shape full{n.batch, n.heads, n.queries, n.keys};
  std::vector<double> slopes(static_cast<std::size_t>(n.heads), 0.0);
  if (options.alibi_slopes.defined()) slopes = options.alibi_slopes.to(DType::f64).to_vector<double>();
  std::vector<bool> seen(static_cast<std::size_t>(full.numel()), true);
  if (options.mask.defined() && options.mask.dtype() == DType::boolean) {
    const auto m = broadcast_to(options.mask, full).to_vector<bool>();
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
    for (std::int64_t h = 0; h < n.heads; ++h) {
      for (std::int64_t t = 0; t < n.queries; ++t) {
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

}  // namespace

Tensor attention_by_formula(const Tensor& query, const Tensor& key, const Tensor& value,
                            const AttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value);
  const DType compute = attention_compute_type(query);
  check_attention_options(n, compute, options);
  const Tensor q = query.to(compute), k = key.to(compute), v = value.to(compute);
  const std::int64_t group = n.heads / n.kv_heads;
  Tensor scores =
      matmul(q, transpose(repeat_heads(k, group), -1, -2)) * attention_scale(options, n);  // [B, H, T, S]
  if (options.score_cap > 0) scores = softcap(scores, options.score_cap);
  scores = scores + additive_mask(n, options, compute);
  if (options.mask.defined() && options.mask.dtype() != DType::boolean) scores = scores + options.mask;
  if (options.relative_bias.defined()) scores = scores + spread_relative_bias(n, options);
  const Tensor probabilities = softmax(scores, -1);  // over the keys
  if (weights != nullptr) {
    const WantedWeights wanted(*weights, n);
    const auto index = [](const std::vector<std::int64_t>& places) {
      return Tensor::from(places, {static_cast<std::int64_t>(places.size())});
    };
    weights->values = gather(gather(probabilities, 1, index(wanted.heads)), 2, index(wanted.queries));
  }
  const Tensor kept =
      options.dropout > 0 ? dropout(probabilities, options.dropout, options.stream) : probabilities;
  return matmul(kept, repeat_heads(v, group)).to(query.dtype());  // [B, H, T, e]
}

}  // namespace heed
