// Tensors over blocks: their numbers, and that they are made only where somebody asks.

#include <gtest/gtest.h>

#include "reference/blocks.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

using reference::q8_matrix;
using reference::q8_number;

const Buffer& buffer_of(const Tensor& tensor) { return *TensorImpl::of(tensor).buffer; }

TEST(BlockMatrix, NumbersAreThoseOfTheBlocks) {
  const std::vector<std::int32_t> order = {2, 0, 1};
  for (const bool transposed : {false, true}) {
    BlockMatrix matrix = q8_matrix(3, 64, order);
    matrix.transposed = transposed;
    const Tensor tensor = tensor_of_blocks(matrix, transposed ? Shape{64, 3} : Shape{3, 64});
    const auto numbers = tensor.to_vector<float>();
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t j = 0; j < 64; ++j) {
        const std::int64_t at = transposed ? j * 3 + i : i * 64 + j;
        EXPECT_EQ(numbers[static_cast<std::size_t>(at)],
                  q8_number(64, order[static_cast<std::size_t>(i)], j));
      }
    }
  }
}

TEST(BlockMatrix, ReadingNumbersKeepsTheBlocks) {
  const Tensor tensor = tensor_of_blocks(q8_matrix(4, 32), {2, 2, 32});
  EXPECT_EQ(tensor.to_vector<float>().size(), 128u);
  EXPECT_EQ(tensor.to_lazy(DType::bf16).to(DType::f32).to_vector<float>().size(), 128u);
  ASSERT_NE(quantized_of(tensor), nullptr);
  EXPECT_EQ(quantized_of(tensor)->rows(), 4);
  EXPECT_TRUE(buffer_of(tensor).is_unwritten());
  EXPECT_EQ(tensor.data<float>()[33], q8_number(32, 1, 1));
  EXPECT_EQ(quantized_of(tensor), nullptr) << "whoever has the address may have written";
  EXPECT_EQ(quantized_of(Tensor::zeros({2})), nullptr);
}

TEST(BlockMatrix, PlainTypesAreRowsInOrder) {
  auto values = std::make_shared<std::vector<bfloat16>>();
  for (int i = 0; i < 6; ++i) values->emplace_back(static_cast<float>(i));
  BlockMatrix matrix{.type = BlockType::bf16, .rows = 3, .columns = 2, .owner = values, .order = {1, 2, 0}};
  matrix.data = reinterpret_cast<std::byte*>(values->data());
  const Tensor tensor = tensor_of_blocks(matrix, {3, 2});
  EXPECT_EQ(tensor.dtype(), DType::bf16);
  EXPECT_EQ(quantized_of(tensor), nullptr);
  EXPECT_EQ(tensor.to(DType::f32).to_vector<float>(), (std::vector<float>{2, 3, 4, 5, 0, 1}));
  matrix.transposed = true;
  EXPECT_EQ(tensor_of_blocks(matrix, {2, 3}).to(DType::f32).to_vector<float>(),
            (std::vector<float>{2, 4, 0, 3, 5, 1}));
}

}  // namespace
}  // namespace heed
