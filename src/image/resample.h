// Separable resampling: which input pixels each output pixel is a weighted mean of.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/image/resize.h"
#include "heed/tensor.h"

namespace heed::image {

/// Of each output position along an axis: the first input position, how many there are, and their weights,
/// `most` of them from weights[position · most] on, of which the rest are 0. T: double, float, std::int32_t.
template <class T>
struct Taps {
  std::int64_t most = 0;
  std::vector<std::int64_t> first, count;
  std::vector<T> weights;
};

/// Output position i is centered on input position (i + 1/2)·in/out. The filter is widened by in/out when
/// shrinking; weights are computed in T and sum to 1. For all filters but nearest.
template <class T>
Taps<T> make_taps(std::int64_t in, std::int64_t out, ResizeFilter filter);

/// Resizes f32[height, width, 3], first along rows, then along columns, without rounding.
Tensor resize_floats(const Tensor& image, std::int64_t height, std::int64_t width, ResizeFilter filter);

/// Throws Error unless the sizes are positive and at most 2^26 pixels. `where` begins the message.
void check_output_size(const char* where, std::int64_t height, std::int64_t width);

}  // namespace heed::image
