// Rotary: fused against the formula, values and gradients, any strides, every instruction set.
#include "heed/ops/rotary.h"

#include <gtest/gtest.h>

#include "heed/ops/shape.h"
#include "kernels/kernel_case.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

struct RotaryCase {
  std::int64_t batch, heads, time, d, r;
  bool own_turns;
};
const RotaryCase kCases[] = {{1, 1, 1, 2, 2, false},  {2, 3, 4, 12, 8, true}, {1, 2, 5, 34, 34, false},
                             {2, 2, 3, 80, 64, true}, {1, 1, 0, 4, 4, false}, {1, 2, 2, 5, 0, false}};

Tensor turns_of(const RotaryCase& c) {
  return random_tensor(c.own_turns ? Shape{c.batch, c.time, c.r} : Shape{c.time, c.r}, 8);
}

TEST(Rotary, EqualsTheFormulaOnEveryTarget) {
  on_every_target([] {
    for (const RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
      for (const RotaryCase& c : kCases) {
        // [B, T, H, d] in memory, as a projection leaves it.
        const Tensor x = permute(random_tensor({c.batch, c.time, c.heads, c.d}, 7), {0, 2, 1, 3});
        const Tensor turns = turns_of(c), want = rotary_by_formula(x, turns, layout);
        expect_near(rotary(x, turns, layout), want, 1e-14);
        expect_near(rotary(x.contiguous(), turns, layout), want, 1e-14);
        expect_near(rotary(x.to(DType::f32), turns.to(DType::f32), layout), want, 1e-6);
      }
    }
  });
}

TEST(Rotary, GradientsEqualDifferences) {
  for (const RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved}) {
    const RotaryCase c = kCases[1];
    check_gradients([&](const auto& in) { return rotary(in[0], turns_of(c), layout); },
                    {random_tensor({c.batch, c.heads, c.time, c.d}, 7)});
  }
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3, 4, 8});
  const auto turn = [&](const Tensor& turns) { return rotary(x, turns, RotaryLayout::halves); };
  EXPECT_NO_THROW(turn(Tensor::zeros({4, 8})));
  EXPECT_ERROR(turn(Tensor::zeros({4, 7})), "with even r <= d, got f32[2, 3, 4, 8] and f32[4, 7]");
  EXPECT_ERROR(turn(Tensor::zeros({4, 10})), "got f32[2, 3, 4, 8] and f32[4, 10]");
  EXPECT_ERROR(turn(Tensor::zeros({3, 8})), "got f32[2, 3, 4, 8] and f32[3, 8]");
  EXPECT_ERROR(turn(Tensor::zeros({3, 4, 8})), "got f32[2, 3, 4, 8] and f32[3, 4, 8]");
  EXPECT_ERROR(turn(Tensor::zeros({4, 8}, DType::f64)), "got f32[2, 3, 4, 8] and f64[4, 8]");
  EXPECT_ERROR(turn(Tensor::zeros({4, 8}).set_requires_grad()),
               "rotary's cos_sin: expected inputs that need no gradient");
}

}  // namespace
}  // namespace heed
