// Matrices in blocks against the numbers of the package gguf, and their products against those of the same numbers
// in f32, to the bit.
#include "kernels/blocks.h"

#include <fstream>
#include <functional>

#include "kernels/embedding.h"
#include "kernels/kernel_case.h"

namespace heed {
namespace {

constexpr std::int64_t kStoredRows = 3, kStoredNumbers = 256;

struct StoredBlocks {
  BlockLayout layout;
  std::vector<std::byte> blocks;  // of kStoredRows rows of kStoredNumbers
  std::vector<float> numbers;
};

// What tests/fixtures/blocks.py wrote.
const std::vector<StoredBlocks>& all_types() {
  static const std::vector<StoredBlocks> all = [] {
    std::vector<StoredBlocks> types;
    std::ifstream file(HEED_FIXTURES "/blocks/blocks.bin", std::ios::binary);
    for (const BlockLayout& layout : block_layouts()) {
      if (layout.numbers == 1) continue;
      StoredBlocks& one = types.emplace_back();
      one.layout = layout;
      one.blocks.resize(static_cast<std::size_t>(kStoredRows * kStoredNumbers / layout.numbers * layout.bytes));
      one.numbers.resize(static_cast<std::size_t>(kStoredRows * kStoredNumbers));
      file.read(reinterpret_cast<char*>(one.blocks.data()), std::ssize(one.blocks));
      file.read(reinterpret_cast<char*>(one.numbers.data()), std::ssize(one.numbers) * 4);
    }
    EXPECT_TRUE(file.good() && file.peek() == EOF) << "as many bytes as the types need";
    return types;
  }();
  return all;
}

// A larger matrix [n, k], k a multiple of kStoredNumbers, of the rows of a type: of each row, k / kStoredNumbers follow each
// other.
struct Larger {
  std::vector<std::byte> blocks;
  std::vector<std::int32_t> order;
  std::vector<float> numbers;  // in that order
  kernels::BlockRows rows;
};

Larger larger(const StoredBlocks& type, std::int64_t n, std::int64_t k) {
  Larger w;
  const auto part = std::ssize(type.blocks) / kStoredRows;
  for (std::int64_t r = 0; r < kStoredRows; ++r) {
    for (std::int64_t i = 0; i < k / kStoredNumbers; ++i) {
      const auto from = type.blocks.begin() + (r + i) % kStoredRows * part;
      w.blocks.insert(w.blocks.end(), from, from + part);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t r = (j * j + j / 3) % kStoredRows;
    w.order.push_back(static_cast<std::int32_t>(r));
    for (std::int64_t i = 0; i < k / kStoredNumbers; ++i) {
      const auto from = type.numbers.begin() + (r + i) % kStoredRows * kStoredNumbers;
      w.numbers.insert(w.numbers.end(), from, from + kStoredNumbers);
    }
  }
  w.rows = {type.layout.type, n, k, w.blocks.data(), w.order.data()};
  return w;
}

void for_each_type(const std::function<void(const StoredBlocks&)>& check) {
  for (const StoredBlocks& type : all_types()) {
    SCOPED_TRACE(type.layout.name);
    check(type);
  }
}

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
      for (const std::int64_t m : {1, 2, 9, 40}) {
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
      kernels::lookup_rows({kernels::dense_matrix(dense.data(), DType::f32, n, k)}, lookup, 0.5F, want.data());
      EXPECT_EQ(rows, want);
    });
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
