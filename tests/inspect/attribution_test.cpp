// Attribution to input tokens against autograd and replaced embeddings of Hugging Face transformers in f64
// (tests/fixtures/analysis_attribution.py), completeness, and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/inspect/attribution.h"
#include "heed/models/registry.h"
#include "models/taps_fixtures.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

using Json = nlohmann::json;
const std::filesystem::path kAttributionFixtures = HEED_FIXTURES;

constexpr std::pair<const char*, MetricKind> kAttributedMetrics[] = {
    {"logit", MetricKind::logit},
    {"logit_difference", MetricKind::logit_difference},
    {"probability", MetricKind::probability}};
constexpr std::pair<const char*, InputMethod> kInputMethods[] = {{"gradient", InputMethod::gradient},
                                                                 {"integrated", InputMethod::integrated},
                                                                 {"occlusion", InputMethod::occlusion}};

const Json& attribution_cases() {
  static const Json cases = read_json(kAttributionFixtures / "analysis/attribution.json");
  return cases;
}
std::vector<std::string> attributed_models() {
  std::vector<std::string> names;
  for (const Json& one : attribution_cases()) names.push_back(one["model"]);
  return names;
}

class InputCases : public testing::TestWithParam<std::string> {
 protected:
  static const Json& case_of(const std::string& model) {
    for (const Json& one : attribution_cases())
      if (one["model"] == model) return one;
    throw std::out_of_range(model);
  }
  MeasuredInput measured(const std::string& metric) const {
    MeasuredInput input;
    for (const auto& [name, ids] : given["inputs"].items()) {
      const auto all = ids.get<std::vector<std::int64_t>>();
      input.inputs[name] = Tensor::from(all, {1, std::ssize(all)});
    }
    for (const auto& [name, kind] : kAttributedMetrics)
      if (name == metric) input.metric.kind = kind;
    input.metric.token = given["token"].get<std::int64_t>();
    input.metric.other = given["other"].get<std::int64_t>();
    if (!given["position"].is_null()) input.metric.position = given["position"].get<std::int64_t>();
    return input;
  }

  const Json& given = case_of(GetParam());
  std::unique_ptr<Model> model = load_model(kAttributionFixtures / given["model"].get<std::string>());
};
INSTANTIATE_TEST_SUITE_P(Families, InputCases, testing::ValuesIn(attributed_models()),
                         [](const auto& info) { return as_test_name(info.param); });

TEST_P(InputCases, EqualTransformers) {
  for (const Json& want : given["results"]) {
    InputAttributionOptions options{.steps = given["steps"], .max_steps = given["steps"]};
    if (!want["baseline"].is_null()) options.baseline = want["baseline"].get<std::int64_t>();
    for (const auto& [name, method] : kInputMethods) {
      options.method = method;
      const InputAttribution found = attribute_input(*model, measured(want["metric"]), options);
      EXPECT_NEAR(found.value, want["value"].get<double>(), 1e-4);
      EXPECT_NEAR(found.baseline_value, want["baseline_value"].get<double>(), 1e-4);
      ASSERT_EQ(found.stacks.size(), want[name].size());
      for (std::size_t s = 0; s < found.stacks.size(); ++s) {
        const Json& values = want[name][s == 0 ? "input_ids" : "decoder_input_ids"];
        ASSERT_EQ(found.stacks[s].values.size(), values.size());
        for (std::size_t t = 0; t < values.size(); ++t)
          EXPECT_NEAR(found.stacks[s].values[t], values[t].get<double>(), 1e-4)
              << name << " of " << want["metric"] << ", baseline " << want["baseline"] << ", "
              << found.stacks[s].stack << " " << t;
      }
    }
  }
}

// The baseline is a token: at zeros a norm of the embeddings has no smooth path.
TEST_P(InputCases, IntegratedGradientsAreComplete) {
  InputAttributionOptions options{.method = InputMethod::integrated, .steps = 1000, .baseline = 12};
  const InputAttribution found = attribute_input(*model, measured("logit"), options);
  const double change = found.value - found.baseline_value;
  EXPECT_GT(std::abs(change), 0);
  EXPECT_NEAR(found.sum(), change, 1e-3 * std::max(1.0, std::abs(change)));
  EXPECT_DOUBLE_EQ(found.completeness_error(), found.sum() - change);
}

// One step is far from the integral; steps are doubled until the sum is within 5 %, or up to the limit.
TEST_P(InputCases, TakesStepsUntilTheSumIsComplete) {
  const MeasuredInput input = measured("logit");
  InputAttributionOptions options{
      .method = InputMethod::integrated, .steps = 1, .max_steps = 1024, .baseline = 12};
  const InputAttribution found = attribute_input(*model, input, options);
  EXPECT_TRUE(found.is_complete());
  EXPECT_LE(std::abs(found.completeness_error()),
            0.05 * std::abs(found.value - found.baseline_value) + 1e-4 * std::abs(found.value) + 1e-4);
  options.steps = options.max_steps = found.steps;
  const InputAttribution same = attribute_input(*model, input, options);
  EXPECT_EQ(same.steps, found.steps);
  EXPECT_EQ(same.sum(), found.sum());
  if (found.steps == 1) return;
  options.steps = options.max_steps = found.steps / 2;
  EXPECT_FALSE(attribute_input(*model, input, options).is_complete());
}

TEST(InputAttribution, RefusesWhatItCannotMeasure) {
  const auto gpt2 = load_model(kAttributionFixtures / "decoders/gpt2");
  const Tensor ids = Tensor::from<std::int64_t>({5, 6, 7}, {1, 3});
  const MeasuredInput input{{{"input_ids", ids}}, {.kind = MetricKind::logit, .token = 3}};
  EXPECT_ERROR(attribute_input(*gpt2, {input.inputs, {.kind = MetricKind::kl}}), "KL divergence");
  EXPECT_ERROR(attribute_input(*gpt2, {{}, input.metric}), "attribute: expected input_ids, got none");
  EXPECT_ERROR(attribute_input(*gpt2, input, {.steps = 0}), "expected at least one step, got 0");
  EXPECT_ERROR(attribute_input(*gpt2, input, {.baseline = 100000}), "expected a baseline below 512");
  EXPECT_ERROR(attribute_input(*load_model(kAttributionFixtures / "vit"), input),
               "expected a model that reads tokens, got vit");
}

}  // namespace
}  // namespace heed
