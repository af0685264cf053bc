// Recurrent layers with stored weights, steps with deferred gradients, and attention over a source.
#include "heed/nn/recurrent.h"

#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/ops/attention_variants.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "nn/random_parts.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

TEST(StepLinear, HasTheValuesAndGradientsOfALinearMapAppliedManyTimes) {
  for (const bool with_bias : {true, false}) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      std::vector<std::vector<Tensor>> gradients;
      std::vector<Tensor> values;
      for (const bool steps : {true, false}) {
        const Tensor weight = random_tensor({5, 4}, 1).to(dtype).set_requires_grad();
        const Tensor bias = with_bias ? random_tensor({5}, 2).to(dtype).set_requires_grad() : Tensor();
        const Tensor x = random_tensor({3, 4}, 3).to(dtype).set_requires_grad();
        const Linear map{weight, bias};
        const StepLinear step(map);
        std::vector<Tensor> outputs;
        for (std::int64_t t = 0; t < 3; ++t) {
          const Tensor in = x * (1.0 + static_cast<double>(t));
          outputs.push_back(steps ? step(in) : map(in));
        }
        const Tensor y = concat(outputs, 0);
        y.backward(random_tensor(y.shape(), 4).to(dtype));
        values.push_back(y.detach());
        gradients.push_back({weight.grad(), x.grad()});
        if (with_bias) gradients.back().push_back(bias.grad());
      }
      const double tolerance = dtype == DType::f64 ? 1e-13 : 2e-5;
      expect_near(values[0], values[1], tolerance);
      for (std::size_t i = 0; i < gradients[0].size(); ++i)
        expect_near(gradients[0][i], gradients[1][i], tolerance);
    }
  }
  const StepLinear step(Linear{random_tensor({5, 4}, 1).set_requires_grad(), {}});
  EXPECT_ERROR(step(random_tensor({3, 5}, 1)), "like the weight f64[5, 4], got f64[3, 5]");
  EXPECT_ERROR(step(random_tensor({3, 4}, 1).to(DType::f32)), "like the weight f64[5, 4], got f32[3, 4]");
}

RecurrentLayer random_layer(RecurrentCell cell, std::int64_t in, std::int64_t hidden) {
  const std::int64_t out = gates_of(cell) * hidden;
  return {cell, random_tensor({out, in}, 1, -1, 1), random_tensor({out, hidden}, 2, -1, 1),
          random_tensor({out}, 3, -1, 1), random_tensor({out}, 4, -1, 1)};
}

TEST(RecurrentSteps, OneByOneAreTheLayer) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    for (const bool trained : {false, true}) {
      const RecurrentLayer layer = random_layer(cell, 3, 4);
      if (trained) {
        Tensor weight = layer.weight_hh.tensor();
        weight.set_requires_grad();
      }
      const Tensor x = random_tensor({2, 5, 3}, 5), h = random_tensor({2, 4}, 6),
                   c = random_tensor({2, 4}, 7);
      RecurrentState state{h, cell == RecurrentCell::lstm ? c : Tensor()};
      const RecurrentResult whole = layer(x, state);
      const RecurrentSteps step(layer);
      for (std::int64_t t = 0; t < 5; ++t) {
        state = step(reshape(slice(x, 1, t, t + 1), {2, 3}), state);
        expect_near(state.h, reshape(slice(whole.y, 1, t, t + 1), {2, 4}), 1e-14);
      }
    }
  }
}

// Each row by its length, in both directions; of the values given, those of later steps follow.
TEST(RecurrentLayer, ReplayIsTheLayerAndGoesOnFromWhatIsGiven) {
  const Tensor lengths = Tensor::from(std::vector<std::int64_t>{5, 2}, {2}), x = random_tensor({2, 5, 3}, 5);
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    for (const bool reverse : {false, true}) {
      const RecurrentLayer layer = random_layer(cell, 3, 4);
      const RecurrentOptions options{lengths, reverse, true};
      const RecurrentResult whole = layer(x, {}, options);
      const auto same = [&](const RecurrentReplacements& given) {
        const RecurrentResult again = layer.replay(x, {}, options, given);
        expect_near(again.y, whole.y, 1e-14);
        expect_near(again.state.h, whole.state.h, 1e-14);
        expect_near(again.gates, whole.gates, 1e-14);
        if (cell == RecurrentCell::lstm) {
          expect_near(again.cells, whole.cells, 1e-14);
        }
      };
      same({});
      same({.gates = whole.gates, .cells = whole.cells, .states = whole.y});
      const RecurrentResult zeros = layer.replay(x, {}, options, {.states = whole.y * 0.0});
      expect_near(zeros.y, whole.y * 0.0, 0);
      // With states of 0, every step is a first one.
      const std::int64_t t = reverse ? 0 : 1;
      const Tensor step = slice(x, 1, t, t + 1);
      expect_near(slice(zeros.gates, 1, t, t + 1), layer(step, {}, {.trace = true}).gates, 1e-14);
    }
  }
}

// Every score, against its formula with plain operations; the last source position of row 1 is padding.
TEST(SourceAttention, EqualsItsFormula) {
  const Tensor memory = random_tensor({2, 4, 3}, 1), states = random_tensor({2, 5, 3}, 2);
  Tensor mask = Tensor::full({2, 4}, 1, DType::boolean);
  mask.data<bool>()[7] = false;
  const Tensor w = random_tensor({3, 3}, 3), u = random_tensor({6, 3}, 4), q = random_tensor({6, 3}, 5),
               v = random_tensor({1, 6}, 6);
  const auto check = [&](const SourceAttention& attention, const Tensor& scores) {
    Tensor hidden = Tensor::zeros({2, 1, 4}, DType::f64);
    hidden.data<double>()[7] = -1e30;
    const Tensor want = softmax(scores + hidden, -1);
    const Tensor queries = attention.query.weight.defined() ? attention.query(states) : states;
    Tensor weights;
    const SourceMemory prepared = attention.prepare(memory, mask);
    const Tensor context = attention.context(queries, prepared, &weights);
    expect_near(weights, unsqueeze(want, 1), 1e-12);
    expect_near(context, matmul(want, memory), 1e-12);
    expect_near(softmax(attention.scores(queries, prepared), -1), weights, 1e-12);
    expect_near(context_of(weights, prepared), context, 1e-12);
    EXPECT_EQ(weights.to_vector<double>().back(), 0.0);
  };
  const Tensor across = transpose(memory, 1, 2);
  check({AlignmentScore::dot}, matmul(states, across));
  check({AlignmentScore::general, {}, {w, {}}}, matmul(states, transpose(linear(memory, w), 1, 2)));
  check({AlignmentScore::additive, {q, {}}, {u, {}}, v},
        additive_scores_by_formula(linear(states, q), linear(memory, u), reshape(v, {6})));
}

TEST(SourceAttention, GradientsEqualCentralDifferences) {
  const auto run = [](AlignmentScore score, const std::vector<Tensor>& in) {
    SourceAttention attention{score};
    if (score != AlignmentScore::dot) attention.key = {in[2], {}};
    if (score == AlignmentScore::additive) {
      attention.query = {in[3], {}};
      attention.v = in[4];
    }
    const Tensor queries = score == AlignmentScore::additive ? attention.query(in[0]) : in[0];
    return attention.context(queries, attention.prepare(in[1], {}));
  };
  const Tensor states = random_tensor({2, 3, 3}, 1), memory = random_tensor({2, 4, 3}, 2);
  const auto check = [&](AlignmentScore score, std::vector<Tensor> weights) {
    std::vector<Tensor> in{states, memory};
    in.insert(in.end(), weights.begin(), weights.end());
    check_gradients([&](const auto& of) { return run(score, of); }, in);
  };
  check(AlignmentScore::dot, {});
  check(AlignmentScore::general, {random_tensor({3, 3}, 3)});
  check(AlignmentScore::additive,
        {random_tensor({5, 3}, 3), random_tensor({5, 3}, 4), random_tensor({1, 5}, 5)});
}

TEST(SourceAttention, PaddingAloneGivesZeros) {
  const Tensor memory = random_tensor({1, 4, 3}, 1), states = random_tensor({1, 2, 3}, 2);
  const SourceAttention attention;
  const Tensor context =
      attention.context(states, attention.prepare(memory, Tensor::full({1, 4}, 0, DType::boolean)));
  for (const double value : context.to_vector<double>()) EXPECT_EQ(value, 0.0);
}

TEST(SourceMemory, RowsAreThoseAskedFor) {
  const SourceAttention attention;
  const Tensor memory = random_tensor({2, 4, 3}, 1);
  const SourceMemory rows =
      attention.prepare(memory, {}).rows(Tensor::from(std::vector<std::int64_t>{1, 1, 0}, {3}));
  expect_near(slice(rows.keys, 0, 1, 2), slice(memory, 0, 1, 2), 0);
  expect_near(slice(rows.values, 0, 2, 3), slice(memory, 0, 0, 1), 0);
  EXPECT_FALSE(rows.mask.defined());
}

}  // namespace
}  // namespace heed
