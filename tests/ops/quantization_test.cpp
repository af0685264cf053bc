// Codes of weights: scales against a search in double, GPTQ against the recursion of optimal brain
// quantization.
#include "ops/quantization.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/ops.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

Tensor decoded(const CodeMatrix& m) {
  Tensor y = Tensor::empty({m.n, m.k}, DType::f32);
  m.dequantize(y.data<float>());
  return y;
}

double norm_of(const Tensor& x) {
  double sum = 0;
  for (const float value : x.to_vector<float>()) sum += std::pow(static_cast<double>(value), 2);
  return std::sqrt(sum);
}

TEST(Quantization, NearestCodesAreOfTheBestScale) {
  const Tensor w = random_tensor({6, 96}, 7).to(DType::f32);
  for (const int bits : {4, 8}) {
    for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
      const auto made = nearest_codes(w, {bits, 32, type});
      const auto numbers = w.to_vector<float>(), got = decoded(*made).to_vector<float>();
      const int most = (1 << (bits - 1)) - 1;
      for (std::size_t g = 0; g < made->scales.size(); ++g) {
        const auto scale = static_cast<double>(made->scales[g]);
        double largest = 0, own = 0, plain = 0;
        for (std::size_t i = 32 * g; i < 32 * g + 32; ++i)
          largest = std::max(largest, std::abs(static_cast<double>(numbers[i])));
        for (std::size_t i = 32 * g; i < 32 * g + 32; ++i) {
          const auto value = static_cast<double>(numbers[i]), given = static_cast<double>(got[i]);
          const double code = std::clamp(std::round(value / scale), -most - 1.0, static_cast<double>(most));
          EXPECT_NEAR(given, scale * code, scale * 1e-5) << value / scale;
          own += std::pow(value - given, 2);
          plain += std::pow(value - largest / most * std::round(value / (largest / most)), 2);
        }
        EXPECT_LE(own, plain * (type == DType::f32 ? 1.0001 : 1.1));
        EXPECT_GT(scale, 0.59 * largest / most);
        EXPECT_LT(scale, 1.03 * largest / most);
      }
    }
  }
}

TEST(Quantization, ClippedCodesLoseLessOfTheOutputs) {
  const Tensor w = random_tensor({8, 64}, 7).to(DType::f32);
  Tensor x = random_tensor({40, 64}, 8).to(DType::f32), gram = Tensor::zeros({64, 64});
  for (std::int64_t i = 0; i < x.numel(); i += 9) x.data<float>()[i] *= 6;
  // Inputs of one group at a time, so that groups do not make up for each other.
  for (std::int64_t i = 0; i < 40; ++i) std::fill_n(x.data<float>() + i * 64 + (i % 2) * 32, 32, 0.0F);
  add_gram(x, gram);
  const CodeOptions options{4, 32, DType::f32};
  const double clipped = relative_loss(w, decoded(*clipped_codes(w, gram, options)), gram),
               nearest = relative_loss(w, decoded(*nearest_codes(w, options)), gram);
  EXPECT_LT(clipped, nearest);
  EXPECT_NEAR(squared_size(w, gram), std::pow(norm_of(matmul(x, transpose(w, 0, 1))), 2),
              1e-4 * squared_size(w, gram));
}

TEST(Quantization, ZerosStayZeros) {
  const auto made = nearest_codes(Tensor::zeros({2, 64}), {4, 32, DType::f16});
  EXPECT_EQ(decoded(*made).to_vector<float>(), std::vector<float>(128));
}

// Frantar and Alistarh 2022, "Optimal brain compression": after each column, the others move by
// -(w_q - code) / [H^-1]_qq [H^-1]_q: and the column leaves the inverse.
TEST(Quantization, GptqIsTheRecursionOfOptimalBrainQuantization) {
  const std::int64_t n = 3, k = 160, group = 32;
  const Tensor w = random_tensor({n, k}, 8).to(DType::f32);
  const Tensor mixing = random_tensor({k, k}, 9).to(DType::f32);
  const Tensor x = matmul(random_tensor({400, k}, 10).to(DType::f32), mixing * 0.05 + mixing * mixing * 0.01);
  Tensor gram = Tensor::zeros({k, k});
  add_gram(x, gram);
  const CodeOptions options{4, group, DType::f32};
  const auto made = gptq_codes(w, gram, options);

  const auto at = [](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * k + j); };
  std::vector<double> h, inverse(static_cast<std::size_t>(k * k));
  for (const float value : gram.to_vector<float>()) h.push_back(static_cast<double>(value));
  double mean = 0;
  for (std::int64_t i = 0; i < k; ++i) mean += h[at(i, i)] / static_cast<double>(k);
  for (std::int64_t i = 0; i < k; ++i) {
    h[at(i, i)] += 0.01 * mean;
    inverse[at(i, i)] = 1;
  }
  for (std::int64_t p = 0; p < k; ++p) {  // Gauss-Jordan
    const double pivot = h[at(p, p)];
    for (std::int64_t j = 0; j < k; ++j) {
      h[at(p, j)] /= pivot;
      inverse[at(p, j)] /= pivot;
    }
    for (std::int64_t i = 0; i < k; ++i) {
      const double factor = i == p ? 0 : h[at(i, p)];
      for (std::int64_t j = 0; j < k && factor != 0; ++j) {
        h[at(i, j)] -= factor * h[at(p, j)];
        inverse[at(i, j)] -= factor * inverse[at(p, j)];
      }
    }
  }
  std::vector<double> rest;
  for (const float value : w.to_vector<float>()) rest.push_back(static_cast<double>(value));
  std::int64_t different = 0;
  for (std::int64_t q = 0; q < k; ++q) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double scale =
          static_cast<double>(made->scales[static_cast<std::size_t>(i * (k / group) + q / group)]);
      const std::uint8_t code = made->codes[at(i, q)];
      const double wanted = std::clamp(std::nearbyint(rest[at(i, q)] / scale) + 8, 0.0, 15.0);
      different += wanted != static_cast<double>(code);
      const double error = (rest[at(i, q)] - scale * (code - 8)) / inverse[at(q, q)];
      for (std::int64_t j = q; j < k; ++j) rest[at(i, j)] -= error * inverse[at(q, j)];
    }
    for (std::int64_t i = q + 1; i < k; ++i) {
      const double factor = inverse[at(i, q)] / inverse[at(q, q)];
      for (std::int64_t j = q + 1; j < k; ++j) inverse[at(i, j)] -= factor * inverse[at(q, j)];
    }
  }
  EXPECT_LE(different, 2);  // of 480: where rounding errors of the two ways meet a tie

  const double nearest = relative_loss(w, decoded(*nearest_codes(w, options)), gram);
  const double gptq = relative_loss(w, decoded(*made), gram);
  EXPECT_LT(gptq, 0.8 * nearest);
  const Tensor exact = matmul(x, transpose(w, 0, 1)), close = matmul(x, transpose(decoded(*made), 0, 1));
  const double moved = std::sqrt(sum((exact - close) * (exact - close)).item() / sum(exact * exact).item());
  EXPECT_NEAR(gptq, moved, 1e-3 * moved);
}

}  // namespace
}  // namespace heed
