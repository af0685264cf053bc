// Sparse attention: the kernel with its gradient, and the plain formula.
#include "heed/ops/attention_variants.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "heed/autograd.h"
#include "heed/error.h"
#include "kernels/attention_variants.h"
#include "ops/attention.h"
#include "ops/attention_operands.h"

namespace heed {
namespace {

constexpr const char* kSparseAttention = "sparse attention";

std::vector<std::int64_t> offsets_of(const AttentionSizes& n, const SparseAttentionOptions& o) {
  if (o.query_offsets.defined()) return o.query_offsets.to_vector<std::int64_t>();
  return std::vector<std::int64_t>(static_cast<std::size_t>(n.batch), n.keys - n.queries);
}

void check(const AttentionSizes& n, const Tensor& q, const Tensor& k, const SparseAttentionOptions& o) {
  const std::string where = std::string(kSparseAttention) + ": expected ";
  if (q.dtype() != k.dtype() || (q.dtype() != DType::f32 && q.dtype() != DType::f64))
    throw Error(where + "q, k and v all f32 or all f64, got " + q.str() + " and " + k.str());
  const SparsePattern& p = o.pattern;
  if (p.stride < 1) throw Error(where + "a stride of at least 1, got " + std::to_string(p.stride));
  if (p.kind == SparseKind::fixed && (p.summary < 1 || p.summary > p.stride)) {
    throw Error(where + "from 1 to " + std::to_string(p.stride) + " summary keys of each block, got " +
                std::to_string(p.summary));
  }
  check_key_masks(kSparseAttention, n, o.key_mask, o.key_lengths);
  if (o.query_offsets.defined() &&
      (o.query_offsets.shape() != Shape{n.batch} || o.query_offsets.dtype() != DType::i64))
    throw Error(where + "query offsets i64" + Shape{n.batch}.str() + ", got " + o.query_offsets.str());
  for (const std::int64_t offset : offsets_of(n, o)) {
    if (offset < 0 || offset > n.keys - n.queries) {
      throw Error(where + "queries at positions of the " + std::to_string(n.keys) + " keys, got " +
                  std::to_string(n.queries) + " from position " + std::to_string(offset) + " on");
    }
  }
}

// The pattern as a mask, and everything else as it is.
AttentionOptions dense_options(const AttentionSizes& n, const SparseAttentionOptions& o) {
  AttentionOptions options;
  options.scale = o.scale;
  options.key_mask = o.key_mask;
  options.key_lengths = o.key_lengths;
  options.query_offsets = o.query_offsets;
  options.causal = true;
  options.mask = Tensor::empty({n.batch, 1, n.queries, n.keys}, DType::boolean);
  bool* seen = options.mask.data<bool>();
  for (const std::int64_t offset : offsets_of(n, o)) {
    for (std::int64_t t = 0; t < n.queries; ++t) {
      for (std::int64_t s = 0; s < n.keys; ++s) *seen++ = o.pattern.sees(offset + t, s);
    }
  }
  return options;
}

// One call of the kernels.
struct SparseCall {
  AttentionSizes n;
  SparsePattern pattern;
  double scale;
  AttentionOperands operands;
  Tensor visible, offsets, logsumexp;

  kernels::SparseAttentionOptions options() const {
    return {.pattern = pattern,
            .scale = scale,
            .key_mask = visible.defined() ? visible.data<bool>() : nullptr,
            .query_offsets = offsets.data<std::int64_t>()};
  }
  void forward() const {
    dispatch_float(kSparseAttention, operands.q.dtype(), [&]<class T>() {
      kernels::SparseAttentionForward<T> args;
      operands.give(args);
      args.logsumexp = logsumexp.data<T>();
      kernels::sparse_attention(operands.shape(n), options(), args);
    });
  }
  std::vector<Tensor> gradients(const Tensor& d_o) const {
    std::vector<Tensor> gradients = operands.empty_gradients(n);
    dispatch_float(kSparseAttention, operands.q.dtype(), [&]<class T>() {
      kernels::SparseAttentionBackward<T> args;
      operands.give(args, d_o, gradients);
      args.logsumexp = logsumexp.data<T>();
      kernels::sparse_attention_backward(operands.shape(n), options(), args);
    });
    return gradients;
  }
};

}  // namespace

Tensor sparse_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const SparseAttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value, kSparseAttention);
  check(n, query, key, options);
  if (weights != nullptr) {
    const NoGradients guard;
    scaled_dot_product_attention(query, key, value, dense_options(n, options), weights);
  }
  SparseCall call{n,
                  options.pattern,
                  options.scale.value_or(1.0 / std::sqrt(static_cast<double>(n.head_dim))),
                  {n, query, key, value},
                  visible_keys(n, options.key_mask, options.key_lengths),
                  Tensor::from(offsets_of(n, options), {n.batch}),
                  Tensor::empty({n.batch, n.heads, n.queries}, query.dtype())};
  call.forward();
  Tensor result = call.operands.o;
  if (!needs_gradient({query, key, value})) return result;
  call.operands.o = result.detach();  // the closure may not hold its own result, only its numbers
  record(result, kSparseAttention, {query, key, value},
         [call](const Tensor& gradient) { return call.gradients(dense_rows(gradient)); });
  return result;
}

void sparse_attention_scores(const Tensor& query, const Tensor& key, const Tensor& value,
                             const SparseAttentionOptions& options, AttentionWeights& scores) {
  const AttentionSizes n = attention_sizes(query, key, value, kSparseAttention);
  check(n, query, key, options);
  attention_scores(query, key, value, dense_options(n, options), scores);
}

Tensor sparse_attention_by_formula(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const SparseAttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value, kSparseAttention);
  check(n, query, key, options);
  return attention_by_formula(query, key, value, dense_options(n, options), weights);
}

}  // namespace heed
