// The first element of tensors and of models that is NaN or infinite.
#include "models/non_finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heed/models/registry.h"

namespace heed {
namespace {

TEST(NonFinite, IsTheFirstOfATensor) {
  EXPECT_FALSE(first_non_finite(Tensor::from(std::vector<float>{1, -2, 3e38f}, {3})));
  EXPECT_FALSE(first_non_finite(Tensor::from(std::vector<std::int64_t>{1, 2}, {2}))) << "whole numbers";
  const Tensor tensor = Tensor::from(std::vector<float>{0, 1, 2, 3, INFINITY, NAN}, {2, 3});
  const auto found = first_non_finite(tensor);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, 4);
  EXPECT_EQ(describe(*found, "w", tensor.shape()), "w[1, 1] is infinite");
  EXPECT_EQ(describe({5, NAN}, "w", tensor.shape()), "w[1, 2] is NaN");
  EXPECT_TRUE(first_non_finite(Tensor::from(std::vector<double>{1e300, NAN}, {2})));
  EXPECT_FALSE(first_non_finite(Tensor::from(std::vector<double>{1e300}, {1}))) << "beyond f32, but finite";
}

TEST(NonFinite, IsTheFirstOfAModelsWeights) {
  const auto model = load_model(std::filesystem::path(HEED_FIXTURES) / "decoders/gpt2");
  EXPECT_EQ(first_non_finite_weight(*model), std::nullopt);
  for (const Parameter& p : model->parameters()) {
    if (p.name == "transformer.h.1.ln_1.weight") p.tensor.data<float>()[7] = NAN;
    if (p.name == "transformer.ln_f.bias") p.tensor.data<float>()[0] = NAN;
  }
  EXPECT_EQ(first_non_finite_weight(*model), "transformer.h.1.ln_1.weight[7] is NaN");
}

}  // namespace
}  // namespace heed
