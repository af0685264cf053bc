// Disentangled attention: its buckets against those of transformers 5.12.1 (make_log_bucket_position), and
// its scores against the formula, term by term. Whole models: tests/models/encoder_test.cpp.
#include "heed/nn/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

TEST(DisentangledBuckets, EqualThoseOfTransformers) {
  const DisentangledBuckets v3{.span = 256, .buckets = 256, .max_distance = 512};
  const std::vector<std::pair<int, int>> rows{
      {-600, 0},  {-511, 1},  {-510, 1},  {-400, 23}, {-257, 64}, {-129, 127}, {-128, 128}, {0, 256},
      {128, 384}, {129, 385}, {131, 387}, {160, 405}, {200, 425}, {256, 448},  {257, 448},  {300, 463},
      {383, 485}, {384, 485}, {450, 500}, {500, 510}, {509, 511}, {511, 511},  {600, 511}};
  for (const auto& [distance, row] : rows) EXPECT_EQ(v3.of(distance), row) << distance;
  struct Sums {
    DisentangledBuckets buckets;
    std::int64_t rows, weighted;
  };
  for (const Sums& want : {Sums{{256, 256, 512}, 320569, 123441409}, Sums{{32, 32, 512}, 42808, 15723751},
                           Sums{{64, 64, 1024}, 146522, 92963240}, Sums{{10, 10, 512}, 13279, 4794894}}) {
    std::int64_t rows_sum = 0, weighted = 0;
    for (std::int64_t d = 0; d < want.buckets.max_distance + 200; ++d) {
      rows_sum += want.buckets.of(d);
      weighted += want.buckets.of(d) * d;
    }
    EXPECT_EQ(rows_sum, want.rows) << want.buckets.span;
    EXPECT_EQ(weighted, want.weighted) << want.buckets.span;
  }
  const DisentangledBuckets plain{.span = 4};
  EXPECT_EQ(plain.of(-9), 0);
  EXPECT_EQ(plain.of(-1), 3);
  EXPECT_EQ(plain.of(9), 7);
}

TEST(DisentangledAttention, WeightsFollowTheFormula) {
  constexpr std::int64_t kTime = 5, kHeads = 2, kHead = 3, kWidth = kHeads * kHead;
  const auto matrix = [](std::uint64_t seed) {
    return Linear{random_tensor({kWidth, kWidth}, seed, -0.5, 0.5).to(DType::f32), {}};
  };
  const Tensor x = random_tensor({1, kTime, kWidth}, 1).to(DType::f32),
               table = random_tensor({6, kWidth}, 2).to(DType::f32);
  const double scale = 1 / std::sqrt(3.0 * kHead);
  const auto positions =
      std::make_shared<const DisentangledPositions>(DisentangledPositions{table, {.span = 3}});
  const DisentangledAttention part{{.q = matrix(3),
                                    .k = matrix(4),
                                    .v = matrix(5),
                                    .out = matrix(6),
                                    .heads = kHeads,
                                    .kv_heads = kHeads,
                                    .scale = scale},
                                   positions,
                                   matrix(4),
                                   matrix(3)};
  Context context;
  Taps taps;
  Tensor weights;
  taps.listen("part.weights", [&](const std::string&, Tensor& value) { weights = value; });
  context.taps = &taps;
  Pass pass(context);
  pass.name = "part";
  part(x, pass);
  const auto numbers = [](const Tensor& t) { return t.to_vector<float>(); };
  const std::vector<float> q = numbers(matrix(3)(x)), k = numbers(matrix(4)(x)),
                           kr = numbers(matrix(4)(table)), qr = numbers(matrix(3)(table)),
                           got = numbers(weights);
  const auto dot = [](const std::vector<float>& a, std::int64_t row, const std::vector<float>& b,
                      std::int64_t other, std::int64_t head) {
    double sum = 0;
    for (std::int64_t c = 0; c < kHead; ++c) {
      sum += static_cast<double>(a[static_cast<std::size_t>(row * kWidth + head * kHead + c)]) *
             static_cast<double>(b[static_cast<std::size_t>(other * kWidth + head * kHead + c)]);
    }
    return sum;
  };
  for (std::int64_t h = 0; h < kHeads; ++h) {
    for (std::int64_t t = 0; t < kTime; ++t) {
      std::vector<double> score;
      double total = 0;
      for (std::int64_t s = 0; s < kTime; ++s) {
        const std::int64_t i = std::clamp<std::int64_t>(t - s + 3, 0, 5);
        score.push_back(std::exp(scale * (dot(q, t, k, s, h) + dot(q, t, kr, i, h) + dot(k, s, qr, i, h))));
        total += score.back();
      }
      for (std::int64_t s = 0; s < kTime; ++s) {
        EXPECT_NEAR(got[static_cast<std::size_t>((h * kTime + t) * kTime + s)],
                    score[static_cast<std::size_t>(s)] / total, 1e-5)
            << h << " " << t << " " << s;
      }
    }
  }
}

}  // namespace
}  // namespace heed
