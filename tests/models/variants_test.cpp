// Settings that few checkpoints have, against the numbers of Hugging Face transformers: every directory of
// tests/fixtures/variants is a small model with inputs and what transformers computes from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/models/registry.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kVariants = fs::path(HEED_FIXTURES) / "variants";

double largest_of(const Tensor& tensor) {
  double largest = 0;
  for (const float value : tensor.to_vector<float>())
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  return largest;
}

std::vector<std::string> variants() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kVariants)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Variants : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Variants, testing::ValuesIn(variants()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(Variants, OutputsAndGradientsEqualHuggingFace) {
  const fs::path directory = kVariants / GetParam();
  const auto model = load_model(directory);
  EXPECT_EQ(model->unknown_settings(), std::vector<std::string>());
  const TensorMap expected = read_tensors(directory / "expected.safetensors");
  Context context;
  const TensorMap outputs = model->forward(read_tensors(directory / "inputs.safetensors"),
                                           {.hidden_states = true, .attentions = true}, context);
  double largest_gradient = 0;
  for (const auto& [name, want] : expected) {
    if (name.starts_with("grad.")) {
      largest_gradient = std::max(largest_gradient, largest_of(want));
      continue;
    }
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), want), 1e-5) << name;
  }
  if (!expected.contains("loss")) return;
  outputs.at("loss").backward();
  for (const Parameter& p : model->parameters()) {
    const auto want = expected.find("grad." + p.name);
    ASSERT_NE(want, expected.end()) << p.name;
    const Tensor gradient = p.tensor.grad().defined() ? p.tensor.grad() : Tensor::zeros(p.tensor.shape());
    const double largest = largest_of(want->second);
    // What is 0 but for rounding (the biases of keys) is measured by the others.
    EXPECT_LE(relative_error(gradient, want->second) * (largest > 0 ? largest : 1),
              2e-5 * largest + 1e-6 * largest_gradient)
        << p.name;
  }
}

// The error of loading a fixture whose config is changed so.
std::string error_with(const std::string& fixture, const nlohmann::json& changes) {
  const auto folder = fs::temp_directory_path() / ("heed_variants_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy_file(kVariants / fixture / "model.safetensors", folder / "model.safetensors",
                fs::copy_options::overwrite_existing);
  auto config = nlohmann::json::parse(std::ifstream(kVariants / fixture / "config.json"));
  config.update(changes);
  std::ofstream(folder / "config.json") << config;
  std::string message;
  try {
    load_model(folder);
  } catch (const Error& error) {
    message = error.what();
  }
  fs::remove_all(folder);
  return message;
}

TEST(VariantConfigs, WhatMakesNoModelIsRefusedByName) {
  using testing::HasSubstr;
  const char* least = "expected a number of at least 0, got -1e-05";
  EXPECT_THAT(error_with("llama-padding", {{"rms_norm_eps", -1e-5}}), HasSubstr(least));
  EXPECT_THAT(error_with("gpt2-common-names", {{"layer_norm_epsilon", -1e-5}}), HasSubstr(least));
  EXPECT_THAT(error_with("bert-padding", {{"layer_norm_eps", -1e-5}}), HasSubstr(least));
  EXPECT_THAT(error_with("t5-dense-act-fn", {{"layer_norm_epsilon", -1e-5}}), HasSubstr(least));
  EXPECT_EQ(error_with("llama-padding", {{"rms_norm_eps", 0}}), "");
  EXPECT_THAT(error_with("llama-padding", {{"pad_token_id", 31}}),
              HasSubstr("pad_token_id: expected an id in [0, 31), got 31"));
  EXPECT_THAT(error_with("qwen2-last-padding", {{"pad_token_id", -32}}), HasSubstr("pad_token_id"));
  EXPECT_THAT(error_with("gpt-neox-no-rotary", {{"rotary_pct", 1.5}}),
              HasSubstr("rotary_pct: expected a number from 0 to 1, got 1.5"));
  EXPECT_THAT(
      error_with("gpt2-common-names", {{"num_attention_heads", 5}}),
      HasSubstr("num_attention_heads: expected a number of heads that divides the model dimension 12"));
  EXPECT_THAT(error_with("t5-dense-act-fn", {{"dense_act_fn", "prelu"}}), HasSubstr("dense_act_fn"));
}

}  // namespace
}  // namespace heed
