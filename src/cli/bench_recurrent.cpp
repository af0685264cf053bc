// heed bench recurrent: a layer of LSTM or GRU over random sequences.
#include <memory>

#include "cli/bench.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/recurrent.h"

namespace heed::cli {
namespace {

struct RecurrentArguments {
  std::string cell = "lstm";
  std::int64_t batch = 32, length = 64, input = 256, hidden = 256;
  bool backward = false;
  BenchOptions options;
};

struct RecurrentOperands {
  Tensor x, y, d_y;
  RecurrentWeights weights;

  std::vector<Tensor> inputs() const {
    return {x, weights.weight_ih, weights.weight_hh, weights.bias_ih, weights.bias_hh};
  }
};

BenchWork recurrent_bench(const RecurrentArguments& a) {
  if (a.cell != "lstm" && a.cell != "gru") throw UsageError("--cell: expected lstm or gru, got " + a.cell);
  BenchWork work;
  work.kind = "recurrent";
  work.shape = {{"cell", a.cell},   {"batch", a.batch},   {"length", a.length},
                {"input", a.input}, {"hidden", a.hidden}, {"backward", a.backward}};
  const std::int64_t gates = (a.cell == "lstm" ? 4 : 3) * a.hidden, steps = a.batch * a.length;
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
  work.run = [operands, is_lstm = a.cell == "lstm"](std::int64_t) {
    operands->y = is_lstm ? lstm(operands->x, operands->weights).y : gru(operands->x, operands->weights).y;
  };
  return work;
}

}  // namespace

void add_bench_recurrent(CLI::App& parent, const Globals& globals) {
  CLI::App* command =
      parent.add_subcommand("recurrent", "Time a recurrent layer: LSTM or GRU over sequences");
  auto a = std::make_shared<RecurrentArguments>();
  command->add_option("--cell", a->cell, "The kind of layer")
      ->capture_default_str()
      ->type_name("lstm|gru")
      ->group("Shape");
  add_size(*command, "--batch", a->batch, "Sequences")->capture_default_str();
  add_size(*command, "--length", a->length, "Steps of a sequence")->capture_default_str();
  add_size(*command, "--input", a->input, "Numbers of each input")->capture_default_str();
  add_size(*command, "--hidden", a->hidden, "Numbers of the state")->capture_default_str();
  command->add_flag("--backward", a->backward, "Also time the backward pass")->group("Measurement");
  add_bench_options(*command, a->options);
  command->footer(
      "Examples:\n"
      "  heed bench recurrent --cell gru --batch 32 --length 64 --backward\n"
      "  heed bench recurrent --batch 1 --length 1000 --hidden 512 --json");
  command->callback([a, &globals] { bench(recurrent_bench(*a), a->options, globals); });
}

}  // namespace heed::cli
