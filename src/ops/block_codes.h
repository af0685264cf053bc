// From numbers to ggml's blocks of 32 (core/block_type.h): each number to the nearest code, with the bits of
// ggml's reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/block_type.h"

namespace heed {

/// The blocks of numbers, whole blocks of them: F32, F16 (rounded to nearest even), Q8_0, Q4_0 or Q4_1. The
/// numbers must be finite. The scale of a block is f16, while its codes are those for the scale in f32:
/// Q8_0: largest / 127, codes rounded half away from zero; Q4_0: the number farthest from zero has code -8;
/// Q4_1: from the least number, code 0, to the greatest, code 15.
std::vector<std::byte> block_codes(std::span<const float> numbers, BlockType type);

}  // namespace heed
