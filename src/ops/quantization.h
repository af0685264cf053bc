// From the numbers of a weight to codes of a few bits: each rounded to the nearest, or one column after the
// other so that later ones make up for what earlier ones lost (GPTQ: Frantar et al. 2022, "GPTQ: accurate
// post-training quantization for generative pre-trained transformers").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/block_type.h"
#include "heed/tensor.h"
#include "tensor/quantized_matrix.h"

namespace heed {

struct CodeOptions {
  int bits = 4;                   // 2 to 8
  std::int64_t group = 64;        // numbers of a row that share a scale
  DType scale_type = DType::f32;  // f16, bf16 or f32
};

/// The codes of w [n, k], f32, k whole groups. The scale of each group is the one of those from 0.6 to 1.02
/// times largest / (2^(bits - 1) - 1) that has the least squared error.
std::shared_ptr<CodeMatrix> nearest_codes(const Tensor& w, const CodeOptions& options);

/// The same such that x w^T changes least for inputs whose x^T x is `gram` [k, k], f32. 0.01 of its mean
/// diagonal is added to the diagonal.
std::shared_ptr<CodeMatrix> gptq_codes(const Tensor& w, const Tensor& gram, const CodeOptions& options);

/// gram [k, k] += x^T x, x [..., k], both f32.
void add_gram(const Tensor& x, Tensor& gram);

/// nearest_codes() such that x w^T changes least for inputs whose x^T x is `gram` [k, k], each group taken by
/// itself: the scale of a group is the one with the least d G d^T, G the group's block of `gram`.
std::shared_ptr<CodeMatrix> clipped_codes(const Tensor& w, const Tensor& gram, const CodeOptions& options);

/// |w|^2, the sum of squares of w [n, k]; with a gram, |x w^T|^2.
double squared_size(const Tensor& w, const Tensor& gram = {});

/// |w - v| / |w| (Frobenius), w and v [n, k]; with a gram, |x (w - v)^T| / |x w^T|.
double relative_loss(const Tensor& w, const Tensor& v, const Tensor& gram = {});

// From numbers to ggml's blocks of 32 (core/block_type.h): each number to the nearest code, with the bits of
// ggml's reference.

/// The blocks of numbers, whole blocks of them: F32, F16 (rounded to nearest even), Q8_0, Q4_0 or Q4_1. The
/// numbers must be finite. The scale of a block is f16, while its codes are those for the scale in f32:
/// Q8_0: largest / 127, codes rounded half away from zero; Q4_0: the number farthest from zero has code -8;
/// Q4_1: from the least number, code 0, to the greatest, code 15.
std::vector<std::byte> block_codes(std::span<const float> numbers, BlockType type);

}  // namespace heed
