// Convolutions against sums written from their definition, and their gradients against differences.
#include "heed/nn/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/error.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "reference/near.h"

namespace heed {
namespace {

using reference::check_gradients;
using reference::expect_near;
using reference::random_tensor;

double at(const Tensor& x, std::vector<std::int64_t> index) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < index.size(); ++i) place = place * x.size(static_cast<int>(i)) + index[i];
  return x.data<double>()[place];
}

Tensor convolved(const Tensor& x, const Conv1d& layer) {
  const Tensor& w = layer.weight;
  const std::int64_t outputs = w.size(0) / layer.groups;  // of a group
  const std::int64_t time = (x.size(1) + 2 * layer.padding - w.size(2)) / layer.stride + 1;
  Tensor y = Tensor::zeros({x.size(0), time, w.size(0)}, DType::f64);
  double* out = y.data<double>();
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t t = 0; t < time; ++t) {
      for (std::int64_t d = 0; d < w.size(0); ++d, ++out) {
        *out = at(layer.bias, {d});
        for (std::int64_t k = 0; k < w.size(2); ++k) {
          const std::int64_t from = t * layer.stride + k - layer.padding;
          if (from < 0 || from >= x.size(1)) continue;
          for (std::int64_t c = 0; c < w.size(1); ++c) {
            double norm = 1;  // of the weights of this place, where they are a direction alone
            if (layer.magnitude.defined()) {
              norm = 0;
              for (std::int64_t i = 0; i < w.size(0) * w.size(1); ++i)
                norm += std::pow(w.data<double>()[i * w.size(2) + k], 2);
              norm = std::sqrt(norm) / at(layer.magnitude, {0, 0, k});
            }
            *out += at(w, {d, c, k}) / norm * at(x, {b, from, d / outputs * w.size(1) + c});
          }
        }
      }
    }
  }
  return y;
}

TEST(Conv1d, IsTheSumOfItsDefinition) {
  struct {
    std::int64_t time, width, stride, padding;
  } cases[] = {{7, 3, 1, 1}, {8, 3, 2, 1}, {7, 3, 2, 1}, {5, 1, 1, 0},
               {6, 4, 3, 2}, {3, 3, 1, 0}, {1, 3, 1, 1}};
  for (const auto& c : cases) {
    const Tensor x = random_tensor({2, c.time, 3}, 5);
    const Conv1d layer{random_tensor({4, 3, c.width}, 6), random_tensor({4}, 7), c.stride, c.padding};
    expect_near(layer(x), convolved(x, layer), 1e-12);
  }
}

TEST(Conv1d, GroupsReadTheirOwnChannels) {
  const Tensor x = random_tensor({2, 7, 6}, 22);
  for (const std::int64_t groups : {2, 3}) {
    const Conv1d layer{random_tensor({12, 6 / groups, 4}, 23), random_tensor({12}, 24), 2, 1, groups};
    expect_near(layer(x), convolved(x, layer), 1e-12);
  }
}

TEST(Conv1d, AMagnitudeIsTheNormOfTheKernelsPlaces) {
  const Tensor x = random_tensor({2, 7, 6}, 25);
  const Conv1d layer{random_tensor({4, 3, 4}, 26), random_tensor({4}, 27), 1, 2, 2,
                     random_tensor({1, 1, 4}, 28)};
  expect_near(layer(x), convolved(x, layer), 1e-12);
  check_gradients([](const auto& in) { return Conv1d{in[1], in[2], 1, 1, 2, in[3]}(in[0]); },
                  {random_tensor({1, 4, 4}, 29), random_tensor({4, 2, 3}, 30), random_tensor({4}, 31),
                   random_tensor({1, 1, 3}, 32)});
}

TEST(Conv1d, GradientsAreThoseOfDifferences) {
  check_gradients(
      [](const auto& in) {
        return Conv1d{in[1], in[2], 2, 1}(in[0], Activation::gelu);
      },
      {random_tensor({2, 6, 3}, 8), random_tensor({4, 3, 3}, 9), random_tensor({4}, 10)});
}

TEST(Conv1d, RefusesOtherChannelsAndTooFewFrames) {
  const Conv1d layer{random_tensor({4, 3, 5}, 6), {}, 1, 1};
  EXPECT_ERROR(layer(random_tensor({2, 7, 4}, 5)), "with T of at least 3, got f64[2, 7, 4]");
  EXPECT_ERROR(layer(random_tensor({2, 2, 3}, 5)), "with T of at least 3, got f64[2, 2, 3]");
  EXPECT_ERROR(layer(random_tensor({7, 3}, 5)), "with T of at least 3, got f64[7, 3]");
}

TEST(PatchEmbedding, IsTheSumOfEachPatch) {
  const Tensor pixels = random_tensor({2, 3, 5, 9}, 11);  // a row and a column more than patches cover
  const PatchEmbedding layer{random_tensor({4, 3, 2, 4}, 12), random_tensor({4}, 13)};
  Tensor want = Tensor::zeros({2, 4, 4}, DType::f64);
  double* out = want.data<double>();
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t patch = 0; patch < 4; ++patch) {
      for (std::int64_t d = 0; d < 4; ++d, ++out) {
        *out = at(layer.bias, {d});
        for (std::int64_t c = 0; c < 3; ++c) {
          for (std::int64_t i = 0; i < 8; ++i) {
            *out += at(layer.weight.tensor(), {d, c, i / 4, i % 4}) *
                    at(pixels, {b, c, patch / 2 * 2 + i / 4, patch % 2 * 4 + i % 4});
          }
        }
      }
    }
  }
  expect_near(layer(pixels), want, 1e-12);
}

TEST(PatchEmbedding, GradientsAreThoseOfDifferences) {
  check_gradients(
      [](const auto& in) {
        return PatchEmbedding{in[1], in[2]}(in[0]);
      },
      {random_tensor({1, 2, 4, 5}, 14), random_tensor({3, 2, 2, 2}, 15), random_tensor({3}, 16)});
}

// Of one bin more than patches cover; each patch is a picture of its own for the layer without overlap.
TEST(PatchEmbedding, PatchesMayOverlap) {
  const Tensor pixels = random_tensor({2, 3, 8, 7}, 17);
  const PatchEmbedding alone{random_tensor({4, 3, 3, 2}, 18), random_tensor({4}, 19)};
  PatchEmbedding layer = alone;
  layer.stride = {2, 5};
  std::vector<Tensor> patches;
  for (const std::int64_t top : {0, 2, 4}) {
    for (const std::int64_t left : {0, 5})
      patches.push_back(alone(slice(slice(pixels, 2, top, top + 3), 3, left, left + 2)));
  }
  expect_near(layer(pixels), concat(patches, 1), 1e-12);
  check_gradients(
      [](const auto& in) {
        return PatchEmbedding{in[1], {}, {1, 3}}(in[0]);
      },
      {random_tensor({1, 2, 3, 5}, 20), random_tensor({3, 2, 2, 2}, 21)});
}

TEST(PatchEmbedding, RefusesAPictureSmallerThanAPatch) {
  const PatchEmbedding layer{random_tensor({4, 3, 2, 4}, 12), {}};
  EXPECT_ERROR(layer(random_tensor({2, 3, 2, 3}, 11)), "of at least 2 x 4, got f64[2, 3, 2, 3]");
  EXPECT_ERROR(layer(random_tensor({2, 4, 4, 4}, 11)), "of at least 2 x 4, got f64[2, 4, 4, 4]");
}

}  // namespace
}  // namespace heed
