// Norms as linear maps of the parts of a sum.
#include "heed/nn/norm.h"

#include <gtest/gtest.h>

#include "heed/ops/reduce.h"
#include "reference/error.h"

namespace heed {
namespace {

TEST(NormOfParts, AddUpToTheNormOfTheSum) {
  const Tensor parts = Tensor::from<double>({1, -2, 3, 0.5, 4, 0, -1, 2, 0.25, 7, -3, 1}, {3, 1, 4});
  const Tensor whole = sum(parts, 0);  // [1, 4]
  const Tensor weight = Tensor::from<double>({0.5, -1, 2, 1.5}, {4});
  const Tensor bias = Tensor::from<double>({1, 2, 3, 4}, {4});
  const Norm layer{.kind = NormKind::layer, .weight = weight, .bias = bias, .eps = 1e-3};
  const Norm rms{.kind = NormKind::rms, .weight = weight, .bias = {}, .eps = 1e-3, .offset = 1};
  for (const Norm& norm : {layer, rms}) {
    Tensor added = sum(norm.of_part(parts, whole), 0);
    if (norm.bias.defined()) added = added + norm.bias;
    const std::vector<double> found = added.to_vector<double>(), expected = norm(whole).to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << i;
  }
  const Norm group{.kind = NormKind::group, .weight = weight, .bias = bias};
  EXPECT_ERROR(group.of_part(parts, whole), "norm: expected a layer or RMS norm of a sum, got a group norm");
}

}  // namespace
}  // namespace heed
