// Taps of recurrent encoder-decoders against the same models written out step by step in double precision,
// one row at a time: every value, and what replacing it changes in all that follow.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/json.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// One row of a recurrent model, by the formulas of docs/lineage.md. Values are [1, N] a step.
class RowReference {
 public:
  RowReference(const Model& model, const Json& config) : config_(config) {
    for (const Parameter& p : model.parameters()) parameters_[p.name] = p.tensor.detach();
  }
  TensorMap given = {};                             ///< what takes a value's place, [T, N]
  std::map<std::string, std::vector<Tensor>> seen;  ///< values, step by step

  // The logits [T, V] of ids after the source.
  Tensor operator()(const std::vector<std::int64_t>& source, const std::vector<std::int64_t>& target) {
    const std::vector<State> states = encode(source);
    std::vector<State> state(states.end() - layers("decoder"), states.end());
    Tensor fed = Tensor::zeros(state.back().h.shape(), DType::f64);
    std::vector<Tensor> logits;
    for (std::size_t t = 0; t < target.size(); ++t) {
      Tensor x = use("decoder.embed", embedding("decoder", target[t]), t);
      if (is("additive")) fed = context(state.back().h, t);
      if (feeds()) x = concat({x, fed}, 1);
      for (std::int64_t i = 0; i < layers("decoder"); ++i) {
        const std::string layer = "decoder.layers." + std::to_string(i);
        x = use(layer + ".in", x, t);
        State& s = state[static_cast<std::size_t>(i)];
        s = cell("decoder.rnn.", "_l" + std::to_string(i), layer + ".rnn", x, s, t);
        x = use(layer + ".out", s.h, t);
      }
      if (!is("none")) {
        const Tensor read = is("additive") ? fed : context(x, t);
        x = use(attention() + "out", tanh(linear(concat({read, x}, 1), parameter("decoder.combine.weight"))),
                t);
        if (!is("additive")) fed = x;
      }
      logits.push_back(use("logits", linear(x, parameter("output.weight")), t));
    }
    return concat(logits, 0);
  }

 private:
  struct State {
    Tensor h, c;
  };
  bool is(const std::string& attention) const { return config_.at("attention") == attention; }
  bool feeds() const { return is("additive") || config_.at("input_feeding").get<bool>(); }
  std::int64_t layers(const std::string& stack) const { return config_.at(stack + "_layers"); }
  std::string attention() const {
    return "decoder.layers." + std::to_string(layers("decoder") - 1) + ".cross_attn.";
  }
  Tensor parameter(const std::string& name) const {
    for (const std::string& tied : {name, std::string("decoder.embed_tokens.weight")}) {
      if (parameters_.contains(tied)) return parameters_.at(tied);
    }
    return parameters_.at("encoder.embed_tokens.weight");
  }
  Tensor embedding(const std::string& stack, std::int64_t id) const {
    return slice(parameter(stack + ".embed_tokens.weight"), 0, id, id + 1);
  }
  Tensor use(const std::string& name, Tensor value, std::size_t t) {
    const auto at = static_cast<std::int64_t>(t);
    if (given.contains(name)) value = reshape(slice(given.at(name), 0, at, at + 1), value.shape());
    std::vector<Tensor>& all = seen[name];
    if (all.size() <= t) all.resize(t + 1);
    return all[t] = value;
  }

  State cell(const std::string& rnn, const std::string& end, const std::string& name, const Tensor& x,
             const State& before, std::size_t t) {
    const auto sums = [&](const char* of, const Tensor& in) {
      return linear(in, parameter(rnn + "weight_" + of + end), parameter(rnn + "bias_" + of + end));
    };
    const Tensor a = sums("ih", x), b = sums("hh", before.h);
    const std::int64_t hidden = before.h.size(1);
    const auto gate = [&](const Tensor& all, std::int64_t i) {
      return slice(all, 1, i * hidden, (i + 1) * hidden);
    };
    const auto both = [&](std::int64_t i) { return gate(a, i) + gate(b, i); };
    State next;
    if (config_.at("cell") == "lstm") {
      const Tensor gates =
          use(name + ".gates",
              concat({sigmoid(both(0)), sigmoid(both(1)), tanh(both(2)), sigmoid(both(3))}, 1), t);
      next.c = use(name + ".cell", gate(gates, 1) * before.c + gate(gates, 0) * gate(gates, 2), t);
      next.h = gate(gates, 3) * tanh(next.c);
    } else {
      const Tensor reset = sigmoid(both(0));
      const Tensor gates = use(
          name + ".gates", concat({reset, sigmoid(both(1)), tanh(gate(a, 2) + reset * gate(b, 2))}, 1), t);
      next.h = (gate(gates, 1) * -1.0 + 1.0) * gate(gates, 2) + gate(gates, 1) * before.h;
    }
    next.h = use(name + ".state", next.h, t);
    return next;
  }

  // The last states of all layers; keeps the encoder's outputs.
  std::vector<State> encode(const std::vector<std::int64_t>& source) {
    const std::size_t time = source.size();
    std::vector<Tensor> x;
    for (std::size_t t = 0; t < time; ++t)
      x.push_back(use("encoder.embed", embedding("encoder", source[t]), t));
    std::vector<State> last;
    const bool two = config_.at("bidirectional");
    for (std::int64_t i = 0; i < layers("encoder"); ++i) {
      const std::string layer = "encoder.layers." + std::to_string(i), end = "_l" + std::to_string(i);
      for (std::size_t t = 0; t < time; ++t) x[t] = use(layer + ".in", x[t], t);
      const std::int64_t hidden = config_.at("hidden_size").get<std::int64_t>() / (two ? 2 : 1);
      const State zero{Tensor::zeros({1, hidden}, DType::f64), Tensor::zeros({1, hidden}, DType::f64)};
      std::vector<Tensor> ahead(time), back(time);
      State s = zero, r = zero;
      for (std::size_t t = 0; t < time; ++t)
        ahead[t] = (s = cell("encoder.rnn.", end, layer + ".rnn", x[t], s, t)).h;
      for (std::size_t t = time; two && t-- > 0;)
        back[t] = (r = cell("encoder.rnn.", end + "_reverse", layer + ".rnn_reverse", x[t], r, t)).h;
      for (std::size_t t = 0; t < time; ++t)
        x[t] = use(layer + ".out", two ? concat({ahead[t], back[t]}, 1) : ahead[t], t);
      if (two) s = {concat({s.h, r.h}, 1), s.c.defined() ? concat({s.c, r.c}, 1) : s.c};
      last.push_back(s);
    }
    memory_ = concat(x, 0);
    if (is("none")) return last;
    values_.clear();
    const Tensor combine = parameter("decoder.combine.weight");  // [H, H + H], the context's columns first
    for (std::size_t t = 0; t < time; ++t) {
      values_.push_back(use(attention() + "v", x[t], t));
      use(attention() + "transformed", linear(values_.back(), slice(combine, 1, 0, values_.back().size(1))),
          t);
    }
    return last;
  }

  Tensor context(const Tensor& h, std::size_t t) {
    Tensor scores;  // [1, S]
    if (is("dot")) {
      scores = matmul(h, transpose(memory_, 0, 1));
    } else if (is("general")) {
      scores = matmul(h, transpose(linear(memory_, parameter("decoder.attention.key.weight")), 0, 1));
    } else {
      const Tensor keys = linear(memory_, parameter("decoder.attention.key.weight"));
      const Tensor query = linear(h, parameter("decoder.attention.query.weight"));
      scores = transpose(linear(tanh(keys + query), parameter("decoder.attention.v")), 0, 1);
    }
    scores = use(attention() + "scores", scores, t);
    const Tensor weights = use(attention() + "weights", softmax(scores, -1), t);
    return use(attention() + "heads", matmul(weights, concat(values_, 0)), t);
  }

  const Json& config_;
  TensorMap parameters_;
  Tensor memory_;               // [S, H], of which the keys are made
  std::vector<Tensor> values_;  // [1, H] each
};

struct RecurrentTaps : testing::TestWithParam<const char*> {
  fs::path fixture = fs::path(HEED_FIXTURES) / "recurrent" / GetParam();
  Json config = read_json(fixture / "config.json");
  std::unique_ptr<EncoderDecoderModel> model = load_as<EncoderDecoderModel>(fixture, DType::f64);
  TensorMap inputs = read_tensors(fixture / "inputs.safetensors");
  NoGradients guard;

  TensorMap heard(const TensorMap& replaced = {}) const {
    TensorMap values;
    Taps taps;
    for (const auto& [name, value] : replaced) taps.listen(name, replace_by(value));
    taps.listen("*", [&](const std::string& name, Tensor& value) { values[name] = value.contiguous(); });
    Context context{.taps = &taps};
    model->forward(inputs, {}, context);
    taps.require_all_fired();
    return values;
  }
  static std::vector<std::int64_t> tokens(const Tensor& ids, std::int64_t row, std::int64_t count) {
    return slice(slice(ids, 0, row, row + 1), 1, 0, count).contiguous().to_vector<std::int64_t>();
  }
  std::int64_t source_length(std::int64_t row) const {
    const Tensor& mask = inputs.at("attention_mask");
    std::int64_t length = 0;
    for (const std::int64_t shown : tokens(mask, row, mask.size(1))) length += shown;
    return length;
  }
  // Row `row` of a tap's value, without heads and padding: [T, N].
  Tensor row_of(const std::string& name, const Tensor& value, std::int64_t row) const {
    Tensor part = slice(value, 0, row, row + 1);
    part = reshape(part.contiguous(), {value.size(value.rank() - 2), value.size(value.rank() - 1)});
    const bool of_source =
                   name.starts_with("encoder") || name.ends_with(".v") || name.ends_with("transformed"),
               over_source = name.ends_with("scores") || name.ends_with("weights");
    if (of_source) part = slice(part, 0, 0, source_length(row));
    if (over_source) part = slice(part, 1, 0, source_length(row));
    return part.contiguous();
  }
  // Every value (or that under `only`) is that of the formulas where `replaced` stands in for some.
  void expect_formulas(const TensorMap& values, const TensorMap& replaced,
                       const std::string& only = "") const {
    const Tensor& ids = inputs.at("decoder_input_ids");
    for (std::int64_t row = 0; row < ids.size(0); ++row) {
      RowReference reference(*model, config);
      for (const auto& [name, value] : replaced) reference.given[name] = row_of(name, value, row);
      reference(tokens(inputs.at("input_ids"), row, source_length(row)), tokens(ids, row, ids.size(1)));
      for (const auto& [name, steps] : reference.seen) {
        if (!only.empty() && name != only) continue;
        ASSERT_TRUE(values.contains(name)) << name;
        EXPECT_LE(relative_error(row_of(name, values.at(name), row), concat(steps, 0)), 1e-12)
            << name << " of row " << row;
      }
    }
  }
};

TEST_P(RecurrentTaps, EqualTheirFormulas) {
  const TensorMap values = heard();
  expect_formulas(values, {});
  RowReference reference(*model, config);
  reference(tokens(inputs.at("input_ids"), 0, source_length(0)), {5});
  for (const auto& [name, value] : values) EXPECT_TRUE(reference.seen.contains(name)) << name;
}

TEST_P(RecurrentTaps, WeightsAreTheSoftmaxOfTheScores) {
  model = load_as<EncoderDecoderModel>(fixture);
  for (const auto& [name, weights] : heard()) {
    if (!name.ends_with("weights")) continue;
    const Tensor scores = heard().at(name.substr(0, name.size() - 7) + "scores");
    EXPECT_LE(relative_error(softmax(scores.to(DType::f64), -1), weights), 1e-5);
    for (const double total : sum(weights.to(DType::f64), -1).to_vector<double>())
      EXPECT_NEAR(total, 1, 1e-6);
    EXPECT_TRUE(std::isinf(slice(slice(scores, 0, 1, 2), 3, scores.size(3) - 1, scores.size(3))
                               .contiguous()
                               .to_vector<float>()[0]));  // padding
  }
}

// Each value in turn, by half of itself and by zeros; the logits are those of the formulas with it.
TEST_P(RecurrentTaps, ReplacedValuesReachTheLogitsAsTheFormulasSay) {
  const TensorMap values = heard();
  for (const auto& [name, value] : values) {
    for (const double factor : {0.5, 0.0}) {
      if (name.ends_with("scores") && factor == 0.5) continue;
      Tensor other = value * factor;
      if (name.ends_with("scores")) {  // -inf for padding, which stays
        other = value.clone();
        for (double& score : std::span(other.data<double>(), static_cast<std::size_t>(other.numel())))
          score = std::isinf(score) ? score : -0.25 * score + 0.5;
      }
      const TensorMap replaced{{name, other}};
      const TensorMap after = heard(replaced);
      expect_formulas(after, replaced, "logits");
      const bool unread = name == "encoder.layers.1.out" && !model->has_cross_attention();
      if (name == "logits" || name.ends_with("transformed") || unread) continue;
      EXPECT_GT(relative_error(after.at("logits"), values.at("logits")), 1e-6) << name;
    }
  }
}

// The weights of one step: earlier steps stay as they are.
TEST_P(RecurrentTaps, APartIsReplacedAlone) {
  const std::string name =
      std::string(GetParam()).starts_with("none") ? "decoder.layers.0.out" : "*.cross_attn.weights";
  const auto logits = [&](Listener listener) {
    Taps taps;
    taps.listen(name, {.queries = {2, 3}}, std::move(listener));
    Context context{.taps = &taps};
    const Tensor result = model->forward(inputs, {}, context).at("logits");
    taps.require_all_fired();
    return result;
  };
  const Tensor before = logits([](const std::string&, Tensor&) {}), after = logits(replace_by_zeros());
  EXPECT_LE(relative_error(slice(after, 1, 0, 2), slice(before, 1, 0, 2)), 1e-12);
  EXPECT_GT(relative_error(slice(after, 1, 2, 3), slice(before, 1, 2, 3)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Cases, RecurrentTaps,
                         testing::Values("none-lstm", "none-gru", "additive-gru", "additive-lstm",
                                         "general-lstm-feeding", "dot-gru", "concat-lstm",
                                         "concat-gru-feeding"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace heed
