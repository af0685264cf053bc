// The loops over rows and columns in integers, for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "image/resample_loops.cpp"
#if defined(__x86_64__) || defined(__i386__)  // as for the kernels: AVX-512, AVX2, portable; NEON
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_SCALAR | HWY_EMU128))
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (~(HWY_NEON | HWY_SCALAR | HWY_EMU128))
#endif
#include <hwy/foreach_target.h>  // the order of these blocks matters

#include <hwy/highway.h>

#include <algorithm>

#include "image/resample.h"

HWY_BEFORE_NAMESPACE();
namespace heed::image::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Sums = hn::CappedTag<std::int32_t, static_cast<std::size_t>(kPixelsAtOnce)>;
using Samples = hn::Rebind<std::uint8_t, Sums>;

std::uint8_t level_of(std::int32_t sum, int bits) {
  return static_cast<std::uint8_t>(std::clamp(sum >> bits, 0, 255));
}

HWY_ATTR void resize_row(const std::uint8_t* in, const RowFilter& row, std::int64_t width,
                         std::uint8_t* out) {
  const Sums d;
  const Samples bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN std::int32_t sums[3 * kPixelsAtOnce];
  for (std::int64_t x = 0; x < width; ++x) {
    const std::uint8_t* samples = in + 3 * row.first[x];
    const std::int32_t* weights = row.weights + x * row.stride;
    auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d);  // 3 · lanes samples: as many pixels as lanes
    for (std::int64_t k = 0; k < row.count[x]; k += lanes, samples += 3 * lanes, weights += 3 * lanes) {
      const auto product = [&](std::int64_t at) HWY_ATTR {
        return hn::Mul(hn::PromoteTo(d, hn::LoadU(bytes, samples + at)), hn::LoadU(d, weights + at));
      };
      a = hn::Add(a, product(0));
      b = hn::Add(b, product(lanes));
      c = hn::Add(c, product(2 * lanes));
    }
    hn::Store(a, d, sums);
    hn::Store(b, d, sums + lanes);
    hn::Store(c, d, sums + 2 * lanes);
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      std::int32_t sum = 1 << (row.bits - 1);
      for (std::int64_t i = channel; i < 3 * lanes; i += 3) sum += sums[i];
      out[3 * x + channel] = level_of(sum, row.bits);
    }
  }
}

HWY_ATTR void add_rows(const std::uint8_t* in, std::int64_t count, const std::int32_t* weights, int bits,
                       std::int64_t size, std::uint8_t* out) {
  const Sums d;
  const Samples bytes;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t block = 4 * lanes;
  const std::int32_t half = 1 << (bits - 1);
  for (std::int64_t begin = 0; size >= block && begin < size; begin += block) {
    const std::int64_t at = std::min(begin, size - block);  // the last block overlaps the one before
    auto s0 = hn::Set(d, half), s1 = s0, s2 = s0, s3 = s0;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::uint8_t* samples = in + k * size + at;
      const auto weight = hn::Set(d, weights[k]);
      s0 = hn::Add(s0, hn::Mul(weight, hn::PromoteTo(d, hn::LoadU(bytes, samples))));
      s1 = hn::Add(s1, hn::Mul(weight, hn::PromoteTo(d, hn::LoadU(bytes, samples + lanes))));
      s2 = hn::Add(s2, hn::Mul(weight, hn::PromoteTo(d, hn::LoadU(bytes, samples + 2 * lanes))));
      s3 = hn::Add(s3, hn::Mul(weight, hn::PromoteTo(d, hn::LoadU(bytes, samples + 3 * lanes))));
    }
    const auto write = [&](hn::Vec<Sums> sum, std::int64_t offset) HWY_ATTR {
      hn::StoreU(hn::DemoteTo(bytes, hn::ShiftRightSame(sum, bits)), bytes, out + at + offset);
    };
    write(s0, 0);
    write(s1, lanes);
    write(s2, 2 * lanes);
    write(s3, 3 * lanes);
  }
  for (std::int64_t j = 0; size < block && j < size; ++j) {
    std::int32_t sum = half;
    for (std::int64_t k = 0; k < count; ++k) sum += weights[k] * in[k * size + j];
    out[j] = level_of(sum, bits);
  }
}

}  // namespace heed::image::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::image {
namespace {
HWY_EXPORT(resize_row);
HWY_EXPORT(add_rows);
}  // namespace

void resize_row(const std::uint8_t* in, const RowFilter& row, std::int64_t width, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resize_row)(in, row, width, out);
}

void add_rows(const std::uint8_t* in, std::int64_t count, const std::int32_t* weights, int bits,
              std::int64_t size, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(add_rows)(in, count, weights, bits, size, out);
}

}  // namespace heed::image
#endif
