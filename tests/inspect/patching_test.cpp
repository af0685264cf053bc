// Ablation, activation patching, attribution patching and path patching against the same numbers from forward
// hooks of Hugging Face transformers in f64 (tests/fixtures/analysis_patching.py), metrics, and what they
// refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/path_patching.h"
#include "heed/models/registry.h"
#include "models/taps_fixtures.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using Json = nlohmann::json;
const std::filesystem::path kPatchingFixtures = HEED_FIXTURES;

constexpr std::pair<const char*, MetricKind> kMetricsOfTokens[] = {
    {"logit", MetricKind::logit},
    {"logit_difference", MetricKind::logit_difference},
    {"probability", MetricKind::probability},
    {"loss", MetricKind::loss},
    {"kl", MetricKind::kl}};

TensorMap inputs_of(const Json& lists) {
  TensorMap inputs;
  for (const auto& [name, ids] : lists.items()) {
    const auto all = ids.get<std::vector<std::int64_t>>();
    inputs[name] = Tensor::from(all, {1, std::ssize(all)});
  }
  return inputs;
}

// All cases; tests are named by the model, since the numbers of a case are many.
const Json& patching_cases() {
  static const Json cases = read_json(kPatchingFixtures / "analysis/patching.json");
  return cases;
}
std::vector<std::string> patching_models() {
  std::vector<std::string> names;
  for (const Json& one : patching_cases()) names.push_back(one["model"]);
  return names;
}

class PatchingCases : public testing::TestWithParam<std::string> {
 protected:
  static const Json& case_of(const std::string& model) {
    for (const Json& one : patching_cases())
      if (one["model"] == model) return one;
    throw std::out_of_range(model);
  }
  LogitMetric metric(MetricKind kind) const {
    return {kind, given["token"].get<std::int64_t>(), given["other"].get<std::int64_t>(),
            given["position"].get<std::int64_t>()};
  }
  // The mean over the tokens of the text.
  MeasuredInput of_tokens() const {
    MeasuredInput input{clean, {}};
    input.inputs["labels"] = clean.at("input_ids");
    return input;
  }
  std::string stack() const {
    return clean.contains("decoder_input_ids") || causal() ? "decoder" : "encoder";
  }
  bool causal() const { return given["model"].get<std::string>().starts_with("decoders/"); }

  const Json& given = case_of(GetParam());
  std::unique_ptr<Model> model = load_model(kPatchingFixtures / given["model"].get<std::string>());
  TensorMap clean = inputs_of(given["clean"]), corrupted = inputs_of(given["corrupted"]);
};
INSTANTIATE_TEST_SUITE_P(Families, PatchingCases, testing::ValuesIn(patching_models()),
                         [](const auto& info) { return as_test_name(info.param); });

TEST_P(PatchingCases, AblationsEqualHooks) {
  const Json& want = given["ablations"];
  std::vector<TensorMap> reference{clean, corrupted}, other{corrupted};
  for (const auto& [how, replacement] : {std::pair("zero", Replacement::zero),
                                         {"mean", Replacement::mean},
                                         {"resample", Replacement::resample}}) {
    AblationOptions options{.replacement = replacement};
    options.reference = replacement == Replacement::resample ? other : reference;
    options.each = components_of(*model, {clean, {}}, stack(), "self_attn", true, "test");
    ASSERT_EQ(options.each.size(), want["each"].size());
    std::vector<std::pair<std::string, MeasuredInput>> measured;
    for (const auto& [name, kind] : kMetricsOfTokens) measured.push_back({name, {clean, metric(kind)}});
    if (causal()) measured.push_back({"tokens", of_tokens()});
    for (const auto& [name, input] : measured) {
      const AblationResult found = measure_ablations(*model, {&input, 1}, options);
      EXPECT_NEAR(found.whole[0], name == "kl" ? 0 : want["whole"][name].get<double>(), 1e-4) << name;
      for (std::size_t i = 0; i < options.each.size(); ++i) {
        EXPECT_EQ(options.each[i].part, want["each"][i]["part"]);
        EXPECT_EQ(options.each[i].head, want["each"][i]["head"]);
        EXPECT_NEAR(found.each[i][0], want["each"][i][how][name].get<double>(), 1e-4) << how << name << i;
      }
    }
  }
}

TEST_P(PatchingCases, PatchesEqualHooks) {
  const Json& want = given["patches"];
  for (const auto& [name, kind] : kMetricsOfTokens) {
    const PatchOptions options{
        .site = PatchSite::heads, .stack = causal() ? "decoder" : "encoder", .metric = metric(kind)};
    const PatchResult found = patch_activations(*model, clean, corrupted, options);
    EXPECT_NEAR(found.clean, want["clean"][name].get<double>(), 1e-4) << name;
    EXPECT_NEAR(found.corrupted, want["corrupted"][name].get<double>(), 1e-4) << name;
    const std::size_t heads = found.patched.front().size();
    ASSERT_EQ(found.patched.size() * heads, want["heads"].size());
    for (std::size_t i = 0; i < want["heads"].size(); ++i)
      EXPECT_NEAR(found.patched[i / heads][i % heads], want["heads"][i]["patched"][name].get<double>(), 1e-4)
          << name << i;
  }
}

TEST_P(PatchingCases, AttributionsEqualAutograd) {
  const Json& want = given["patches"];
  PatchOptions options{.site = PatchSite::heads,
                       .stack = causal() ? "decoder" : "encoder",
                       .metric = metric(MetricKind::logit_difference)};
  const PatchResult found = attribute_patches(*model, clean, corrupted, options);
  const std::size_t heads = found.patched.front().size();
  for (std::size_t i = 0; i < want["heads"].size(); ++i)
    EXPECT_NEAR(found.patched[i / heads][i % heads] - found.corrupted,
                want["heads"][i]["attributed"].get<double>(), 1e-4)
        << i;
  const PatchAgreement agreement = agreement_of(found, patch_activations(*model, clean, corrupted, options));
  EXPECT_LE(agreement.correlation, 1 + 1e-9);
  EXPECT_GT(agreement.largest, 0);
  EXPECT_NEAR(agreement_of(found, found).correlation, 1, 1e-9);
  options.site = PatchSite::residual;
  const PatchResult streams = attribute_patches(*model, clean, corrupted, options);
  for (std::size_t r = 0; r < streams.patched.size(); ++r) {
    for (std::size_t t = 0; t < streams.patched[r].size(); ++t)
      EXPECT_NEAR(streams.patched[r][t] - streams.corrupted, want["residual_attributed"][r][t].get<double>(),
                  1e-4)
          << r << " " << t;
  }
  for (const Parameter& parameter : model->parameters()) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST_P(PatchingCases, PathsEqualHooks) {
  const std::map<std::string, PathInput> inputs{{"query", PathInput::query},
                                                {"key", PathInput::key},
                                                {"value", PathInput::value},
                                                {"feed_forward", PathInput::feed_forward},
                                                {"logits", PathInput::logits}};
  double largest = 0;
  for (const Json& want : given["paths"]) {
    const PathOptions options{.receiver = {want["stack"], want["part"], want["layer"], want["head"]},
                              .input = inputs.at(want["input"]),
                              .metric = metric(MetricKind::logit_difference)};
    const PathResult found = patch_paths(*model, clean, corrupted, options);
    ASSERT_EQ(found.senders.size(), want["patched"].size()) << want["input"];
    for (std::size_t i = 0; i < found.senders.size(); ++i) {
      const StreamPart& sender = found.senders[i];
      std::string name = sender.name;
      if (sender.layer >= 0) name += "." + std::to_string(sender.layer);
      if (sender.head >= 0) name += "." + std::to_string(sender.head);
      ASSERT_TRUE(want["patched"].contains(name)) << name;
      EXPECT_NEAR(found.patched[i], want["patched"][name].get<double>(), 1e-4) << want["input"] << name;
      largest = std::max(largest, std::abs(found.patched[i] - found.base));
    }
  }
  EXPECT_GT(largest, 1e-3) << "something passes along a path";
}

// Rows that are run together have the bits of runs of their own.
TEST_P(PatchingCases, SeveralTextsAreMeasuredAsOneByOne) {
  const std::vector<MeasuredInput> both{{clean, metric(MetricKind::logit_difference)},
                                        {corrupted, metric(MetricKind::logit_difference)}};
  AblationOptions options;
  options.each = components_of(*model, both.front(), stack(), "self_attn", true, "test");
  const AblationResult together = measure_ablations(*model, both, options);
  for (std::size_t text = 0; text < both.size(); ++text) {
    const AblationResult alone = measure_ablations(*model, {&both[text], 1}, options);
    EXPECT_EQ(together.whole[text], alone.whole[0]);
    for (std::size_t i = 0; i < options.each.size(); ++i) {
      EXPECT_EQ(together.each[i][text], alone.each[i][0]) << i;
      // The same by replacing the tap in a whole run.
      const Component& c = options.each[i];
      const std::string name = c.stack + ".layers." + std::to_string(c.layer) + "." + c.part;
      Taps taps;
      taps.listen(name + (c.head < 0 ? ".added" : ".heads"),
                  {.heads = c.head < 0 ? std::vector<std::int64_t>() : std::vector<std::int64_t>{c.head}},
                  replace_by_zeros());
      const NoGradients guard;
      Context context{.taps = &taps};
      const auto logits = doubles(model->forward(both[text].inputs, {}, context).at("logits"));
      const auto vocabulary = static_cast<std::size_t>(model->vocab_size());
      const std::size_t row = static_cast<std::size_t>(*both[text].metric.position) * vocabulary;
      EXPECT_NEAR(alone.each[i][0],
                  logits[row + static_cast<std::size_t>(*both[text].metric.token)] -
                      logits[row + static_cast<std::size_t>(*both[text].metric.other)],
                  1e-6);
    }
  }
}

TEST(Ablation, RemovesSeveralTogether) {
  const auto model = load_model(kPatchingFixtures / "decoders/gpt2");
  const MeasuredInput input{inputs_of({{"input_ids", {5, 17, 300, 42}}}), {MetricKind::logit, 7}};
  const Component first{.layer = 0, .head = 1}, feeds{.part = "feed_forward", .layer = 1, .head = -1};
  const AblationResult all = measure_ablations(*model, {&input, 1}, {.removed = {first, feeds}});
  const AblationResult one =
      measure_ablations(*model, {&input, 1}, {.removed = {first}, .each = {feeds, first}});
  EXPECT_NE(all.removed[0], all.whole[0]);
  EXPECT_EQ(one.each[0][0], all.removed[0]);
  EXPECT_EQ(one.each[1][0], one.removed[0]) << "what is removed already";
}

// The same as measure_ablations(), which equals hooks in PyTorch.
TEST(Ablation, ListenersReplaceInAnyRun) {
  const auto model = load_model(kPatchingFixtures / "decoders/gpt2");
  const MeasuredInput input{inputs_of({{"input_ids", {5, 17, 300, 42}}}), {MetricKind::logit, 7}};
  const std::vector<TensorMap> reference{inputs_of({{"input_ids", {9, 3, 200, 77, 4}}})};
  const AttentionKind kind = attention_kinds(*model).front();
  for (const Replacement replacement : {Replacement::zero, Replacement::mean, Replacement::resample}) {
    const AblationOptions removed{
        .replacement = replacement,
        .reference = reference,
        .removed = {{.layer = 0, .head = 1}, {.part = "feed_forward", .layer = 1, .head = -1}}};
    Taps taps;
    replace_components(taps, *model, input.inputs, removed);
    const AttentionRecord record = record_attention(*model, input.inputs, {.kinds = {kind}, .taps = &taps});
    const std::vector<float> logits = record.logits.to_vector<float>();
    const auto vocabulary = static_cast<std::size_t>(record.logits.size(2));
    EXPECT_NEAR(logits[3 * vocabulary + 7], measure_ablations(*model, {&input, 1}, removed).removed[0], 1e-4);
    // Each head beside them.
    AblationOptions each = removed;
    const std::vector<LogitChoice> choice{{3, 7}};
    const auto changes =
        ablate_heads(*model, input.inputs, record, choice, {.heads = {1}, .ablation = removed});
    for (std::size_t layer = 0; layer < changes.size(); ++layer)
      each.each.push_back({.layer = changes[layer].layer, .head = 1});
    const AblationResult want = measure_ablations(*model, {&input, 1}, each);
    ASSERT_EQ(changes.size(), record.layers.size());
    for (std::size_t i = 0; i < changes.size(); ++i)
      EXPECT_NEAR(changes[i].change[0], want.effect(i)[0], 1e-4) << i;
  }
  Taps taps;
  EXPECT_ERROR(
      replace_components(taps, *model, input.inputs,
                         {.replacement = Replacement::resample, .removed = {{.layer = 0, .head = 1}}}),
      "expected another reference text");
}

TEST(Estimates, AreMeansWithStandardErrors) {
  const std::vector<double> values{1, 2, 6}, weights{1, 1, 2};
  EXPECT_DOUBLE_EQ(estimate_of(values).mean, 3);
  EXPECT_NEAR(estimate_of(values).error, std::sqrt(7.0 / 3), 1e-12);  // s = sqrt(7)
  EXPECT_DOUBLE_EQ(estimate_of(values, weights).mean, 3.75);
  EXPECT_NEAR(estimate_of(values, std::vector<double>{-1, -1, -2}).error, estimate_of(values, weights).error,
              1e-12);
  EXPECT_EQ(estimate_of(std::vector<double>{5}).error, 0);
}

TEST(PatchingErrors, NameWhatIsWrong) {
  const auto model = load_model(kPatchingFixtures / "decoders/gpt2");
  const auto bert = load_model(kPatchingFixtures / "encoders/bert-mlm");
  const TensorMap text = inputs_of({{"input_ids", {5, 17, 300}}}),
                  other = inputs_of({{"input_ids", {5, 9, 300}}}),
                  longer = inputs_of({{"input_ids", {5, 9, 300, 4}}});
  const auto of = [&](const LogitMetric& metric) { return MeasuredInput{text, metric}; };
  EXPECT_ERROR(measure(*model, of({MetricKind::logit})),
               "metric: expected a token for this metric, got none");
  EXPECT_ERROR(measure(*model, of({MetricKind::logit_difference, 3})), "expected two tokens");
  EXPECT_ERROR(measure(*model, of({MetricKind::logit, 512})), "metric: expected tokens below 512, got 512");
  EXPECT_ERROR(measure(*model, of({MetricKind::logit, 3, {}, 3})),
               "metric: expected a position below 3, got 3");
  EXPECT_ERROR(measure(*model, of({})), "expected texts with tokens to predict");
  EXPECT_ERROR(measure(*bert, of({})), "expected a token for the loss of a masked language model");
  const MeasuredInput input = of({MetricKind::logit, 3});
  const auto ablate = [&](const AblationOptions& options) {
    measure_ablations(*model, {&input, 1}, options);
  };
  EXPECT_ERROR(ablate({.each = {{.layer = 0, .head = 4}}}), "ablation: expected a head below 4, got 0.4");
  EXPECT_ERROR(ablate({.each = {{.layer = 99, .head = 0}}}), "ablation: expected a layer below 2, got 99.0");
  EXPECT_ERROR(ablate({.replacement = Replacement::resample, .each = {{}}}),
               "ablation: expected another reference text with as many tokens as text 1");
  const LogitMetric difference{MetricKind::logit_difference, 3, 4};
  const auto path = [&](const Component& receiver, PathInput what, const TensorMap& donor) {
    patch_paths(*model, text, donor, {.receiver = receiver, .input = what, .metric = difference});
  };
  EXPECT_ERROR(path({.layer = 2}, PathInput::query, other), "path: expected a head or feed-forward network");
  EXPECT_ERROR(path({.layer = 1, .head = 4}, PathInput::query, other), "got 1.4");
  EXPECT_ERROR(path({.layer = 1}, PathInput::query, longer), "the same number of tokens");
  EXPECT_ERROR(path({.layer = 1}, PathInput::query, text), "expected texts with different metrics");
  EXPECT_ERROR(path({.stack = "encoder"}, PathInput::query, other), "residual streams in its encoder");
}

}  // namespace
}  // namespace heed
