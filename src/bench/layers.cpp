// Attention on random numbers: full, in a window, sparse, linear, or by its formula.
#include "bench/layers.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "heed/autograd.h"
#include "heed/nn/weight.h"
#include "heed/ops/attention.h"
#include "heed/ops/attention_variants.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/recurrent.h"

namespace heed::bench {
namespace {

struct Operands {
  Tensor q, o, d_o;
  std::vector<Tensor> k, v;
};

bool is_sparse(const AttentionShape& a) {
  return a.kind == AttentionForm::strided || a.kind == AttentionForm::fixed;
}

/// Returns the number of pairs of a query and a key that it may attend to.
double visible_pairs(const AttentionShape& a) {
  double pairs = 0;
  for (std::int64_t t = 0; t < a.length; ++t) {
    const std::int64_t place = t + a.keys - a.length;
    if (is_sparse(a)) {
      const bool strided = a.kind == AttentionForm::strided;
      const std::int64_t near = strided ? std::min(place + 1, a.stride) : place % a.stride + 1;
      pairs += static_cast<double>(near + place / a.stride * (strided ? 1 : a.summary));
      continue;
    }
    const std::int64_t first = a.window > 0 ? std::max<std::int64_t>(0, place - a.window + 1) : 0;
    std::int64_t last = a.keys - 1;
    if (a.causal) last = std::min(last, place);
    if (a.window > 0) last = std::min(last, place + a.window - 1);
    pairs += static_cast<double>(std::max<std::int64_t>(0, last - first + 1));
  }
  return pairs;
}

/// The shape, operations and bytes of the work.
Work attention_costs(const AttentionShape& a) {
  Work work;
  work.kind = "attention";
  work.shape = {{"kind", std::string(name_of(a.kind))},
                {"batch", a.batch},
                {"heads", a.heads},
                {"kv_heads", a.kv_heads},
                {"head_dim", a.head_dim},
                {"length", a.length},
                {"keys", a.keys},
                {"causal", a.causal},
                {"window", a.window},
                {"stride", a.stride},
                {"backward", a.backward},
                {"dtype", std::string(name_of(a.dtype))}};
  work.arithmetic = a.dtype == DType::f64 ? DType::f64 : DType::f32;
  // Each pair costs one dot product of length head_dim for its score and one for its value. Backward
  // recomputes the score and needs four more: the gradients of weights, values, queries and keys.
  // Linear attention adds each key and value to a sum, multiplies each query with it, and has five such
  // products backward.
  const double pairs =
      a.kind == AttentionForm::linear ? static_cast<double>(a.length * (a.head_dim + 1)) : visible_pairs(a);
  const double product = 2.0 * static_cast<double>(a.batch * a.heads * a.head_dim) * pairs;
  work.backward_operations = a.backward ? 5 * product : 0;
  work.operations = 2 * product + work.backward_operations;
  const double queries = static_cast<double>(a.batch * a.heads * a.length * a.head_dim * size_of(a.dtype));
  const double keys = static_cast<double>(a.batch * a.kv_heads * a.keys * a.head_dim * size_of(a.dtype));
  work.bytes =
      (a.backward ? 3 : 1) * 2 * (queries + keys);  // q and o, k and v; again as inputs and as gradients
  work.items = {{"tokens", static_cast<double>(a.batch * a.length)}};
  return work;
}

// A matrix product of random numbers.

struct GemmOperands {
  Tensor x, y;
  std::vector<Weight> weights;

  void product(std::size_t i) {
    const NoGradients guard;
    y = weights[i].linear(x, {}, Activation::none, WeightLayout::out_in);
  }
};

// A layer of LSTM or GRU over random sequences.

struct RecurrentOperands {
  Tensor x, y, d_y;
  RecurrentWeights weights;

  std::vector<Tensor> inputs() const {
    return {x, weights.weight_ih, weights.weight_hh, weights.bias_ih, weights.bias_hh};
  }
};

}  // namespace

const char* name_of(AttentionForm kind) {
  constexpr const char* kNames[] = {"full", "window", "strided", "fixed", "linear", "formula"};
  return kNames[static_cast<std::size_t>(kind)];
}

Work attention_work(AttentionShape a) {
  if (a.kv_heads == 0) a.kv_heads = a.heads;
  if (a.keys == 0) a.keys = a.length;
  if (is_sparse(a)) {
    a.causal = true;
    if (a.stride == 0)
      a.stride = std::max<std::int64_t>(1, std::llround(std::sqrt(static_cast<double>(a.keys))));
  }
  if (a.kind != AttentionForm::full && a.kind != AttentionForm::window && a.kind != AttentionForm::formula)
    a.window = 0;
  if (a.kind == AttentionForm::window && a.window == 0) a.window = 256;
  Work work = attention_costs(a);
  const std::int64_t copies = a.backward ? 1 : operand_copies(work.operations, work.bytes);
  const bool has_state = a.kind == AttentionForm::linear && a.causal && a.length < a.keys;
  const Shape key_shape{a.batch, a.kv_heads, has_state ? a.length : a.keys, a.head_dim};
  const auto x = std::make_shared<Operands>();
  x->q = random_tensor({a.batch, a.heads, a.length, a.head_dim}, a.dtype, 0);
  for (std::int64_t i = 0; i < copies; ++i) {
    x->k.push_back(i == 0 ? random_tensor(key_shape, a.dtype, 1) : x->k[0].clone());
    x->v.push_back(i == 0 ? random_tensor(key_shape, a.dtype, 2) : x->v[0].clone());
  }
  AttentionOptions options;
  options.causal = a.causal;
  options.window = a.window;
  const SparsePattern pattern{a.kind == AttentionForm::fixed ? SparseKind::fixed : SparseKind::strided,
                              a.stride, a.summary};
  if (a.backward) {
    x->d_o = random_tensor(x->q.shape(), a.dtype, 3);
    for (Tensor* input : {&x->q, &x->k[0], &x->v[0]}) input->set_requires_grad();
    work.backward = [x] {
      x->o.backward(x->d_o);
      for (const Tensor& input : {x->q, x->k[0], x->v[0]}) input.zero_grad();
      x->o = {};
    };
  }
  LinearAttentionOptions linear{.causal = a.causal};
  if (has_state) linear.state = Tensor::zeros({a.batch, a.kv_heads, a.head_dim, a.head_dim + 1}, DType::f64);
  work.run = [x, a, options, pattern, linear](std::int64_t repeat) {
    const auto copy = static_cast<std::size_t>(repeat) % x->k.size();
    const Tensor &k = x->k[copy], &v = x->v[copy];
    if (a.kind == AttentionForm::linear) {
      x->o = linear_attention(x->q, k, v, linear);
    } else if (is_sparse(a)) {
      x->o = sparse_attention(x->q, k, v, {.pattern = pattern});
    } else if (a.kind == AttentionForm::formula) {
      x->o = attention_by_formula(x->q, k, v, options);
    } else {
      x->o = scaled_dot_product_attention(x->q, k, v, options);
    }
  };
  return work;
}

Work gemm_work(const GemmSizes& a) {
  Work work;
  work.kind = "gemm";
  work.shape = {
      {"m", a.m}, {"n", a.n}, {"k", a.k}, {"dtype", std::string(name_of(a.dtype))}, {"plain", a.plain}};
  work.arithmetic = a.dtype == DType::f64 ? DType::f64 : DType::f32;
  work.operations = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
  const DType outside = work.arithmetic;  // only weights are stored in 16 bits
  work.bytes = static_cast<double>(a.n * a.k) * static_cast<double>(size_of(a.dtype)) +
               static_cast<double>(a.m * (a.k + a.n)) * static_cast<double>(size_of(outside));
  const std::int64_t copies = operand_copies(work.operations, work.bytes);
  const auto operands = std::make_shared<GemmOperands>();
  operands->x = random_tensor({a.m, a.k}, outside, 0);
  // The weights of a loaded model are packed by the first matrix product; other tensors are not.
  const Tensor numbers = random_tensor({a.n, a.k}, a.dtype == DType::f32 ? DType::bf16 : DType::f32, 1);
  while (static_cast<std::int64_t>(operands->weights.size()) < copies) {
    operands->weights.push_back(a.plain ? numbers.to(a.dtype) : numbers.to_lazy(a.dtype));
    operands->product(operands->weights.size() - 1);
  }
  work.run = [operands, copies](std::int64_t repeat) {
    operands->product(static_cast<std::size_t>(repeat % copies));
  };
  return work;
}

Work recurrent_work(const RecurrentSizes& a) {
  Work work;
  work.kind = "recurrent";
  work.shape = {{"cell", std::string(a.is_lstm ? "lstm" : "gru")},
                {"batch", a.batch},
                {"length", a.length},
                {"input", a.input},
                {"hidden", a.hidden},
                {"backward", a.backward}};
  const std::int64_t gates = (a.is_lstm ? 4 : 3) * a.hidden, steps = a.batch * a.length;
  // Two matrix products a step; backward, each has one for its input and one for its weight.
  const double products = 2.0 * static_cast<double>(steps * gates) * static_cast<double>(a.input + a.hidden);
  work.backward_operations = a.backward ? 2 * products : 0;
  work.operations = products + work.backward_operations;
  work.bytes = (a.backward ? 3 : 1) * 4.0 *
               static_cast<double>(gates * (a.input + a.hidden) + steps * (a.input + a.hidden));
  work.items = {{"steps", static_cast<double>(steps)}};
  const auto operands = std::make_shared<RecurrentOperands>();
  operands->x = random_tensor({a.batch, a.length, a.input}, DType::f32, 0);
  operands->weights = {random_tensor({gates, a.input}, DType::f32, 1),
                       random_tensor({gates, a.hidden}, DType::f32, 2), random_tensor({gates}, DType::f32, 3),
                       random_tensor({gates}, DType::f32, 4)};
  for (Tensor* weight : {&operands->weights.weight_ih, &operands->weights.weight_hh})
    *weight = *weight * 0.05;  // the size of trained ones
  if (a.backward) {
    operands->d_y = random_tensor({a.batch, a.length, a.hidden}, DType::f32, 5);
    for (Tensor input : operands->inputs()) input.set_requires_grad();
    work.backward = [operands] {
      operands->y.backward(operands->d_y);
      for (const Tensor& input : operands->inputs()) input.zero_grad();
      operands->y = {};
    };
  }
  work.run = [operands, is_lstm = a.is_lstm](std::int64_t) {
    operands->y = is_lstm ? lstm(operands->x, operands->weights).y : gru(operands->x, operands->weights).y;
  };
  return work;
}

}  // namespace heed::bench
