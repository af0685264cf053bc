// Products of rows rounded to int8 against the same rounding in plain code and sums in double, on every
// instruction set.
#include <limits>

#include "kernels/block_cases.h"
#include "kernels/cpu/gemm_paths.h"
#include "kernels/gemm.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

// x with each `group` numbers rounded to 127 steps of their largest magnitude.
std::vector<float> rounded_to_int8(std::vector<float> x, std::size_t group) {
  for (std::size_t begin = 0; begin < x.size(); begin += group) {
    float most = 0;
    for (std::size_t i = begin; i < begin + group; ++i) most = std::max(most, std::abs(x[i]));
    if (most < 1e-35F) {
      std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(begin), group, 0.0F);
      continue;
    }
    for (std::size_t i = begin; i < begin + group; ++i)
      x[i] = std::nearbyint(x[i] * (127 / most)) * (most / 127);
  }
  return x;
}

kernels::ByteProducts bytes_by = kernels::ByteProducts::base;

struct Int8Product {
  const kernels::PackedMatrix* packed;
  std::int64_t n, k;
  std::vector<float> operator()(const std::vector<float>& x, const kernels::Epilogue& epilogue = {},
                                float before = 0) const {
    const std::int64_t m = std::ssize(x) / k;
    std::vector<float> y(static_cast<std::size_t>(m * n), before);
    kernels::InvariantGemm args{.m = m, .n = n, .k = k, .x = kernels::row_major(x.data(), k), .ldy = n};
    args.w.packed = packed;
    args.epilogue = epilogue;
    args.y = y.data();
    args.accumulate = before != 0;
    args.int8 = true;
    if (!kernels::detail::takes_int8(*packed)) ADD_FAILURE() << "expected codes that are integers";
    kernels::detail::invariant_gemms({&args, 1}, bytes_by);
    return y;
  }
};

// Expects the products of x [m, k] with `numbers` [n, k], which `packed` stands for; `group` numbers of x
// share a scale.
void expect_products(const Int8Product& product, const std::vector<float>& numbers,
                     const std::vector<float>& x, std::size_t group = 32) {
  const std::vector<float> near = rounded_to_int8(x, group), y = product(x);
  const auto n = static_cast<std::size_t>(product.n), k = static_cast<std::size_t>(product.k);
  for (std::size_t i = 0; i < x.size() / k; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (std::size_t l = 0; l < k; ++l) {
        const double one = double{near[i * k + l]} * double{numbers[j * k + l]};
        sum += one;
        size += std::abs(one);
      }
      ASSERT_NEAR(y[i * n + j], sum, 2e-6 * size) << i << ", " << j;
    }
  }
}

// Runs `check` on each instruction set, with all products of bytes that there are.
void on_int8_targets(const std::function<void()>& check) {
  using kernels::ByteProducts;
  on_every_target([&] {
    for (const ByteProducts one :
         {ByteProducts::base, ByteProducts::signed_fours, ByteProducts::fours, ByteProducts::tiles}) {
      if (one > kernels::detail::byte_products()) break;
      if (one == ByteProducts::signed_fours && kernels::detail::vector_bits() != 128) continue;  // ARM's
      SCOPED_TRACE(static_cast<int>(one));
      bytes_by = one;
      check();
    }
  });
}

TEST(Int8Gemm, ProductsAreThoseOfRoundedRows) {
  on_int8_targets([] {
    for_each_type([](const StoredBlocks& type) {
      const std::int64_t n = 70, k = 3 * kStoredNumbers;
      const Larger w = larger(type, n, k);
      const auto packed = kernels::pack(w.rows);
      for (const std::int64_t m : {1, 2, 5, 8, 13, 33}) {
        auto x = numbers<float>(m * k, 5);
        std::fill_n(x.begin() + 32, 32, 0.0F);
        std::fill_n(x.begin() + 64, 32, 1e-38F);
        expect_products({packed.get(), n, k}, w.numbers, x);
      }
    });
  });
}

TEST(Int8Gemm, ARowHasTheSameBitsAnywhere) {
  for_each_type([](const StoredBlocks& type) {
    const std::int64_t n = 100, k = 3 * kStoredNumbers, m = 140;  // more rows than one task has
    const Larger w = larger(type, n, k);
    const auto packed = kernels::pack(w.rows);
    const Int8Product product{packed.get(), n, k};
    const auto x = numbers<float>(m * k, 5);
    std::vector<float> first;
    on_int8_targets([&] {
      std::vector<float> all = product(x);
      expect_same_for_all_threads([&] { return product(x); });
      for (const std::int64_t i : {0, 17, 132}) {
        for (const std::int64_t rows : {1, 3, 8}) {
          const std::vector<float> some(x.begin() + i * k, x.begin() + (i + rows) * k);
          EXPECT_EQ(product(some), std::vector<float>(all.begin() + i * n, all.begin() + (i + rows) * n))
              << i;
        }
      }
      // Where there are fused multiplications, the sums are the same on every instruction set.
      if (first.empty()) first = all;
      if (kernels::detail::vector_bits() > 0) {
        EXPECT_EQ(all, first);
      }
    });
  });
}

TEST(Int8Gemm, BiasActivationAndEarlierSumsComeLast) {
  on_int8_targets([] {
    const std::int64_t n = 70, k = 3 * kStoredNumbers;
    const Larger w = larger(all_types()[1], n, k);
    const auto packed = kernels::pack(w.rows);
    const Int8Product product{packed.get(), n, k};
    const auto bias = numbers<float>(n, 4);
    for (const std::int64_t m : {1, 6, 35}) {
      const auto x = numbers<float>(m * k, 5);
      const std::vector<float> plain = product(x), biased = product(x, {bias.data(), Activation::relu}),
                               more = product(x, {}, 2.0F);
      for (std::size_t i = 0; i < plain.size(); ++i) {
        EXPECT_EQ(biased[i], std::max(0.0F, plain[i] + bias[i % static_cast<std::size_t>(n)]));
        EXPECT_NEAR(more[i], plain[i] + 2, 1e-5 * (1 + std::abs(plain[i])));
      }
    }
  });
}

// Codes of 4 or 8 bits in groups with a scale of f16.
std::shared_ptr<const kernels::PackedMatrix> in_groups(int bits, std::int64_t n, std::int64_t k,
                                                       std::int64_t group) {
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < n * k; ++i)
    codes.push_back(static_cast<std::uint8_t>((i * 37 + i / 7) & ((1 << bits) - 1)));
  const std::vector<float> scales = numbers<float>(n * k / group, 9);
  kernels::GroupRows w{.bits = bits, .n = n, .k = k, .group = group, .scale_type = DType::f16};
  w.codes = codes.data();
  w.scales = scales.data();
  w.center = static_cast<float>(1 << (bits - 1));
  return kernels::pack(w);
}

// What lies between two products is rounded by the tasks that compute it, for matrices of every form after
// those of every other: groups of 16 to 256 steps, one to four panels at a time.
TEST(Int8Gemm, AChainHasTheBitsOfOneAfterTheOther) {
  const std::int64_t in = kStoredNumbers, between = 3 * kStoredNumbers, out = 70;
  std::vector<std::shared_ptr<const kernels::PackedMatrix>> up, down;
  for_each_type([&](const StoredBlocks& type) {
    up.push_back(kernels::pack(larger(type, between, in).rows));
    down.push_back(kernels::pack(larger(type, out, between).rows));
  });
  for (const auto& [bits, group] : {std::pair{8, 128}, {4, 64}, {8, 32}}) {
    up.push_back(in_groups(bits, between, in, group));
    down.push_back(in_groups(bits, out, between, group));
  }
  const auto bias = numbers<float>(between, 4);
  on_int8_targets([&] {
    for (std::size_t i = 0; i < up.size(); ++i) {
      SCOPED_TRACE(i);
      const std::size_t other = (i + 1) % up.size();
      if (!kernels::detail::takes_int8(*up[i]) || !kernels::detail::takes_int8(*down[other])) continue;
      for (const std::int64_t m : {2, 13, 40, 300}) {
        const auto x = numbers<float>(m * in, 5);
        const kernels::Epilogue epilogue{bias.data(), Activation::gelu};
        const std::vector<float> inner = Int8Product{up[i].get(), between, in}(x, epilogue);
        const std::vector<float> y = Int8Product{down[other].get(), out, between}(inner);
        std::vector<float> chained(y.size());
        kernels::InvariantGemm first{.m = m, .n = between, .k = in, .x = kernels::row_major(x.data(), in)};
        first.w.packed = up[i].get();
        first.epilogue = epilogue;
        kernels::InvariantGemm second{.m = m, .n = out, .k = between, .y = chained.data(), .ldy = out};
        second.w.packed = down[other].get();
        expect_same_for_all_threads([&] {
          kernels::detail::int8_chain(first, second, bytes_by);
          return chained;
        });
        EXPECT_EQ(chained, y) << m;
      }
    }
  });
}

// Rows of x that the product computes: each once, before it is read.
TEST(Int8Gemm, ComputesTheRowsOfItsX) {
  const std::int64_t k = 256, n = 70;
  const auto int8 = in_groups(8, n, k, 64), again = in_groups(8, n, k, 128), down = in_groups(4, k, k, 64);
  const auto w = numbers<float>(n * k, 7);
  on_int8_targets([&] {
    for (const std::int64_t m : {1, 13, 40, 300}) {
      SCOPED_TRACE(m);
      const auto x = numbers<float>(m * k, 6);
      // A product of each kind and one with other scales, in every order; the rows are there for all of them.
      for (const std::vector<bool>& kinds :
           {std::vector<bool>{true}, {false}, {true, false}, {false, true}}) {
        std::vector<float> there(x.size()), want, y(static_cast<std::size_t>(3 * m * n));
        std::vector<kernels::InvariantGemm> all;
        for (std::size_t i = 0; i < kinds.size() + 1; ++i) {
          kernels::InvariantGemm& args = all.emplace_back();
          args = {.m = m, .n = n, .k = k, .x = kernels::row_major(x.data(), k), .ldy = n};
          args.y = y.data() + static_cast<std::int64_t>(i) * m * n;
          args.int8 = i == kinds.size() || kinds[i];
          if (!args.int8) args.w.strided = kernels::row_major(w.data(), k);
          if (args.int8) args.w.packed = i == kinds.size() ? again.get() : int8.get();
        }
        kernels::detail::invariant_gemms(all, bytes_by);
        want = y;
        for (kernels::InvariantGemm& args : all) args.x = kernels::row_major(there.data(), k);
        expect_same_for_all_threads([&] {
          std::fill(there.begin(), there.end(), std::numeric_limits<float>::quiet_NaN());
          std::vector<int> times(static_cast<std::size_t>(m));
          const auto compute = [&](std::int64_t begin, std::int64_t end) {
            std::copy(x.begin() + begin * k, x.begin() + end * k, there.begin() + begin * k);
            for (std::int64_t row = begin; row < end; ++row) ++times[static_cast<std::size_t>(row)];
          };
          const kernels::ComputeRows rows = compute;
          kernels::detail::invariant_gemms(all, bytes_by, &rows);
          EXPECT_EQ(times, std::vector<int>(static_cast<std::size_t>(m), 1));
          EXPECT_EQ(y, want);
          return y;
        });
      }
      if (m < 2) continue;
      kernels::InvariantGemm first{.m = m, .n = k, .k = k, .x = kernels::row_major(x.data(), k)};
      first.w.packed = down.get();
      std::vector<float> there(x.size()), y(static_cast<std::size_t>(m * n)), want;
      kernels::InvariantGemm second{.m = m, .n = n, .k = k, .y = y.data(), .ldy = n};
      second.w.packed = int8.get();
      kernels::detail::int8_chain(first, second, bytes_by);
      want = y;
      first.x = kernels::row_major(there.data(), k);
      const auto compute = [&](std::int64_t begin, std::int64_t end) {
        std::copy(x.begin() + begin * k, x.begin() + end * k, there.begin() + begin * k);
      };
      const kernels::ComputeRows rows = compute;
      kernels::detail::int8_chain(first, second, bytes_by, &rows);
      EXPECT_EQ(y, want);
    }
  });
}

// Codes and activations as large as they come: sums of products in 16 bits must have room.
TEST(Int8Gemm, LargestCodesAndGroups) {
  struct Case {
    int bits;
    std::int64_t k, group;
    std::size_t together;  // numbers of x: the largest power of two that divides the group, at most 128
    DType scale;
    bool zeros;
    float center;
  };
  const std::int64_t n = 40;
  on_int8_targets([&] {
    for (const Case& one :
         {Case{4, 256, 128, 128, DType::f16, true, 0}, Case{4, 96, 32, 32, DType::f32, true, 0},
          Case{4, 64, 64, 64, DType::bf16, false, 8}, Case{8, 576, 576, 64, DType::f32, false, 128},
          Case{8, 1024, 512, 128, DType::f16, true, 0}, Case{8, 256, 256, 128, DType::f32, false, 128}}) {
      SCOPED_TRACE(one.bits);
      SCOPED_TRACE(one.k);
      const auto most = static_cast<std::uint8_t>((1 << one.bits) - 1);
      std::vector<std::uint8_t> codes, zeros;
      for (std::int64_t i = 0; i < n * one.k; ++i)
        codes.push_back(i / one.k % 3 == 0   ? most
                        : i / one.k % 3 == 1 ? 0
                                             : static_cast<std::uint8_t>(i * 37 & most));
      const std::int64_t groups = n * one.k / one.group;
      for (std::int64_t i = 0; i < groups; ++i) zeros.push_back(static_cast<std::uint8_t>(i * 11 & most));
      const std::vector<float> scales(static_cast<std::size_t>(groups), 0.25F);
      kernels::GroupRows w{.bits = one.bits, .n = n, .k = one.k, .group = one.group, .scale_type = one.scale};
      w.codes = codes.data();
      w.scales = scales.data();
      w.center = one.center;
      if (one.zeros) w.zeros = zeros.data();
      std::vector<float> dense(codes.size());
      kernels::dequantize(w, dense.data());
      const auto packed = kernels::pack(w);
      for (const float sign : {1.0F, -1.0F}) {
        std::vector<float> x(static_cast<std::size_t>(16 * one.k), sign);
        const auto other = numbers<float>(one.k, 8);
        x.insert(x.end(), other.begin(), other.end());
        expect_products({packed.get(), n, one.k}, dense, x, one.together);
      }
    }
  });
}

TEST(Int8Gemm, CodesThatNameFractionsKeepTheRows) {
  std::vector<std::uint8_t> codes(64 * 32, 7);
  const std::vector<float> scales(64, 0.5F), x = numbers<float>(32, 3);
  kernels::GroupRows w{.code = kernels::GroupCode::nf4, .n = 64, .k = 32, .scale_type = DType::f32};
  w.codes = codes.data();
  w.scales = scales.data();
  const auto packed = kernels::pack(w);
  EXPECT_FALSE(kernels::detail::takes_int8(*packed));
  std::vector<float> y(64), same(64);
  kernels::InvariantGemm args{.m = 1, .n = 64, .k = 32, .x = kernels::row_major(x.data(), 32), .ldy = 64};
  args.w.packed = packed.get();
  args.y = y.data();
  kernels::invariant_gemm(args);
  args.y = same.data();
  args.int8 = true;
  kernels::invariant_gemm(args);
  EXPECT_EQ(same, y);
}

TEST(Int8Gemm, WhatIsNotFiniteStaysSo) {
  on_int8_targets([] {
    const Larger w = larger(all_types()[0], 32, kStoredNumbers);
    const auto packed = kernels::pack(w.rows);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t m : {1, 20}) {
        auto x = numbers<float>(m * kStoredNumbers, 5);
        x[77] = bad;
        const std::vector<float> y = Int8Product{packed.get(), 32, kStoredNumbers}(x);
        for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isfinite(y[i]), i >= 32) << i;
      }
    }
  });
}

}  // namespace
}  // namespace heed
