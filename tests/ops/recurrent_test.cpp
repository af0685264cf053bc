// LSTM and GRU against PyTorch (tests/fixtures/recurrent, see case.json there), their formulas, and central
// differences.
#include "heed/ops/recurrent.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "heed/autograd.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"
#include "reference/tensors.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

constexpr std::int64_t kSequences = 3, kSteps = 4, kInputs = 3, kStates = 2;

using Layer = RecurrentResult (*)(const Tensor&, const RecurrentWeights&, const RecurrentState&,
                                  const RecurrentOptions&);

struct RecurrentOp {
  const char* name;
  std::int64_t gates;
  Layer fused, formula;
};
const RecurrentOp kOps[] = {{"lstm", 4, &lstm, &lstm_by_formula}, {"gru", 3, &gru, &gru_by_formula}};

struct Recurrent : testing::TestWithParam<RecurrentOp> {
  RecurrentOp op = GetParam();
  bool has_cell = op.gates == 4;

  // x, the four parameters, h, and c of LSTM
  std::vector<Tensor> operands(std::int64_t batch = kSequences, std::int64_t time = kSteps) const {
    const std::int64_t out = op.gates * kStates;
    std::vector<Tensor> all{random_tensor({batch, time, kInputs}, 1), random_tensor({out, kInputs}, 2, -1, 1),
                            random_tensor({out, kStates}, 3, -1, 1),  random_tensor({out}, 4, -1, 1),
                            random_tensor({out}, 5, -1, 1),           random_tensor({batch, kStates}, 6)};
    if (has_cell) all.push_back(random_tensor({batch, kStates}, 7));
    return all;
  }
  RecurrentResult run(Layer layer, const std::vector<Tensor>& in, const RecurrentOptions& options) const {
    return layer(in[0], {in[1], in[2], in[3], in[4]}, {in[5], has_cell ? in[6] : Tensor()}, options);
  }
  // All results in one tensor: y [B, T, H], then the last states.
  Tensor joined(const RecurrentResult& r) const {
    std::vector<Tensor> parts{r.y, unsqueeze(r.state.h, 1)};
    if (has_cell) parts.push_back(unsqueeze(r.state.c, 1));
    return concat(parts, 1);
  }
  std::vector<RecurrentOptions> all_options() const {
    const Tensor lengths = Tensor::from(std::vector<std::int64_t>{2, kSteps, 0}, {kSequences});
    return {{}, {.reverse = true}, {.lengths = lengths}, {.lengths = lengths, .reverse = true}};
  }
};

TEST_P(Recurrent, EqualsItsFormulaInValueAndGradient) {
  for (const RecurrentOptions& options : all_options()) {
    std::vector<std::vector<Tensor>> inputs;
    std::vector<Tensor> results;
    for (const Layer layer : {op.fused, op.formula}) {
      inputs.push_back(operands());
      for (Tensor& in : inputs.back()) in.set_requires_grad();
      const Tensor all = joined(run(layer, inputs.back(), options));
      all.backward(random_tensor(all.shape(), 8));
      results.push_back(all);
    }
    expect_near(results[0], results[1], 1e-12);
    for (std::size_t i = 0; i < inputs[0].size(); ++i) {
      SCOPED_TRACE(i);
      expect_near(inputs[0][i].grad(), inputs[1][i].grad(), 1e-12);
    }
  }
}

TEST_P(Recurrent, GradientsEqualCentralDifferences) {
  for (const RecurrentOptions& options : all_options())
    check_gradients([&](const auto& in) { return joined(run(op.fused, in, options)); }, operands());
}

// The gradient arrives though only one of the results is used, and without biases and initial state.
TEST_P(Recurrent, EveryResultPassesItsGradientBackAlone) {
  const auto weights = [](const auto& in) { return RecurrentWeights{in[1], in[2], {}, {}}; };
  const std::vector<Tensor> all = operands(), some(all.begin(), all.begin() + 3);
  check_gradients([&](const auto& in) { return op.fused(in[0], weights(in), {}, {}).y; }, some);
  check_gradients([&](const auto& in) { return op.fused(in[0], weights(in), {}, {}).state.h; }, some);
  if (has_cell)
    check_gradients([&](const auto& in) { return op.fused(in[0], weights(in), {}, {}).state.c; }, some);
}

TEST_P(Recurrent, InferenceGivesTheNumbersOfTraining) {
  std::vector<Tensor> in = operands();
  for (Tensor& each : in) each = each.to(DType::f32);
  for (const RecurrentOptions& options : all_options()) {
    std::vector<Tensor> trained = in;
    for (Tensor& each : trained) each = each.clone().set_requires_grad();
    const Tensor training = joined(run(op.fused, trained, options));
    const Tensor inference = joined(run(op.fused, in, options));
    EXPECT_EQ(training.to_vector<float>(), inference.to_vector<float>());
    expect_near(inference, joined(run(op.formula, in, options)), 1e-6);
  }
}

// A row has the same bits alone, in a batch, behind padding and with several threads.
TEST_P(Recurrent, ARowDoesNotDependOnItsBatch) {
  const std::int64_t in_size = 40, hidden = 70, out = op.gates * hidden;
  const auto f32 = [](const Tensor& t) { return t.to(DType::f32); };
  const RecurrentWeights w{f32(random_tensor({out, in_size}, 2, -0.3, 0.3)),
                           f32(random_tensor({out, hidden}, 3, -0.3, 0.3)), f32(random_tensor({out}, 4)),
                           f32(random_tensor({out}, 5))};
  const Tensor x = f32(random_tensor({17, 9, in_size}, 6));
  const Tensor alone = slice(slice(x, 0, 0, 1), 1, 0, 6);
  const int before = threads();
  for (const bool reverse : {false, true}) {
    set_threads(1);
    const RecurrentResult one = op.fused(alone, w, {}, {.reverse = reverse});
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      std::vector<std::int64_t> lengths(17, 9);
      lengths[0] = 6;
      const RecurrentResult all =
          op.fused(x, w, {}, {.lengths = Tensor::from(lengths, {17}), .reverse = reverse});
      EXPECT_EQ(slice(slice(all.y, 0, 0, 1), 1, 0, 6).to_vector<float>(), one.y.to_vector<float>());
      EXPECT_EQ(slice(all.state.h, 0, 0, 1).to_vector<float>(), one.state.h.to_vector<float>());
      for (const float value : slice(slice(all.y, 0, 0, 1), 1, 6, 9).to_vector<float>()) EXPECT_EQ(value, 0);
    }
  }
  set_threads(before);
}

// Threads take rows of a large batch through all steps by themselves, and share the steps of a smaller one.
TEST_P(Recurrent, ThreadsDoNotChangeABatchOfManyRows) {
  const std::int64_t rows = 48, steps = 5, in_size = 24, hidden = 40, out = op.gates * hidden;
  const auto f32 = [](const Shape& shape, int seed) {
    return random_tensor(shape, seed, -0.3, 0.3).to(DType::f32);
  };
  std::vector<std::int64_t> lengths(rows, steps);
  lengths[20] = 2;
  lengths[47] = 0;
  const int before = threads();
  for (const bool reverse : {false, true}) {
    std::vector<std::vector<float>> expected;
    for (const int count : {1, 2, 3, 4}) {
      set_threads(count);
      std::vector<Tensor> in{f32({rows, steps, in_size}, 1),
                             f32({out, in_size}, 2),
                             f32({out, hidden}, 3),
                             f32({out}, 4),
                             f32({out}, 5),
                             f32({rows, hidden}, 6)};
      if (has_cell) in.push_back(f32({rows, hidden}, 7));
      for (Tensor& tensor : in) tensor.set_requires_grad();
      const RecurrentResult result =
          op.fused(in[0], {in[1], in[2], in[3], in[4]}, {in[5], has_cell ? in[6] : Tensor()},
                   {.lengths = Tensor::from(lengths, {rows}), .reverse = reverse});
      result.y.backward(f32(result.y.shape(), 8));
      std::vector<std::vector<float>> got{result.y.to_vector<float>(), result.state.h.to_vector<float>()};
      for (const Tensor& tensor : in) got.push_back(tensor.grad().to_vector<float>());
      if (count == 1) expected = got;
      EXPECT_EQ(got, expected) << count << " threads";
    }
  }
  set_threads(before);
}

// Steps one by one, each from its own sums, are the layer.
TEST_P(Recurrent, CellsOneByOneAreTheLayer) {
  const std::vector<Tensor> in = operands();
  RecurrentState state{in[5], has_cell ? in[6] : Tensor()};
  const RecurrentResult whole = run(op.fused, in, {});
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const Tensor a = linear(reshape(slice(in[0], 1, t, t + 1), {kSequences, kInputs}), in[1], in[3]);
    const Tensor b = linear(state.h, in[2], in[4]);
    state = has_cell ? lstm_cell(a + b, state.c) : gru_cell(a, b, state.h);
    expect_near(state.h, reshape(slice(whole.y, 1, t, t + 1), {kSequences, kStates}), 1e-14);
  }
  expect_near(state.h, whole.state.h, 1e-14);
  if (has_cell) expect_near(state.c, whole.state.c, 1e-14);
}

// The state of each step from the traced values and the state before it; without them, the same bits.
TEST_P(Recurrent, TracedGatesAndCellsMakeTheStates) {
  for (RecurrentOptions options : all_options()) {
    for (const bool trained : {false, true}) {
      std::vector<Tensor> in = operands();
      if (trained) in[1].set_requires_grad();
      const Tensor silent = joined(run(op.fused, in, options));
      options.trace = true;
      const RecurrentResult traced = run(op.fused, in, options);
      EXPECT_EQ(joined(traced).detach().to_vector<double>(), silent.detach().to_vector<double>());
      const Tensor gates = traced.gates.clone();
      if (trained) joined(traced).backward(random_tensor(silent.shape(), 8));
      expect_near(traced.gates, gates, 0);  // not overwritten by the gradient
      EXPECT_EQ(traced.cells.defined(), has_cell);
      const auto of = [&](const Tensor& all, std::int64_t b, std::int64_t t) {
        return slice(slice(all.detach(), 0, b, b + 1), 1, t, t + 1);
      };
      const auto gate = [&](std::int64_t b, std::int64_t t, std::int64_t i) {
        return slice(of(gates, b, t), 2, i * kStates, (i + 1) * kStates);
      };
      for (std::int64_t b = 0; b < kSequences; ++b) {
        const std::int64_t length =
            options.lengths.defined() ? options.lengths.data<std::int64_t>()[b] : kSteps;
        for (std::int64_t t = length; t < kSteps; ++t)
          expect_near(of(gates, b, t), Tensor::zeros({1, 1, op.gates * kStates}, DType::f64), 0);
        for (std::int64_t t = 0; t < length; ++t) {
          const std::int64_t before = options.reverse ? t + 1 : t - 1;
          const bool first = before < 0 || before == length;
          const auto previous = [&](const Tensor& all, const Tensor& initial) {
            return first ? reshape(slice(initial, 0, b, b + 1), {1, 1, kStates}) : of(all, b, before);
          };
          Tensor h;
          if (has_cell) {
            const Tensor c = gate(b, t, 1) * previous(traced.cells, in[6]) + gate(b, t, 0) * gate(b, t, 2);
            expect_near(of(traced.cells, b, t), c, 1e-14);
            h = gate(b, t, 3) * tanh(c);
          } else {
            const Tensor z = gate(b, t, 1);
            h = (z * -1.0 + 1.0) * gate(b, t, 2) + z * previous(traced.y, in[5]);
          }
          expect_near(of(traced.y, b, t), h, 1e-14);
        }
      }
    }
  }
}

TEST_P(Recurrent, GradientsOfCellsEqualCentralDifferences) {
  const std::int64_t out = op.gates * kStates;
  const std::vector<Tensor> in{random_tensor({kSequences, out}, 1), random_tensor({kSequences, out}, 2),
                               random_tensor({kSequences, kStates}, 3)};
  check_gradients(
      [&](const auto& of) {
        if (!has_cell) return gru_cell(of[0], of[1], of[2]).h;
        const RecurrentState next = lstm_cell(of[0] + of[1], of[2]);
        return concat({next.h, next.c}, 1);
      },
      in);
  if (has_cell) check_gradients([&](const auto& of) { return lstm_cell(of[0] + of[1], of[2]).c; }, in);
}

TEST_P(Recurrent, NoRowsAreFine) {
  std::vector<Tensor> in = operands(0);
  for (Tensor& each : in) each.set_requires_grad();
  const RecurrentResult r = run(op.fused, in, {});
  EXPECT_EQ(r.y.shape(), (Shape{0, kSteps, kStates}));
  r.y.backward(r.y.detach());
  for (const double value : in[1].grad().to_vector<double>()) EXPECT_EQ(value, 0);
}

TEST_P(Recurrent, RefusesWhatDoesNotFit) {
  const auto refuses = [&](std::size_t index, const Tensor& value, const std::string& told,
                           const RecurrentOptions& options = {}) {
    std::vector<Tensor> in = operands();
    in[index] = value;
    EXPECT_ERROR(run(op.fused, in, options), told) << index;
  };
  const std::int64_t out = op.gates * kStates;
  refuses(0, random_tensor({kSequences, kSteps, kInputs + 1}, 1),
          "expected weight_ih [" + std::to_string(out) + ", 4]");
  refuses(0, random_tensor({kSequences, 0, kInputs}, 1), "of at least one step, got f64[3, 0, 3]");
  refuses(0, Tensor(), "of at least one step, got an undefined one");
  refuses(1, random_tensor({out + 1, kInputs}, 1), "expected weight_ih [" + std::to_string(out) + ", 3]");
  refuses(1, random_tensor({out, kInputs}, 1).to(DType::f32),
          "expected weights like x f64[3, 4, 3], got f32");
  refuses(2, random_tensor({out, kStates + 1}, 1), "expected weight_hh [");
  refuses(3, random_tensor({out + 1}, 1), "expected biases [");
  refuses(5, random_tensor({kSequences + 1, kStates}, 1), "expected an initial state [3, 2]");
  const Tensor x = operands()[0];
  refuses(0, x, "expected lengths in [0, 4], got 5",
          {.lengths = Tensor::full({kSequences}, kSteps + 1, DType::i64)});
  refuses(0, x, "expected lengths in [0, 4], got -1",
          {.lengths = Tensor::full({kSequences}, -1, DType::i64)});
  refuses(0, x, "expected lengths i64[3], got i64[4]",
          {.lengths = Tensor::full({kSequences + 1}, 1, DType::i64)});
  EXPECT_ERROR(gru_cell(x, x, x), "gru_cell: expected a state [B, H] and sums [B, 3 H] of one type");
  EXPECT_ERROR(lstm_cell(random_tensor({2, 7}, 1), random_tensor({2, 2}, 1)),
               "lstm_cell: expected a state [B, H] and sums [B, 4 H] of one type");
  if (!has_cell) {
    const std::vector<Tensor> in = operands();
    EXPECT_ERROR(gru(in[0], {in[1], in[2], in[3], in[4]}, {in[5], in[5]}),
                 "gru: expected no cell in the state of a GRU");
  }
}

// Two bidirectional layers over rows of different lengths, as torch.nn.LSTM and torch.nn.GRU compute them
// from packed sequences: values, and every gradient.
TEST_P(Recurrent, EqualsPyTorch) {
  const auto file =
      std::filesystem::path(HEED_FIXTURES) / "recurrent" / (std::string(op.name) + ".safetensors");
  TensorMap all = read_tensors(file);
  const auto leaf = [&](const std::string& name) { return all.contains(name) ? all.at(name) : Tensor(); };
  for (auto& [name, tensor] : all) {
    if (is_floating(tensor.dtype()) && !name.starts_with("d") && all.contains("grad." + name))
      tensor.set_requires_grad();
  }
  Tensor x = leaf("x"), loss;
  const auto add = [&](const Tensor& value, const Tensor& gradient) {
    const Tensor term = sum(value * gradient);
    loss = loss.defined() ? loss + term : term;
  };
  const std::int64_t batch = x.size(0), hidden = leaf("weight_hh_l0").size(1);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    std::vector<Tensor> directions;
    for (const bool reverse : {false, true}) {
      const std::string end = "_l" + std::to_string(layer) + (reverse ? "_reverse" : "");
      const std::int64_t row = 2 * layer + (reverse ? 1 : 0);
      const auto of_row = [&](const Tensor& states) {
        return states.defined() ? reshape(slice(states, 0, row, row + 1), {batch, hidden}) : states;
      };
      const RecurrentResult r = op.fused(
          x, {leaf("weight_ih" + end), leaf("weight_hh" + end), leaf("bias_ih" + end), leaf("bias_hh" + end)},
          {of_row(leaf("h0")), of_row(leaf("c0"))}, {.lengths = leaf("lengths"), .reverse = reverse});
      directions.push_back(r.y);
      expect_near(r.state.h, of_row(leaf("h_n")), 1e-6);
      add(r.state.h, of_row(leaf("dh_n")));
      if (!has_cell) continue;
      expect_near(r.state.c, of_row(leaf("c_n")), 1e-6);
      add(r.state.c, of_row(leaf("dc_n")));
    }
    x = concat(directions, 2);
  }
  expect_near(x, leaf("y"), 1e-6);
  add(x, leaf("dy"));
  loss.backward();
  int compared = 0;
  for (const auto& [name, tensor] : all) {
    if (!tensor.requires_grad()) continue;
    SCOPED_TRACE(name);
    EXPECT_LE(relative_error(tensor.grad(), all.at("grad." + name)), 1e-5);
    ++compared;
  }
  EXPECT_EQ(compared, has_cell ? 19 : 18);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Recurrent, testing::ValuesIn(kOps),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace heed
