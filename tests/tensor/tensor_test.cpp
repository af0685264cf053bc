// The Tensor value type: creation, views, copies, conversion and its errors.
#include "heed/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "heed/ops/shape.h"
#include "tensor/impl.h"

namespace heed {
namespace {

Tensor count_up(const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

TEST(Tensor, CreatesAndReadsBack) {
  const Tensor t = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(t.shape(), (Shape{2, 3}));
  EXPECT_EQ(t.str(), "f32[2, 3]");
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Tensor::scalar(2.5).item(), 2.5);
  EXPECT_EQ(Tensor::full({2}, 3, DType::i64).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(Tensor::zeros({0, 4}).numel(), 0);
}

std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}

TEST(Tensor, PrintsItsElements) {
  EXPECT_EQ(printed(Tensor()), "an undefined tensor");
  EXPECT_EQ(printed(Tensor::scalar(2.5)), "f32[] 2.5");
  EXPECT_EQ(printed(Tensor::zeros({0})), "f32[0] []");
  EXPECT_EQ(printed(Tensor::full({2}, 1, DType::boolean)), "bool[2] [true, true]");
  EXPECT_EQ(printed(Tensor::full({1, 2}, 255, DType::u8)), "u8[1, 2]\n[[255, 255]]");
  EXPECT_EQ(printed(Tensor::full({1}, 1.0 / 3, DType::bf16)), "bf16[1] [0.333984]");
  EXPECT_EQ(printed(count_up({2, 2, 2})), "f32[2, 2, 2]\n[[[0, 1],\n  [2, 3]],\n [[4, 5],\n  [6, 7]]]");
  EXPECT_EQ(printed(transpose(slice(count_up({2, 3}), 1, 1, 3), 0, 1)), "f32[2, 2]\n[[1, 4],\n [2, 5]]");
}

TEST(Tensor, PrintsTheEdgesOfManyElements) {
  EXPECT_EQ(printed(count_up({1001})), "f32[1001] [0, 1, 2, ..., 998, 999, 1000]");
  EXPECT_EQ(printed(count_up({200, 6})),
            "f32[200, 6]\n[[0, 1, 2, 3, 4, 5],\n [6, 7, 8, 9, 10, 11],\n [12, 13, 14, 15, 16, 17],\n ...,\n"
            " [1182, 1183, 1184, 1185, 1186, 1187],\n [1188, 1189, 1190, 1191, 1192, 1193],\n"
            " [1194, 1195, 1196, 1197, 1198, 1199]]");
}

TEST(Tensor, PrintingLeavesLazyDataLazy) {
  const Tensor lazy = count_up({2}).to_lazy(DType::f64);
  EXPECT_EQ(printed(lazy), "f64[2] [0, 1]");
  EXPECT_FALSE(TensorImpl::of(lazy).buffer->is_materialized());
}

TEST(Tensor, EveryTypeConvertsToEveryOther) {
  const std::vector<DType> all = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                  DType::i64, DType::i32, DType::u8,   DType::boolean};
  for (const DType from : all) {
    for (const DType to : all) {
      const Tensor t = Tensor::full({3}, 1.0, from).to(to);
      EXPECT_EQ(t.dtype(), to);
      EXPECT_EQ(t.to(DType::f64).to_vector<double>(), (std::vector<double>{1, 1, 1}));
    }
  }
}

TEST(Tensor, ViewsShareMemoryAndCopiesDoNot) {
  const Tensor t = count_up({2, 3});
  const Tensor view = transpose(t, 0, 1), copy = t.clone();
  EXPECT_FALSE(view.is_contiguous());
  t.data<float>()[1] = 50;
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{0, 3, 50, 4, 2, 5}));
  EXPECT_EQ(copy.to_vector<float>()[1], 1);
  slice(t, 1, 2, 3).copy_from(Tensor::full({2, 1}, 9.0));
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{0, 50, 9, 3, 4, 9}));
  const Tensor wide = Tensor::zeros({3, 2}, DType::f64);
  wide.copy_from(view);  // converts
  EXPECT_EQ(wide.to_vector<double>(), (std::vector<double>{0, 3, 50, 4, 9, 9}));
}

TEST(Tensor, SaysWhatIsWrong) {
  const Tensor t = count_up({2, 3});
  EXPECT_THROW(Tensor().shape(), Error);
  EXPECT_THROW(t.data<double>(), Error);
  EXPECT_THROW(transpose(t, 0, 1).data<float>(), Error);
  EXPECT_THROW(t.item(), Error);
  EXPECT_THROW(Tensor::from(std::vector<float>{1, 2}, {3}), Error);
  EXPECT_THROW(t.copy_from(count_up({3, 2})), Error);
  EXPECT_THROW(Tensor::from_buffer(Buffer::allocate(8), {3}, DType::f32), Error);
  EXPECT_THROW(Tensor::full({1}, 1, DType::i64).set_requires_grad(), Error);
}

}  // namespace
}  // namespace heed
