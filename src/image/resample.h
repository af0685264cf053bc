// Separable resampling: which input pixels each output pixel is a weighted mean of.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/image/image.h"
#include "heed/tensor.h"

namespace heed::image {

/// Of each output position along an axis: the first input position, how many there are, and their weights,
/// `most` of them from weights[position · most] on, of which the rest are 0. T: double, float, std::int32_t.
template <class T>
struct FilterWeights {
  std::int64_t most = 0;
  std::vector<std::int64_t> first, count;
  std::vector<T> weights;
};

/// Output position i is centered on input position (i + 1/2)·in/out. The filter is widened by in/out when
/// shrinking; weights are computed in T and sum to 1. For all filters but nearest.
template <class T>
FilterWeights<T> make_filter_weights(std::int64_t in, std::int64_t out, ResizeFilter filter);

/// Resizes f32[height, width, 3], first along rows, then along columns, without rounding.
Tensor resize_floats(const Tensor& image, std::int64_t height, std::int64_t width, ResizeFilter filter);

/// Throws Error unless the sizes are positive and at most 2^26 pixels. `where` begins the message.
void check_output_size(const char* where, std::int64_t height, std::int64_t width);

// The two loops that resizing of levels spends its time in, compiled for several instruction sets.

/// How many pixels are summed up side by side at most.
constexpr std::int64_t kPixelsAtOnce = 8;

/// Weights of one row's output pixels, rounded to `bits` bits after the point.
struct RowFilter {
  const std::int64_t* first;    // the first input pixel of each output pixel
  const std::int64_t* count;    // how many there are
  const std::int32_t* weights;  // `stride` for each output pixel: each weight three times, then zeros
  std::int64_t stride;          // a multiple of 3 · kPixelsAtOnce
  int bits;
};

/// Resizes one row of pixels of three samples to `width` pixels. Up to kPixelsAtOnce - 1 input pixels behind
/// those with a weight are read.
void resize_row(const std::uint8_t* in, const RowFilter& row, std::int64_t width, std::uint8_t* out);

/// Adds up `count` rows of `size` samples, each times its weight, to one.
void add_rows(const std::uint8_t* in, std::int64_t count, const std::int32_t* weights, int bits,
              std::int64_t size, std::uint8_t* out);

}  // namespace heed::image
