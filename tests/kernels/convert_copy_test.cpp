// Conversions against a scalar rule for every pair of types, and strided copies against an odometer.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "kernels/copy.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

TEST(Convert, EveryPairKeepsSmallWholeNumbers) {
  on_every_target([] {
    for (int from = 0; from < 8; ++from) {
      dispatch_all(static_cast<DType>(from), [&]<class Src>() {
        for (const std::int64_t n : kSizes) {
          std::vector<double> values;
          for (std::int64_t i = 0; i < n; ++i) values.push_back(std::is_same_v<Src, bool> ? i % 2 : i % 100);
          const auto src = std::make_unique<Src[]>(static_cast<std::size_t>(n) + 1);
          kernels::convert(values.data(), src.get() + 1, n);
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(to_double(src[i + 1]), values[static_cast<std::size_t>(i)]);
          for (int to = 0; to < 8; ++to) {
            dispatch_all(static_cast<DType>(to), [&]<class Dst>() {
              const auto dst = std::make_unique<Dst[]>(static_cast<std::size_t>(n) + 1);
              kernels::convert(static_cast<DType>(from), src.get() + 1, static_cast<DType>(to), dst.get() + 1,
                               n);
              for (std::int64_t i = 0; i < n; ++i) {
                const double v = values[static_cast<std::size_t>(i)];
                ASSERT_EQ(to_double(dst[i + 1]), (std::is_same_v<Dst, bool>) ? (v != 0) : v);
              }
            });
          }
        }
      });
    }
  });
}

TEST(Convert, SixteenBitFloatsRoundLikeTheScalarTypes) {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1.0f,
                          65504.0f,
                          65519.0f,
                          65520.0f,
                          1e38f,
                          3.4e38f,
                          1e-8f,
                          6e-8f,
                          2.98e-8f,
                          6.1e-5f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
  for (std::uint32_t i = 0; i < 20000; ++i) x.push_back(std::bit_cast<float>(i * 214013u + 0x30000000u));
  x.erase(std::remove_if(x.begin(), x.end(), [](float v) { return std::isnan(v); }), x.end());
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  on_every_target([&] {
    std::vector<bfloat16> b(x.size());
    std::vector<float16> h(x.size());
    kernels::convert(x.data(), b.data(), n);
    kernels::convert(x.data(), h.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(b[i].bits, bfloat16(x[i]).bits) << x[i];
      ASSERT_EQ(h[i].bits, float16(x[i]).bits) << x[i];
    }
    std::vector<float> y(x.size());
    kernels::convert(b.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(b[i]));
    kernels::convert(h.data(), y.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], static_cast<float>(h[i]));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    kernels::convert(&nan, b.data(), 1);
    kernels::convert(&nan, h.data(), 1);
    EXPECT_TRUE(std::isnan(static_cast<float>(b[0])));
    EXPECT_TRUE(std::isnan(static_cast<float>(h[0])));
  });
}

TEST(Convert, FloatToIntegerTruncatesAndSaturates) {
  const std::vector<double> x = {1.9, -1.9, 1e300, -1e300, std::nan(""), 255.5, 300, -1};
  std::vector<std::int32_t> i32(8);
  kernels::convert(x.data(), i32.data(), 8);
  EXPECT_EQ(i32, (std::vector<std::int32_t>{1, -1, INT32_MAX, INT32_MIN, 0, 255, 300, -1}));
  std::vector<std::int64_t> i64(8);
  kernels::convert(x.data(), i64.data(), 8);
  EXPECT_EQ(i64, (std::vector<std::int64_t>{1, -1, INT64_MAX, INT64_MIN, 0, 255, 300, -1}));
  std::vector<std::uint8_t> u8(8);
  kernels::convert(x.data(), u8.data(), 8);
  EXPECT_EQ(u8, (std::vector<std::uint8_t>{1, 0, 255, 0, 0, 255, 255, 0}));
}

struct CopyCase {
  kernels::StridedCopy shape;
  std::int64_t src_start;
};

const std::vector<CopyCase>& copy_cases() {
  static const std::vector<CopyCase> cases = {
      {{0, {}, {}, {}}, 0},
      {{1, {17}, {1}, {1}}, 0},
      {{1, {100000}, {1}, {1}}, 0},
      {{1, {17}, {-1}, {1}}, 16},                                  // reversed
      {{1, {17}, {0}, {1}}, 0},                                    // repeated
      {{2, {5, 7}, {1, 5}, {7, 1}}, 0},                            // transposition
      {{2, {300, 201}, {1, 300}, {201, 1}}, 0},                    // of several blocks
      {{3, {4, 70, 33}, {70 * 33, 1, 70}, {70 * 33, 33, 1}}, 0},   // batched
      {{4, {2, 3, 40, 8}, {960, 8, 24, 1}, {960, 320, 8, 1}}, 0},  // heads out of a projection
      {{4, {2, 40, 3, 35}, {4200, 1, 1400, 40}, {4200, 105, 35, 1}}, 0},
      {{2, {6, 4}, {10, 1}, {4, 1}}, 3},  // a slice
      {{2, {6, 4}, {4, 1}, {10, 1}}, 0},  // into a slice
      {{2, {6, 4}, {4, 1}, {1, 6}}, 0},   // destination transposed
      {{3, {3, 0, 4}, {4, 4, 1}, {4, 4, 1}}, 0},
      {{3, {1, 9, 1}, {5, 2, 3}, {1, 1, 1}}, 0},
  };
  return cases;
}

template <class Each>
void for_each_index(const kernels::StridedCopy& s, Each each) {
  std::array<std::int64_t, kernels::kMaxRank> index{};
  std::int64_t total = 1;
  for (int axis = 0; axis < s.rank; ++axis) total *= s.sizes[axis];
  for (std::int64_t i = 0; i < total; ++i) {
    std::int64_t from = 0, to = 0;
    for (int axis = 0; axis < s.rank; ++axis) {
      from += index[axis] * s.src_strides[axis];
      to += index[axis] * s.dst_strides[axis];
    }
    each(from, to);
    for (int axis = s.rank - 1; axis >= 0 && ++index[axis] == s.sizes[axis]; --axis) index[axis] = 0;
  }
}

template <class E>
void check_copies() {
  std::vector<E> src(100100);
  for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<E>(i * 2654435761u);
  for (const CopyCase& c : copy_cases()) {
    std::vector<E> got(100100, E(1)), want(100100, E(1));
    for_each_index(c.shape, [&](std::int64_t from, std::int64_t to) {
      want[static_cast<std::size_t>(to)] = src[static_cast<std::size_t>(from + c.src_start)];
    });
    kernels::copy_strided(src.data() + c.src_start, got.data(), c.shape, sizeof(E));
    ASSERT_EQ(got, want) << "case " << (&c - copy_cases().data());
  }
}

TEST(Copy, EveryElementSize) {
  check_copies<std::uint8_t>();
  check_copies<std::uint16_t>();
  check_copies<std::uint32_t>();
  check_copies<std::uint64_t>();
}

TYPED_TEST(Kernel, AccumulateStrided) {
  using T = TypeParam;
  const auto src = numbers<T>(100100, 1);
  for (const CopyCase& c : copy_cases()) {
    auto got = numbers<T>(100100, 2), want = got;
    for_each_index(c.shape, [&](std::int64_t from, std::int64_t to) {
      want[static_cast<std::size_t>(to)] += src[static_cast<std::size_t>(from + c.src_start)];
    });
    kernels::accumulate_strided(src.data() + c.src_start, got.data(), c.shape);
    ASSERT_EQ(got, want);
  }
}

TEST(Copy, GathersRowsByIndex) {
  const std::vector<std::int64_t> ids = {2, 0, 2};
  const std::vector<float> rows = {0, 1, 2, 3, 4, 5};
  std::vector<float> y(6);
  kernels::gather_rows(rows.data(), ids.data(), 3, 2 * sizeof(float), y.data());
  EXPECT_EQ(y, (std::vector<float>{4, 5, 0, 1, 4, 5}));
}

}  // namespace
}  // namespace heed
