#include "heed/io/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/error.h"
#include "reference/temporary_folder.h"

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
  const Tensor transposed = Tensor::from<float>(numbers, {2, 3}).as_strided({3, 2}, {1, 3}, 0);
  write_npy(folder / "view", transposed);
  EXPECT_EQ(slurp(folder / "view"), slurp(fixtures / "f32_3x2.npy"));
}

TEST(Npy, RefusesWhatNumPyHasNot) {
  const TemporaryFolder folder;
  EXPECT_ERROR(write_npy(folder / "x", Tensor::zeros({2}, DType::bf16)), "got bf16");
  EXPECT_THAT(listing(folder.path()), ::testing::IsEmpty());
}

// The files were written by numpy.save.
TEST(Npy, ReadsWhatNumPyWrites) {
  const std::filesystem::path fixtures = std::filesystem::path(HEED_FIXTURES) / "io";
  const Tensor f32 = read_npy(fixtures / "f32_2x3.npy");
  EXPECT_EQ(f32.shape(), (Shape{2, 3}));
  EXPECT_EQ(f32.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(read_npy(fixtures / "i64_3.npy").to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{-1, 2, 3}));
  EXPECT_EQ(read_npy(fixtures / "f64_scalar.npy").item(), 2.5);
  EXPECT_EQ(read_npy(fixtures / "bool_0x2.npy").shape(), (Shape{0, 2}));
}

TEST(Npy, RefusesFilesThatAreNotWhatTheySay) {
  const TemporaryFolder folder;
  const std::string good = slurp(std::filesystem::path(HEED_FIXTURES) / "io" / "f32_2x3.npy");
  const auto refused = [&](std::string bytes, const char* told) {
    spill(folder / "x.npy", bytes);
    const std::string error = error_of([&] { read_npy(folder / "x.npy"); });
    EXPECT_THAT(error, ::testing::HasSubstr(told));
    EXPECT_THAT(error, ::testing::HasSubstr("x.npy: "));
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = good;
    return bytes.replace(bytes.find(from), from.size(), to);
  };
  refused("", "expected an NPY file");
  refused("PK\3\4 and more bytes than that", "expected an NPY file");
  refused(good.substr(0, 40), "expected a whole header");
  refused(good.substr(0, good.size() - 1), "expected 24 bytes of numbers for the shape [2, 3], got 23");
  refused(with("(2, 3)", "(2, 4)"), "expected 32 bytes");
  refused(with("(2, 3)", "(2,-3)"), "expected a shape");
  refused(with("(2, 3), }           ", "(99999999, 99999999),"), "expected a shape");
  refused(with("'<f4'", "'>f4'"), "expected numbers of a dtype heed has");
  refused(with("False", "True "), "Fortran order");
  refused(with("'descr'", "'other'"), "'descr' not found in the header");
}

}  // namespace
}  // namespace heed
