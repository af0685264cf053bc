// The weights of the filters, and resizing in floats.
#include "image/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "heed/error.h"
#include "heed/threads.h"

namespace heed::image {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

template <class T>
T sinc(T x) {
  if (x == T{0}) return T{1};
  x *= std::numbers::pi_v<T>;
  return std::sin(x) / x;
}

/// Keys' cubic convolution with a = -1/2.
template <class T>
T cubic(T x) {
  constexpr T a{-0.5};
  x = std::abs(x);
  if (x < T{1}) return ((a + T{2}) * x - (a + T{3})) * x * x + T{1};
  if (x < T{2}) return (((x - T{5}) * x + T{8}) * x - T{4}) * a;
  return T{0};
}

/// The filter at a distance of x output pixels (input pixels when enlarging).
template <class T>
T filter_value(ResizeFilter filter, T x) {
  switch (filter) {
    case ResizeFilter::nearest: break;
    case ResizeFilter::box: return x > T{-0.5} && x <= T{0.5} ? T{1} : T{0};
    case ResizeFilter::bilinear: return std::max(T{1} - std::abs(x), T{0});
    case ResizeFilter::hamming:
      x = std::abs(x);
      return x < T{1} ? sinc(x) * (T{0.54f} + T{0.46f} * std::cos(x * std::numbers::pi_v<T>)) : T{0};
    case ResizeFilter::bicubic: return cubic(x);
    case ResizeFilter::lanczos: return x >= T{-3} && x < T{3} ? sinc(x) * sinc(x / T{3}) : T{0};
  }
  HEED_ASSERT(false, "the nearest pixel has no filter");
  return T{0};
}

double support_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::nearest: return 0;
    case ResizeFilter::box: return 0.5;
    case ResizeFilter::bilinear:
    case ResizeFilter::hamming: return 1;
    case ResizeFilter::bicubic: return 2;
    case ResizeFilter::lanczos: return 3;
  }
  return 0;
}

}  // namespace

template <class T>
FilterWeights<T> make_filter_weights(std::int64_t in, std::int64_t out, ResizeFilter filter) {
  const T scale = static_cast<T>(in) / static_cast<T>(out);
  const T filter_scale = std::max(scale, T{1});
  const T support = static_cast<T>(support_of(filter)) * filter_scale;
  const T inverse = T{1} / filter_scale;
  FilterWeights<T> taps;
  taps.most = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  taps.weights.resize(static_cast<std::size_t>(out * taps.most));
  for (std::int64_t i = 0; i < out; ++i) {
    const T center = (static_cast<T>(i) + T{0.5}) * scale;
    const std::int64_t first =
        std::max<std::int64_t>(static_cast<std::int64_t>(center - support + T{0.5}), 0);
    const std::int64_t end = std::min(static_cast<std::int64_t>(center + support + T{0.5}), in);
    const std::int64_t count = std::clamp<std::int64_t>(end - first, 0, taps.most);
    T* weights = taps.weights.data() + i * taps.most;
    T sum{0};
    for (std::int64_t k = 0; k < count; ++k) {
      weights[k] = filter_value(filter, (static_cast<T>(k + first) - center + T{0.5}) * inverse);
      sum += weights[k];
    }
    for (std::int64_t k = 0; k < count && sum != T{0}; ++k) weights[k] /= sum;
    taps.first.push_back(first);
    taps.count.push_back(count);
  }
  return taps;
}
template FilterWeights<double> make_filter_weights<double>(std::int64_t, std::int64_t, ResizeFilter);
template FilterWeights<float> make_filter_weights<float>(std::int64_t, std::int64_t, ResizeFilter);

void check_output_size(const char* where, std::int64_t height, std::int64_t width) {
  if (height >= 1 && width >= 1 && height <= kMostPixels / width) return;
  throw Error(std::string(where) + ": expected a size of 1 to " + std::to_string(kMostPixels) +
              " pixels, got " + std::to_string(height) + " x " + std::to_string(width) + " (height x width)");
}

Tensor resize_floats(const Tensor& image, std::int64_t height, std::int64_t width, ResizeFilter filter) {
  const std::int64_t in_height = image.size(0), in_width = image.size(1);
  const FilterWeights<float> columns = make_filter_weights<float>(in_width, width, filter);
  const FilterWeights<float> rows = make_filter_weights<float>(in_height, height, filter);
  const Tensor narrow = Tensor::empty({in_height, width, 3});
  parallel_for(in_height, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      const float* in = image.data<float>() + 3 * y * in_width;
      float* out = narrow.data<float>() + 3 * y * width;
      for (std::int64_t x = 0; x < width; ++x, out += 3) {
        out[0] = out[1] = out[2] = 0;
        const auto at = static_cast<std::size_t>(x);
        for (std::int64_t k = 0; k < columns.count[at]; ++k) {
          const float weight = columns.weights[static_cast<std::size_t>(x * columns.most + k)];
          for (std::int64_t c = 0; c < 3; ++c) out[c] += weight * in[3 * (columns.first[at] + k) + c];
        }
      }
    }
  });
  Tensor result = Tensor::zeros({height, width, 3});
  parallel_for(height, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      float* out = result.data<float>() + 3 * y * width;
      const auto at = static_cast<std::size_t>(y);
      for (std::int64_t k = 0; k < rows.count[at]; ++k) {
        const float weight = rows.weights[static_cast<std::size_t>(y * rows.most + k)];
        const float* in = narrow.data<float>() + 3 * (rows.first[at] + k) * width;
        for (std::int64_t i = 0; i < 3 * width; ++i) out[i] += weight * in[i];
      }
    }
  });
  return result;
}

}  // namespace heed::image
