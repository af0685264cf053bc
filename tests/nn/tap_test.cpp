// Taps: patterns, order, replacement and its limits, and listeners that nothing fires.
#include "heed/nn/tap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/ops.h"
#include "nn/random_parts.h"
#include "reference/error.h"
#include "reference/near.h"

namespace heed {
namespace {

TEST(Taps, PatternsMatchRunsOfCharacters) {
  Taps taps;
  taps.listen("decoder.*.cross_attn.weights", [](const std::string&, Tensor&) {});
  EXPECT_TRUE(taps.wants("decoder.layers.3.cross_attn.weights"));
  EXPECT_FALSE(taps.wants("decoder.layers.3.cross_attn.weights.more"));
  EXPECT_FALSE(taps.wants("encoder.layers.3.cross_attn.weights"));
  EXPECT_FALSE(Taps().wants("anything"));
  Taps inner(&taps);
  EXPECT_TRUE(inner.wants("decoder.layers.0.cross_attn.weights"));
}

TEST(Taps, ListenersComeInOrderAndMayReplace) {
  Taps outer, taps(&outer);
  outer.listen("x", [](const std::string&, Tensor& value) { value = value + 1.0; });
  taps.listen("*", [](const std::string&, Tensor& value) { value = value * 10.0; });
  Tensor value = Tensor::full({2}, 1.0);
  taps.emit("x", value);
  EXPECT_EQ(value.to_vector<float>(), (std::vector<float>{20, 20}));
  outer.require_all_fired();
  taps.require_all_fired();
}

TEST(Taps, ReplacementsMustFit) {
  Taps taps;
  taps.listen("x", [](const std::string&, Tensor& value) { value = Tensor::zeros({3}); });
  Tensor value = Tensor::zeros({2});
  EXPECT_ERROR(taps.emit("x", value), "tap x: expected a replacement like f32[2], got f32[3]");
}

TEST(Taps, SilentPatternsAreNamed) {
  Taps taps;
  taps.listen("never", [](const std::string&, Tensor&) {});
  EXPECT_ERROR(taps.require_all_fired(),
               testing::AllOf(testing::HasSubstr("never"), testing::HasSubstr("docs/attention.md")));
}

TEST(Taps, ListenersGetTheSelectedPartAndWriteItBack) {
  Tensor value = reference::random_tensor({1, 4, 3, 5}, 1);
  const Tensor before = value.clone();
  Taps taps;
  Tensor part;
  taps.listen("x", {.heads = {0, 2}, .queries = {1, {}}, .keys = {0, 2}},
              [&](const std::string&, Tensor& given) {
                part = given.contiguous();
                given = given * 2.0;
              });
  taps.emit("x", value, kScoreAxes);
  EXPECT_EQ(part.shape(), (Shape{1, 2, 2, 2}));
  const auto was = before.to_vector<double>(), is = value.to_vector<double>();
  for (std::size_t i = 0; i < is.size(); ++i) {
    const std::size_t head = i / 15, query = i / 5 % 3, key = i % 5;
    const bool selected = head % 2 == 0 && query >= 1 && key < 2;
    EXPECT_EQ(is[i], selected ? 2 * was[i] : was[i]) << i;
  }
}

TEST(Taps, WantedPartsAreTheUnionOfAllSelections) {
  Taps outer, taps(&outer);
  const Listener none = [](const std::string&, Tensor&) {};
  outer.listen("a", {.heads = {3}, .queries = {0, 2}}, none);
  taps.listen("b", {.heads = {1}, .queries = {4, 5}}, none);
  TapPart part = taps.wanted_part({"a", "b"}, 6, 8);
  EXPECT_EQ(part.heads, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(part.queries, (std::vector<std::int64_t>{0, 1, 4}));
  taps.listen("b", {.queries = {7, 8}}, none);
  part = taps.wanted_part({"a", "b"}, 6, 8);
  EXPECT_TRUE(part.heads.empty());  // all
  EXPECT_EQ(part.queries, (std::vector<std::int64_t>{0, 1, 4, 7}));
  EXPECT_ERROR(taps.wanted_part({"a"}, 3, 8), "tap a: expected heads below 3 in increasing order, got 3");
  EXPECT_ERROR(taps.wanted_part({"b"}, 6, 7), "tap b: expected queries of the 7 there are, got 7:8");
}

TEST(Taps, RefusesSelectionsThatAValueLacks) {
  Tensor value = Tensor::zeros({1, 3, 4});
  const auto message = [&](const TapSelection& selection, TapAxes axes) -> std::string {
    Taps taps;
    taps.listen("x", selection, replace_by_zeros());
    return error_of([&] { taps.emit("x", value, axes); });
  };
  EXPECT_EQ(message({.queries = {2, 3}}, kTokenAxes), "no error");
  EXPECT_THAT(message({.heads = {0}}, kTokenAxes),
              testing::HasSubstr("with heads to select, got f32[1, 3, 4]"));
  EXPECT_THAT(message({.keys = {1, {}}}, kTokenAxes), testing::HasSubstr("with keys to select"));
  EXPECT_THAT(message({.queries = {1, 4}}, kTokenAxes),
              testing::HasSubstr("queries of the 3 there are, got 1:4"));
  EXPECT_THAT(message({.heads = {3}}, kKeyAxes), testing::HasSubstr("heads below 3"));
  const Tensor leaf = Tensor::zeros({1, 3, 4}).set_requires_grad();
  value = leaf * 1.0;
  EXPECT_NE(message({.queries = {0, 1}}, kTokenAxes), "no error");
}

TEST(Taps, ReplacingListenersDoWhatTheirNamesSay) {
  const Tensor two = Tensor::full({2, 2}, 2.0);
  const auto replaced = [&](const Listener& listener) {
    Tensor value = two;
    listener("x", value);
    return value.to_vector<float>();
  };
  EXPECT_EQ(replaced(replace_by_zeros()), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(replaced(replace_by_scaled(3)), (std::vector<float>{6, 6, 6, 6}));
  EXPECT_EQ(replaced(replace_by_sum(Tensor::from(std::vector<float>{1, 2}, {2}))),
            (std::vector<float>{3, 4, 3, 4}));
  EXPECT_EQ(replaced(replace_by(Tensor::zeros({2, 2}, DType::f64))), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(two.to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
}

TEST(Taps, ContributionsOfHeadsAddUpToTheOutput) {
  const MultiHeadAttention m = reference::random_attention(8, 4, 1);
  const Tensor x = reference::random_tensor({2, 3, 8}, 5);
  Tensor all, some, out, heads;
  Taps taps;
  taps.listen("a.contributions", [&](const std::string&, Tensor& value) { all = value; });
  taps.listen("a.contributions", {.heads = {1, 3}}, [&](const std::string&, Tensor& value) { some = value; });
  taps.listen("a.out", [&](const std::string&, Tensor& value) { out = value; });
  Context context{.taps = &taps};
  Pass pass(context);
  pass.name = "a";
  SelfAttention{m}(x, pass);
  reference::expect_near(sum(all, 1) + m.out.bias, out, 1e-12);
  reference::expect_near(slice(some, 1, 1, 2).contiguous(), slice(all, 1, 3, 4).contiguous(), 0);
  Taps alone;
  Tensor one;
  alone.listen("a.contributions", {.heads = {2}}, [&](const std::string&, Tensor& value) {
    one = value;
    value = value * 0.0;
  });
  alone.listen("a.out", [&](const std::string&, Tensor& value) { heads = value; });
  Context other{.taps = &alone};
  Pass again(other);
  again.name = "a";
  SelfAttention{m}(x, again);
  reference::expect_near(heads + sum(one, 1), out, 1e-12);
  Taps later;  // of some queries: no others are computed, and what replaces them changes no other row
  Tensor row, changed;
  later.listen("a.contributions", {.heads = {2}, .queries = {1, 2}}, [&](const std::string&, Tensor& value) {
    row = value;
    value = value * 0.0;
  });
  later.listen("a.out", [&](const std::string&, Tensor& value) { changed = value; });
  Context third{.taps = &later};
  Pass last(third);
  last.name = "a";
  SelfAttention{m}(x, last);
  reference::expect_near(row, slice(one, 2, 1, 2).contiguous(), 0);
  reference::expect_near(slice(changed, 1, 1, 2) + sum(row, 1), slice(out, 1, 1, 2).contiguous(), 1e-12);
  for (const std::int64_t t : {0, 2})
    reference::expect_near(slice(changed, 1, t, t + 1).contiguous(), slice(out, 1, t, t + 1).contiguous(), 0);
}

// Scores that are replaced give their own weights, in a part of the heads and queries.
TEST(Taps, ReplacedScoresGiveTheirSoftmax) {
  const MultiHeadAttention m = reference::random_attention(8, 4, 1);
  const Tensor x = reference::random_tensor({2, 3, 8}, 5);
  Tensor weights, heads, values;
  Taps taps;
  taps.listen("a.scores", {.heads = {2}, .queries = {1, 2}}, replace_by_zeros());
  taps.listen("a.weights", [&](const std::string&, Tensor& value) { weights = value; });
  taps.listen("a.v", [&](const std::string&, Tensor& value) { values = value.contiguous(); });
  taps.listen("a.heads", [&](const std::string&, Tensor& value) { heads = value.contiguous(); });
  Context context{.taps = &taps};
  Pass pass(context);
  pass.name = "a";
  SelfAttention{m}(x, pass);
  const auto row = slice(slice(weights, 1, 2, 3), 2, 1, 2).contiguous().to_vector<double>();
  for (const double w : row) EXPECT_NEAR(w, 1.0 / 3, 1e-12);
  reference::expect_near(heads, matmul(weights, values), 1e-12);
}

TEST(Taps, WeightsOfAGroupedAttentionCanBeReplaced) {
  MultiHeadAttention m = reference::random_attention(8, 4, 1);
  m.kv_heads = 2;
  m.k = reference::random_linear(4, 8, 2);
  m.v = reference::random_linear(4, 8, 4);
  const Tensor x = reference::random_tensor({2, 3, 8}, 5);
  Context silent;
  Pass silent_pass(silent);
  const auto want = SelfAttention{m}(x, silent_pass).to_vector<double>();
  Taps taps;
  taps.listen("a.weights",
              [](const std::string&, Tensor& weights) { weights = weights.clone(); });  // same numbers
  Context context{false, nullptr, &taps};
  Pass pass(context);
  pass.name = "a";
  const auto got = SelfAttention{m}(x, pass).to_vector<double>();
  taps.require_all_fired();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
}

}  // namespace
}  // namespace heed
