// Loaded weights that change their form: the numbers, bit by bit, and where they are kept.
#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/ops.h"
#include "reference/gradient_check.h"
#include "tensor/impl.h"

namespace heed {
namespace {

using reference::random_tensor;

const Buffer& buffer_of(const Tensor& t) { return *t.impl()->buffer; }

// As a loaded file gives them: not there before they are needed.
Tensor loaded(const Tensor& numbers, DType dtype) { return numbers.to_when_needed(dtype); }

TEST(PackedWeight, GivesTheBitsOfThePlainOne) {
  const Tensor x = random_tensor({5, 40}, 90).to(DType::f32), b = random_tensor({70}, 91).to(DType::f32);
  for (const WeightLayout layout : {WeightLayout::out_in, WeightLayout::in_out}) {
    const Tensor w = random_tensor(layout == WeightLayout::out_in ? Shape{70, 40} : Shape{40, 70}, 92);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(name_of(dtype));
      const Tensor plain = w.to(dtype), kept = loaded(w, dtype);
      const Tensor y = linear(x, kept, b, Activation::silu, layout);
      ASSERT_TRUE(buffer_of(kept).may_change_form());
      EXPECT_EQ(buffer_of(plain).form(), nullptr);
      EXPECT_EQ(y.to_vector<float>(), linear(x, plain, b, Activation::silu, layout).to_vector<float>());
      EXPECT_EQ(kept.to(DType::f32).to_vector<float>(), plain.to(DType::f32).to_vector<float>());
      EXPECT_FALSE(buffer_of(kept).may_change_form());  // to_vector asked for the address
      EXPECT_EQ(y.to_vector<float>(), linear(x, kept, b, Activation::silu, layout).to_vector<float>());
    }
  }
}

TEST(PackedWeight, IsKeptOnce) {
  const Tensor numbers = random_tensor({512, 256}, 93), x = Tensor::zeros({1, 256});
  const Tensor w = loaded(numbers, DType::bf16);
  const std::size_t before = memory_statistics().bytes_in_use;
  linear(x, w);
  EXPECT_LT(memory_statistics().bytes_in_use - before, std::size_t{2 * 2 * 512 * 256});
  const Buffer* panels = &buffer_of(w);
  linear(x, w);
  EXPECT_EQ(panels, &buffer_of(w));
  EXPECT_LT(memory_statistics().bytes_in_use - before, std::size_t{2 * 2 * 512 * 256});
}

TEST(PackedWeight, ServesLookupAndProjectionAlike) {
  const Tensor numbers = random_tensor({70, 24}, 94), x = random_tensor({3, 24}, 95).to(DType::f32);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{0, 69, 33}, {3});
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor table = loaded(numbers, dtype), plain = numbers.to(dtype);
    const auto want = embedding(plain, ids, 3.0).to_vector<float>();
    EXPECT_EQ(embedding(table, ids, 3.0).to_vector<float>(), want);
    EXPECT_EQ(linear(x, table).to_vector<float>(), linear(x, plain).to_vector<float>());
    EXPECT_EQ(embedding(table, ids, 3.0).to_vector<float>(), want);
    EXPECT_TRUE(buffer_of(table).may_change_form());
  }
}

TEST(PackedWeight, StaysWhereItsAddressIsKnown) {
  const Tensor x = random_tensor({2, 8}, 96).to(DType::f32);
  Tensor w = loaded(random_tensor({4, 8}, 97), DType::f32);
  const Tensor before = linear(x, w);
  float* numbers = w.data<float>();  // now somebody may write at any time
  for (int i = 0; i < 32; ++i) numbers[i] *= 2;
  const auto twice = linear(x, w).to_vector<float>();
  EXPECT_EQ(twice, (before * 2.0).to_vector<float>());
  EXPECT_EQ(numbers, w.data<float>());
}

TEST(PackedWeight, GradientsComeAfterInference) {
  Tensor w = loaded(random_tensor({4, 8}, 98), DType::f32);
  w.set_requires_grad();
  const Tensor x = random_tensor({2, 8}, 99).to(DType::f32);
  {
    const NoGradients inference;
    linear(x, w);
    ASSERT_TRUE(buffer_of(w).may_change_form());
  }
  sum(linear(x, w)).backward();
  EXPECT_EQ(w.grad().shape(), w.shape());
  EXPECT_FALSE(buffer_of(w).may_change_form());
}

TEST(PackedWeight, PartsOfALoadedTensorAreNotPacked) {
  const Tensor all = loaded(random_tensor({6, 8}, 100), DType::f32),
               x = random_tensor({2, 8}, 101).to(DType::f32);
  const Tensor want = linear(x, all);
  EXPECT_EQ(linear(x, slice(all, 0, 2, 5)).to_vector<float>(), slice(want, 1, 2, 5).to_vector<float>());
}

}  // namespace
}  // namespace heed
