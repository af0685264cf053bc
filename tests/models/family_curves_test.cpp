// Ten steps of AdamW of every family, from the weights of its fixture, follow transformers and PyTorch in f64
// (tests/fixtures/train/family_curves.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/io/file.h"
#include "heed/models/registry.h"
#include "kernels/optimizer.h"
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
  const Json& settings = family_curves().at("settings");
  const std::vector<double> losses = family_curves().at("losses").at(GetParam());
  kernels::AdamW options;
  options.lr = settings.at("learning_rate");
  options.beta1 = settings.at("betas").at(0);
  options.beta2 = settings.at("betas").at(1);
  options.eps = settings.at("eps");
  options.weight_decay = settings.at("weight_decay");
  const auto model = load_model(kFixtureFolder / GetParam());
  const TensorMap inputs = read_tensors(kFixtureFolder / GetParam() / "inputs.safetensors");
  Context context;
  std::vector<std::pair<Tensor, Tensor>> moments;
  for (const Parameter& p : model->parameters())
    moments.emplace_back(Tensor::zeros(p.tensor.shape()), Tensor::zeros(p.tensor.shape()));
  for (options.step = 1; options.step <= std::ssize(losses); ++options.step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = losses[static_cast<std::size_t>(options.step - 1)];
    EXPECT_NEAR(loss.item(), want, 1e-4 * std::max(1.0, want)) << "step " << options.step;
    loss.backward();
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const Tensor& p = model->parameters()[i].tensor;
      if (!p.grad().defined()) continue;
      kernels::adamw(p.data<float>(), p.grad().data<float>(), moments[i].first.data<float>(),
                     moments[i].second.data<float>(), p.numel(), options);
      p.zero_grad();
    }
  }
}

}  // namespace
}  // namespace heed
