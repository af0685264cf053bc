// The batch-invariant product: every bit against the chain of fused multiply-adds that defines it.
#include "kernels/gemm.h"

#include <cmath>

#include "heed/dtype.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

template <class T>
class InvariantGemm : public ::testing::Test {};
using StoredTypes = ::testing::Types<float, bfloat16, float16>;
TYPED_TEST_SUITE(InvariantGemm, StoredTypes, );

template <class T>
std::vector<T> stored(std::int64_t n, std::uint64_t seed) {
  const std::vector<float> wide = numbers<float>(n, seed);
  std::vector<T> values;
  for (const float value : wide) values.push_back(T(value));
  return values;
}

template <class T>
kernels::StridedMatrix matrix(const std::vector<T>& values, std::int64_t rows, std::int64_t columns,
                              bool transposed = false) {
  return kernels::dense_matrix(values.data(), dtype_of<T>(), rows, columns, transposed);
}

template <class T>
std::vector<T> transposed(const std::vector<T>& w, std::int64_t rows, std::int64_t columns) {
  std::vector<T> result;
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) result.push_back(w[static_cast<std::size_t>(i * columns + j)]);
  }
  return result;
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
  Activation activation = Activation::none;
  bool accumulate = false;
};

constexpr float kBefore = 7;  // what stands in y before the product

// By definition, w [n, k].
template <class T>
std::vector<float> chain(const Case& c, const std::vector<float>& x, const std::vector<T>& w,
                         const std::vector<float>& bias) {
  const bool fused = kernels::detail::vector_bits() != 0;
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
  kernels::activate(c.activation, y.data(), y.data(), c.m * c.n);
  return y;
}

template <class T>
void check(const Case& c, bool with_threads = false) {
  SCOPED_TRACE(testing::Message() << "m " << c.m << " n " << c.n << " k " << c.k);
  const auto x = numbers<float>(c.m * c.k, 80), bias = numbers<float>(c.n, 82);
  const auto w = stored<T>(c.n * c.k, 81);
  const std::vector<T> transposed_w = transposed(w, c.n, c.k);
  const std::vector<float> transposed_x = transposed(x, c.m, c.k);
  const auto packed = kernels::pack(matrix(w, c.n, c.k), c.n, c.k, kernels::Kept::briefly);
  const std::vector<float> want = chain(c, x, w, bias);
  kernels::InvariantGemm args{.m = c.m, .n = c.n, .k = c.k, .ldy = c.n + 3, .accumulate = c.accumulate};
  args.epilogue = {c.bias ? bias.data() : nullptr, c.activation};
  const auto product = [&](int form) {
    args.x = form == 3 ? matrix(transposed_x, c.m, c.k, true) : matrix(x, c.m, c.k);
    args.w.packed = form == 0 ? packed.get() : nullptr;
    args.w.strided = form == 1 ? matrix(w, c.n, c.k) : matrix(transposed_w, c.n, c.k, true);
    std::vector<float> y(static_cast<std::size_t>(c.m * args.ldy), kBefore), got;
    args.y = y.data();
    kernels::invariant_gemm(args);
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

TYPED_TEST(InvariantGemm, EveryNumberIsTheChainOfItsSteps) {
  on_every_target([] {
    for (const std::int64_t m : {1, 2, 3, 6, 7, 14, 15, 31}) {
      for (const std::int64_t n : {1, 31, 33, 130}) {
        for (const std::int64_t k : {0, 1, 16, 37}) check<TypeParam>({m, n, k, m % 2 == 0});
      }
    }
    check<TypeParam>({1, 260, 40, true, Activation::gelu});
    check<TypeParam>({9, 70, 20, true, Activation::silu});
    check<TypeParam>({9, 70, 20, true, Activation::none, true});
  });
}

TYPED_TEST(InvariantGemm, BlocksAndThreadsKeepTheBits) {
  check<TypeParam>({1, 1024, 600}, true);
  check<TypeParam>({400, 33, 1030, true, Activation::relu}, true);         // k is cut, and so are the rows
  check<TypeParam>({300, 20, 300}, true);                                  // rows are shared out
  check<TypeParam>({40, 1100, 1030, true, Activation::none, true}, true);  // k is cut, the sums begin with y
}

// More panels than are packed at a time, for more rows than stay in the cache, against a packed weight.
TEST(InvariantGemmStrips, OfAnyLayoutKeepTheBits) {
  const std::int64_t m = 330, n = 3600, k = 600;
  const auto x = numbers<float>(m * k, 84), w = numbers<float>(n * k, 85);
  const std::vector<float> transposed_w = transposed(w, n, k);
  const auto packed = kernels::pack(matrix(w, n, k), n, k, kernels::Kept::lastingly);
  kernels::InvariantGemm args{.m = m, .n = n, .k = k, .x = matrix(x, m, k), .ldy = n};
  const auto product = [&] {
    std::vector<float> y(static_cast<std::size_t>(m * n));
    args.y = y.data();
    kernels::invariant_gemm(args);
    return y;
  };
  args.w.packed = packed.get();
  const std::vector<float> want = product();
  args.w.packed = nullptr;
  const int before = threads();
  for (const bool columns : {false, true}) {
    args.w.strided = columns ? matrix(transposed_w, n, k, true) : matrix(w, n, k);
    for (const int count : {1, 2}) {
      set_threads(count);
      EXPECT_TRUE(product() == want) << count << " threads, transposed " << columns;
    }
  }
  set_threads(before);
}

TYPED_TEST(InvariantGemm, RowsAreThoseOfTheMatrix) {
  const std::int64_t n = 70, k = 21;
  const auto w = stored<TypeParam>(n * k, 83), columns = transposed(w, n, k);
  const auto packed = kernels::pack(matrix(w, n, k), n, k, kernels::Kept::lastingly);
  const std::vector<std::int64_t> ids = {0, 69, 31, 32, 31};
  const kernels::StoredMatrix forms[] = {
      {{}, packed.get()}, {matrix(w, n, k)}, {matrix(columns, n, k, true)}};
  for (const kernels::StoredMatrix& form : forms) {
    std::vector<float> y(ids.size() * static_cast<std::size_t>(k));
    kernels::lookup_rows(form, {ids.data(), static_cast<std::int64_t>(ids.size()), k}, 0.5f, y.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::size_t row = static_cast<std::size_t>(ids[i / static_cast<std::size_t>(k)]);
      EXPECT_EQ(y[i], 0.5f * static_cast<float>(
                                 w[row * static_cast<std::size_t>(k) + i % static_cast<std::size_t>(k)]));
    }
  }
}

}  // namespace
}  // namespace heed
