// Products with packed weights: every bit against the chain of fused multiply-adds that defines them.
#include "kernels/packed.h"

#include <cmath>

#include "heed/dtype.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

template <class T>
class Packed : public ::testing::Test {};
using StoredTypes = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(Packed, StoredTypes, );

template <class T>
std::vector<T> stored(std::int64_t n, std::uint64_t seed) {
  const std::vector<float> wide = numbers<float>(n, seed);
  std::vector<T> values;
  for (const float value : wide) values.push_back(T(value));
  return values;
}

// One step of a sum: fused, save on the portable target, which multiplies and adds.
float step(bool fused, float a, float b, float sum) {
  if (!fused) {
    const volatile float product = a * b;
    return product + sum;
  }
  return std::fma(a, b, sum);
}

struct Case {
  std::int64_t m, n, k;
  bool bias = false;
  void (*activation)(const float*, float*, std::int64_t) = nullptr;
  bool accumulate = false;
};

constexpr float kBefore = 7;  // what stands in y before the product

// By definition, w [n, k].
template <class T>
std::vector<float> chain(const Case& c, const std::vector<float>& x, const std::vector<T>& w,
                         const std::vector<float>& bias) {
  const bool fused = hwy::SupportedTargets() != HWY_SCALAR;
  std::vector<float> y;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      float sum = c.accumulate ? kBefore : 0;
      for (std::int64_t l = 0; l < c.k; ++l) {
        sum = step(fused, x[static_cast<std::size_t>(i * c.k + l)],
                   static_cast<float>(w[static_cast<std::size_t>(j * c.k + l)]), sum);
      }
      y.push_back(c.bias ? sum + bias[static_cast<std::size_t>(j)] : sum);
    }
  }
  if (c.activation != nullptr) c.activation(y.data(), y.data(), c.m * c.n);
  return y;
}

template <class T>
void check(const Case& c, bool with_threads = false) {
  SCOPED_TRACE(testing::Message() << "m " << c.m << " n " << c.n << " k " << c.k);
  const auto x = numbers<float>(c.m * c.k, 80), bias = numbers<float>(c.n, 82);
  const auto w = stored<T>(c.n * c.k, 81);
  std::vector<T> turned(w.size()), packed(static_cast<std::size_t>(kernels::packed_size(c.n, c.k)));
  kernels::pack(kernels::plain_of(w.data(), c.n, c.k, false), c.n, c.k, packed.data());
  kernels::unpack(c.n, c.k, packed.data(), kernels::plain_of(turned.data(), c.n, c.k, true));
  const std::vector<float> want = chain(c, x, w, bias);
  kernels::OrderedProduct<T> args;
  args.m = c.m, args.n = c.n, args.k = c.k;
  args.accumulate = c.accumulate;
  args.bias = c.bias ? bias.data() : nullptr;
  args.activation = c.activation;
  args.ldy = c.n + 3;
  std::vector<float> turned_x;
  for (std::int64_t l = 0; l < c.k; ++l) {
    for (std::int64_t i = 0; i < c.m; ++i) turned_x.push_back(x[static_cast<std::size_t>(i * c.k + l)]);
  }
  const auto product = [&](int form) {
    args.x = kernels::plain_of<const float>(form == 3 ? turned_x.data() : x.data(), c.m, c.k, form == 3);
    args.packed = form == 0 ? packed.data() : nullptr;
    args.plain = form == 1 ? kernels::plain_of<const T>(w.data(), c.n, c.k, false)
                           : kernels::plain_of<const T>(turned.data(), c.n, c.k, true);
    std::vector<float> y(static_cast<std::size_t>(c.m * args.ldy), kBefore), got;
    args.y = y.data();
    kernels::ordered_product(args);
    for (std::int64_t i = 0; i < c.m; ++i) {
      const auto row = y.begin() + i * args.ldy;
      got.insert(got.end(), row, row + c.n);
      EXPECT_EQ(std::vector<float>(row + c.n, row + args.ldy), std::vector<float>(3, kBefore));
    }
    return got;
  };
  for (const int form : {0, 1, 2, 3}) ASSERT_EQ(product(form), want) << "form " << form;
  if (with_threads) expect_same_for_all_threads([&] { return product(0); });
}

TYPED_TEST(Packed, EveryNumberIsTheChainOfItsSteps) {
  on_every_target([] {
    for (const std::int64_t m : {1, 2, 3, 6, 7, 14, 15, 31}) {
      for (const std::int64_t n : {1, 31, 33, 130}) {
        for (const std::int64_t k : {0, 1, 16, 37}) check<TypeParam>({m, n, k, m % 2 == 0});
      }
    }
    check<TypeParam>({1, 260, 40, true, kernels::gelu<float>});
    check<TypeParam>({9, 70, 20, true, kernels::silu<float>});
    check<TypeParam>({9, 70, 20, true, nullptr, true});
  });
}

TYPED_TEST(Packed, BlocksAndThreadsKeepTheBits) {
  check<TypeParam>({1, 1024, 600}, true);
  check<TypeParam>({400, 33, 1030, true, kernels::relu<float>}, true);  // k is cut, and so are the rows
  check<TypeParam>({300, 20, 300}, true);                               // rows are shared out
  check<TypeParam>({40, 1100, 1030, true, nullptr, true}, true);        // k is cut, the sums begin with y
}

// More panels than are packed at a time, for more rows than stay in the cache, against a packed weight.
TEST(PackedStrips, OfAnyLayoutKeepTheBits) {
  const std::int64_t m = 330, n = 3600, k = 600;
  const auto x = numbers<float>(m * k, 84), w = numbers<float>(n * k, 85);
  std::vector<float> packed(static_cast<std::size_t>(kernels::packed_size(n, k))), turned(w.size());
  kernels::pack(kernels::plain_of(w.data(), n, k, false), n, k, packed.data());
  kernels::unpack(n, k, packed.data(), kernels::plain_of(turned.data(), n, k, true));
  kernels::OrderedProduct<float> args;
  args.m = m, args.n = n, args.k = k;
  args.x = {x.data(), k, 1};
  args.ldy = n;
  const auto product = [&] {
    std::vector<float> y(static_cast<std::size_t>(m * n));
    args.y = y.data();
    kernels::ordered_product(args);
    return y;
  };
  args.packed = packed.data();
  const std::vector<float> want = product();
  args.packed = nullptr;
  const int before = threads();
  for (const bool transposed : {false, true}) {
    args.plain = kernels::plain_of<const float>(transposed ? turned.data() : w.data(), n, k, transposed);
    for (const int count : {1, 2}) {
      set_threads(count);
      EXPECT_TRUE(product() == want) << count << " threads, transposed " << transposed;
    }
  }
  set_threads(before);
}

TYPED_TEST(Packed, RowsAreThoseOfTheMatrix) {
  const std::int64_t n = 70, k = 21;
  const auto w = stored<TypeParam>(n * k, 83);
  std::vector<TypeParam> packed(static_cast<std::size_t>(kernels::packed_size(n, k)));
  kernels::pack(kernels::plain_of(w.data(), n, k, false), n, k, packed.data());
  const std::vector<std::int64_t> ids = {0, 69, 31, 32, 31};
  std::vector<float> y(ids.size() * static_cast<std::size_t>(k));
  kernels::packed_rows(k, packed.data(), ids.data(), static_cast<std::int64_t>(ids.size()), 0.5f, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(ids[i / static_cast<std::size_t>(k)]);
    EXPECT_EQ(y[i], 0.5f * static_cast<float>(
                               w[row * static_cast<std::size_t>(k) + i % static_cast<std::size_t>(k)]));
  }
}

}  // namespace
}  // namespace heed
