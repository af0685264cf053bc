// Resizing of levels in whole numbers: weights are rounded to a number of bits after the point, and each pass
// rounds its sums to levels.
#include "heed/image/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "heed/error.h"
#include "heed/threads.h"
#include "image/resample.h"

namespace heed {
namespace image {
namespace {

struct FixedTaps {
  FilterWeights<std::int32_t> taps;
  int bits = 0;  // after the point
};

constexpr int kPillowBits = 22;  // with 8 bits for levels, and 2 for sums of weights above 1

/// torchvision's weights are of 16 bits, of which it gives as many as possible to the fraction.
int torchvision_bits(double greatest_weight) {
  int bits = 0;
  while (bits < 22 && static_cast<int>(0.5 + greatest_weight * (1 << (bits + 1))) < (1 << 15)) ++bits;
  return bits;
}

FixedTaps fixed_taps(std::int64_t in, std::int64_t out, ResizeFilter filter, ResizeArithmetic arithmetic) {
  const FilterWeights<double> exact = make_filter_weights<double>(in, out, filter);
  FixedTaps fixed{{exact.most, exact.first, exact.count, {}}, kPillowBits};
  if (arithmetic == ResizeArithmetic::torchvision)
    fixed.bits = torchvision_bits(*std::max_element(exact.weights.begin(), exact.weights.end()));
  for (const double weight : exact.weights) {
    const double scaled = weight * (1 << fixed.bits);
    fixed.taps.weights.push_back(static_cast<std::int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
  }
  return fixed;
}

/// Changes the width of the rows [begin, end) of an image. Returns those rows only.
Tensor resize_rows(const Tensor& image, std::int64_t begin, std::int64_t end, std::int64_t width,
                   const FixedTaps& fixed) {
  const FilterWeights<std::int32_t>& taps = fixed.taps;
  const std::int64_t stride = 3 * ((taps.most + kPixelsAtOnce - 1) / kPixelsAtOnce * kPixelsAtOnce);
  std::vector<std::int32_t> weights(static_cast<std::size_t>(stride * width));
  for (std::int64_t x = 0; x < width; ++x) {
    for (std::int64_t k = 0; k < 3 * taps.most; ++k)
      weights[static_cast<std::size_t>(x * stride + k)] =
          taps.weights[static_cast<std::size_t>(x * taps.most + k / 3)];
  }
  const std::int64_t in_size = 3 * image.size(1), rows = end - begin;
  Tensor result = Tensor::empty({rows, width, 3}, DType::u8);
  const std::uint8_t* in = image.data<std::uint8_t>() + begin * in_size;
  std::uint8_t* out = result.data<std::uint8_t>();
  const RowFilter row_weights{taps.first.data(), taps.count.data(), weights.data(), stride, fixed.bits};
  const std::int64_t room = 3 * (kPixelsAtOnce - 1);  // that the loop may read behind a row
  const std::int64_t whole = std::max<std::int64_t>(0, rows - (room + in_size - 1) / in_size);
  parallel_for(whole, std::max<std::int64_t>(1, 65536 / (in_size + 3 * width)),
               [&](std::int64_t from, std::int64_t to) {
                 for (std::int64_t y = from; y < to; ++y)
                   resize_row(in + y * in_size, row_weights, width, out + 3 * y * width);
               });
  std::vector<std::uint8_t> row(
      static_cast<std::size_t>(in_size + room));  // for those near the end of memory
  for (std::int64_t y = whole; y < rows; ++y) {
    std::memcpy(row.data(), in + y * in_size, static_cast<std::size_t>(in_size));
    resize_row(row.data(), row_weights, width, out + 3 * y * width);
  }
  return result;
}

/// Changes the height of an image that begins with row `begin`.
Tensor resize_columns(const Tensor& image, std::int64_t begin, std::int64_t height, const FixedTaps& fixed) {
  const std::int64_t size = 3 * image.size(1);
  Tensor result = Tensor::empty({height, image.size(1), 3}, DType::u8);
  const std::uint8_t* in = image.data<std::uint8_t>();
  std::uint8_t* out = result.data<std::uint8_t>();
  const FilterWeights<std::int32_t>& taps = fixed.taps;
  parallel_for(height, std::max<std::int64_t>(1, 65536 / (size * taps.most)),
               [&](std::int64_t from, std::int64_t to) {
                 for (std::int64_t y = from; y < to; ++y) {
                   const auto at = static_cast<std::size_t>(y);
                   add_rows(in + (taps.first[at] - begin) * size, taps.count[at],
                            taps.weights.data() + y * taps.most, fixed.bits, size, out + y * size);
                 }
               });
  return result;
}

/// From version 13 on, Pillow resizes columns before rows where the height shrinks by much more than the
/// width.
bool columns_come_first(std::int64_t lost_height, std::int64_t lost_width) {
  return lost_height > 0 && lost_height > 2 * lost_width;
}

/// The input position of each output position.
std::vector<std::int64_t> nearest_positions(std::int64_t in, std::int64_t out, ResizeArithmetic arithmetic) {
  std::vector<std::int64_t> positions;
  if (arithmetic == ResizeArithmetic::torchvision) {
    const float scale = static_cast<float>(in) / static_cast<float>(out);
    for (std::int64_t i = 0; i < out; ++i) {
      const float center = (static_cast<float>(i) + 0.5f) * scale;
      positions.push_back(std::min(static_cast<std::int64_t>(center), in - 1));
    }
    return positions;
  }
  // Pillow adds the scale up, so that positions carry the rounding of the sum.
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  double position = scale * 0.5;
  for (std::int64_t i = 0; i < out; ++i, position += scale)
    positions.push_back(std::min(static_cast<std::int64_t>(position), in - 1));
  return positions;
}

Tensor resize_nearest(const Tensor& image, std::int64_t height, std::int64_t width,
                      ResizeArithmetic arithmetic) {
  const std::vector<std::int64_t> rows = nearest_positions(image.size(0), height, arithmetic);
  const std::vector<std::int64_t> columns = nearest_positions(image.size(1), width, arithmetic);
  Tensor result = Tensor::empty({height, width, 3}, DType::u8);
  std::uint8_t* out = result.data<std::uint8_t>();
  for (const std::int64_t y : rows) {
    const std::uint8_t* in = image.data<std::uint8_t>() + 3 * y * image.size(1);
    for (const std::int64_t x : columns) {
      std::memcpy(out, in + 3 * x, 3);
      out += 3;
    }
  }
  return result;
}

}  // namespace
}  // namespace image

Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width, ResizeFilter filter,
                    ResizeArithmetic arithmetic) {
  if (image.dtype() != DType::u8 || image.rank() != 3 || image.size(2) != 3 || image.numel() == 0)
    throw Error("resize_image: expected u8[height, width, 3], got " + image.str());
  image::check_output_size("resize_image", height, width);
  const bool torchvision = arithmetic == ResizeArithmetic::torchvision;
  if (torchvision && (filter == ResizeFilter::box || filter == ResizeFilter::hamming)) {
    throw Error("resize_image: expected nearest, lanczos, bilinear or bicubic, which torchvision has, got " +
                std::string(filter == ResizeFilter::box ? "box" : "hamming"));
  }
  const std::int64_t in_height = image.size(0), in_width = image.size(1);
  Tensor result = image.contiguous();
  if (height == in_height && width == in_width) return result;
  if (filter == ResizeFilter::nearest) return image::resize_nearest(result, height, width, arithmetic);

  const image::FixedTaps rows = image::fixed_taps(in_height, height, filter, arithmetic);
  const image::FixedTaps columns = image::fixed_taps(in_width, width, filter, arithmetic);
  if (height == in_height) return image::resize_rows(result, 0, height, width, columns);
  if (width == in_width) return image::resize_columns(result, 0, height, rows);
  if (!torchvision && image::columns_come_first(in_height - height, in_width - width))
    return image::resize_rows(image::resize_columns(result, 0, height, rows), 0, height, width, columns);
  const std::int64_t begin = rows.taps.first.front();  // only the rows that the output needs
  const std::int64_t end = rows.taps.first.back() + rows.taps.count.back();
  return image::resize_columns(image::resize_rows(result, begin, end, width, columns), begin, height, rows);
}

}  // namespace heed
