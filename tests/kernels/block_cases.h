// Matrices in blocks with their numbers, for tests of kernels.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <vector>

#include "kernels/blocks.h"

namespace heed {

inline constexpr std::int64_t kStoredRows = 3, kStoredNumbers = 256;

/// Rows of a type of blocks.
struct StoredBlocks {
  BlockLayout layout;
  std::vector<std::byte> blocks;  // of kStoredRows rows of kStoredNumbers
  std::vector<float> numbers;
};

/// What tests/fixtures/blocks.py wrote.
inline const std::vector<StoredBlocks>& all_types() {
  static const std::vector<StoredBlocks> all = [] {
    std::vector<StoredBlocks> types;
    std::ifstream file(HEED_FIXTURES "/blocks/blocks.bin", std::ios::binary);
    for (const BlockLayout& layout : block_layouts()) {
      if (layout.numbers == 1) continue;
      StoredBlocks& one = types.emplace_back();
      one.layout = layout;
      one.blocks.resize(
          static_cast<std::size_t>(kStoredRows * kStoredNumbers / layout.numbers * layout.bytes));
      one.numbers.resize(static_cast<std::size_t>(kStoredRows * kStoredNumbers));
      file.read(reinterpret_cast<char*>(one.blocks.data()), std::ssize(one.blocks));
      file.read(reinterpret_cast<char*>(one.numbers.data()), std::ssize(one.numbers) * 4);
    }
    EXPECT_TRUE(file.good() && file.peek() == EOF) << "as many bytes as the types need";
    return types;
  }();
  return all;
}

/// A larger matrix [n, k], k a multiple of kStoredNumbers, of the rows of a type: of each row, k /
/// kStoredNumbers follow each other.
struct Larger {
  std::vector<std::byte> blocks;
  std::vector<std::int32_t> order;
  std::vector<float> numbers;  // in that order
  kernels::BlockRows rows;
};

inline Larger larger(const StoredBlocks& type, std::int64_t n, std::int64_t k) {
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

inline void for_each_type(const std::function<void(const StoredBlocks&)>& check) {
  for (const StoredBlocks& type : all_types()) {
    SCOPED_TRACE(type.layout.name);
    check(type);
  }
}

}  // namespace heed
