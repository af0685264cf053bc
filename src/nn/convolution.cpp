// Windows and patches as rows of a matrix, then one product.
#include "heed/nn/convolution.h"

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

}  // namespace

Tensor Conv1d::operator()(const Tensor& x, Activation activation) const {
  const std::int64_t channels = weight.size(1), width = weight.size(2);
  if (x.rank() != 3 || x.size(2) != channels || x.size(1) + 2 * padding < width) {
    throw Error("convolution: expected [B, T, " + std::to_string(channels) + "] with T of at least " +
                std::to_string(width - 2 * padding) + ", got " + x.str());
  }
  const std::int64_t batch = x.size(0);
  const Tensor zeros = Tensor::zeros({batch, padding, channels}, x.dtype());
  const Tensor padded = padding > 0 ? concat({zeros, x, zeros}, 1) : x;
  const Tensor windows = reshape(windows_of(padded, 1, width, stride), {batch, -1, width * channels});
  const Tensor rows = reshape(transpose(weight, 1, 2), {weight.size(0), width * channels});
  return linear(windows, rows, bias, activation);
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
