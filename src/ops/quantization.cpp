// Codes by rounding, clipping and GPTQ; ggml's blocks; rows of 8 bits.
#include "ops/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <eigen3/Eigen/Cholesky>
#include <eigen3/Eigen/Core>

#if defined(__GNUC__) && !defined(__clang__)  // gcc 12 warns of its own header of AVX-512, which Eigen uses
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include "heed/autograd.h"
#include "heed/dtype.h"
#include "heed/error.h"
#include "heed/ops/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/threads.h"
#include "kernels/copy.h"
#include "kernels/gemm.h"

namespace heed {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using FloatMap = Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

constexpr std::int64_t kColumns = 128;  // of GPTQ that are finished before the rest is corrected

float rounded(float value, DType dtype) {
  if (dtype == DType::f16) return static_cast<float>(float16(value));
  if (dtype == DType::bf16) return static_cast<float>(bfloat16(value));
  return value;
}

// Codes of one scale.
class Grid {
 public:
  Grid(float scale, int bits) : scale_(scale), center_(1 << (bits - 1)), most_((1 << bits) - 1) {}
  std::uint8_t code(double value) const {
    if (scale_ == 0) return static_cast<std::uint8_t>(center_);
    const double q = std::nearbyint(value / static_cast<double>(scale_)) + center_;
    return static_cast<std::uint8_t>(std::clamp(q, 0.0, static_cast<double>(most_)));
  }
  double number(std::uint8_t code) const { return static_cast<double>(scale_) * (code - center_); }

 private:
  float scale_;
  int center_, most_;
};

// The scale with the least error_of(grid).
template <class Error>
float best_scale(const double* w, std::int64_t count, const CodeOptions& options, Error error_of) {
  double largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(w[i]));
  if (!(largest > 0)) return 0;
  float best = 0;
  double least = 0;
  for (int step = -1; step <= 20; ++step) {
    const double factor = 1 - 0.02 * step;
    const float scale =
        rounded(static_cast<float>(factor * largest / ((1 << (options.bits - 1)) - 1)), options.scale_type);
    const double error = error_of(Grid(scale, options.bits));
    if (step < 0 || error < least) {
      least = error;
      best = scale;
    }
  }
  return best;
}

float best_scale(const double* w, std::int64_t count, const CodeOptions& options) {
  return best_scale(w, count, options, [&](const Grid& grid) {
    double error = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double difference = w[i] - grid.number(grid.code(w[i]));
      error += difference * difference;
    }
    return error;
  });
}

std::shared_ptr<CodeMatrix> empty_codes(const Tensor& w, const CodeOptions& options) {
  HEED_ASSERT(w.rank() == 2 && w.dtype() == DType::f32 && w.size(1) % options.group == 0, "whole groups");
  auto made = std::make_shared<CodeMatrix>();
  made->bits = options.bits;
  made->n = w.size(0);
  made->k = w.size(1);
  made->group = options.group;
  made->scale_type = options.scale_type;
  made->codes.resize(static_cast<std::size_t>(made->n * made->k));
  made->scales.resize(static_cast<std::size_t>(made->n * made->k / made->group));
  return made;
}

// The upper factor U of (gram + damping)^-1 = U^T U.
Matrix inverse_factor(const Tensor& gram) {
  const std::int64_t k = gram.size(0);
  Matrix h = FloatMap(gram.data<float>(), k, k).cast<double>();
  const double mean = h.diagonal().mean(), damping = mean > 0 ? 0.01 * mean : 1;
  h.diagonal().array() += damping;
  const Matrix inverse = h.llt().solve(Matrix::Identity(k, k));
  return inverse.llt().matrixU();
}

// Codes of the scales that `scale_of` chooses for the numbers of group g of all rows.
template <class Scale>
std::shared_ptr<CodeMatrix> codes_by_group(const Tensor& w, const CodeOptions& options, Scale scale_of) {
  auto made = empty_codes(w, options);
  const float* numbers = w.data<float>();
  const std::int64_t group = options.group;
  parallel_for(std::ssize(made->scales), 64, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> one(static_cast<std::size_t>(group));
    for (std::int64_t g = begin; g < end; ++g) {
      std::copy_n(numbers + g * group, group, one.begin());
      const float scale = scale_of(one.data(), g);
      made->scales[static_cast<std::size_t>(g)] = scale;
      const Grid grid(scale, options.bits);
      for (std::int64_t i = 0; i < group; ++i)
        made->codes[static_cast<std::size_t>(g * group + i)] = grid.code(one[static_cast<std::size_t>(i)]);
    }
  });
  return made;
}

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

std::shared_ptr<CodeMatrix> nearest_codes(const Tensor& w, const CodeOptions& options) {
  return codes_by_group(w, options, [&](const double* numbers, std::int64_t) {
    return best_scale(numbers, options.group, options);
  });
}

std::shared_ptr<CodeMatrix> clipped_codes(const Tensor& w, const Tensor& gram, const CodeOptions& options) {
  const std::int64_t k = w.size(1), group = options.group;
  const Matrix products = FloatMap(gram.data<float>(), k, k).cast<double>();
  return codes_by_group(w, options, [&](const double* numbers, std::int64_t g) {
    const std::int64_t begin = g % (k / group) * group;
    const auto block = products.block(begin, begin, group, group);
    Eigen::VectorXd lost(group);
    return best_scale(numbers, group, options, [&](const Grid& grid) -> double {
      for (std::int64_t i = 0; i < group; ++i) lost[i] = numbers[i] - grid.number(grid.code(numbers[i]));
      return lost.dot(block * lost);
    });
  });
}

std::shared_ptr<CodeMatrix> gptq_codes(const Tensor& w, const Tensor& gram, const CodeOptions& options) {
  auto made = empty_codes(w, options);
  const std::int64_t n = w.size(0), k = w.size(1), groups = k / options.group;
  const Matrix factor = inverse_factor(gram);
  // Rows do not depend on each other.
  parallel_for(n, 16, [&](std::int64_t first, std::int64_t last) {
    Matrix rest = FloatMap(w.data<float>() + first * k, last - first, k).cast<double>();
    Matrix errors(last - first, kColumns);
    for (std::int64_t begin = 0; begin < k; begin += kColumns) {
      const std::int64_t count = std::min(kColumns, k - begin);
      for (std::int64_t l = begin; l < begin + count; ++l) {
        for (std::int64_t i = 0; i < last - first; ++i) {
          const auto at = static_cast<std::size_t>((first + i) * groups + l / options.group);
          if (l % options.group == 0)
            made->scales[at] = best_scale(rest.data() + i * k + l, options.group, options);
          const Grid grid(made->scales[at], options.bits);
          const std::uint8_t code = grid.code(rest(i, l));
          made->codes[static_cast<std::size_t>((first + i) * k + l)] = code;
          const double error = (rest(i, l) - grid.number(code)) / factor(l, l);
          errors(i, l - begin) = error;
          const std::int64_t near = begin + count - l;
          rest.row(i).segment(l, near) -= error * factor.row(l).segment(l, near);
        }
      }
      const std::int64_t after = begin + count;
      if (after < k)
        rest.rightCols(k - after) -= errors.leftCols(count) * factor.block(begin, after, count, k - after);
    }
  });
  return made;
}

void add_gram(const Tensor& x, Tensor& gram) {
  const std::int64_t k = gram.size(0);
  const Tensor rows = x.detach().contiguous();
  kernels::gemm<float>({.m = k,
                        .n = k,
                        .k = k == 0 ? 0 : rows.numel() / k,
                        .a = kernels::row_major(rows.data<float>(), k).transposed(),
                        .b = kernels::row_major(rows.data<float>(), k),
                        .c = gram.data<float>(),
                        .ldc = k,
                        .beta = 1});
}

double squared_size(const Tensor& w, const Tensor& gram) {
  const FloatMap rows(w.data<float>(), w.size(0), w.size(1));
  if (!gram.defined()) return rows.cast<double>().squaredNorm();
  const Tensor product = matmul(w, gram);
  const double sum = FloatMap(product.data<float>(), w.size(0), w.size(1))
                         .cast<double>()
                         .cwiseProduct(rows.cast<double>())
                         .sum();
  return std::max(0.0, sum);
}

double relative_loss(const Tensor& w, const Tensor& v, const Tensor& gram) {
  const double all = squared_size(w, gram);
  return all > 0 ? std::sqrt(squared_size((w - v).contiguous(), gram) / all) : 0;
}

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

namespace {

// x's shape with `width` instead of the last axis.
Shape with_width(const Tensor& x, std::int64_t width) {
  Shape shape = x.shape();
  shape[x.rank() - 1] = width;
  return shape;
}

}  // namespace

Tensor int8_rows(const Tensor& x) {
  if (x.rank() < 1 || x.dtype() != DType::f32)
    throw Error("int8 rows: expected numbers f32 [..., d], got " + x.str());
  refuse_gradient("int8 rows", {x});
  const std::int64_t d = x.size(x.rank() - 1);
  const Tensor dense = x.contiguous(),
               rows = Tensor::empty(with_width(x, kernels::kInt8RowScale + d), DType::u8);
  if (x.numel() > 0) kernels::to_int8_rows(x.numel() / d, d, dense.data<float>(), rows.data<std::uint8_t>());
  return rows;
}

Tensor from_int8_rows(const Tensor& rows) {
  if (rows.rank() < 1 || rows.dtype() != DType::u8 || rows.size(rows.rank() - 1) < kernels::kInt8RowScale)
    throw Error("int8 rows: expected rows u8 [..., 4 + d], got " + rows.str());
  const std::int64_t d = rows.size(rows.rank() - 1) - kernels::kInt8RowScale;
  const Tensor dense = rows.contiguous(), x = Tensor::empty(with_width(rows, d));
  if (x.numel() > 0) kernels::from_int8_rows(x.numel() / d, d, dense.data<std::uint8_t>(), x.data<float>());
  return x;
}

}  // namespace heed
