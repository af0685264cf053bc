// LSTM and GRU by their formulas.
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/recurrent.h"
#include "heed/ops/shape.h"
#include "ops/stored_recurrent.h"

namespace heed {
namespace {

// 1 where row b has step t, else 0: [B, 1].
Tensor has_step(const Tensor& x, const RecurrentOptions& options, std::int64_t t) {
  Tensor present = Tensor::full({x.size(0), 1}, 1.0, DType::f64);
  if (options.lengths.defined()) {
    const std::vector<std::int64_t> lengths = options.lengths.to_vector<std::int64_t>();
    for (std::size_t b = 0; b < lengths.size(); ++b) present.data<double>()[b] = t < lengths[b] ? 1.0 : 0.0;
  }
  return present.to(x.dtype());
}

// x where `present` is 1, `default_value` where it is 0.
Tensor choose(const Tensor& present, const Tensor& x, const Tensor& default_value) {
  return x * present + default_value * (present * -1.0 + 1.0);
}

// Runs `cell`, from the sums of inputs and states and the state to the next state, over all steps.
template <class Cell>
RecurrentResult run_formula(const Tensor& x, const RecurrentWeights& w, const RecurrentState& initial,
                            const RecurrentOptions& options, Cell cell) {
  const std::int64_t batch = x.size(0), time = x.size(1), hidden = w.weight_hh.size(1);
  const auto or_zeros = [&](const Tensor& t) {
    return t.defined() ? t : Tensor::zeros({batch, hidden}, x.dtype());
  };
  RecurrentState state{or_zeros(initial.h), or_zeros(initial.c)};
  std::vector<Tensor> outputs(static_cast<std::size_t>(time));
  for (std::int64_t i = 0; i < time; ++i) {
    const std::int64_t t = options.reverse ? time - 1 - i : i;
    const Tensor input = reshape(slice(x, 1, t, t + 1), {batch, x.size(2)});
    const RecurrentState next =
        cell(linear(input, w.weight_ih, w.bias_ih), linear(state.h, w.weight_hh, w.bias_hh), state);
    const Tensor present = has_step(x, options, t);
    state = {choose(present, next.h, state.h), choose(present, next.c, state.c)};
    outputs[static_cast<std::size_t>(t)] = next.h * present;
  }
  return {stack(outputs, 1), state};
}

// Gate `index` of sums [B, G H].
Tensor gate(const Tensor& sums, std::int64_t index, std::int64_t hidden) {
  return slice(sums, 1, index * hidden, (index + 1) * hidden);
}

}  // namespace

RecurrentResult lstm_by_formula(const Tensor& x, const RecurrentWeights& weights,
                                const RecurrentState& initial, const RecurrentOptions& options) {
  check_recurrent("lstm", 4, x, weights, initial, options);
  const std::int64_t hidden = weights.weight_hh.size(1);
  return run_formula(x, weights, initial, options, [&](const Tensor& a, const Tensor& b, const auto& state) {
    const Tensor sums = a + b;
    const Tensor in = sigmoid(gate(sums, 0, hidden)), forget = sigmoid(gate(sums, 1, hidden));
    const Tensor candidate = tanh(gate(sums, 2, hidden)), out = sigmoid(gate(sums, 3, hidden));
    const Tensor c = forget * state.c + in * candidate;
    return RecurrentState{out * tanh(c), c};
  });
}

RecurrentResult gru_by_formula(const Tensor& x, const RecurrentWeights& weights,
                               const RecurrentState& initial, const RecurrentOptions& options) {
  check_recurrent("gru", 3, x, weights, initial, options);
  const std::int64_t hidden = weights.weight_hh.size(1);
  RecurrentResult result =
      run_formula(x, weights, initial, options, [&](const Tensor& a, const Tensor& b, const auto& state) {
        const Tensor reset = sigmoid(gate(a, 0, hidden) + gate(b, 0, hidden));
        const Tensor update = sigmoid(gate(a, 1, hidden) + gate(b, 1, hidden));
        const Tensor candidate = tanh(gate(a, 2, hidden) + reset * gate(b, 2, hidden));
        return RecurrentState{(update * -1.0 + 1.0) * candidate + update * state.h, state.c};
      });
  result.state.c = {};
  return result;
}

}  // namespace heed
