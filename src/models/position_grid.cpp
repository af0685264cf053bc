// Resizing as two products with constant matrices, one for each axis.
#include "models/position_grid.h"

#include <algorithm>
#include <cmath>

#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "image/resample.h"

namespace heed {
namespace {

// The weights [out, in] of the positions along an axis. In float, as PyTorch computes them.
Tensor cubic_weights(std::int64_t in, std::int64_t out) {
  constexpr float a = -0.75f;
  const float scale = static_cast<float>(in) / static_cast<float>(out);
  const auto near = [](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };       // |x| <= 1
  const auto far = [](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };  // 1 < |x| < 2
  Tensor weights = Tensor::zeros({out, in});
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = scale * (static_cast<float>(i) + 0.5f) - 0.5f, floor = std::floor(at), t = at - floor;
    const float each[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int k = 0; k < 4; ++k) {
      const auto from = std::clamp<std::int64_t>(static_cast<std::int64_t>(floor) - 1 + k, 0, in - 1);
      weights.data<float>()[i * in + from] += each[k];
    }
  }
  return weights;
}

Tensor smooth_weights(std::int64_t in, std::int64_t out, ResizeFilter filter) {
  const image::Taps<float> taps = image::make_taps<float>(in, out, filter);
  Tensor weights = Tensor::zeros({out, in});
  for (std::int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::copy_n(taps.weights.begin() + i * taps.most, taps.count[at],
                weights.data<float>() + i * in + taps.first[at]);
  }
  return weights;
}

}  // namespace

Tensor resize_positions(const Tensor& positions, const Shape& from, const Shape& to, GridResize how) {
  const std::int64_t d_model = positions.size(1);
  const auto weights = [&](int axis) {
    if (how == GridResize::cubic) return cubic_weights(from[axis], to[axis]);
    const bool cubic = how == GridResize::smooth_cubic;
    return smooth_weights(from[axis], to[axis], cubic ? ResizeFilter::bicubic : ResizeFilter::bilinear);
  };
  const Tensor table = positions.dtype() == DType::f32 ? positions : positions.to(DType::f32);
  const Tensor rows = matmul(weights(0), reshape(table, {from[0], from[1] * d_model}));
  return reshape(matmul(weights(1), reshape(rows, {to[0], from[1], d_model})), {to[0] * to[1], d_model});
}

}  // namespace heed
