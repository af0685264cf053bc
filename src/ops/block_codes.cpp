#include "ops/block_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "heed/dtype.h"
#include "heed/error.h"
#include "heed/threads.h"

namespace heed {
namespace {

constexpr std::int64_t kBlock = 32, kHalfBlock = kBlock / 2;

void put_half(float value, std::byte* to) {
  const float16 half(value);
  std::memcpy(to, &half, sizeof half);
}

// 1 / scale, or 0 for a block of zeros, and of numbers so small that f32 cannot hold it.
float inverse(float scale) {
  const float result = scale != 0 ? 1 / scale : 0;
  return std::isfinite(result) ? result : 0;
}

// A code of 4 bits, of what is already shifted by half: rounded down.
std::uint8_t code_of(float shifted) { return static_cast<std::uint8_t>(std::clamp(shifted, 0.0F, 15.0F)); }

// The codes of number i and of number i + 16 share byte i.
template <class Code>
void put_nibbles(const float* x, std::byte* to, Code code) {
  for (std::int64_t i = 0; i < kHalfBlock; ++i)
    to[i] = static_cast<std::byte>(code(x[i]) | (code(x[i + kHalfBlock]) << 4));
}

void q8_0_block(const float* x, std::byte* to) {
  float largest = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::abs(x[i]));
  const float scale = largest / 127, factor = inverse(scale);
  put_half(scale, to);
  for (std::int64_t i = 0; i < kBlock; ++i)
    to[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::round(x[i] * factor)));
}

void q4_0_block(const float* x, std::byte* to) {
  float largest = 0;
  for (std::int64_t i = 0; i < kBlock; ++i) {
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  }
  const float scale = largest / -8, factor = inverse(scale);
  put_half(scale, to);
  put_nibbles(x, to + 2, [&](float value) { return code_of(value * factor + 8.5F); });
}

void q4_1_block(const float* x, std::byte* to) {
  const auto [least, greatest] = std::minmax_element(x, x + kBlock);
  const float scale = (*greatest - *least) / 15, factor = inverse(scale), offset = *least;
  put_half(scale, to);
  put_half(offset, to + 2);
  put_nibbles(x, to + 4, [&](float value) { return code_of((value - offset) * factor + 0.5F); });
}

}  // namespace

std::vector<std::byte> block_codes(std::span<const float> numbers, BlockType type) {
  const BlockLayout& layout = layout_of(type);
  const auto count = std::ssize(numbers) / layout.numbers;
  HEED_ASSERT(std::ssize(numbers) % layout.numbers == 0, "whole blocks");
  std::vector<std::byte> blocks(static_cast<std::size_t>(count * layout.bytes));
  const auto each = [&](auto put) {
    parallel_for(count, 4096 / layout.numbers, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        put(numbers.data() + i * layout.numbers, blocks.data() + i * layout.bytes);
    });
  };
  switch (type) {
    case BlockType::f32: std::memcpy(blocks.data(), numbers.data(), blocks.size()); break;
    case BlockType::f16: each([](const float* x, std::byte* to) { put_half(*x, to); }); break;
    case BlockType::q8_0: each(q8_0_block); break;
    case BlockType::q4_0: each(q4_0_block); break;
    case BlockType::q4_1: each(q4_1_block); break;
    default: HEED_ASSERT(false, "a type that is written");
  }
  return blocks;
}

}  // namespace heed
