#include "heed/ops/activation.h"

#include <gtest/gtest.h>

#include "heed/threads.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

TEST(Dropout, KeepsWhatTheStreamSaysWhateverTheThreads) {
  const RandomStream stream{5, 9};
  const Tensor x = Tensor::full({100003}, 3.0);
  const int before = threads();
  const auto many = dropout(x, 0.25, stream).to_vector<float>();
  set_threads(1);
  const auto one = dropout(x, 0.25, stream).to_vector<float>();
  set_threads(before);
  EXPECT_EQ(one, many);
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i] != 0, stream.uniform(i) >= 0.25f) << i;
    ASSERT_FLOAT_EQ(one[i], one[i] != 0 ? 4.0f : 0.0f);
    kept += one[i] != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 100003, 0.75, 0.01);
}

TEST(Dropout, GradientsAndLimits) {
  check_gradients([](const auto& in) { return dropout(in[0], 0.4, {1, 2}); }, {random_tensor({20}, 81)});
  const Tensor x = random_tensor({3}, 82);
  EXPECT_TRUE(dropout(x, 0.0, {}).is_same(x));
  EXPECT_ERROR(dropout(x, 1.0, {}), "expected a probability in [0, 1), got 1");
  EXPECT_ERROR(dropout(x, -0.1, {}), "expected a probability in [0, 1), got -0.1");
}

}  // namespace
}  // namespace heed
