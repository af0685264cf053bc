// A matrix of weights in blocks of Q8_0, for tests of what holds such.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "heed/dtype.h"
#include "tensor/quantized_matrix.h"

namespace heed::reference {

/// [rows, columns], columns a multiple of 32, whose scales are powers of two; `order` as in BlockMatrix.
inline BlockMatrix q8_matrix(std::int64_t rows, std::int64_t columns, std::vector<std::int32_t> order = {}) {
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(rows * columns / 32 * 34));
  std::byte* at = bytes->data();
  for (std::int64_t i = 0; i < rows * columns / 32; ++i, at += 34) {
    const float16 scale(i % 3 == 0 ? 0.25F : 0.5F);
    std::memcpy(at, &scale.bits, 2);
    for (std::int64_t j = 0; j < 32; ++j) at[2 + j] = static_cast<std::byte>(i * 7 + j * j * 5 + j);
  }
  return {.type = BlockType::q8_0,
          .rows = rows,
          .columns = columns,
          .data = bytes->data(),
          .owner = bytes,
          .order = std::move(order)};
}

/// What number (i, j) of that matrix is.
inline float q8_number(std::int64_t columns, std::int64_t i, std::int64_t j) {
  const std::int64_t block = (i * columns + j) / 32, step = j % 32;
  const auto code = static_cast<std::int8_t>(static_cast<std::uint8_t>(block * 7 + step * step * 5 + step));
  return (block % 3 == 0 ? 0.25F : 0.5F) * static_cast<float>(code);
}

}  // namespace heed::reference
