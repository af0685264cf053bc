// Ten steps of AdamW of every family, from the weights of its fixture, follow transformers and PyTorch in f64
// (tests/fixtures/train/family_curves.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "models/fixture_adamw.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
const fs::path kFixtureFolder = HEED_FIXTURES;

const Json& family_curves() {
  static const Json curves = Json::parse(read_file(kFixtureFolder / "train" / "family_curves.json"));
  return curves;
}

std::vector<std::string> curve_names() {
  std::vector<std::string> names;
  for (const auto& [name, losses] : family_curves().at("losses").items()) names.push_back(name);
  return names;
}

class FamilyCurves : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, FamilyCurves, testing::ValuesIn(curve_names()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST_P(FamilyCurves, StepsOfAdamWFollowPyTorch) {
  const std::vector<double> losses = family_curves().at("losses").at(GetParam());
  const auto model = load_model(kFixtureFolder / GetParam());
  const TensorMap inputs = read_tensors(kFixtureFolder / GetParam() / "inputs.safetensors");
  Context context;
  FixtureAdamW optimizer(*model, family_curves().at("settings"));
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    EXPECT_NEAR(loss.item(), losses[step], 1e-4 * std::max(1.0, losses[step])) << "step " << step;
    loss.backward();
    optimizer.step();
  }
}

}  // namespace
}  // namespace heed
