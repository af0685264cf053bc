// A layer of LSTM or GRU over random sequences.
#include <memory>

#include "bench/layers.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/recurrent.h"

namespace heed::bench {
namespace {

struct RecurrentOperands {
  Tensor x, y, d_y;
  RecurrentWeights weights;

  std::vector<Tensor> inputs() const {
    return {x, weights.weight_ih, weights.weight_hh, weights.bias_ih, weights.bias_hh};
  }
};

}  // namespace

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
