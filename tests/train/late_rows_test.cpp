// Rows of gradients as bytes.
#include "train/optimizer/gradient_buckets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heed {
namespace {

Tensor table_of(std::vector<float> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size()) / 2, 2});
}

TEST(LateRows, AreAddedToTheGradientOfTheirParameter) {
  std::string bytes;
  append_rows(bytes, 4, table_of({0, 0, 1, 2, 0, 3}));
  append_rows(bytes, 7, table_of({0, 0}));
  append_rows(bytes, 0, table_of({5, 0}));
  const Tensor first = table_of({10, 20}), fourth = table_of({1, 1, 1, 1, 1, 1}), seventh = table_of({8, 8});
  add_rows(bytes, [&](std::size_t i) { return i == 0 ? first : i == 4 ? fourth : seventh; });
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{15, 20}));
  EXPECT_EQ(fourth.to_vector<float>(), (std::vector<float>{1, 1, 2, 3, 1, 4}));
  EXPECT_EQ(seventh.to_vector<float>(), (std::vector<float>{8, 8}));
}

TEST(LateRows, OnlyThoseThatAreNotZeroAreSent) {
  std::string none, one;
  append_rows(none, 0, table_of({0, 0, 0, 0, 0, 0}));
  append_rows(one, 0, table_of({0, 0, 0, std::numeric_limits<float>::quiet_NaN(), 0, 0}));
  EXPECT_EQ(one.size() - none.size(), 8u + 2 * sizeof(float));
  const Tensor gradient = table_of({0, 0, 0, 0, 0, 0});
  add_rows(one, [&](std::size_t) { return gradient; });
  EXPECT_TRUE(std::isnan(gradient.to_vector<float>()[3]));
}

}  // namespace
}  // namespace heed
