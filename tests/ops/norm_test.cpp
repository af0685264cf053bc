// Norms in f32 against their formulas in f64 (in f64: by_formula_test.cpp); gradients against central
// differences.
#include "heed/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

TEST(Norm, InSinglePrecisionEqualsItsFormula) {
  for (const std::int64_t d : {3, 16, 67}) {
    const Tensor x = random_tensor({3, 2, d}, 61), w = random_tensor({d}, 63), b = random_tensor({d}, 64);
    const auto f = DType::f32;
    expect_near(layer_norm(x.to(f), w.to(f), b.to(f), 1e-5), layer_norm_by_formula(x, w, b, 1e-5), 1e-4);
    expect_near(rms_norm(x.to(f), w.to(f), 1e-6, 1.0), rms_norm_by_formula(x, w, 1e-6, 1.0), 1e-4);
  }
}

// Each group of channels, over time, from the definition.
TEST(Norm, GroupsOfChannels) {
  const std::int64_t time = 5, channels = 6;
  const Tensor x = random_tensor({2, time, channels}, 69), w = random_tensor({channels}, 70),
               b = random_tensor({channels}, 71);
  for (const std::int64_t groups : {1, 2, 6}) {
    Tensor want = Tensor::empty(x.shape(), DType::f64);
    const std::int64_t each = channels / groups;
    for (std::int64_t row = 0; row < 2; ++row) {
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0, squares = 0;
        const auto place = [&](std::int64_t t, std::int64_t of) { return (row * time + t) * channels + of; };
        for (std::int64_t t = 0; t < time; ++t) {
          for (std::int64_t i = c / each * each; i < (c / each + 1) * each; ++i) {
            sum += x.data<double>()[place(t, i)];
            squares += std::pow(x.data<double>()[place(t, i)], 2);
          }
        }
        const double mean = sum / static_cast<double>(time * each),
                     variance = squares / static_cast<double>(time * each) - mean * mean;
        for (std::int64_t t = 0; t < time; ++t) {
          want.data<double>()[place(t, c)] =
              (x.data<double>()[place(t, c)] - mean) / std::sqrt(variance + 1e-5) * w.data<double>()[c] +
              b.data<double>()[c];
        }
      }
    }
    expect_near(group_norm(x, groups, w, b, 1e-5), want, 1e-12);
    check_gradients([&](const auto& in) { return group_norm(in[0], groups, in[1], in[2], 1e-5); }, {x, w, b});
  }
  EXPECT_ERROR(group_norm(x, 4, w, b, 1e-5), "C a multiple of 4");
  EXPECT_ERROR(group_norm(x, 2, random_tensor({5}, 1), b, 1e-5), "weight [C] and bias [C]");
  EXPECT_ERROR(group_norm(w, 2, w, b, 1e-5), "expected x [B, T, C]");
}

TEST(Norm, Gradients) {
  const Tensor x = random_tensor({3, 5}, 65), r = random_tensor({3, 5}, 66), w = random_tensor({5}, 67),
               b = random_tensor({5}, 68);
  check_gradients([](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); }, {x, w, b});
  check_gradients([](const auto& in) { return layer_norm(in[0], in[1], {}, 1e-5); }, {x, w});
  check_gradients([](const auto& in) { return add_layer_norm(in[0], in[1], in[2], in[3], 1e-5); },
                  {x, r, w, b});
  check_gradients([](const auto& in) { return rms_norm(in[0], in[1], 1e-6); }, {x, w});
  check_gradients([](const auto& in) { return add_rms_norm(in[0], in[1], in[2], 1e-6); }, {x, r, w});
  check_gradients([](const auto& in) { return rms_norm(in[0], in[1], 1e-6, 1.0); }, {x, w});
  check_gradients([](const auto& in) { return add_rms_norm(in[0], in[1], in[2], 1e-6, 1.0); }, {x, r, w});
  // Beside a residual connection: the norm's part is added where the other's stands.
  check_gradients([](const auto& in) { return in[0] + layer_norm(in[0], in[1], in[2], 1e-5) * in[0]; },
                  {x, w, b});
  check_gradients([](const auto& in) { return exp(in[0]) + rms_norm(in[0] * 2.0, in[1], 1e-6); }, {x, w});
  check_gradients(
      [](const auto& in) {
        const Tensor inner = in[0] * in[0];
        return inner + rms_norm(inner, in[1], 1e-6);
      },
      {x, w});
}

TEST(Norm, SaysWhatIsWrong) {
  const Tensor x = Tensor::zeros({2, 4});
  EXPECT_ERROR(layer_norm(x, Tensor::zeros({3}), {}, 1e-5),
               "layer_norm: expected x [..., D], weight [D] and bias [D] of one type, got f32[2, 4], f32[3]");
  EXPECT_ERROR(layer_norm(x, Tensor::zeros({4}), Tensor::zeros({3}), 1e-5),
               "of one type, got f32[2, 4], f32[4] and f32[3]");
  EXPECT_ERROR(add_layer_norm(x, Tensor::zeros({4}), Tensor::zeros({4}), {}, 1e-5),
               "add_layer_norm: expected a residual like f32[2, 4], got f32[4]");
  EXPECT_ERROR(rms_norm(x, Tensor::zeros({4}, DType::f64), 1e-5),
               "rms_norm: expected x [..., D], weight [D] and bias [D] of one type, got f32[2, 4], f64[4]");
}

}  // namespace
}  // namespace heed
