// Reports of analyses against what heed/inspect computes, and means over prompts against single runs.
#include "heed/analyses/analyses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "heed/inspect/logit_lens.h"
#include "heed/inspect/stream_attribution.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

// A tiny GPT-2 with a tokenizer.
const AnalyzedModel& gpt2() {
  static const TemporaryFolder folder;
  static const AnalyzedModel model = [] {
    for (const char* file : {"/decoders/gpt2/config.json", "/decoders/gpt2/model.safetensors",
                             "/bart/tokenizer.json", "/bart/tokenizer_config.json"})
      std::filesystem::copy(std::string(HEED_FIXTURES) + file, folder.path());
    return AnalyzedModel(load(folder.path().string()), "tiny");
  }();
  return model;
}

std::vector<AnalyzedInput> two_prompts() {
  std::vector<AnalyzedInput> inputs{text_input(gpt2(), "One two."), text_input(gpt2(), "Two one two.")};
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].where = "prompts.tsv:" + std::to_string(i + 2);
  return inputs;
}

TEST(Analyses, LensHasTheProbabilitiesOfLogitLens) {
  const AnalyzedInput input = text_input(gpt2(), "One two.");
  const Report report = lens(gpt2(), input, 2);
  const std::vector<LensLayer> layers = logit_lens(*gpt2().model, input.inputs, 2);
  ASSERT_EQ(report.found.at("layers").list().size(), layers.size());
  const ReportValue& last = report.found.at("layers").list().back();
  EXPECT_EQ(last.at("name").text(), layers.back().name);
  for (std::size_t t = 0; t < input.ids.size(); ++t) {
    const ReportValue& best = last.at("positions").list()[t].list()[1];
    EXPECT_EQ(best.at("probability").number(), layers.back().positions[t][1].probability);
    EXPECT_EQ(report.tables[0].cells[t].back().value, layers.back().positions[t][0].probability);
  }
}

TEST(Analyses, LogitOverPromptsIsTheMeanWithItsError) {
  const std::vector<AnalyzedInput> inputs = two_prompts();
  const MetricChoice choice{.token = {.id = "7"}};
  const Report mean = attribute_to_logit(gpt2(), inputs, choice, "two");
  std::vector<LogitAttribution> single;
  for (const AnalyzedInput& input : inputs)
    single.push_back(attribute_logit(*gpt2().model, input.inputs, std::ssize(input.ids) - 1, 7));
  EXPECT_EQ(mean.found.at("prompts").number(), 2);
  for (std::size_t i = 0; i < single[0].parts.size(); ++i) {
    const double x = single[0].parts[i].logit, y = single[1].parts[i].logit;
    const ReportValue& part = mean.found.at("parts").list()[i];
    EXPECT_NEAR(*part.at("logit").number(), (x + y) / 2, 1e-12);
    EXPECT_NEAR(*part.at("error").number(), std::abs(x - y) / 2, 1e-12);  // s / sqrt(2)
  }
}

TEST(Analyses, AblateHasTheLossOfMeasure) {
  const std::vector<AnalyzedInput> inputs = two_prompts();
  const Report report = ablate(gpt2(), inputs, {}, {}, "two");
  const ReportValue& loss = report.found.at("metrics").list()[0];
  double sum = 0, tokens = 0;
  for (const AnalyzedInput& input : inputs) {
    const MeasuredInput measured = measured_input({}, gpt2(), input, MetricKind::loss);
    const auto predicted = static_cast<double>(input.ids.size()) - 1;
    sum += measure(*gpt2().model, measured) * predicted;
    tokens += predicted;
  }
  EXPECT_NEAR(*loss.at("whole").number(), sum / tokens, 1e-5);
  EXPECT_EQ(report.tables[0].rows.size(), loss.at("heads").list().size() + 1);
}

TEST(Analyses, RepeatedTokensAreTheSameTwice) {
  const AnalyzedInput input = repeated_input(gpt2(), 20, 3);
  ASSERT_EQ(input.ids.size(), 40u);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(input.ids[i], input.ids[i + 20]);
    EXPECT_FALSE(gpt2().tokenizer()->is_special(input.ids[i]));
  }
  EXPECT_GT(std::set(input.ids.begin(), input.ids.end()).size(), 10u);
}

TEST(Analyses, OptionsThatDoNotFitNameThemselves) {
  const std::vector<AnalyzedInput> inputs{text_input(gpt2(), "One two.")};
  EXPECT_ERROR(attribute_to_logit(gpt2(), inputs, {}, ""), "token: missing");
  EXPECT_ERROR(attribute_to_logit(gpt2(), inputs, {.token = {.id = "99999"}}, ""),
               "id: expected an id below");
  EXPECT_ERROR(attribute_to_score(gpt2(), inputs, {.kind = "cross"}, ""), "kind: expected decoder");
  EXPECT_ERROR(text_input(gpt2(), "a", "b"), "target: expected an encoder-decoder");
  EXPECT_ERROR(parse_head("5"), "head: expected LAYER.HEAD, as 5.1, got 5");
  EXPECT_EQ(parse_layer_part("3.ff")->head, -1);
  EXPECT_FALSE(parse_layer_part("3.x"));
  std::vector<AnalyzedInput> prompts = two_prompts();
  prompts[1].a = "no one token";
  EXPECT_ERROR(attribute_to_logit(gpt2(), prompts, {.token = {.id = "7"}}, ""),
               "prompts.tsv:3: token: expected one token");
}

}  // namespace
}  // namespace heed
