// Positions of a grid of patches resized: values of PyTorch, and what must hold for every size.
#include "models/embeddings.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace heed {
namespace {

Tensor squares(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * i % 7));
  return Tensor::from(values, {count, 1});
}

TEST(PositionGrid, EqualsPyTorch) {
  for (const auto& [how, to, want] : std::vector<std::tuple<GridResize, Shape, std::vector<float>>>{
           {GridResize::cubic, {1, 2}, {1.025391f, 3.451172f}},
           {GridResize::cubic,
            {3, 4},
            {-0.2516192f, 0.1824358f, 2.14493f, 4.221564f, 0.9641113f, 1.045166f, 2.455811f, 4.179443f,
             2.179842f, 1.907896f, 2.766692f, 4.137324f}},
           {GridResize::cubic, {5, 1}, {0.8897505f, 1.082f, 1.5f, 1.918f, 2.11025f}},
           {GridResize::smooth_cubic, {1, 2}, {1.074639f, 3.145265f}},
           {GridResize::smooth_cubic,
            {3, 4},
            {-0.1872542f, 0.3213163f, 2.153279f, 4.160153f, 0.9738806f, 1.137979f, 2.468194f, 4.130597f,
             2.135016f, 1.954643f, 2.78311f, 4.101041f}},
           {GridResize::smooth_cubic,
            {5, 2},
            {0.06210804f, 2.959682f, 0.3403278f, 3.010676f, 1.074639f, 3.145265f, 1.808949f, 3.279854f,
             2.08717f, 3.330847f}},
       }) {
    const std::vector<float> got = resize_positions(squares(6), {2, 3}, to, how).to_vector<float>();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6) << to.str() << " " << i;
  }
}

TEST(PositionGrid, TheSameSizeChangesNothing) {
  for (const GridResize how : {GridResize::cubic, GridResize::smooth_cubic}) {
    const Tensor table = squares(15);
    EXPECT_EQ(resize_positions(table, {3, 5}, {3, 5}, how).to_vector<float>(), table.to_vector<float>());
  }
}

}  // namespace
}  // namespace heed
