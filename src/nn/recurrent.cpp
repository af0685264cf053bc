// Recurrent layers with stored weights, steps with deferred gradients, and attention over a source.
#include "heed/nn/recurrent.h"

#include <string_view>
#include <utility>
#include <vector>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/attention.h"
#include "heed/ops/attention_variants.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "ops/attention.h"
#include "ops/weight_product.h"
#include "tensor/impl.h"

namespace heed {
namespace {

// Where a gradient is recorded, recurrent products have no 16-bit weights: they see them in f32.
Tensor wide_if_recorded(const Tensor& weight) {
  return needs_gradient({weight}) ? weight.to(gradient_dtype(weight.dtype())) : weight;
}

}  // namespace

RecurrentResult RecurrentLayer::operator()(const Tensor& x, const RecurrentState& initial,
                                           const RecurrentOptions& options) const {
  const auto ih = weight_ih.packed_for(x), hh = weight_hh.packed_for(x);
  const RecurrentWeights weights{wide_if_recorded(weight_ih.tensor()), wide_if_recorded(weight_hh.tensor()),
                                 bias_ih, bias_hh};
  const auto run = cell == RecurrentCell::lstm ? &stored_lstm : &stored_gru;
  return run(x, weights, initial, options, {ih.get(), hh.get()});
}

StepLinear::StepLinear(Linear map) : map_(std::move(map)) {
  const Tensor& weight = map_.weight.tensor();
  if (!needs_gradient({weight})) return;
  map_.weight.packed_for(weight);  // frees what inference packed
  recorded_ = std::make_shared<RepeatedLinear>(wide_if_recorded(weight), map_.bias);
}

Tensor StepLinear::operator()(const Tensor& x) const {
  return recorded_ != nullptr ? (*recorded_)(x) : map_(x);
}

RecurrentSteps::RecurrentSteps(const RecurrentLayer& layer)
    : cell_(layer.cell),
      of_input_(Linear{layer.weight_ih, layer.bias_ih}),
      of_state_(Linear{layer.weight_hh, layer.bias_hh}) {}

RecurrentState RecurrentSteps::operator()(const Tensor& x, const RecurrentState& state,
                                          const CellListener& listener) const {
  const Tensor input = of_input_(x), previous = of_state_(state.h);
  const bool is_lstm = cell_ == RecurrentCell::lstm;
  Tensor gates;
  Tensor* const wanted = listener ? &gates : nullptr;
  RecurrentState next =
      is_lstm ? lstm_cell(input + previous, state.c, wanted) : gru_cell(input, previous, state.h, wanted);
  if (!listener) return next;
  const auto replaced = [&](const char* what, Tensor& value) {
    const Tensor own = value;
    listener(what, value);
    return !value.is_same(own);
  };
  const auto gate = [&](std::int64_t i) {
    const std::int64_t hidden = state.h.size(1);
    return slice(gates, 1, i * hidden, (i + 1) * hidden);
  };
  if (replaced("gates", gates)) {
    if (is_lstm) next.c = gate(1) * state.c + gate(0) * gate(2);
    next.h = is_lstm ? gate(3) * tanh(next.c) : gate(2) + gate(1) * (state.h - gate(2));
  }
  if (is_lstm && replaced("cell", next.c)) next.h = gate(3) * tanh(next.c);
  replaced("state", next.h);
  return next;
}

RecurrentResult RecurrentLayer::replay(const Tensor& x, const RecurrentState& initial,
                                       const RecurrentOptions& options,
                                       const RecurrentReplacements& given) const {
  const std::int64_t batch = x.size(0), time = x.size(1), hidden = weight_hh.size(1);
  const auto or_zeros = [&](const Tensor& t) {
    return t.defined() ? t : Tensor::zeros({batch, hidden}, x.dtype());
  };
  const auto step_of = [&](const Tensor& all, std::int64_t t) {
    return reshape(slice(all, 1, t, t + 1), {batch, all.size(2)}).contiguous();
  };
  const RecurrentSteps steps(*this);
  RecurrentState state{or_zeros(initial.h), cell == RecurrentCell::lstm ? or_zeros(initial.c) : Tensor()};
  std::vector<Tensor> gates(static_cast<std::size_t>(time)), cells = gates, states = gates;
  for (std::int64_t i = 0; i < time; ++i) {
    const std::int64_t t = options.reverse ? time - 1 - i : i;
    const auto at = static_cast<std::size_t>(t);
    Tensor present = Tensor::full({batch, 1}, 1.0, x.dtype());
    for (std::int64_t b = 0; options.lengths.defined() && b < batch; ++b) {
      if (t >= options.lengths.data<std::int64_t>()[b])
        slice(present, 0, b, b + 1).copy_from(Tensor::zeros({1, 1}, x.dtype()));
    }
    const auto use = [&](const Tensor& all, Tensor& value, Tensor& kept) {
      if (all.defined()) value = step_of(all, t);
      kept = value * present;
    };
    const RecurrentState next = steps(step_of(x, t), state, [&](std::string_view what, Tensor& value) {
      if (what == "gates") return use(given.gates, value, gates[at]);
      if (what == "cell") return use(given.cells, value, cells[at]);
      use(given.states, value, states[at]);
    });
    const auto moved = [&](const Tensor& from, const Tensor& to) {
      return from.defined() ? to * present + from * (present * -1.0 + 1.0) : from;
    };
    state = {moved(state.h, next.h), moved(state.c, next.c)};
  }
  return {stack(states, 1), state, stack(gates, 1), state.c.defined() ? stack(cells, 1) : Tensor()};
}

SourceMemory SourceMemory::rows(const Tensor& rows) const {
  return {gather(keys, 0, rows), gather(values, 0, rows), mask.defined() ? gather(mask, 0, rows) : mask};
}

SourceMemory SourceAttention::prepare(const Tensor& memory, const Tensor& mask) const {
  return {key.weight.defined() ? key(memory) : memory, memory, mask};
}

namespace {

struct SourceOperands {
  Tensor q, k, v;  // [B, 1, T, d], [B, 1, S, d], [B, 1, S, D]
  AttentionOptions options;
};

SourceOperands operands_of(const SourceAttention& attention, const Tensor& queries,
                           const SourceMemory& memory) {
  SourceOperands in{unsqueeze(queries, 1), unsqueeze(memory.keys, 1), unsqueeze(memory.values, 1), {}};
  in.options.scale = 1.0;
  in.options.key_mask = memory.mask;
  if (attention.score == AlignmentScore::additive) {
    // The scores are the additive mask of products that are 0.
    const Tensor v = reshape(attention.v.to(queries.dtype()), {attention.v.numel()});
    in.options.mask = unsqueeze(additive_scores(queries, memory.keys, v), 1);
    in.q = Tensor::zeros({queries.size(0), 1, queries.size(1), 1}, queries.dtype());
    in.k = Tensor::zeros({queries.size(0), 1, memory.keys.size(1), 1}, queries.dtype());
  }
  return in;
}

}  // namespace

Tensor SourceAttention::context(const Tensor& queries, const SourceMemory& memory, Tensor* weights) const {
  const SourceOperands in = operands_of(*this, queries, memory);
  AttentionWeights all;
  const Tensor result =
      scaled_dot_product_attention(in.q, in.k, in.v, in.options, weights != nullptr ? &all : nullptr);
  if (weights != nullptr) *weights = all.values;
  return reshape(result, {queries.size(0), queries.size(1), memory.values.size(2)});
}

Tensor SourceAttention::scores(const Tensor& queries, const SourceMemory& memory) const {
  const NoGradients guard;
  const SourceOperands in = operands_of(*this, queries, memory);
  AttentionWeights all;
  attention_scores(in.q, in.k, in.v, in.options, all);
  return all.values;
}

Tensor context_of(const Tensor& weights, const SourceMemory& memory) {
  const Tensor flat = reshape(weights, {weights.size(0), weights.size(2), weights.size(3)});
  return matmul(flat, memory.values.to(flat.dtype()));
}

}  // namespace heed
