// What is measured: operations and bytes counted by hand, and what is derived from costs by length.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/layers.h"
#include "bench/model.h"
#include "heed/error.h"
#include "reference/error.h"

namespace heed::bench {
namespace {

// 2 dot products of 2 * 8 operations per pair of a query and a key that it attends to, for each of 2 heads.
TEST(AttentionWork, CountsThePairsThatAreSeen) {
  const AttentionShape sizes{.heads = 2, .head_dim = 8, .length = 40};
  const auto with = [&](const auto& change) {
    AttentionShape changed = sizes;
    change(changed);
    return attention_work(changed).operations / (2 * 2 * 2 * 8);
  };
  EXPECT_EQ(with([](AttentionShape& s) { s.causal = true, s.window = 10; }), 10 * 11 / 2 + 30 * 10);
  EXPECT_EQ(with([](AttentionShape& s) { s.causal = true, s.keys = 50; }), 40 * 41 / 2 + 40 * 10);
  EXPECT_EQ(with([](AttentionShape& s) { s.kind = AttentionForm::strided, s.stride = 10; }),
            10 * 11 / 2 + 30 * 10 + (1 + 2 + 3) * 10);
  EXPECT_EQ(with([](AttentionShape& s) { s.kind = AttentionForm::fixed, s.stride = 10, s.summary = 2; }),
            4 * 10 * 11 / 2 + (1 + 2 + 3) * 10 * 2);
  EXPECT_EQ(with([](AttentionShape& s) { s.kind = AttentionForm::linear; }), 40 * (8 + 1));
  EXPECT_EQ(with([](AttentionShape& s) { s.backward = true; }), 3.5 * 40 * 40);  // 5 more products
}

TEST(AttentionWork, RunsForwardAndBackward) {
  for (const AttentionForm kind : kAttentionForms) {
    const Work work = attention_work(
        {.kind = kind, .heads = 2, .head_dim = 8, .length = 24, .causal = true, .backward = true});
    const Measurement measured = measure(work, {.count = 3});
    EXPECT_EQ(measured.seconds.size(), 3u) << name_of(kind);
    EXPECT_EQ(measured.backward_seconds.size(), 3u);
    EXPECT_GT(Speed(work, measured).fraction, 0);
  }
}

// 2 * 3 steps, each a product of [1, 5 + 4] with 4 * 4 or 3 * 4 gates; backward takes twice as many.
TEST(RecurrentWork, CountsTheProductsOfTheGates) {
  for (const bool lstm : {true, false}) {
    const Work work =
        recurrent_work({.is_lstm = lstm, .batch = 2, .length = 3, .input = 5, .hidden = 4, .backward = true});
    EXPECT_EQ(work.operations, 3.0 * 2 * 2 * 3 * 9 * (lstm ? 16 : 12));
  }
}

TEST(GemmWork, CountsOperationsAndBytes) {
  const Work work = gemm_work({.m = 32, .n = 48, .k = 64, .dtype = DType::bf16});
  EXPECT_EQ(work.operations, 2.0 * 32 * 48 * 64);
  EXPECT_EQ(work.bytes, 2 * 48 * 64 + 4 * (32 * 48 + 32 * 64));
}

TEST(Costs, SlopesAndCrossoversFollowFromThem) {
  KindCosts full{"full", {}}, linear{"linear", {}};
  for (const std::int64_t n : {256, 512, 1024, 2048}) {
    const auto length = static_cast<double>(n);
    full.costs.push_back({n, 1e-6 * length * length, length, 1});
    linear.costs.push_back({n, 1e-3 * length, 2 * length, 1});  // as fast as full at 1000
  }
  EXPECT_NEAR(slope(full, &Cost::seconds), 2, 1e-9);
  EXPECT_NEAR(slope(linear, &Cost::seconds), 1, 1e-9);
  EXPECT_NEAR(crossover(full, linear), 1000, 1e-6);
  EXPECT_TRUE(std::isnan(crossover(linear, full)));  // at the longest length it is slower
  KindCosts fast = linear;
  for (Cost& cost : fast.costs) cost.seconds *= 1e-3;
  EXPECT_EQ(crossover(full, fast), 256);           // not between measured lengths: it always is
  EXPECT_TRUE(std::isnan(crossover(full, full)));  // never
  EXPECT_TRUE(std::isnan(slope({"one", {{256, 1, 1, 1}}}, &Cost::seconds)));
  EXPECT_NE(lengths_chart("title", "ms", {full, linear}, &Cost::seconds, 1e3).find("linear (1.00)"),
            std::string::npos);
}

TEST(KnownShapes, AreNamedInTheError) {
  EXPECT_EQ(known_shape("gpt2").required_string("model_type"), "gpt2");
  EXPECT_ERROR(known_shape("elephant"),
               "shape: expected one of gpt2, bert-base, marian, vit-base, whisper-base, got elephant");
}

}  // namespace
}  // namespace heed::bench
