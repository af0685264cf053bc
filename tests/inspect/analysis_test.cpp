// The analyses against the same numbers from forward hooks of Hugging Face transformers, and of NumPy
// (tests/fixtures/analysis), their tables, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "heed/inspect/ablation.h"
#include "heed/inspect/head_measures.h"
#include "heed/inspect/logit_lens.h"
#include "heed/inspect/patching.h"
#include "heed/inspect/stream_attribution.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using Json = nlohmann::json;
const std::filesystem::path kFixtures = HEED_FIXTURES;

TensorMap row_of(const Json& ids, bool labels = false) {
  const auto all = ids.get<std::vector<std::int64_t>>();
  TensorMap inputs{{"input_ids", Tensor::from(all, {1, std::ssize(all)})}};
  if (labels) inputs["labels"] = inputs["input_ids"];
  return inputs;
}

// By how much the loss of a text grows without each head.
std::vector<double> importances(const Model& model, const TensorMap& text, const std::string& stack,
                                const std::string& part) {
  const std::vector<MeasuredInput> inputs{{text, {}}};
  AblationOptions options{.each = components_of(model, inputs.front(), stack, part, false, "test")};
  const AblationResult found = measure_ablations(model, inputs, options);
  std::vector<double> importance;
  for (std::size_t i = 0; i < options.each.size(); ++i) importance.push_back(found.effect(i).front());
  return importance;
}

PatchOptions difference_of(const Json& token, const Json& other, PatchSite site) {
  return {.site = site,
          .metric = {MetricKind::logit_difference, token.get<std::int64_t>(), other.get<std::int64_t>()}};
}

class Analysis : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> model = load_model(kFixtures / "decoders" / GetParam());
  Json expected = read_json(kFixtures / "analysis" / (std::string(GetParam()) + ".json"));
  TensorMap clean = row_of(expected["clean"], true), corrupted = row_of(expected["corrupted"]);
};
INSTANTIATE_TEST_SUITE_P(Decoders, Analysis, testing::Values("gpt2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Analysis, LogitLensEqualsHooks) {
  const std::vector<LensLayer> layers = logit_lens(*model, {{"input_ids", clean["input_ids"]}}, 3);
  ASSERT_EQ(layers.size(), expected["lens"].size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].name, i == 0 ? "embed" : std::to_string(i - 1));
    for (std::size_t t = 0; t < layers[i].positions.size(); ++t) {
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(layers[i].positions[t][k].id, expected["lens"][i]["ids"][t][k]) << i << " " << t;
        EXPECT_NEAR(layers[i].positions[t][k].probability, expected["lens"][i]["probabilities"][t][k], 1e-5);
      }
    }
  }
}

TEST_P(Analysis, AttributionEqualsHooksAndAddsUp) {
  const LogitAttribution found = attribute_logit(*model, clean, expected["position"], expected["token"]);
  EXPECT_NEAR(found.logit, expected["logit"].get<double>(), 1e-4);
  std::size_t compared = 0;
  for (const LogitPart& part : found.parts) {
    std::string name = part.name;
    if (part.layer >= 0) name += "." + std::to_string(part.layer);
    if (part.head >= 0) name += "." + std::to_string(part.head);
    if (!expected["attribution"].contains(name)) continue;  // the biases of attentions
    EXPECT_NEAR(part.logit, expected["attribution"][name].get<double>(), 1e-4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, expected["attribution"].size());
}

TEST_P(Analysis, HeadsEqualHooks) {
  const std::vector<TensorMap> texts{clean};
  const std::vector<HeadMeasures> heads = measure_heads(*model, texts, {});
  const std::vector<double> importance = importances(*model, clean, "decoder", "self_attn");
  ASSERT_EQ(heads.size(), expected["heads"].size());
  ASSERT_EQ(importance.size(), heads.size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Json& want = expected["heads"][i];
    const HeadMeasures& head = heads[i];
    EXPECT_EQ(head.layer, want["layer"]);
    EXPECT_EQ(head.head, want["head"]);
    EXPECT_NEAR(head.previous, want["previous"].get<double>(), 1e-5);
    EXPECT_NEAR(head.first, want["first"].get<double>(), 1e-5);
    EXPECT_NEAR(head.duplicate, want["duplicate"].get<double>(), 1e-5);
    EXPECT_NEAR(head.induction, want["induction"].get<double>(), 1e-5);
    EXPECT_NEAR(head.entropy, want["entropy"].get<double>(), 1e-5);
    EXPECT_NEAR(head.distance, want["distance"].get<double>(), 1e-4);
    EXPECT_NEAR(importance[i], want["importance"].get<double>(), 1e-5);
    EXPECT_FALSE(head.dead);
    EXPECT_GT(head.size, 0);
  }
}

// ||x|| of each position of [T, D], or of [1, T, D].
std::vector<double> lengths(const std::vector<float>& x, std::int64_t d) {
  std::vector<double> all;
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(d)) {
    double square = 0;
    for (std::int64_t i = 0; i < d; ++i) square += std::pow(static_cast<double>(x[begin + i]), 2);
    all.push_back(std::sqrt(square));
  }
  return all;
}

// What follows an attention changes what its heads add: Gemma's RMS norm, computed here from its weight, and
// Granite's multiplier.
TEST(HeadSizes, AreOfWhatTheHeadAddsToTheStream) {
  const std::vector<std::int64_t> ids{5, 17, 300, 42, 7, 9};
  const TensorMap text{{"input_ids", Tensor::from(ids, {1, std::ssize(ids)})}};
  for (const std::string name : {"gemma2", "granite"}) {
    const auto model = load_model(kFixtures / "decoders" / name);
    std::map<std::string, Tensor> seen;
    Taps taps;
    taps.listen("decoder.layers.0.*",
                [&](const std::string& tap, Tensor& value) { seen[tap] = value.clone(); });
    Context context{.taps = &taps};
    model->forward(text, {}, context);
    const std::string attention = "decoder.layers.0.self_attn.";
    const Tensor parts = seen.at(attention + "contributions"), out = seen.at(attention + "out");
    const std::int64_t time = std::ssize(ids), d = out.size(2);
    const std::vector<float> heads = parts.to_vector<float>(), sums = out.to_vector<float>();
    const std::vector<double> stream = lengths(seen.at("decoder.layers.0.in").to_vector<float>(), d),
                              whole = lengths(sums, d);
    std::vector<float> weight;
    for (const Parameter& p : model->parameters()) {
      if (p.name == "model.layers.0.post_attention_layernorm.weight") weight = p.tensor.to_vector<float>();
    }
    const std::vector<HeadMeasures> found = measure_heads(*model, std::vector<TensorMap>{text}, {});
    for (std::int64_t h = 0; h < parts.size(1); ++h) {
      double mean = 0;
      for (std::int64_t t = 0; t < time; ++t) {
        std::vector<float> added;
        for (std::int64_t i = 0; i < d; ++i) {
          const double rms = std::sqrt(std::pow(whole[t], 2) / static_cast<double>(d) + 1e-6);
          const double factor = name == "granite" ? 0.4 : (1 + static_cast<double>(weight[i])) / rms;
          added.push_back(heads[(h * time + t) * d + i] * static_cast<float>(factor));
        }
        mean += lengths(added, d).front() / stream[t] / static_cast<double>(time);
      }
      EXPECT_NEAR(found[h].size, mean, 1e-4 * mean) << name << " head " << h;
    }
  }
}

TEST_P(Analysis, PatchingEqualsHooks) {
  clean.erase("labels");
  for (const auto& [site, name] : {std::pair{PatchSite::residual, "residual"}, {PatchSite::heads, "heads"}}) {
    const PatchResult found = patch_activations(*model, clean, corrupted,
                                                difference_of(expected["token"], expected["other"], site));
    EXPECT_NEAR(found.clean, expected["metric"]["clean"].get<double>(), 1e-4);
    EXPECT_NEAR(found.corrupted, expected["metric"]["corrupted"].get<double>(), 1e-4);
    const Json& want = expected["patched"][name];
    ASSERT_EQ(found.patched.size(), want.size());
    for (std::size_t layer = 0; layer < want.size(); ++layer) {
      ASSERT_EQ(found.patched[layer].size(), want[layer].size());
      for (std::size_t i = 0; i < want[layer].size(); ++i)
        EXPECT_NEAR(found.patched[layer][i], want[layer][i].get<double>(), 1e-4) << name;
    }
    if (site != PatchSite::residual) continue;
    const std::size_t last = found.patched[0].size() - 1;
    EXPECT_LT(std::abs(found.effect(1, 0)), 1);  // an early position alone does not restore all
    EXPECT_NE(found.effect(1, last), 0);
  }
}

// Encoder-decoders, whose sources differ: the difference enters through the encoder.
class TwoStackAnalysis : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Model> model = load_model(kFixtures / GetParam());
  Json expected = read_json(kFixtures / "analysis" / (std::string(GetParam()) + ".json"));
  TensorMap inputs(const char* source) const {
    return {{"input_ids", row_of(expected[source]).at("input_ids")},
            {"labels", row_of(expected["labels"]).at("input_ids")}};
  }
};
INSTANTIATE_TEST_SUITE_P(EncoderDecoders, TwoStackAnalysis, testing::Values("marian", "t5"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(TwoStackAnalysis, PatchingEqualsHooks) {
  const std::map<std::string, PatchSite> sites{
      {"residual", PatchSite::residual}, {"attention", PatchSite::attention}, {"heads", PatchSite::heads}};
  ASSERT_EQ(expected["patched"].size(), 8u);
  for (const auto& [key, want] : expected["patched"].items()) {
    const std::string kind = key.substr(0, key.find('.')), site = key.substr(kind.size() + 1);
    PatchOptions options = difference_of(expected["token"], expected["other"], sites.at(site));
    options.stack = kind == "encoder" ? "encoder" : "decoder";
    options.part = kind == "cross" ? "cross_attn" : "self_attn";
    const PatchResult found = patch_activations(*model, inputs("clean"), inputs("corrupted"), options);
    EXPECT_NEAR(found.clean, expected["metric"]["clean"].get<double>(), 1e-4);
    EXPECT_NEAR(found.corrupted, expected["metric"]["corrupted"].get<double>(), 1e-4);
    EXPECT_EQ(found.layers, (std::vector<std::int64_t>{0, 1}));
    ASSERT_EQ(found.patched.size(), want.size()) << key;
    for (std::size_t layer = 0; layer < want.size(); ++layer) {
      ASSERT_EQ(found.patched[layer].size(), want[layer].size()) << key;
      for (std::size_t i = 0; i < want[layer].size(); ++i)
        EXPECT_NEAR(found.patched[layer][i], want[layer][i].get<double>(), 1e-4) << key << " " << i;
    }
  }
}

// Norms of the sum act on each part with the deviation of the whole, so that post-norm models add up too.
TEST_P(TwoStackAnalysis, AttributionAddsUp) {
  const TensorMap given = inputs("clean");
  const Tensor logits = model->forward(given).at("logits");
  const std::int64_t token = expected["token"];
  for (const std::int64_t position : {0, 3}) {
    const LogitAttribution found = attribute_logit(*model, given, position, token);
    const double logit = slice(slice(logits, 1, position, position + 1), 2, token, token + 1).item();
    EXPECT_NEAR(found.logit, logit, 1e-4 * std::max(1.0, std::abs(logit)));
    const auto is_norm = [](const LogitPart& part) { return part.name == "feed_forward_norm"; };
    EXPECT_EQ(std::count_if(found.parts.begin(), found.parts.end(), is_norm),
              std::string(GetParam()) == "marian" ? 2 : 0);
  }
}

TEST_P(TwoStackAnalysis, HeadsOfCrossAttentionEqualNumPy) {
  const auto separators = expected["separators"].get<std::set<std::int64_t>>();
  const HeadsOptions options{.part = "cross_attn", .separators = separators};
  const std::vector<TensorMap> texts{inputs("clean")};
  const std::vector<HeadMeasures> heads = measure_heads(*model, texts, options);
  const std::vector<double> importance = importances(*model, texts.front(), "decoder", "cross_attn");
  ASSERT_EQ(heads.size(), expected["cross"].size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Json& want = expected["cross"][i];
    const HeadMeasures& head = heads[i];
    EXPECT_EQ(head.layer, want["layer"]);
    EXPECT_EQ(head.head, want["head"]);
    EXPECT_EQ(head.nearest, want["nearest"]);
    EXPECT_NEAR(head.nearest_distance, want["nearest_distance"].get<double>(), 1e-5);
    EXPECT_EQ(head.redundant, want["nearest_distance"] < 0.05);
    EXPECT_EQ(head.dead, want["size"] < 1e-3);
    EXPECT_NEAR(head.entropy, want["entropy"].get<double>(), 1e-5);
    EXPECT_NEAR(head.first, want["first"].get<double>(), 1e-5);
    EXPECT_NEAR(head.separator, want["separator"].get<double>(), 1e-5);
    EXPECT_NEAR(head.size, want["size"].get<double>(), 1e-5);
    EXPECT_NEAR(importance[i], want["importance"].get<double>(), 1e-5);
    EXPECT_EQ(head.previous + head.duplicate + head.induction + head.distance, 0);
  }
}

TEST(AnalysisErrors, NameWhatIsWrong) {
  const auto bert = load_model(kFixtures / "encoders/bert");
  const auto gpt2 = load_model(kFixtures / "decoders/gpt2");
  const TensorMap one = row_of({1, 2, 3}), longer = row_of({1, 2, 3, 4});
  const auto heads = [&](const Model& model, const TensorMap& text) {
    const std::vector<TensorMap> texts{text};
    return error_of([&] { measure_heads(model, texts, {}); });
  };
  EXPECT_ERROR(logit_lens(*bert, one, 1), "predicts the next token");
  EXPECT_ERROR(attribute_logit(*gpt2, one, 3, 5), "expected a position below 3, got 3");
  EXPECT_ERROR(attribute_logit(*gpt2, one, 0, 512), "expected a token below 512, got 512");
  EXPECT_ERROR(patch_activations(*gpt2, one, longer, {}), "the same number of tokens");
  EXPECT_THAT(heads(*bert, one), testing::HasSubstr("decoder.layers.*"));
  EXPECT_THAT(heads(*gpt2, row_of({1})), testing::HasSubstr("at least two tokens"));
  EXPECT_ERROR(measure(*bert, {row_of({1, 2, 3}, true), {}}),
               "metric: expected a model that predicts the next token");
}

// The last layer's row is what the model predicts; the first reads the embeddings through the whole head.
TEST(MaskedLens, EndsWithThePredictions) {
  for (const char* name : {"bert-mlm", "roberta-mlm", "modernbert-mlm", "albert-mlm", "deberta-v3-mlm"}) {
    const auto model = load_model(kFixtures / "encoders" / name);
    const TensorMap text = row_of({5, 17, 30, 42, 7});
    const std::vector<LensLayer> layers = logit_lens(*model, text, 2);
    const Tensor logits = model->forward(text).at("logits");
    const std::vector<float> all = logits.to_vector<float>();
    ASSERT_GE(layers.size(), 3u);
    EXPECT_EQ(layers[0].name, "embed");
    ASSERT_EQ(layers[0].positions.size(), 5u);
    for (std::size_t t = 0; t < 5; ++t) {
      const auto row = all.begin() + static_cast<std::ptrdiff_t>(t) * logits.size(2);
      EXPECT_EQ(layers.back().positions[t][0].id, std::max_element(row, row + logits.size(2)) - row) << name;
      EXPECT_NE(layers[0].positions[t][0].probability, layers.back().positions[t][0].probability) << name;
    }
  }
}

/// Of a classifier of images, and one of sounds.
class FileAnalysis : public testing::TestWithParam<const char*> {
 protected:
  TensorMap row(std::int64_t index) const {
    const auto file = SafetensorsFile::open(kFixtures / GetParam() / "inputs.safetensors");
    const char* name = model->input().name;
    return {{name, slice(file.get(name), 0, index, index + 1).contiguous()}};
  }
  std::unique_ptr<Model> model = load_model(kFixtures / GetParam());
  Json expected = read_json(kFixtures / "analysis" / (std::string(GetParam()) + ".json"));
};
INSTANTIATE_TEST_SUITE_P(Encoders, FileAnalysis, testing::Values("vit", "audio-spectrogram"),
                         [](const auto& info) { return std::string(info.param).substr(0, 3); });

TEST_P(FileAnalysis, LabelLensEqualsHooks) {
  const std::vector<LensLayer> layers = label_lens(*model, row(0), 5);
  ASSERT_EQ(layers.size(), expected["lens"].size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    EXPECT_EQ(layers[i].name, i == 0 ? "embed" : std::to_string(i - 1));
    ASSERT_EQ(layers[i].positions.size(), 1u);
    ASSERT_EQ(layers[i].positions[0].size(), 5u);
    double before = 1;
    for (const TokenProbability& one : layers[i].positions[0]) {
      EXPECT_NEAR(one.probability, expected["lens"][i][static_cast<std::size_t>(one.id)], 1e-5) << i;
      EXPECT_LE(one.probability, before) << "the most probable ones come first";
      before = one.probability;
    }
  }
}

TEST_P(FileAnalysis, HeadsEqualHooks) {
  std::vector<TensorMap> inputs{row(0)};
  inputs[0]["labels"] = Tensor::from(std::vector<std::int64_t>{expected["label"]}, {1});
  const std::vector<HeadMeasures> heads = measure_heads(*model, inputs, {.stack = "encoder"});
  const std::vector<double> importance = importances(*model, inputs[0], "encoder", "self_attn");
  ASSERT_EQ(heads.size(), expected["heads"].size());
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const HeadMeasures& head = heads[i];
    const Json& want = expected["heads"][i];
    EXPECT_EQ(head.layer, want["layer"]);
    EXPECT_EQ(head.head, want["head"]);
    EXPECT_NEAR(head.first, want["first"].get<double>(), 1e-5) << i;
    EXPECT_NEAR(head.entropy, want["entropy"].get<double>(), 1e-5) << i;
    EXPECT_NEAR(head.distance, want["distance"].get<double>(), 1e-5) << i;
    EXPECT_NEAR(head.size, want["size"].get<double>(), 1e-5) << i;
    EXPECT_NEAR(importance[i], want["importance"].get<double>(), 1e-5) << i;
    EXPECT_EQ(head.previous + head.duplicate + head.induction + head.separator, 0) << "there are no tokens";
  }
}

TEST_P(FileAnalysis, PatchingEqualsHooks) {
  const Json& want = expected["patch"];
  for (const auto& [name, site] : {std::pair("heads", PatchSite::heads), {"residual", PatchSite::residual}}) {
    PatchOptions options = difference_of(want["token"], want["other"], site);
    options.stack = "encoder";
    const PatchResult found = patch_activations(*model, row(0), row(1), options);
    EXPECT_NEAR(found.clean, want["clean"].get<double>(), 1e-5);
    EXPECT_NEAR(found.corrupted, want["corrupted"].get<double>(), 1e-5);
    ASSERT_EQ(found.patched.size(), want[name].size());
    for (std::size_t i = 0; i < found.patched.size(); ++i) {
      ASSERT_EQ(found.patched[i].size(), want[name][i].size()) << name;
      for (std::size_t j = 0; j < found.patched[i].size(); ++j)
        EXPECT_NEAR(found.patched[i][j], want[name][i][j].get<double>(), 1e-5) << name << i << " " << j;
    }
  }
}

TEST(Labels, AreNeededForLensAndPatching) {
  const auto model = load_model(kFixtures / "vit-model");
  const TensorMap pixels{{"pixel_values", Tensor::zeros({1, 3, 32, 32})}};
  EXPECT_ERROR(label_lens(*model, pixels, 1),
               "lens: expected a model with a head of labels, got vit without");
  EXPECT_ERROR(patch_activations(*model, pixels, pixels, {.stack = "encoder"}),
               "patch: expected a model that");
}

}  // namespace
}  // namespace heed
