// The walk over a model's tensors: nothing missing, nothing unused, and the same initial weights everywhere.
#include "models/weight_builder.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

namespace heed {
namespace {

using testing::HasSubstr;

struct WeightBuilderTest : testing::Test {
  TemporaryFolder folder;
  Config config = Config::parse("{}", "config.json");
  std::function<void(WeightBuilder&)> walk = [](WeightBuilder& w) {
    w.take({.name = "a", .shape = {2, 3}});
    w.take({.name = "b", .shape = {3}, .init = Init::ones, .tied = {"b_tied"}});
    w.ignore("computed");
  };

  ModelContents contents(const std::vector<NamedTensor>& tensors) {
    save_safetensors(folder / "model.safetensors", tensors);
    WeightBuilder builder({.config = config, .files = ModelFiles(folder)});
    walk(builder);
    return builder.finish();
  }
  Weights load(const std::vector<NamedTensor>& tensors) { return contents(tensors).weights; }
  std::string load_error(const std::vector<NamedTensor>& tensors) {
    return error_of([&] { load(tensors); });
  }
  Weights make(Generator& generator) {
    WeightBuilder builder({.config = config, .generator = &generator});
    walk(builder);
    return builder.finish().weights;
  }
};

TEST_F(WeightBuilderTest, LoadsTiedNamesAndSkipsComputedOnes) {
  const Weights weights = load({{"a", Tensor::full({2, 3}, 2.0, DType::bf16)},
                                {"b_tied", Tensor::full({3}, 4.0)},
                                {"computed", Tensor::zeros({9})}});
  EXPECT_EQ(weights["a"].tensor().to_vector<float>(), std::vector<float>(6, 2.0f));
  EXPECT_EQ(weights["b"].tensor().to_vector<float>(), std::vector<float>(3, 4.0f));
  ASSERT_EQ(weights.parameters().size(), 2u);
  EXPECT_TRUE(weights.parameters()[0].decays);
  EXPECT_FALSE(weights.parameters()[1].decays);
}

TEST_F(WeightBuilderTest, TiedNamesWithNumbersOfTheirOwnStandApart) {
  const NamedTensor a{"a", Tensor::zeros({2, 3})}, b{"b", Tensor::full({3}, 1.0)};
  const Weights equal = load({a, b, {"b_tied", Tensor::full({3}, 1.0)}});
  EXPECT_EQ(equal.parameters().size(), 2u);
  EXPECT_TRUE(equal["b_tied"].tensor().is_same(equal["b"].tensor()));
  const Weights apart = load({a, b, {"b_tied", Tensor::full({3}, 5.0)}});
  ASSERT_EQ(apart.parameters().size(), 3u);
  EXPECT_EQ(apart.parameters()[2].name, "b_tied");
  EXPECT_EQ(apart["b"].tensor().to_vector<float>(), std::vector<float>(3, 1.0f));
  EXPECT_EQ(apart["b_tied"].tensor().to_vector<float>(), std::vector<float>(3, 5.0f));
  EXPECT_EQ(apart.stored(DType::f32).size(), 3u);
  EXPECT_THAT(load_error({a, b, {"b_tied", Tensor::zeros({4})}}),
              HasSubstr("b_tied: expected floating numbers [3]"));
}

TEST_F(WeightBuilderTest, FindsNamesWithoutThePrefixAndAliases) {
  walk = [](WeightBuilder& w) {
    w.set_prefix("model.");
    w.take(
        {.name = "model.a", .shape = {2}, .init = Init::zeros, .tied = {"head"}, .aliases = {"model.old"}});
    w.ignore("model.computed");
  };
  for (const char* name : {"model.a", "a", "head", "model.old", "old"}) {
    const Weights weights = load({{name, Tensor::full({2}, 7.0)}, {"computed", Tensor::zeros({1})}});
    EXPECT_EQ(weights["model.a"].tensor().to_vector<float>(), std::vector<float>(2, 7.0f)) << name;
    EXPECT_TRUE(weights["head"].tensor().is_same(weights["model.a"].tensor())) << name;
  }
  EXPECT_THAT(load_error({{"other.a", Tensor::zeros({2})}}), HasSubstr("not found: model.a"));
}

TEST_F(WeightBuilderTest, NamesWhatIsMissingUnusedOrOfAnotherShape) {
  const NamedTensor a{"a", Tensor::zeros({2, 3})}, b{"b", Tensor::zeros({3})}, c{"c", Tensor::zeros({1})};
  EXPECT_THAT(load_error({a}), HasSubstr("not found: b"));
  EXPECT_EQ(contents({a, b, c}).unused, std::vector<std::string>{"c"});
  EXPECT_TRUE(contents({a, b, {"computed", Tensor::zeros({1})}}).unused.empty());
  EXPECT_THAT(load_error({{"a", Tensor::zeros({3, 2})}, b}),
              HasSubstr("a: expected floating numbers [2, 3]"));
  EXPECT_THAT(load_error({{"a", Tensor::zeros({2, 3}, DType::i64)}, b}),
              HasSubstr("a: expected floating numbers [2, 3]"));
}

// What is missing is named first, and all of it, whatever comes before it in the walk.
TEST_F(WeightBuilderTest, GoesOnAfterWhatDoesNotFit) {
  walk = [](WeightBuilder& w) {
    w.take({.name = "wrong", .shape = {2}, .tied = {"wrong_tied"}});
    EXPECT_EQ(w["wrong_tied"].shape(), Shape({2}));
    for (const char* name : {"first", "second"})
      EXPECT_EQ(w.linear(name, 1 << 30, 1 << 30).weight.size(1), 1 << 30);
  };
  const NamedTensor wrong{"wrong", Tensor::zeros({3})}, unused{"unused", Tensor::zeros({1})};
  EXPECT_THAT(load_error({wrong, unused}), HasSubstr("not found: first.weight, first.bias, second.weight"));
  walk = [](WeightBuilder& w) { w.take({.name = "wrong", .shape = {2}}); };
  EXPECT_THAT(load_error({wrong, unused}),
              HasSubstr("wrong: expected floating numbers [2] (from config.json), got f32[3]"));
}

// transformers warns of what a model does not use, whatever it is. A bias beside a map that has none would
// change the results.
TEST_F(WeightBuilderTest, OnlyABiasOfZerosMayStandBesideAMapWithoutOne) {
  walk = [](WeightBuilder& w) { w.linear("map", 2, 3, false); };
  const NamedTensor weight{"map.weight", Tensor::zeros({2, 3})};
  EXPECT_TRUE(contents({weight, {"map.bias", Tensor::zeros({2}, DType::f16)}}).unused.empty());
  EXPECT_THAT(load_error({weight, {"map.bias", Tensor::full({2}, 0.5)}}),
              HasSubstr("model.safetensors: map.bias: expected no bias, or one of zeros"));
  const std::vector<std::string> others = {"other.bias", "scalar", "empty", "other.weight"};
  EXPECT_THAT(contents({weight,
                        {others[0], Tensor::full({2}, 0.5)},
                        {others[1], Tensor::full({}, 1.0)},
                        {others[2], Tensor::zeros({0})},
                        {others[3], Tensor::zeros({1}, DType::i64)}})
                  .unused,
              testing::UnorderedElementsAreArray(others));
}

TEST_F(WeightBuilderTest, FindsABodyBelowAPrefixAndEarlyNamesOfNorms) {
  walk = [](WeightBuilder& w) {
    w.set_body_prefix("bert.");
    EXPECT_TRUE(w.has("LayerNorm.weight"));
    EXPECT_FALSE(w.has("pooler.weight"));
    w.layer_norm("LayerNorm", 2, 1e-5);
    w.ignore("head.weight");
  };
  for (const char* prefix : {"", "bert."}) {
    for (const bool early : {false, true}) {
      const std::string norm = std::string(prefix) + "LayerNorm.";
      const Weights weights = load({{norm + (early ? "gamma" : "weight"), Tensor::full({2}, 3.0)},
                                    {norm + (early ? "beta" : "bias"), Tensor::zeros({2})},
                                    {std::string(prefix) + "head.weight", Tensor::zeros({1})}});
      EXPECT_EQ(weights["LayerNorm.weight"].tensor().to_vector<float>(), std::vector<float>(2, 3.0f)) << norm;
    }
  }
}

TEST_F(WeightBuilderTest, AHeadMayBeNew) {
  walk = [](WeightBuilder& w) {
    w.take({.name = "body", .shape = {1}, .init = Init::ones});
    w.begin_head("BertForTokens");
    w.take({.name = "head", .shape = {2, 2}});
  };
  const NamedTensor body{"body", Tensor::zeros({1})};
  EXPECT_THAT(load_error({body}), HasSubstr("expected the head of BertForTokens"));
  const auto new_rows = [&](const std::vector<NamedTensor>& tensors) {
    save_safetensors(folder / "model.safetensors", tensors);
    Generator generator(1);
    WeightBuilder builder({.config = config, .files = ModelFiles(folder), .generator = &generator});
    walk(builder);
    return builder.finish().weights.new_rows();
  };
  EXPECT_EQ(new_rows({body}), std::set<std::string>{"head"});
  EXPECT_EQ(new_rows({body, {"head", Tensor::zeros({5, 2})}}), std::set<std::string>{"head"});
  EXPECT_EQ(new_rows({body, {"head", Tensor::zeros({2, 2})}}), std::set<std::string>());
}

TEST_F(WeightBuilderTest, InitialWeightsDependOnTheSeedAlone) {
  Generator one(3), same(3), other(4);
  const auto first = make(one)["a"].tensor().to_vector<float>();
  EXPECT_EQ(first, make(same)["a"].tensor().to_vector<float>());
  EXPECT_NE(first, make(other)["a"].tensor().to_vector<float>());
  const float limit = std::sqrt(6.0f / 5.0f);
  for (const float value : first) EXPECT_LE(std::abs(value), limit);
}

TEST_F(WeightBuilderTest, ListsWithoutMemory) {
  WeightBuilder builder;
  walk(builder);
  ASSERT_EQ(builder.rows().size(), 2u);
  EXPECT_EQ(builder.rows()[0].name, "a");
  EXPECT_EQ(builder.rows()[0].shape, Shape({2, 3}));
}

}  // namespace
}  // namespace heed
