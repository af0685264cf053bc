// Compares similarities and searches with sums in double.
#include "heed/tasks/similarity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heed/error.h"
#include "reference/error.h"

namespace heed {
namespace {

constexpr std::int64_t kWidth = 5;

Tensor made_up(std::int64_t rows, int seed) {
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < rows * kWidth; ++i)
    numbers.push_back(std::sin(static_cast<float>((i + 1) * (seed + 3))));
  return Tensor::from(numbers, {rows, kWidth});
}

double dot(const Tensor& a, std::int64_t i, const Tensor& b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t d = 0; d < kWidth; ++d)
    sum += static_cast<double>(a.data<float>()[i * kWidth + d]) *
           static_cast<double>(b.data<float>()[j * kWidth + d]);
  return sum;
}

TEST(Similarity, IsTheCosineOrTheDotProduct) {
  const Tensor a = made_up(3, 1), b = made_up(7, 2);
  const Tensor cosines = similarity(a, b), dots = similarity(a, b, Similarity::dot);
  ASSERT_EQ(cosines.shape(), (Shape{3, 7}));
  const auto c = cosines.to_vector<float>(), d = dots.to_vector<float>();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 7; ++j) {
      const auto at = static_cast<std::size_t>(i * 7 + j);
      EXPECT_NEAR(d[at], dot(a, i, b, j), 1e-6);
      EXPECT_NEAR(c[at], dot(a, i, b, j) / std::sqrt(dot(a, i, a, i) * dot(b, j, b, j)), 1e-6);
    }
  }
  EXPECT_EQ(similarity(Tensor::zeros({1, kWidth}), b).to_vector<float>(), std::vector<float>(7, 0.0f));
}

TEST(Similarity, FindsTheNearestRows) {
  const Tensor queries = made_up(70, 5), vectors = made_up(40, 6);
  const auto found = nearest(queries, vectors, 3, Similarity::dot);
  ASSERT_EQ(found.size(), 70u);
  for (std::int64_t q = 0; q < 70; ++q) {
    std::vector<double> scores;
    for (std::int64_t i = 0; i < 40; ++i) scores.push_back(dot(queries, q, vectors, i));
    std::sort(scores.rbegin(), scores.rend());
    const auto& matches = found[static_cast<std::size_t>(q)];
    ASSERT_EQ(matches.size(), 3u);
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(matches[k].score, scores[k], 1e-6);
      EXPECT_NEAR(dot(queries, q, vectors, static_cast<std::int64_t>(matches[k].row)), scores[k], 1e-6);
    }
  }
  EXPECT_EQ(nearest(queries, vectors, 100).front().size(), 40u);
}

TEST(Similarity, RefusesWhatCannotBeCompared) {
  EXPECT_ERROR(similarity(made_up(2, 1), Tensor::zeros({2, 4})),
               "expected vectors of one length [N, D] and [M, D], got f32[2, 5] and f32[2, 4]");
  EXPECT_ERROR(similarity(Tensor::zeros({4}), Tensor::zeros({2, 4})),
               "expected vectors of one length [N, D] and [M, D], got f32[4] and f32[2, 4]");
  EXPECT_ERROR(nearest(made_up(2, 1), made_up(2, 1), 0), "nearest: expected top_k of at least 1, got 0");
  EXPECT_ERROR(similarity(made_up(2, 1), Tensor::full({2, kWidth}, NAN)),
               "similarity: expected vectors of finite numbers");
  EXPECT_ERROR(similarity_named("euclidean"), "similarity: expected cosine or dot, got euclidean");
  EXPECT_EQ(similarity_named(""), Similarity::cosine);
}

// Of the dot products 9, 8, 7, ... of rows 0, 1, 2, ...
TEST(HardNegatives, AreNearButNotRight) {
  std::vector<float> numbers;
  for (int i = 0; i < 10; ++i) numbers.push_back(static_cast<float>(9 - i));
  const Tensor vectors = Tensor::from(numbers, {10, 1}),
               queries = Tensor::from(std::vector<float>{1, 1}, {2, 1});
  const std::vector<std::vector<std::size_t>> right{{2, 1}, {0}};
  const auto rows = [&](const HardNegatives& options) {
    std::vector<std::vector<std::size_t>> all;
    for (const auto& matches : hard_negatives(queries, vectors, right, options, Similarity::dot)) {
      all.emplace_back();
      for (const Match& match : matches) {
        EXPECT_EQ(match.score, 9 - static_cast<double>(match.row));
        all.back().push_back(match.row);
      }
    }
    return all;
  };
  using Rows = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(rows({.count = 2}), (Rows{{3, 4}, {1, 2}}));  // row 0 is nearer to query 0 than its positive
  EXPECT_EQ(rows({.count = 2, .margin = -3}), (Rows{{0, 3}, {1, 2}}));
  EXPECT_EQ(rows({.count = 2, .margin = 3}), (Rows{{5, 6}, {3, 4}}));
  EXPECT_EQ(rows({.count = 9, .range_min = 2, .range_max = 4}), (Rows{{4, 5}, {3, 4}}));
  EXPECT_ERROR(hard_negatives(queries, vectors, std::span(right).first(1)),
               "hard_negatives: expected the right rows of 2 queries, got 1");
}

}  // namespace
}  // namespace heed
