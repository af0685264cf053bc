// Attention written out: one score at a time, in double, from the definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "heed/random.h"

namespace heed::reference {

/// Contiguous tensors q [B, H, T, d], k [B, K, S, d], v [B, K, S, e]; empty vectors are absent.
struct Attention {
  std::int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, head_dim = 1, value_dim = 1;
  double scale = 1;
  double cap = 0;  // if > 0, of the scaled products
  bool causal = false;
  std::int64_t window = 0;
  std::vector<char> key_mask;         // [B, S]
  std::vector<std::int64_t> lengths;  // [B]
  std::vector<char> mask;             // [B, H, T, S]
  std::vector<double> bias;           // [B, H, T, S]
  std::vector<double> slopes;         // [H]
  std::vector<std::int64_t> offsets;  // [B], the first query's position
  std::vector<std::int64_t> starts;   // [B, T]
  std::vector<double> relative;       // [H, T + S - 1]
  double dropout = 0;
  RandomStream random;

  struct Result {
    std::vector<double> out, weights, logsumexp;
  };

  bool visible(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    const std::int64_t distance = position(b, t) - s;
    if (causal && distance < 0) return false;
    if (window > 0 && std::abs(distance) >= window) return false;
    if (!key_mask.empty() && !key_mask[static_cast<std::size_t>(b * keys + s)]) return false;
    if (!lengths.empty() && s >= lengths[static_cast<std::size_t>(b)]) return false;
    if (!starts.empty() && s < starts[static_cast<std::size_t>(b * queries + t)]) return false;
    return mask.empty() || mask[index(b, h, t, s)];
  }
  std::int64_t position(std::int64_t b, std::int64_t t) const {
    return t + (offsets.empty() ? keys - queries : offsets[static_cast<std::size_t>(b)]);
  }
  std::size_t index(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t s) const {
    return static_cast<std::size_t>(((b * heads + h) * queries + t) * keys + s);
  }

  double score(const std::vector<double>& q, const std::vector<double>& k, std::int64_t b, std::int64_t h,
               std::int64_t t, std::int64_t s) const {
    if (!visible(b, h, t, s)) return -std::numeric_limits<double>::infinity();
    const std::int64_t kv = h / (heads / kv_heads);
    double dot = 0;
    for (std::int64_t c = 0; c < head_dim; ++c) {
      dot += q[static_cast<std::size_t>(((b * heads + h) * queries + t) * head_dim + c)] *
             k[static_cast<std::size_t>(((b * kv_heads + kv) * keys + s) * head_dim + c)];
    }
    double result = cap > 0 ? cap * std::tanh(scale * dot / cap) : scale * dot;
    if (!bias.empty()) result += bias[index(b, h, t, s)];
    if (!slopes.empty()) {
      result -= slopes[static_cast<std::size_t>(h)] * static_cast<double>(std::abs(position(b, t) - s));
    }
    if (!relative.empty()) {
      const std::int64_t width = queries + keys - 1;
      const std::int64_t place =
          std::min(std::max<std::int64_t>(s - position(b, t) + keys - 1, 0), width - 1);
      result += relative[static_cast<std::size_t>(h * width + place)];
    }
    return result;
  }

  Result operator()(const std::vector<double>& q, const std::vector<double>& k,
                    const std::vector<double>& v) const {
    Result r;
    r.out.assign(static_cast<std::size_t>(batch * heads * queries * value_dim), 0.0);
    r.weights.assign(static_cast<std::size_t>(batch * heads * queries * keys), 0.0);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t t = 0; t < queries; ++t) row(q, k, v, b, h, t, r);
      }
    }
    return r;
  }

  void row(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
           std::int64_t b, std::int64_t h, std::int64_t t, Result& r) const {
    double sum = 0;
    for (std::int64_t s = 0; s < keys; ++s) sum += std::exp(score(q, k, b, h, t, s));
    r.logsumexp.push_back(std::log(sum));
    if (sum == 0) return;
    const std::int64_t kv = h / (heads / kv_heads);
    for (std::int64_t s = 0; s < keys; ++s) {
      const std::size_t i = index(b, h, t, s);
      double weight = r.weights[i] = std::exp(score(q, k, b, h, t, s)) / sum;
      if (dropout > 0)
        weight = static_cast<double>(random.uniform(i)) >= dropout ? weight / (1 - dropout) : 0;
      for (std::int64_t c = 0; c < value_dim; ++c) {
        r.out[static_cast<std::size_t>(((b * heads + h) * queries + t) * value_dim + c)] +=
            weight * v[static_cast<std::size_t>(((b * kv_heads + kv) * keys + s) * value_dim + c)];
      }
    }
  }
};

}  // namespace heed::reference
