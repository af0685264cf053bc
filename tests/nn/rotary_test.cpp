// Rotary positions against transformers: frequencies of every scaling, turns, turned heads, gradients.
#include "heed/nn/positions.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/near.h"

namespace heed {
namespace {

using nlohmann::json;
using reference::expect_near;

const json& rotary_fixture() {
  static const json loaded = read_json(HEED_FIXTURES "/positions/positions.json");
  return loaded;
}

Tensor floats(const json& values, const Shape& shape) {
  return Tensor::from(values.get<std::vector<float>>(), shape);
}

PositionIds starts(const json& places) {
  return PositionIds(Tensor::from(places.get<std::vector<std::int64_t>>(), {2}));
}

RotaryOptions options_of(const json& c) {
  static const std::map<std::string, RotaryScalingKind> kinds = {
      {"default", RotaryScalingKind::none},      {"linear", RotaryScalingKind::linear},
      {"dynamic", RotaryScalingKind::dynamic},   {"llama3", RotaryScalingKind::llama3},
      {"longrope", RotaryScalingKind::longrope}, {"yarn", RotaryScalingKind::yarn}};
  const json& rope = c.at("rope");
  RotaryOptions o;
  o.dim = c.at("dim");
  o.theta = rope.at("rope_theta");
  RotaryScaling& s = o.scaling;
  s.kind = kinds.at(rope.at("rope_type"));
  s.factor = rope.value("factor", s.factor);
  s.original_length =
      rope.value("original_max_position_embeddings", c.at("max_position_embeddings").get<std::int64_t>());
  s.low_freq_factor = rope.value("low_freq_factor", s.low_freq_factor);
  s.high_freq_factor = rope.value("high_freq_factor", s.high_freq_factor);
  s.beta_fast = rope.value("beta_fast", s.beta_fast);
  s.beta_slow = rope.value("beta_slow", s.beta_slow);
  s.truncate = rope.value("truncate", s.truncate);
  if (rope.contains("mscale")) s.mscale = rope.at("mscale");
  if (rope.contains("mscale_all_dim")) s.mscale_all_dim = rope.at("mscale_all_dim");
  if (rope.contains("attention_factor")) s.attention_factor = rope.at("attention_factor");
  s.short_factor = rope.value("short_factor", s.short_factor);
  s.long_factor = rope.value("long_factor", s.long_factor);
  return o;
}

TEST(Rotary, EveryScalingHasTheNumbersOfTransformers) {
  for (const json& c : rotary_fixture().at("rotary")) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    const RotaryOptions options = options_of(c);
    const std::int64_t r = options.dim + options.dim % 2;
    const auto frequencies = rotary_frequencies(options, c.at("length"));
    const auto want = c.at("inv_freq").get<std::vector<float>>();
    ASSERT_EQ(frequencies.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(frequencies[i] / want[i], 1, 1e-6) << i;
    EXPECT_NEAR(rotary_attention_factor(options.scaling), c.at("attention_factor"), 1e-7);

    const RotaryPositions positions(options);
    const PositionIds places = starts(c.at("starts"));
    // A frequency's last bit is an angle of length * 6e-8.
    const double tolerance = 1e-6 + 1e-7 * c.at("length").get<double>();
    expect_near(positions.cos_sin(places, 2, 2), floats(c.at("turns"), {2, 2, r}), tolerance);
    Tensor x = floats(c.at("x"), {2, 1, 2, r});
    x.set_requires_grad();
    const Tensor y = positions.rotate(x, places);
    expect_near(y, floats(c.at("y"), {2, 1, 2, r}), 4 * tolerance);
    sum(y * floats(c.at("dy"), {2, 1, 2, r})).backward();
    expect_near(x.grad(), floats(c.at("dx"), {2, 1, 2, r}), 4 * tolerance);
  }
}

TEST(Rotary, InterleavedAndPartialAsInGptJ) {
  const json& c = rotary_fixture().at("interleaved");
  const RotaryPositions positions({.dim = 8, .layout = RotaryLayout::interleaved});
  Tensor x = floats(c.at("x"), {2, 2, 4, 12});
  x.set_requires_grad();
  const Tensor y = positions.rotate(x, starts(c.at("starts")));
  expect_near(y, floats(c.at("y"), {2, 2, 4, 12}), 2e-6);
  sum(y * floats(c.at("dy"), {2, 2, 4, 12})).backward();
  expect_near(x.grad(), floats(c.at("dx"), {2, 2, 4, 12}), 2e-6);
}

TEST(Rotary, OneFirstPlaceEqualsEachPlace) {
  const RotaryOptions dynamic{
      .dim = 8, .scaling = {.kind = RotaryScalingKind::dynamic, .factor = 2, .original_length = 64}};
  for (const RotaryPositions& positions : {RotaryPositions({.dim = 8}), RotaryPositions(dynamic)}) {
    for (const std::int64_t first : {0, 3, 1000, 300}) {
      std::vector<std::int64_t> each;
      for (std::int64_t i = 0; i < 6; ++i) each.push_back(first + i % 3);
      const Tensor one = positions.cos_sin(first, 2, 3);
      const Tensor all = positions.cos_sin(PositionIds(Tensor::from(each, {2, 3})), 2, 3);
      expect_near(slice(all, 0, 1, 2), unsqueeze(one, 0), 0);
    }
  }
}

TEST(Rotary, RefusesWhatHasNoMeaning) {
  EXPECT_ERROR(RotaryPositions({.dim = 0}), "expected rotary dims, got 0");
  RotaryOptions odd{.dim = 7};
  odd.scaling = {.kind = RotaryScalingKind::yarn, .factor = 2, .original_length = 64};
  EXPECT_ERROR(RotaryPositions{odd}, "expected an even number of rotary dims for YaRN, got 7");
  RotaryOptions o{.dim = 8};
  for (const RotaryScalingKind kind :
       {RotaryScalingKind::dynamic, RotaryScalingKind::llama3, RotaryScalingKind::yarn}) {
    o.scaling.kind = kind;
    EXPECT_ERROR(RotaryPositions{o},
                 "expected the length of training texts, got 0");  // the original length is missing
  }
  o.scaling.kind = RotaryScalingKind::longrope;
  o.scaling.original_length = 10;
  o.scaling.short_factor = {1, 2, 3, 4};
  EXPECT_ERROR(RotaryPositions{o},
               "expected 4 short and long factors, got 4 and 0");  // the long factors are missing
  const RotaryPositions plain({.dim = 8});
  const Tensor x = Tensor::zeros({2, 1, 3, 8});
  EXPECT_ERROR(plain.rotate(x, PositionIds(-1)), "expected position ids of at least 0, got -1");
  EXPECT_ERROR(plain.rotate(x, PositionIds(Tensor::zeros({3}, DType::i64))),
               "expected those of 2 rows of 3 tokens, got i64[3]");
  EXPECT_ERROR(PositionIds(Tensor::zeros({3})), "expected i64[B] or i64[B, T], got f32[3]");
}

}  // namespace
}  // namespace heed
