// Softplus against its formula, with its gradient at 0.
#include "ops/softplus.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops/reduce.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

TEST(Softplus, EqualsItsFormulaAndIsSmoothAtZero) {
  const Tensor x = Tensor::from(std::vector<double>{-3, -1e-3, 0, 0.5, 20}, {5});
  const auto got = softplus(x).to_vector<double>();
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(got[i], std::log1p(std::exp(x.data<double>()[i])), 1e-12);
  reference::check_gradients([](const auto& in) { return sum(softplus(in[0])); }, {x});
  EXPECT_EQ(softplus(Tensor::from(std::vector<double>{-1e4, 1e4}, {2})).to_vector<double>(),
            (std::vector<double>{0, 1e4}));
}

}  // namespace
}  // namespace heed
