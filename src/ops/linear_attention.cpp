// Linear attention: the kernel with its gradient, and the plain formula.
#include "heed/ops/attention_variants.h"

#include <algorithm>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "kernels/attention_variants.h"
#include "ops/attention.h"
#include "ops/attention_operands.h"

namespace heed {
namespace {

constexpr const char* kLinearAttention = "linear attention";

void check(const AttentionSizes& n, const Tensor& q, const Tensor& k, const LinearAttentionOptions& o) {
  const std::string where = std::string(kLinearAttention) + ": expected ";
  if (q.dtype() != k.dtype() || (q.dtype() != DType::f32 && q.dtype() != DType::f64))
    throw Error(where + "q, k and v all f32 or all f64, got " + q.str() + " and " + k.str());
  if (o.causal && n.queries != n.keys) {
    throw Error(where + "as many queries as keys for a causal attention, got " + q.str() + " and " + k.str());
  }
  check_key_masks(kLinearAttention, n, o.key_mask, o.key_lengths);
  const Shape state{n.batch, n.kv_heads, n.head_dim, n.value_dim + 1};
  if (o.state.defined() &&
      (o.state.shape() != state || o.state.dtype() != DType::f64 || !o.state.is_contiguous()))
    throw Error(where + "a state f64" + state.str() + ", got " + o.state.str());
}

// One call of the kernels. `sums`, where defined, are the denominators.
struct Call {
  AttentionSizes n;
  bool causal;
  AttentionOperands operands;
  Tensor visible, sums;

  kernels::LinearAttentionOptions options() const {
    return {causal, visible.defined() ? visible.data<bool>() : nullptr};
  }
  void forward(const Tensor& state) const {
    dispatch_float(kLinearAttention, operands.q.dtype(), [&]<class T>() {
      kernels::LinearAttentionForward<T> args;
      operands.give(args);
      if (sums.defined()) args.sums = sums.data<T>();
      if (state.defined()) args.state = state.data<double>();
      kernels::linear_attention(operands.shape(n), options(), args);
    });
  }
  std::vector<Tensor> gradients(const Tensor& d_o) const {
    std::vector<Tensor> gradients = operands.empty_gradients(n);
    dispatch_float(kLinearAttention, operands.q.dtype(), [&]<class T>() {
      kernels::LinearAttentionBackward<T> args;
      operands.give(args, d_o, gradients);
      args.sums = sums.data<T>();
      kernels::linear_attention_backward(operands.shape(n), options(), args);
    });
    return gradients;
  }
};

// elu(x) + 1 = max(x, 0) + exp(min(x, 0))
Tensor features(const Tensor& x) { return relu(x) + exp(neg(relu(neg(x)))); }

// The weights of some heads and queries, [B, heads, queries, S]; the queries of row b begin at position
// first[b].
Tensor weights_by_formula(const AttentionSizes& n, const Tensor& q, const Tensor& k,
                          const LinearAttentionOptions& options, const WantedWeights& wanted,
                          const std::vector<std::int64_t>& first) {
  std::vector<std::int64_t> kv_heads;
  for (const std::int64_t h : wanted.heads) kv_heads.push_back(h / (n.heads / n.kv_heads));
  const auto index = [](const std::vector<std::int64_t>& places) {
    return Tensor::from(places, {static_cast<std::int64_t>(places.size())});
  };
  const Tensor phi_q = features(gather(gather(q, 1, index(wanted.heads)), 2, index(wanted.queries)));
  const Tensor phi_k = features(gather(k, 1, index(kv_heads)));
  Tensor products = matmul(phi_q, transpose(phi_k, -1, -2));
  const Tensor visible = visible_keys(n, options.key_mask, options.key_lengths);
  if (visible.defined()) products = products * reshape(visible, {n.batch, 1, 1, n.keys}).to(q.dtype());
  if (options.causal) {
    std::vector<double> seen;
    for (const std::int64_t position : first) {
      for (const std::int64_t t : wanted.queries) {
        for (std::int64_t s = 0; s < n.keys; ++s) seen.push_back(s <= t + position ? 1 : 0);
      }
    }
    const auto rows = static_cast<std::int64_t>(wanted.queries.size());
    products = products * Tensor::from(seen, {n.batch, 1, rows, n.keys}).to(q.dtype());
  }
  // A query that sees nothing has a sum of 0, and weights of 0.
  const Tensor sums = sum(products, -1, true);
  Tensor nothing = Tensor::zeros(sums.shape(), DType::f64);
  const std::vector<double> values = sums.detach().to(DType::f64).to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) nothing.data<double>()[i] = values[i] > 0 ? 0 : 1;
  return products / (sums + nothing.to(q.dtype()));
}

std::vector<std::int64_t> from_start(const AttentionSizes& n) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(n.batch), 0);
}

}  // namespace

Tensor linear_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                        const LinearAttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value, kLinearAttention);
  check(n, query, key, options);
  const bool recording = needs_gradient({query, key, value});
  if (options.state.defined()) refuse_gradient("the state of linear attention", {query, key, value});
  if (weights != nullptr) {
    if (options.state.defined())
      throw Error(std::string(kLinearAttention) +
                  ": expected no request for weights with a state, which keeps no keys");
    const NoGradients guard;
    weights->values = weights_by_formula(n, query, key, options, WantedWeights(*weights, n), from_start(n));
  }
  Call call{n,
            options.causal,
            {n, query, key, value},
            visible_keys(n, options.key_mask, options.key_lengths),
            recording ? Tensor::empty({n.batch, n.heads, n.queries}, query.dtype()) : Tensor()};
  call.forward(options.state);
  Tensor result = call.operands.o;
  if (!recording) return result;
  call.operands.o = result.detach();  // the closure may not hold its own result, only its numbers
  record(result, kLinearAttention, {query, key, value},
         [call](const Tensor& gradient) { return call.gradients(dense_rows(gradient)); });
  return result;
}

void linear_attention_weights(const Tensor& query, const Tensor& key, const Tensor& offsets,
                              const Tensor& key_lengths, AttentionWeights& weights) {
  const NoGradients guard;
  const AttentionSizes n = attention_sizes(query, key, key, kLinearAttention);
  const LinearAttentionOptions options{.causal = true, .key_lengths = key_lengths};
  check_key_masks(kLinearAttention, n, options.key_mask, options.key_lengths);
  weights.values = weights_by_formula(n, query, key, options, WantedWeights(weights, n),
                                      offsets.to_vector<std::int64_t>());
}

Tensor linear_attention_by_formula(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const LinearAttentionOptions& options, AttentionWeights* weights) {
  const AttentionSizes n = attention_sizes(query, key, value, kLinearAttention);
  check(n, query, key, options);
  if (options.state.defined()) throw Error(std::string(kLinearAttention) + " by formula: expected no state");
  const Tensor all = weights_by_formula(n, query, key, options, WantedWeights({}, n), from_start(n));
  if (weights != nullptr)
    weights->values = weights_by_formula(n, query, key, options, WantedWeights(*weights, n), from_start(n));
  std::vector<std::int64_t> kv_heads;
  for (std::int64_t h = 0; h < n.heads; ++h) kv_heads.push_back(h / (n.heads / n.kv_heads));
  return matmul(all, gather(value, 1, Tensor::from(kv_heads, {n.heads})));
}

}  // namespace heed
