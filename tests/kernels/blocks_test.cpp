// Matrices in blocks against the numbers of the package gguf, and their products against those of the same
// numbers in f32, to the bit.
#include "kernels/blocks.h"

#include "kernels/block_cases.h"
#include "kernels/embedding.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

// The portable target multiplies and adds with two roundings, which only Q6_K's longer products show.
void expect_same(const std::vector<float>& got, const std::vector<float>& want, const StoredBlocks& type) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (type.layout.type == BlockType::q6_k) {
      ASSERT_FLOAT_EQ(got[i], want[i]) << i;
    } else {
      ASSERT_EQ(got[i], want[i]) << i;
    }
  }
}

TEST(Blocks, NumbersAreThoseOfGguf) {
  on_every_target([] {
    for_each_type([](const StoredBlocks& type) {
      std::vector<float> y(static_cast<std::size_t>(kStoredRows * kStoredNumbers));
      kernels::dequantize({type.layout.type, kStoredRows, kStoredNumbers, type.blocks.data()}, y.data());
      expect_same(y, type.numbers, type);
      for (const std::int64_t n : {1, 33, 70}) {
        const Larger w = larger(type, n, 2 * kStoredNumbers);
        std::vector<float> all(w.numbers.size());
        kernels::dequantize(w.rows, all.data());
        expect_same(all, w.numbers, type);
      }
    });
  });
}

TEST(Blocks, ProductsAndRowsAreThoseOfTheNumbers) {
  on_every_target([] {
    for_each_type([](const StoredBlocks& type) {
      const std::int64_t n = 70, k = 3 * kStoredNumbers;
      const Larger w = larger(type, n, k);
      std::vector<float> dense(w.numbers.size());
      kernels::dequantize(w.rows, dense.data());
      const auto packed = kernels::pack(w.rows);
      const auto bias = numbers<float>(n, 4);
      for (const std::int64_t m : {1, 2, 5, 9, 12, 40}) {
        const auto x = numbers<float>(m * k, 5);
        for (const bool accumulate : {false, true}) {
          std::vector<float> y(static_cast<std::size_t>(m * n), 2.0F), want = y;
          kernels::InvariantGemm args{.m = m, .n = n, .k = k, .x = kernels::row_major(x.data(), k), .ldy = n};
          args.accumulate = accumulate;
          args.epilogue = {bias.data(), m == 9 ? Activation::gelu : Activation::none};
          args.w.packed = packed.get();
          args.y = y.data();
          kernels::invariant_gemm(args);
          args.w = {kernels::dense_matrix(dense.data(), DType::f32, n, k)};
          args.y = want.data();
          kernels::invariant_gemm(args);
          ASSERT_EQ(y, want) << m;
        }
      }
      const std::vector<std::int64_t> ids = {69, 0, 31, 32};
      std::vector<float> rows(ids.size() * static_cast<std::size_t>(k)), want = rows;
      const kernels::RowLookup lookup{ids.data(), std::ssize(ids), k};
      kernels::lookup_rows({{}, packed.get()}, lookup, 0.5F, rows.data());
      kernels::lookup_rows({kernels::dense_matrix(dense.data(), DType::f32, n, k)}, lookup, 0.5F,
                           want.data());
      EXPECT_EQ(rows, want);
    });
  });
}

struct Grouped {
  kernels::GroupRows rows;
  bool zeros = false;
  float value(std::uint8_t code) const {
    static const float nf4[] = {-1.0F,        -0.69619280F, -0.52507305F, -0.39491749F,
                                -0.28444138F, -0.18477343F, -0.09105004F, 0,
                                0.07958030F,  0.16093020F,  0.24611230F,  0.33791524F,
                                0.44070983F,  0.56261700F,  0.72295684F,  1.0F};
    if (rows.code == kernels::GroupCode::nf4) return nf4[code];
    if (rows.code == kernels::GroupCode::integer) return static_cast<float>(code) - rows.center;
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const double size = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return static_cast<float>(code >= 128 ? -size : size);
  }
};

TEST(Blocks, GroupsAreScalesTimesCodes) {
  using kernels::GroupCode;
  const Grouped cases[] = {
      {{.code = GroupCode::integer, .bits = 4, .n = 5, .k = 256, .group = 128, .scale_type = DType::f16},
       true},
      {{.code = GroupCode::integer, .bits = 3, .n = 40, .k = 64, .group = 64, .scale_type = DType::bf16},
       true},
      {{.code = GroupCode::integer,
        .bits = 4,
        .n = 33,
        .k = 96,
        .group = 32,
        .scale_type = DType::bf16,
        .center = 8}},
      {{.code = GroupCode::integer,
        .bits = 8,
        .n = 33,
        .k = 576,
        .group = 576,
        .scale_type = DType::f32,
        .center = 128}},
      {{.code = GroupCode::integer, .bits = 8, .n = 3, .k = 1024, .group = 512, .scale_type = DType::f16},
       true},
      {{.code = GroupCode::nf4, .bits = 4, .n = 34, .k = 128, .group = 64, .scale_type = DType::f32}},
      {{.code = GroupCode::e4m3, .bits = 8, .n = 34, .k = 256, .group = 128, .scale_type = DType::f32}},
  };
  on_every_target([&] {
    for (const Grouped& one : cases) {
      kernels::GroupRows w = one.rows;
      const std::int64_t groups = w.k / w.group, most = std::int64_t{1} << w.bits;
      std::vector<std::uint8_t> codes, zeros;
      for (std::int64_t i = 0; i < w.n * w.k; ++i) {
        const auto code = static_cast<std::uint8_t>((i * 37 + i / 7) % most);
        codes.push_back(w.code == GroupCode::e4m3 && (code & 127U) == 127U ? 0 : code);  // NaN
      }
      for (std::int64_t i = 0; i < w.n * groups; ++i)
        zeros.push_back(static_cast<std::uint8_t>(i * 11 % most));
      std::vector<float> scales = numbers<float>(w.n * groups, 7), y(codes.size());
      for (float& s : scales) {
        if (w.scale_type == DType::f16) s = static_cast<float>(float16(s));
        if (w.scale_type == DType::bf16) s = static_cast<float>(bfloat16(s));
      }
      w.codes = codes.data();
      w.scales = scales.data();
      if (one.zeros) w.zeros = zeros.data();
      kernels::dequantize(w, y.data());
      std::vector<float> packed(y.size());
      kernels::dequantize(*kernels::pack(w), w.n, w.k, packed.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        const std::size_t at = i / static_cast<std::size_t>(w.group);
        const float zero = one.zeros ? static_cast<float>(zeros[at]) : 0;
        ASSERT_FLOAT_EQ(y[i], scales[at] * (one.value(codes[i]) - zero)) << w.bits << " bits, " << i;
        ASSERT_EQ(packed[i], y[i]);
      }
    }
  });
}

TEST(Blocks, ThreadsAndColumnsKeepTheBits) {
  const Larger w = larger(all_types()[6], 600, 4 * kStoredNumbers);
  const auto packed = kernels::pack(w.rows);
  for (const std::int64_t m : {1, 300}) {
    const auto x = numbers<float>(m * w.rows.k, 6), columns = [&] {
      std::vector<float> t(x.size());
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t l = 0; l < w.rows.k; ++l)
          t[static_cast<std::size_t>(l * m + i)] = x[static_cast<std::size_t>(i * w.rows.k + l)];
      }
      return t;
    }();
    const auto product = [&](const kernels::StridedMatrix& rows) {
      std::vector<float> y(static_cast<std::size_t>(m * w.rows.n));
      kernels::invariant_gemm({.m = m,
                               .n = w.rows.n,
                               .k = w.rows.k,
                               .x = rows,
                               .w = {{}, packed.get()},
                               .y = y.data(),
                               .ldy = w.rows.n});
      return y;
    };
    const kernels::StridedMatrix rows = kernels::row_major(x.data(), w.rows.k);
    expect_same_for_all_threads([&] { return product(rows); });
    EXPECT_EQ(product(rows), product(kernels::dense_matrix(columns.data(), DType::f32, m, w.rows.k, true)));
  }
}

}  // namespace
}  // namespace heed
