// Norms and sums of lookups that are computed when they are read: the bits of those that are computed at
// once.
#include "ops/computed_rows.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "heed/autograd.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/embedding.h"
#include "heed/ops/norm.h"
#include "heed/ops/shape.h"
#include "ops/embedding.h"
#include "ops/norm.h"
#include "reference/blocks.h"
#include "reference/error.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed) {
  return reference::random_tensor(shape, seed).to(DType::f32).detach();
}

constexpr std::int64_t kWidth = 64;

NormOperands operands(Tensor x, const Tensor& residual = {}, bool centered = true) {
  return {.name = "norm",
          .x = std::move(x),
          .residual = residual,
          .weight = random({kWidth}, 2),
          .bias = centered ? random({kWidth}, 3) : Tensor(),
          .eps = 1e-5,
          .centered = centered,
          .offset = centered ? 0.0 : 1.0};
}
Tensor at_once(const NormOperands& in) {
  if (!in.centered) {
    return in.residual.defined() ? add_rms_norm(in.x, in.residual, in.weight, in.eps, in.offset)
                                 : rms_norm(in.x, in.weight, in.eps, in.offset);
  }
  return in.residual.defined() ? add_layer_norm(in.x, in.residual, in.weight, in.bias, in.eps)
                               : layer_norm(in.x, in.weight, in.bias, in.eps);
}

void expect_same(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
}

TEST(ComputedRows, OfANormHaveItsBits) {
  const Tensor x = random({3, 7, kWidth}, 1), residual = random({3, 7, kWidth}, 4);
  for (const bool centered : {true, false}) {
    for (const Tensor& added : {Tensor(), residual}) {
      const Tensor want = at_once(operands(x, added, centered));
      const Tensor y = norm_when_read(operands(x, added, centered));
      ASSERT_NE(unread_rows(y), nullptr);
      expect_same(slice(y, 1, 2, 5), slice(want, 1, 2, 5));
      expect_same(y, want);
      EXPECT_NE(unread_rows(y), nullptr) << "copied so far";
      y.data<float>();
      EXPECT_EQ(unread_rows(y), nullptr);
      expect_same(y, want);

      // An x that nobody else has leaves its memory.
      Tensor own = x.clone();
      const float* memory = own.data<float>();
      const Tensor in_place = norm_when_read(operands(std::move(own), added, centered));
      EXPECT_EQ(in_place.data<float>(), memory);
      expect_same(in_place, want);
    }
  }
  const Tensor before = x.clone(), view = reshape(before, {21, kWidth});
  EXPECT_NE(norm_when_read(operands(before)).data<float>(), before.data<float>());
  expect_same(before, x);
}

TEST(ComputedRows, AreThereAtOnceWhereThatIsBetter) {
  EXPECT_EQ(unread_rows(norm_when_read(operands(random({kFewestComputedRows - 1, kWidth}, 1)))), nullptr);
  Tensor x = random({20, kWidth}, 1);
  EXPECT_EQ(unread_rows(slice(norm_when_read(operands(x)), 0, 0, 19)), nullptr) << "a part";
  x.set_requires_grad();
  const Tensor y = norm_when_read(operands(x));
  EXPECT_EQ(unread_rows(y), nullptr);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_ERROR(norm_when_read(operands(random({20, kWidth + 1}, 1))), "weight [D]");
}

TEST(ComputedRows, AreRoundedByTheProductThatReadsThem) {
  const Tensor x = random({40, kWidth}, 1), residual = random({40, kWidth}, 4);
  const auto map = [](std::int64_t out, std::int64_t in) {
    const Tensor numbers = tensor_of_blocks(reference::q8_matrix(out, in), {out, in});
    return std::pair{numbers, PackedWeight(numbers, WeightLayout::out_in)};
  };
  const auto [w, packed] = map(70, kWidth);
  const auto [up, packed_up] = map(2 * kWidth, kWidth);
  const auto [down, packed_down] = map(33, 2 * kWidth);
  const auto linear_of = [](const Tensor& weight, const PackedWeight* form, bool int8) {
    return StoredLinear{.weight = weight, .packed = form, .int8 = int8};
  };
  const Tensor want = at_once(operands(x, residual));
  const auto expect_products = [&](const std::vector<StoredLinear>& maps) {
    const Tensor y = norm_when_read(operands(x, residual));
    const std::vector<Tensor> results = stored_linears(y, maps), right = stored_linears(want, maps);
    for (std::size_t i = 0; i < maps.size(); ++i) expect_same(results[i], right[i]);
    EXPECT_EQ(unread_rows(y), nullptr) << "left behind";
    expect_same(y, want);
  };
  expect_products({linear_of(w, &packed, true)});
  expect_products({linear_of(w, &packed, false), linear_of(w, &packed, true)});
  expect_products(
      {linear_of(w, &packed, true), linear_of(w, nullptr, false), linear_of(up, &packed_up, true)});
  const StoredLinear first = linear_of(up, &packed_up, true), second = linear_of(down, &packed_down, true);
  const Tensor y = norm_when_read(operands(x, residual));
  expect_same(stored_chain(y, first, second), stored_chain(want, first, second));
  EXPECT_EQ(unread_rows(y), nullptr);
  expect_same(y, want);
}

TEST(ComputedRows, SumLookups) {
  const std::int64_t count = 24;
  const Tensor first = random({9, kWidth}, 5), second = random({3, kWidth}, 6).to(DType::bf16);
  const Tensor blocks = tensor_of_blocks(reference::q8_matrix(9, kWidth), {9, kWidth});
  const auto packed = std::make_shared<const PackedWeight>(blocks, WeightLayout::out_in);
  std::vector<std::int64_t> ids, others;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * 5 % 9), others.push_back(i % 3);
  const Tensor a = Tensor::from(ids, {2, count / 2}), b = Tensor::from(others, {2, count / 2});
  const Tensor want = embedding(first, a, 2.0) + embedding(second, b) + embedding(blocks.clone(), a);
  const auto sum = [&] {
    return sum_when_read(
        {table_rows(first, nullptr, a, 2.0), table_rows(second, nullptr, b), table_rows(blocks, packed, a)});
  };
  ASSERT_NE(unread_rows(sum()), nullptr);
  expect_same(sum(), want);
  expect_same(norm_when_read(operands(sum())), at_once(operands(want)));
  const Tensor kept = sum();
  expect_same(norm_when_read(operands(kept)), at_once(operands(want)));
  EXPECT_EQ(unread_rows(kept), nullptr) << "another reads it: it is computed once";
  EXPECT_ERROR(table_rows(first, nullptr, Tensor::from(std::vector<std::int64_t>{9}, {1})),
               "expected ids in [0, 9)");
  EXPECT_ERROR(sum_when_read({table_rows(first, nullptr, a), table_rows(random({9, 5}, 1), nullptr, a)}),
               "rows of one shape");
}

// Threads that want the rows at once get the same ones.
TEST(ComputedRows, AreComputedOnceForAllThreads) {
  const Tensor x = random({40, kWidth}, 1), want = at_once(operands(x));
  for (int round = 0; round < 20; ++round) {
    const Tensor y = norm_when_read(operands(x));
    std::atomic<const float*> first = nullptr;
    std::vector<std::thread> readers;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        const float* data = y.data<float>();
        const float* other = nullptr;
        if (!first.compare_exchange_strong(other, data) && other != data) ++wrong;
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
    expect_same(y, want);
  }
}

}  // namespace
}  // namespace heed
