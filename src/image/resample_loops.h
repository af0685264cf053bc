// The two loops that resizing of levels spends its time in, compiled for several instruction sets.
#pragma once

#include <cstdint>

namespace heed::image {

/// How many pixels are summed up side by side at most.
constexpr std::int64_t kPixelsAtOnce = 8;

/// Weights of one row's output pixels, rounded to `bits` bits after the point.
struct RowWeights {
  const std::int64_t* first;    // the first input pixel of each output pixel
  const std::int64_t* count;    // how many there are
  const std::int32_t* weights;  // `stride` for each output pixel: each weight three times, then zeros
  std::int64_t stride;          // a multiple of 3 · kPixelsAtOnce
  int bits;
};

/// Resizes one row of pixels of three samples to `width` pixels. Up to kPixelsAtOnce - 1 input pixels behind
/// those with a weight are read.
void resize_row(const std::uint8_t* in, const RowWeights& row, std::int64_t width, std::uint8_t* out);

/// Adds up `count` rows of `size` samples, each times its weight, to one.
void add_rows(const std::uint8_t* in, std::int64_t count, const std::int32_t* weights, int bits,
              std::int64_t size, std::uint8_t* out);

}  // namespace heed::image
