// Attention of every kind, for the tests and for the programs that measure.
#pragma once

#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/kernel_case.h"
#include "reference/attention.h"

namespace heed {

struct AttentionCase {
  std::string name;
  reference::Attention a;
};

inline std::vector<char> flags(std::int64_t n, std::uint64_t seed) {
  std::vector<char> result;
  for (const double v : numbers<double>(n, seed, 0, 1)) result.push_back(v < 0.7);
  return result;
}

inline reference::Attention shape(std::int64_t b, std::int64_t h, std::int64_t kv, std::int64_t t,
                                  std::int64_t s, std::int64_t d, std::int64_t e) {
  reference::Attention a;
  a.batch = b, a.heads = h, a.kv_heads = kv, a.queries = t, a.keys = s, a.head_dim = d, a.value_dim = e;
  a.scale = 1 / std::sqrt(static_cast<double>(d));
  return a;
}

inline std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> all;
  all.push_back({"one", shape(1, 1, 1, 1, 1, 1, 1)});
  all.push_back({"plain", shape(2, 3, 3, 5, 7, 4, 6)});
  all.push_back({"vectors", shape(1, 2, 2, 37, 33, 16, 32)});
  const auto with = [&](const char* name, reference::Attention a, auto change) {
    change(a);
    all.push_back({name, a});
  };
  using A = reference::Attention;
  with("causal", shape(1, 2, 2, 35, 35, 5, 3), [](A& a) { a.causal = true; });
  with("causal with a cache", shape(1, 2, 2, 4, 11, 5, 3), [](A& a) { a.causal = true; });
  with("causal with fewer keys than queries", shape(1, 2, 2, 9, 5, 5, 3), [](A& a) { a.causal = true; });
  with("window", shape(1, 2, 2, 35, 35, 5, 3), [](A& a) { a.window = 4; });
  with("causal window", shape(1, 2, 2, 40, 50, 5, 3), [](A& a) { a.window = 4, a.causal = true; });
  with("grouped heads", shape(2, 6, 2, 5, 7, 4, 6), [](A& a) { a.causal = true; });
  with("key mask", shape(2, 2, 2, 5, 19, 4, 6), [](A& a) { a.key_mask = flags(2 * 19, 80); });
  with("lengths", shape(3, 2, 2, 5, 19, 4, 6), [](A& a) { a.lengths = {19, 3, 0}; });
  with("mask", shape(2, 2, 2, 5, 7, 4, 6), [](A& a) {
    a.mask = flags(2 * 2 * 5 * 7, 81);
    std::fill(a.mask.begin(), a.mask.begin() + 7, 0);  // a query that sees nothing
  });
  with("bias", shape(2, 2, 2, 5, 7, 4, 6), [](A& a) { a.bias = numbers<double>(2 * 2 * 5 * 7, 82); });
  with("alibi", shape(1, 2, 2, 5, 9, 4, 6), [](A& a) { a.slopes = {0.5, 0.25}, a.causal = true; });
  with("dropout", shape(2, 2, 2, 5, 39, 4, 6), [](A& a) { a.dropout = 0.3, a.random = {3, 9}; });
  with("offsets", shape(3, 2, 2, 4, 19, 4, 6), [](A& a) {
    a.offsets = {15, 3, 0}, a.lengths = {19, 7, 1}, a.causal = true;
  });
  with("offsets and window", shape(3, 2, 1, 5, 9, 4, 6), [](A& a) {
    a.offsets = {-2, 3, 12}, a.window = 4, a.slopes = {0.5, 0.25};
  });
  with("relative bias", shape(2, 2, 2, 5, 19, 4, 6), [](A& a) { a.relative = numbers<double>(2 * 23, 85); });
  with("relative bias at offsets", shape(2, 2, 2, 5, 9, 4, 6), [](A& a) {
    a.relative = numbers<double>(2 * 13, 86), a.offsets = {7, 1};
  });
  with("over several blocks", shape(1, 2, 1, 150, 300, 8, 20), [](A& a) { a.causal = true; });
  with("over a span", shape(1, 1, 1, 40, 1100, 4, 4), [](A& a) { a.slopes = {0.01}; });
  with("few queries over two spans", shape(1, 2, 1, 2, 2100, 4, 4), [](A& a) { a.causal = true; });
  // Documents of 3, 1, 16, 15 tokens, and of 17, 18.
  with("documents", shape(2, 2, 1, 35, 35, 5, 3), [](A& a) {
    a.causal = true;
    for (const auto& [size, at] : {std::pair{3, 0}, {1, 3}, {16, 4}, {15, 20}, {17, 0}, {18, 17}})
      a.starts.insert(a.starts.end(), static_cast<std::size_t>(size), at);
  });
  with("documents over several blocks", shape(1, 2, 1, 300, 300, 8, 20), [](A& a) {
    a.causal = true, a.cap = 1, a.window = 70, a.slopes = {0.5, 0.25};
    for (const auto& [size, at] : {std::pair{140, 0}, {1, 140}, {159, 141}})
      a.starts.insert(a.starts.end(), static_cast<std::size_t>(size), at);
  });
  with("documents and few queries", shape(2, 2, 2, 3, 300, 4, 4), [](A& a) {
    a.causal = true, a.starts = {0, 140, 140, 298, 299, 299}, a.key_mask = flags(2 * 300, 88);
  });
  with("capped", shape(2, 3, 3, 5, 7, 4, 6), [](A& a) { a.cap = 0.3; });
  with("capped vectors", shape(1, 4, 2, 37, 33, 16, 32), [](A& a) { a.cap = 2, a.scale = 1; });
  with("capped few queries over two spans", shape(1, 2, 1, 2, 2100, 4, 4),
       [](A& a) { a.cap = 0.5, a.causal = true; });
  with("capped over several blocks", shape(1, 2, 1, 150, 300, 8, 20),
       [](A& a) { a.cap = 1, a.causal = true, a.window = 70; });
  with("everything", shape(2, 4, 2, 34, 50, 8, 8), [](A& a) {
    a.cap = 0.7;
    a.dropout = 0.2, a.random = {4, 1}, a.causal = true, a.window = 30, a.slopes = {0.5, 0.25, 0.125, 0.0625};
    a.key_mask = flags(2 * 50, 83), a.bias = numbers<double>(2 * 4 * 34 * 50, 84), a.lengths = {50, 41};
    a.relative = numbers<double>(4 * 83, 87);
  });
  return all;
}

/// The oracle's arguments as the kernel's; holds the arrays.
template <class T>
struct AttentionInputs {
  explicit AttentionInputs(const reference::Attention& r)
      : q(numbers<T>(r.batch * r.heads * r.queries * r.head_dim, 90)),
        k(numbers<T>(r.batch * r.kv_heads * r.keys * r.head_dim, 91)),
        v(numbers<T>(r.batch * r.kv_heads * r.keys * r.value_dim, 92)),
        d_o(numbers<T>(r.batch * r.heads * r.queries * r.value_dim, 93)),
        o(d_o.size(), T(99)),
        logsumexp(static_cast<std::size_t>(r.batch * r.heads * r.queries)),
        bias(r.bias.begin(), r.bias.end()),
        slopes(r.slopes.begin(), r.slopes.end()),
        offsets(r.offsets),
        lengths(r.lengths),
        starts(r.starts),
        relative(r.relative.begin(), r.relative.end()) {
    shape.batch = r.batch, shape.heads = r.heads, shape.kv_heads = r.kv_heads, shape.queries = r.queries;
    shape.keys = r.keys, shape.head_dim = r.head_dim, shape.value_dim = r.value_dim;
    shape.q = {r.heads * r.queries * r.head_dim, r.queries * r.head_dim, r.head_dim};
    shape.k = {r.kv_heads * r.keys * r.head_dim, r.keys * r.head_dim, r.head_dim};
    shape.v = {r.kv_heads * r.keys * r.value_dim, r.keys * r.value_dim, r.value_dim};
    shape.o = {r.heads * r.queries * r.value_dim, r.queries * r.value_dim, r.value_dim};
    const kernels::MaskStrides full{r.heads * r.queries * r.keys, r.queries * r.keys, r.keys, 1};
    options.scale = r.scale, options.cap = r.cap, options.causal = r.causal, options.window = r.window;
    options.dropout = r.dropout, options.random = r.random;
    options.mask_strides = options.bias_strides = full;
    if (!r.key_mask.empty()) options.key_mask = reinterpret_cast<const bool*>(r.key_mask.data());
    if (!r.mask.empty()) options.mask = reinterpret_cast<const bool*>(r.mask.data());
    if (!lengths.empty()) options.key_lengths = lengths.data();
    if (!starts.empty()) options.key_starts = starts.data();
    if (!offsets.empty()) options.query_offsets = offsets.data();
    if (!relative.empty()) options.relative_bias = relative.data();
    if (!bias.empty()) options.bias = bias.data();
    if (!slopes.empty()) options.alibi_slopes = slopes.data();
    forward.q = q.data(), forward.k = k.data(), forward.v = v.data(), forward.o = o.data();
    forward.logsumexp = logsumexp.data();
  }
  void run() { kernels::attention(shape, options, forward); }

  struct Gradients {
    std::vector<T> dq, dk, dv, dbias, d_relative;
  };
  Gradients run_backward() {
    run();
    Gradients g{std::vector<T>(q.size(), T(7)), std::vector<T>(k.size(), T(7)),
                std::vector<T>(v.size(), T(7)), std::vector<T>(bias.size(), T(7)),
                std::vector<T>(relative.size(), T(7))};
    kernels::AttentionBackward<T> b;
    b.q = q.data(), b.k = k.data(), b.v = v.data(), b.o = o.data(), b.logsumexp = logsumexp.data();
    b.d_o = d_o.data(), b.dq = g.dq.data(), b.dk = g.dk.data(), b.dv = g.dv.data();
    if (options.bias != nullptr) b.dbias = g.dbias.data();
    if (options.relative_bias != nullptr) b.d_relative_bias = g.d_relative.data();
    b.d_o_strides = shape.o, b.dq_strides = shape.q, b.dk_strides = shape.k, b.dv_strides = shape.v;
    kernels::attention_backward(shape, options, b);
    return g;
  }

  std::vector<T> q, k, v, d_o, o, logsumexp, bias, slopes;
  std::vector<std::int64_t> offsets, lengths, starts;
  std::vector<T> relative;
  kernels::AttentionShape shape;
  kernels::AttentionOptions<T> options;
  kernels::AttentionForward<T> forward;
};

}  // namespace heed
