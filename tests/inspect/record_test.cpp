// Recorded attention, its measures, and ablation, against transformers and NumPy (fixtures/attend/make.py).
#include "heed/inspect/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/inspect/ablation.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "reference/error.h"

namespace heed {
namespace {

struct MeasuredModel {
  const char* name;
  const char* directory;
  std::vector<std::pair<const char*, const char*>> kinds;  // heed's name and the fixture's
  LogitChoice logit;
};

class Measures : public testing::TestWithParam<MeasuredModel> {
 protected:
  const std::filesystem::path fixtures{HEED_FIXTURES};
  std::unique_ptr<Model> model = load_model(fixtures / GetParam().directory);
  SafetensorsFile file =
      SafetensorsFile::open(fixtures / "attend" / (std::string(GetParam().name) + ".safetensors"));

  TensorMap inputs() const {
    TensorMap inputs;
    for (const char* name : {"input_ids", "decoder_input_ids"}) {
      if (file.contains(name)) inputs[name] = file.get(name);
    }
    return inputs;
  }
  AttentionRecord record(bool gradient) const {
    RecordOptions options{.kinds = attention_kinds(*model), .value_norms = true, .vectors = true};
    if (gradient) options.gradient = GetParam().logit;
    return record_attention(*model, inputs(), options);
  }
  std::string fixture_kind(const std::string& kind) const {
    for (const auto& [ours, theirs] : GetParam().kinds) {
      if (kind == ours) return theirs;
    }
    return "none";
  }
  Tensor expected(const RecordedLayer& layer, const char* what) const {
    return file.get(fixture_kind(layer.kind) + "." + std::to_string(layer.layer) + "." + what);
  }
};

void expect_near(const Tensor& got, const Tensor& expected, double relative, const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const std::vector<float> a = got.contiguous().to_vector<float>(), b = expected.to_vector<float>();
  float largest = 0;
  for (const float value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], relative * static_cast<double>(largest)) << what << " " << i;
}

TEST_P(Measures, EqualNumPy) {
  const AttentionRecord record = this->record(true);
  EXPECT_EQ(record.layers.size() % GetParam().kinds.size(), 0u);
  std::map<std::string, std::vector<Tensor>> by_kind;
  for (const RecordedLayer& layer : record.layers) {
    expect_near(layer.weights, expected(layer, "weights"), 1e-5, layer.name + " weights");
    expect_near(value_weighted_norms(layer), expected(layer, "norms"), 1e-5, layer.name + " norms");
    expect_near(gradient_times_attention(layer), expected(layer, "gradient"), 1e-4, layer.name + " gradient");
    by_kind[layer.kind].push_back(layer.weights);
  }
  for (const auto& [kind, weights] : by_kind) {
    if (kind == "cross") continue;
    const std::vector<Tensor> rollouts = attention_rollout(weights);
    for (std::size_t n = 0; n < rollouts.size(); ++n)
      expect_near(rollouts[n], file.get(fixture_kind(kind) + "." + std::to_string(n) + ".rollout"), 1e-5,
                  kind);
  }
}

TEST_P(Measures, WithoutAGradientNumbersAreTheSame) {
  const AttentionRecord with = record(true), without = record(false);
  ASSERT_EQ(with.layers.size(), without.layers.size());
  for (std::size_t i = 0; i < with.layers.size(); ++i) {
    EXPECT_FALSE(without.layers[i].gradient.defined());
    EXPECT_EQ(with.layers[i].q.shape(), without.layers[i].q.shape());
    expect_near(with.layers[i].weights, without.layers[i].weights, 1e-5, with.layers[i].name);
  }
  for (const Parameter& parameter : model->parameters()) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST_P(Measures, AnAblatedHeadIsTheModelWithoutIt) {
  const AttentionRecord record = this->record(false);
  const std::vector<LogitChoice> choices{GetParam().logit, {0, 3}};
  const auto ablations = ablate_heads(*model, inputs(), record, choices, {});
  std::size_t i = 0;
  for (const RecordedLayer& layer : record.layers) {
    for (std::int64_t head = 0; head < layer.weights.size(0); ++head, ++i) {
      // A head reads nothing if all its weights are zero.
      Taps taps;
      taps.listen(layer.name + ".weights", [head](const std::string&, Tensor& weights) {
        weights = weights.clone();
        const Tensor one = slice(weights, 1, head, head + 1);
        one.copy_from(Tensor::zeros(one.shape()));
      });
      Context context{false, nullptr, &taps};
      const Tensor logits = model->forward(inputs(), {}, context).at("logits").detach();
      ASSERT_LT(i, ablations.size());
      EXPECT_EQ(ablations[i].layer, layer.layer);
      EXPECT_EQ(ablations[i].head, head);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        const auto at = [&](const Tensor& x) {
          return slice(slice(x, 1, choices[c].position, choices[c].position + 1), 2, choices[c].token,
                       choices[c].token + 1)
              .item();
        };
        EXPECT_NEAR(static_cast<double>(ablations[i].change[c]), at(logits) - at(record.logits), 1e-5);
      }
    }
  }
  EXPECT_EQ(i, ablations.size());
}

INSTANTIATE_TEST_SUITE_P(
    Families, Measures,
    testing::Values(MeasuredModel{"bert", "encoders/bert-mlm", {{"encoder", "self"}}, {3, 12}},
                    MeasuredModel{"qwen3", "decoders/qwen3", {{"decoder", "self"}}, {6, 12}},
                    MeasuredModel{"marian",
                                  "marian",
                                  {{"cross", "cross"}, {"encoder", "encoder"}, {"decoder", "decoder"}},
                                  {2, 12}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Rollout, OfUniformAttentionIsHalfIdentityAtFirst) {
  const Tensor uniform = Tensor::full({2, 4, 4}, 0.25);
  const std::vector<Tensor> layers{uniform, uniform};
  const std::vector<Tensor> rollouts = attention_rollout(layers);
  EXPECT_FLOAT_EQ(rollouts[0].to_vector<float>()[0], 0.5f + 0.125f);
  EXPECT_FLOAT_EQ(rollouts[0].to_vector<float>()[1], 0.125f);
  EXPECT_FLOAT_EQ(rollouts[1].to_vector<float>()[1], 0.1875f);  // 1/4 (I + 2 U + U): U U = U
  const std::vector<Tensor> cross{Tensor::full({2, 3, 4}, 0.25)};
  EXPECT_ERROR(attention_rollout(cross), "rollout: expected weights [H, T, T], got f32[2, 3, 4]");
}

// Against central differences: the logit when one weight is replaced.
TEST(Record, GradientsOfRecurrentAttentionAreSlopes) {
  for (const char* name : {"dot-gru", "general-lstm-feeding", "additive-gru"}) {
    const std::filesystem::path folder = std::filesystem::path(HEED_FIXTURES) / "recurrent" / name;
    const auto model = load_model(folder, DType::f64);
    const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3})},
                           {"decoder_input_ids", Tensor::from(std::vector<std::int64_t>{4, 5}, {1, 2})}};
    const RecordOptions options{.kinds = attention_kinds(*model), .gradient = LogitChoice{1, 6}};
    const RecordedLayer layer = record_attention(*model, inputs, options).layers.at(0);
    const NoGradients guard;
    const auto logit = [&](std::int64_t step, std::int64_t key, double change) {
      Taps taps;
      // Heads are what is replaced: changed weights of one step are a changed average of that step.
      Tensor values;
      taps.listen(layer.name + ".v", [&](const std::string&, Tensor& v) { values = v; });
      taps.listen(layer.name + ".heads", [&](const std::string&, Tensor& heads) {
        heads = heads.clone();
        const Tensor one = slice(heads, 2, step, step + 1);
        one.copy_from(one.clone() + slice(values, 2, key, key + 1) * change);
      });
      Context context{.taps = &taps};
      const Tensor logits = model->forward(inputs, {}, context).at("logits");
      return slice(slice(logits, 1, 1, 2), 2, 6, 7).item();
    };
    ASSERT_EQ(layer.gradient.shape(), (Shape{1, 2, 3})) << name;
    const std::vector<float> slopes = layer.gradient.contiguous().to_vector<float>();
    for (std::int64_t i = 0; i < 6; ++i) {
      const double slope = (logit(i / 3, i % 3, 1e-5) - logit(i / 3, i % 3, -1e-5)) / 2e-5;
      EXPECT_NEAR(slopes[static_cast<std::size_t>(i)], slope, 1e-6) << name << " " << i;
    }
  }
}

// alpha f(h), f by the columns of W_c that the context is multiplied by: the formula, written out.
TEST(Record, NormsOfRecurrentAttentionAreOfTheContextColumns) {
  for (const char* name : {"dot-gru", "general-lstm-feeding", "additive-gru"}) {
    const auto model = load_model(std::filesystem::path(HEED_FIXTURES) / "recurrent" / name, DType::f64);
    const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3})},
                           {"decoder_input_ids", Tensor::from(std::vector<std::int64_t>{4, 5}, {1, 2})}};
    const RecordOptions options{.kinds = attention_kinds(*model), .value_norms = true, .values = true};
    const RecordedLayer layer = record_attention(*model, inputs, options).layers.at(0);
    std::vector<double> combine;
    for (const Parameter& p : model->parameters()) {
      if (p.name == "decoder.combine.weight") combine = p.tensor.detach().to_vector<double>();
    }
    const std::vector<float> v = layer.v.contiguous().to_vector<float>(),
                             weights = layer.weights.contiguous().to_vector<float>(),
                             norms = value_weighted_norms(layer).contiguous().to_vector<float>();
    const auto size = static_cast<std::size_t>(layer.v.size(2));
    ASSERT_EQ(combine.size(), 2 * size * size) << name;
    ASSERT_EQ(norms.size(), 6u) << name;
    for (std::size_t i = 0; i < 6; ++i) {
      double square = 0;
      for (std::size_t row = 0; row < size; ++row) {
        double f = 0;
        for (std::size_t d = 0; d < size; ++d)
          f += combine[row * 2 * size + d] * static_cast<double>(v[i % 3 * size + d]);
        square += f * f;
      }
      EXPECT_NEAR(norms[i], static_cast<double>(weights[i]) * std::sqrt(square), 1e-6) << name << " " << i;
    }
  }
}

// What is recorded of a part is the part of what is recorded.
TEST(Record, OfARangeIsThePartOfTheWhole) {
  const auto model = load_model(std::filesystem::path(HEED_FIXTURES) / "marian");
  const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 5}, {1, 5})},
                         {"decoder_input_ids", Tensor::from(std::vector<std::int64_t>{4, 5, 6, 7}, {1, 4})}};
  RecordOptions options{.kinds = attention_kinds(*model), .value_norms = true, .vectors = true};
  options.gradient = LogitChoice{3, 6};
  const AttentionRecord whole = record_attention(*model, inputs, options);
  options.queries = {1, 3};
  options.keys = {2, {}};
  const AttentionRecord part = record_attention(*model, inputs, options);
  ASSERT_EQ(part.layers.size(), whole.layers.size());
  for (std::size_t i = 0; i < part.layers.size(); ++i) {
    const RecordedLayer &a = part.layers[i], &b = whole.layers[i];
    const std::int64_t keys = b.weights.size(2);
    EXPECT_EQ(a.all_queries, b.weights.size(1));
    EXPECT_EQ(a.all_keys, keys);
    const auto queries = [](const Tensor& x) { return slice(x, 1, 1, 3).contiguous(); };
    const auto both = [&](const Tensor& x) { return slice(slice(x, 1, 1, 3), 2, 2, keys).contiguous(); };
    const auto of_keys = [&](const Tensor& x) { return slice(x, 1, 2, keys).contiguous(); };
    expect_near(a.weights, both(b.weights), 0, a.name + ".weights");
    expect_near(a.gradient, both(b.gradient), 1e-6, a.name + ".gradient");
    expect_near(a.q, queries(b.q), 0, a.name + ".q");
    expect_near(a.k, of_keys(b.k), 0, a.name + ".k");
    expect_near(a.value_norms, of_keys(b.value_norms), 0, a.name + ".value_norms");
  }
  options.queries = {1, 9};
  EXPECT_ERROR(record_attention(*model, inputs, options), "expected queries of the 5 there are, got 1:9");
}

TEST(Record, RefusesWhatTheModelLacks) {
  const auto recurrent = load_model(std::filesystem::path(HEED_FIXTURES) / "encoders/bert");
  const TensorMap inputs{{"input_ids", Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3})}};
  RecordOptions options{.kinds = attention_kinds(*recurrent), .gradient = LogitChoice{0, 0}};
  EXPECT_ERROR(record_attention(*recurrent, inputs, options),
               "gradient: expected a model with logits, got one without a head")
      << "a model without a head has no logits";
  options.gradient.reset();
  options.layers = {9};
  EXPECT_TRUE(record_attention(*recurrent, inputs, options).layers.empty());
}

}  // namespace
}  // namespace heed
