#include "heed/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_folder.h"

namespace heed {
namespace {

// The files were written by numpy.save.
TEST(Npy, WritesTheBytesNumPyWrites) {
  const TemporaryFolder folder;
  const std::filesystem::path fixtures = std::filesystem::path(HEED_FIXTURES) / "io";
  const std::vector<float> numbers = {0, 1, 2, 3, 4, 5};
  write_npy(folder / "f32", Tensor::from<float>(numbers, {2, 3}));
  EXPECT_EQ(slurp(folder / "f32"), slurp(fixtures / "f32_2x3.npy"));
  write_npy(folder / "i64", Tensor::from<std::int64_t>({-1, 2, 3}, {3}));
  EXPECT_EQ(slurp(folder / "i64"), slurp(fixtures / "i64_3.npy"));
  write_npy(folder / "f64", Tensor::scalar(2.5, DType::f64));
  EXPECT_EQ(slurp(folder / "f64"), slurp(fixtures / "f64_scalar.npy"));
  write_npy(folder / "bool", Tensor::zeros({0, 2}, DType::boolean));
  EXPECT_EQ(slurp(folder / "bool"), slurp(fixtures / "bool_0x2.npy"));
  const Tensor transposed = Tensor::from<float>(numbers, {2, 3}).alias({3, 2}, {1, 3}, 0);
  write_npy(folder / "view", transposed);
  EXPECT_EQ(slurp(folder / "view"), slurp(fixtures / "f32_3x2.npy"));
}

TEST(Npy, RefusesWhatNumPyHasNot) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { write_npy(folder / "x", Tensor::zeros({2}, DType::bf16)); }),
              ::testing::HasSubstr("got bf16"));
  EXPECT_THAT(listing(folder.path()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace heed
