#include "heed/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

struct Row {
  float scale;
  std::vector<int> numbers;
};

Row row_of(const Tensor& rows) {
  const auto bytes = rows.to_vector<std::uint8_t>();
  Row row{};
  std::memcpy(&row.scale, bytes.data(), 4);
  for (std::size_t i = 4; i < bytes.size(); ++i)
    row.numbers.push_back(bytes[i] < 128 ? bytes[i] : bytes[i] - 256);
  return row;
}

Row row_of(const std::vector<float>& x) { return row_of(int8_rows(Tensor::from(x, {std::ssize(x)}))); }

TEST(Int8Rows, AreTheNearestMultiplesOfEachRowsScale) {
  const Tensor x = random_tensor({3, 5, 2, 67}, 7).to(DType::f32), view = permute(x, {1, 2, 0, 3});
  const Tensor rows = int8_rows(view), back = from_int8_rows(rows);
  EXPECT_EQ(rows.dtype(), DType::u8);
  EXPECT_EQ(rows.shape(), (Shape{5, 2, 3, 71}));
  EXPECT_EQ(back.shape(), view.shape());
  const auto numbers = view.to_vector<float>(), got = back.to_vector<float>();
  for (std::size_t first = 0; first < numbers.size(); first += 67) {
    float largest = 0;
    for (std::size_t i = first; i < first + 67; ++i) largest = std::max(largest, std::abs(numbers[i]));
    const float scale = largest / 127;
    for (std::size_t i = first; i < first + 67; ++i)
      ASSERT_EQ(got[i], scale * std::nearbyint(numbers[i] / scale)) << i;
  }
}

TEST(Int8Rows, RoundTiesToEven) {
  const Row row = row_of(std::vector<float>{-254, 1, 3, -1, -3, 5, 253, 254});
  EXPECT_EQ(row.scale, 2);
  EXPECT_EQ(row.numbers, (std::vector<int>{-127, 0, 2, 0, -2, 2, 126, 127}));
}

TEST(Int8Rows, HoldZerosTheSmallestAndTheLargestNumbers) {
  const Row zeros = row_of(std::vector<float>{0, -0.0F, 0});
  EXPECT_EQ(zeros.scale, 0);
  EXPECT_EQ(zeros.numbers, (std::vector<int>{0, 0, 0}));
  const float least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  EXPECT_EQ(row_of({least, -least}).numbers, (std::vector<int>{0, 0}));  // the scale rounds to 0
  const Row small = row_of({150 * least, -least});                       // 150 / 127 rounds to 1
  EXPECT_EQ(small.scale, least);
  EXPECT_EQ(small.numbers, (std::vector<int>{127, -1}));
  EXPECT_EQ(row_of({most, -most, most / 4}).numbers, (std::vector<int>{127, -127, 32}));
  EXPECT_EQ(int8_rows(Tensor::zeros({2, 0, 4})).shape(), (Shape{2, 0, 8}));
}

TEST(Int8Rows, KeepWhatIsNotFiniteNotFinite) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const Tensor x = Tensor::from(std::vector<float>{1, odd, -2}, {1, 3});
    for (const float number : from_int8_rows(int8_rows(x)).to_vector<float>())
      EXPECT_FALSE(std::isfinite(number)) << odd;
  }
}

TEST(Int8Rows, SayWhatIsWrong) {
  EXPECT_ERROR(int8_rows(Tensor::zeros({2, 3}, DType::f64)),
               "int8 rows: expected numbers f32 [..., d], got f64");
  EXPECT_ERROR(from_int8_rows(Tensor::zeros({2, 3}, DType::u8)),
               "expected rows u8 [..., 4 + d], got u8[2, 3]");
  EXPECT_ERROR(from_int8_rows(Tensor::zeros({2, 8})), "expected rows u8 [..., 4 + d], got f32[2, 8]");
  Tensor x = Tensor::zeros({2, 3});
  x.set_requires_grad();
  EXPECT_ERROR(int8_rows(x), "int8 rows: expected inputs that need no gradient");
}

}  // namespace
}  // namespace heed
