// Windows and patches as rows of a matrix, then one product.
#include "heed/nn/linear.h"

#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed {
namespace {

// The windows of an axis, `width` entries every `stride`, one after the other along it.
Tensor windows_of(const Tensor& x, int axis, std::int64_t width, std::int64_t stride) {
  const std::int64_t count = (x.size(axis) - width) / stride + 1;
  if (width == stride) return slice(x, axis, 0, count * width);
  Tensor indices = Tensor::empty({count * width}, DType::i64);
  for (std::int64_t i = 0; i < count * width; ++i)
    indices.data<std::int64_t>()[i] = i / width * stride + i % width;
  return gather(x, axis, indices);
}

// Directions [D, C, K] with the norms [1, 1, K].
Tensor with_magnitude(const Tensor& direction, const Tensor& magnitude) {
  const Tensor squares = sum(sum(direction * direction, 0, true), 1, true);
  return direction * (magnitude * rsqrt(squares));
}

}  // namespace

Tensor Conv1d::operator()(const Tensor& x, Activation activation) const {
  const std::int64_t inputs = weight.size(1), width = weight.size(2), channels = inputs * groups;
  if (x.rank() != 3 || x.size(2) != channels || x.size(1) + 2 * padding < width) {
    throw Error("convolution: expected [B, T, " + std::to_string(channels) + "] with T of at least " +
                std::to_string(width - 2 * padding) + ", got " + x.str());
  }
  const std::int64_t batch = x.size(0), outputs = weight.size(0) / groups;
  const Tensor zeros = Tensor::zeros({batch, padding, channels}, x.dtype());
  const Tensor padded = padding > 0 ? concat({zeros, x, zeros}, 1) : x;
  const Tensor w =
      magnitude.defined() ? with_magnitude(weight.to(x.dtype()), magnitude.to(x.dtype())) : weight;
  std::vector<Tensor> parts;
  for (std::int64_t g = 0; g < groups; ++g) {
    const Tensor own = slice(padded, 2, g * inputs, (g + 1) * inputs);
    const Tensor windows = reshape(windows_of(own, 1, width, stride), {batch, -1, width * inputs});
    const Tensor maps = slice(w, 0, g * outputs, (g + 1) * outputs);
    const Tensor rows = reshape(transpose(maps, 1, 2), {outputs, width * inputs});
    const Tensor own_bias = bias.defined() ? slice(bias, 0, g * outputs, (g + 1) * outputs) : bias;
    parts.push_back(linear(windows, rows, own_bias, activation));
  }
  return groups == 1 ? parts.front() : concat(parts, 2);
}

Tensor PatchEmbedding::operator()(const Tensor& pixels) const {
  const std::int64_t channels = weight.size(1), high = weight.size(2), wide = weight.size(3);
  if (pixels.rank() != 4 || pixels.size(1) != channels || pixels.size(2) < high || pixels.size(3) < wide) {
    throw Error("patches: expected pixels [B, " + std::to_string(channels) + ", H, W] of at least " +
                std::to_string(high) + " x " + std::to_string(wide) + ", got " + pixels.str());
  }
  const bool overlap = stride.rank() == 2;
  const Tensor covered = windows_of(windows_of(pixels, 2, high, overlap ? stride[0] : high), 3, wide,
                                    overlap ? stride[1] : wide);
  const std::int64_t batch = pixels.size(0), down = covered.size(2) / high, across = covered.size(3) / wide;
  const Tensor grid =
      permute(reshape(covered, {batch, channels, down, high, across, wide}), {0, 2, 4, 1, 3, 5});
  const std::int64_t inputs = channels * high * wide;
  const Tensor patches = reshape(grid, {batch, down * across, inputs});
  return weight.linear(patches, bias, Activation::none, WeightLayout::out_in);
}

}  // namespace heed
