// Taps: patterns, order, replacement and its limits, and listeners that nothing fires.
#include "heed/nn/tap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/ops/elementwise.h"
#include "nn/random_parts.h"

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
  EXPECT_THROW(taps.emit("x", value), Error);
}

TEST(Taps, SilentPatternsAreNamed) {
  Taps taps;
  taps.listen("never", [](const std::string&, Tensor&) {});
  try {
    taps.require_all_fired();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("never"));
  }
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
