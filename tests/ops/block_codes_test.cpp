// Blocks of codes against those that the package gguf makes (tests/fixtures/rounded_blocks.py), to the bit.
#include "ops/quantization.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "heed/dtype.h"

namespace heed {
namespace {

constexpr std::int64_t kRoundedNumbers = 24 * 32;

TEST(BlockCodes, AreThoseOfGgml) {
  std::ifstream file(HEED_FIXTURES "/blocks/rounded.bin", std::ios::binary);
  std::vector<float> numbers(kRoundedNumbers);
  file.read(reinterpret_cast<char*>(numbers.data()), std::ssize(numbers) * 4);
  for (const BlockType type : {BlockType::q8_0, BlockType::q4_0, BlockType::q4_1}) {
    const BlockLayout& layout = layout_of(type);
    std::vector<std::byte> expected(static_cast<std::size_t>(kRoundedNumbers / 32 * layout.bytes));
    file.read(reinterpret_cast<char*>(expected.data()), std::ssize(expected));
    ASSERT_TRUE(file.good());
    EXPECT_EQ(block_codes(numbers, type), expected) << layout.name;
  }
  EXPECT_EQ(file.peek(), EOF);
}

TEST(BlockCodes, KeepPlainNumbers) {
  const std::vector<float> numbers = {1, -2.5F, 65504, 1e-3F, 0};
  const std::vector<std::byte> wide = block_codes(numbers, BlockType::f32),
                               narrow = block_codes(numbers, BlockType::f16);
  EXPECT_EQ(std::memcmp(wide.data(), numbers.data(), wide.size()), 0);
  ASSERT_EQ(narrow.size(), numbers.size() * 2);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    float16 half;
    std::memcpy(&half, narrow.data() + 2 * i, 2);
    EXPECT_EQ(static_cast<float>(half), static_cast<float>(float16(numbers[i])));
  }
}

}  // namespace
}  // namespace heed
