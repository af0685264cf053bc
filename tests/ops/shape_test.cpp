// Views and rearrangements.
#include "heed/ops/shape.h"

#include <gtest/gtest.h>

#include <numeric>

#include "reference/gradient_check.h"
#include "tensor/impl.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::random_tensor;

Tensor count_up(const Shape& shape) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::from(values, shape);
}
using Ids = std::vector<std::int64_t>;

TEST(ShapeOps, Values) {
  const Tensor x = count_up({2, 3});
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(transpose(x, 0, 1).to_vector<std::int64_t>(), (Ids{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(reshape(transpose(x, 0, 1), {6}).to_vector<std::int64_t>(), (Ids{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(slice(x, 1, 1, 3).to_vector<std::int64_t>(), (Ids{1, 2, 4, 5}));
  EXPECT_EQ(concat({x, slice(x, 1, 0, 1)}, 1).to_vector<std::int64_t>(), (Ids{0, 1, 2, 0, 3, 4, 5, 3}));
  EXPECT_EQ(stack({x, x}, 1).shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(gather(x, 1, Tensor::from(Ids{2, 0}, {2})).to_vector<std::int64_t>(), (Ids{2, 0, 5, 3}));
  EXPECT_EQ(gather(x, 0, Tensor::from(Ids{1, 1, 0}, {3})).to_vector<std::int64_t>(),
            (Ids{3, 4, 5, 3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(broadcast_to(unsqueeze(x, 1), {2, 2, 3}).to_vector<std::int64_t>(),
            (Ids{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(permute(count_up({2, 3, 4}), {2, 0, 1}).shape(), (Shape{4, 2, 3}));
}

TEST(ShapeOps, Gradients) {
  const Tensor x = random_tensor({2, 3, 4}, 21), y = random_tensor({2, 2, 4}, 22);
  check_gradients([](const auto& in) { return reshape(in[0], {4, -1}); }, {x});
  check_gradients([](const auto& in) { return reshape(permute(in[0], {2, 0, 1}), {8, 3}); }, {x});
  check_gradients([](const auto& in) { return slice(in[0], 1, 1, 3); }, {x});
  check_gradients([](const auto& in) { return concat({in[0], in[1], in[0]}, 1); }, {x, y});
  check_gradients([](const auto& in) { return stack({in[0], in[0]}, 2); }, {x});
  check_gradients([](const auto& in) { return broadcast_to(unsqueeze(in[0], 0), {3, 2, 3, 4}); }, {x});
  const Tensor twice = Tensor::from(Ids{2, 0, 2}, {3});
  check_gradients([&](const auto& in) { return gather(in[0], 1, twice); }, {x});
}

TEST(ShapeOps, SaysWhatIsWrong) {
  const Tensor x = count_up({2, 3});
  EXPECT_THROW(reshape(x, {4, 2}), Error);
  EXPECT_THROW(reshape(x, {-1, 4}), Error);
  EXPECT_THROW(permute(x, {0, 0}), Error);
  EXPECT_THROW(slice(x, 1, 2, 4), Error);
  EXPECT_THROW(concat({x, count_up({3, 3})}, 1), Error);
  EXPECT_THROW(concat({}, 0), Error);
  EXPECT_THROW(gather(x, 0, Tensor::from(Ids{2}, {1})), Error);
  EXPECT_THROW(broadcast_to(x, {3, 3}), Error);
}

TEST(Shape, SlicesShareTheGradientOfWhatTheyAreCutFrom) {
  const auto parts = [](const Tensor& x) {
    const Tensor a = slice(x, 1, 0, 2), b = slice(x, 1, 2, 4), c = slice(x, 1, 1, 3);
    return a * b + transpose(reshape(c * c, {2, 3}), 0, 1);
  };
  check_gradients([&](const auto& in) { return parts(in[0]); }, {random_tensor({3, 4}, 57)});
  check_gradients([&](const auto& in) { return parts(in[0] * in[0]) + slice(in[0], 1, 2, 4); },
                  {random_tensor({3, 4}, 58)});
}

// Cuts, splits and merges axes of views with and without a copy: always the elements in row-major order.
TEST(Shape, ReshapeOfViews) {
  const Tensor x = random_tensor({2, 3, 12}, 59);
  struct Case {
    Tensor view;
    Shape target;
    bool shares;
  };
  const Case cases[] = {{slice(x, 2, 4, 8), {2, 3, 2, 2}, true},
                        {slice(x, 2, 4, 8), {6, 4}, true},
                        {slice(x, 2, 4, 8), {1, 6, 1, 4, 1}, true},
                        {slice(x, 2, 4, 8), {24}, false},
                        {transpose(x, 0, 1), {3, 2, 3, 4}, true},
                        {transpose(x, 0, 1), {6, 12}, false},
                        {slice(x, 1, 1, 3), {2, 24}, true},
                        {slice(x, 1, 1, 3), {4, 12}, false},
                        {broadcast_to(x, {4, 2, 3, 12}), {4, 72}, true},
                        {permute(x, {2, 1, 0}), {12, 6}, false},
                        {slice(x, 1, 1, 1), {0, 5}, true},
                        {slice(x, 1, 1, 2), {2, 12}, true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.view.str() + " as " + c.target.str());
    const Tensor y = reshape(c.view, c.target);
    EXPECT_EQ(y.shape(), c.target);
    EXPECT_EQ(y.to_vector<double>(), c.view.to_vector<double>());
    EXPECT_EQ(TensorImpl::of(y).buffer == TensorImpl::of(c.view).buffer, c.shares);
  }
  check_gradients([](const auto& in) { return reshape(slice(in[0], 2, 4, 8), {3, 2, 4}); }, {x});
  check_gradients([](const auto& in) { return reshape(transpose(in[0], 0, 1), {6, 12}); }, {x});
}

}  // namespace
}  // namespace heed
