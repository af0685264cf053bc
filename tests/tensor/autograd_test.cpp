// The backward engine: double use, accumulation, no-grad mode, freeing, deep graphs.
#include "heed/autograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/ops.h"
#include "reference/error.h"
#include "reference/gradient_check.h"
#include "tensor/impl.h"

namespace heed {
namespace {

Tensor leaf(std::vector<double> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, {n}).set_requires_grad();
}

TEST(Autograd, AddsUpOverEveryUseOfATensor) {
  const Tensor x = leaf({2, -3});
  const Tensor y = x * x + x;  // x used three times
  sum(y * x).backward();       // d(x^3 + x^2) = 3x^2 + 2x
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{16, 21}));
}

TEST(Autograd, AccumulatesOverWalksUntilDropped) {
  const Tensor x = leaf({1, 2});
  sum(x * 3.0).backward();
  sum(x * 4.0).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{7, 7}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, GradientsOfTwoLeavesNeverShareMemory) {
  const Tensor a = leaf({1}), b = leaf({2});
  sum(a + b).backward();
  a.grad().data<double>()[0] = 100;
  EXPECT_EQ(b.grad().item(), 1);
}

TEST(Autograd, NoGradientsRecordsNothing) {
  const Tensor x = leaf({1, 2});
  const std::size_t before = memory_statistics().bytes_in_use;
  {
    const NoGradients guard;
    EXPECT_FALSE(exp(x * 2.0).requires_grad());
  }
  EXPECT_EQ(memory_statistics().bytes_in_use, before);
  EXPECT_TRUE((x * 2.0).requires_grad());
  EXPECT_FALSE(x.detach().requires_grad());
}

TEST(Autograd, FreesTheGraphWhileWalking) {
  const Tensor x = leaf(std::vector<double>(1000, 1.0));
  const std::size_t before = memory_statistics().bytes_in_use;
  Tensor y = sum(exp(exp(x) * 0.1));
  const std::size_t held = memory_statistics().bytes_in_use;
  y.backward();
  EXPECT_LT(memory_statistics().bytes_in_use, held);
  EXPECT_LE(memory_statistics().bytes_in_use, before + 2 * 8192 + 512);  // the gradient, and y itself
  EXPECT_ERROR(
      y.backward(),
      "backward: the graph was already used by an earlier backward(); its saved tensors of sum are freed "
      "(compute the loss again before a second backward)");
}

TEST(Autograd, GraphsThatAreNeverWalkedAreFreedToo) {
  const std::size_t before = memory_statistics().bytes_in_use;
  {
    Tensor x = leaf(std::vector<double>(100, 1.0));
    softmax(tanh(x), 0);
    exp(x);
  }
  EXPECT_EQ(memory_statistics().bytes_in_use, before);
}

TEST(Autograd, DeepGraphsNeitherOverflowTheStackWalkedNorDropped) {
  const Tensor x = leaf({1});
  Tensor walked = x, dropped = x;
  for (int i = 0; i < 200000; ++i) {
    walked = walked + 1.0;
    dropped = dropped + 1.0;
  }
  dropped = {};
  sum(walked).backward();
  EXPECT_EQ(x.grad().item(), 1);
}

// y = 3x, whose closure adds to what is there where it may.
Tensor triple(const Tensor& x, int& in_place) {
  Tensor y = x.detach() * 3.0;
  record(y, "triple", {x}, [&in_place](const Tensor& dy) {
    const Tensor so_far = gradient_so_far(0), mine = dy * 3.0;
    if (!so_far.defined()) return std::vector<Tensor>{mine};
    ++in_place;
    so_far.copy_from(so_far + mine);
    return std::vector<Tensor>{Tensor()};
  });
  return y;
}

TEST(Autograd, ClosuresMayAddInPlaceToWhatNobodyElseSees) {
  int in_place = 0;
  const Tensor x = leaf({1, 2});
  sum(triple(x, in_place) + triple(x, in_place)).backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(in_place, 1);
  const Tensor seen = x.grad();  // somebody holds it: a new tensor takes the sum
  sum(triple(x, in_place)).backward();
  EXPECT_EQ(in_place, 1);
  EXPECT_EQ(seen.to_vector<double>(), (std::vector<double>{6, 6}));
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{9, 9}));
  EXPECT_ERROR(
      {
        Tensor y = x * 2.0;
        record(y, "throws", {x}, [](const Tensor&) -> std::vector<Tensor> { throw Error("no"); });
        sum(y).backward();
      },
      testing::Eq("no"));
}

TEST(Autograd, SaysWhatIsWrong) {
  const Tensor x = leaf({1, 2});
  EXPECT_ERROR(
      (x * 2.0).backward(),
      "expected a single element, got f64[2] (pass the gradient)");  // two elements, no gradient given
  EXPECT_ERROR(x.detach().backward(),
               "expected a tensor with gradient history, got f64[2] without");  // no history
  EXPECT_ERROR((x * 2.0).backward(Tensor::zeros({2})),
               "expected a gradient of f64[2], got f32[2]");  // f32 for f64
  EXPECT_ERROR((x * 2.0).set_requires_grad(false),
               "set_requires_grad: expected a leaf, got the result of mul");
  EXPECT_ERROR(refuse_gradient("op", {x}), "op: expected inputs that need no gradient");
}

// Gradients of 16-bit leaves are f32 or become it, through conversions and views.
TEST(Autograd, LeavesOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Tensor x = Tensor::full({4}, 1.5, dtype);
    x.set_requires_grad();
    sum(slice(reshape(x, {2, 2}), 0, 0, 1).to(DType::f32) * 1.001).backward();
    EXPECT_EQ(x.grad().dtype(), DType::f32);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1.001F, 1.001F, 0, 0}));
    x.set_grad(Tensor::full({4}, 0.5, dtype));  // gradients of 16 bits add up in f32 as well
    sum(x.to(DType::f32) * 1.001).backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(4, 1.501F));
    EXPECT_ERROR(x.set_grad(Tensor::zeros({4}, DType::f64)), "expected " + x.str() + ", got f64[4]");
  }
}

// All copies of a leaf see its new data, and views of the old ones do not.
TEST(Autograd, LeavesMayGetOtherData) {
  const Tensor x = Tensor::full({2}, 1.001).set_requires_grad(), copy = x, old = x.detach();
  set_data(x, x.detach().to(DType::bf16));
  EXPECT_EQ(copy.dtype(), DType::bf16);
  EXPECT_TRUE(copy.requires_grad());
  EXPECT_EQ(copy.to(DType::f32).to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(old.to_vector<float>(), (std::vector<float>{1.001F, 1.001F}));
}

TEST(Autograd, PassesThroughConversion) {
  const Tensor x = Tensor::full({2}, 1.5).set_requires_grad();
  sum(x.to(DType::f64) * 2.0).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 2}));
}

}  // namespace
}  // namespace heed
