// Tables of tensors: nothing missing, nothing unused, and the same initial weights everywhere.
#include "heed/models/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

namespace heed {
namespace {

struct TensorTableTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("heed_table_test_" + std::to_string(::getpid()));
  TensorTable table{{{"a", {2, 3}}, {"b", {3}, Init::ones, true, true, {"b_tied"}}}, {"computed"}};
  void SetUp() override { std::filesystem::create_directories(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  TensorFiles files(const std::vector<NamedTensor>& tensors) {
    save_safetensors(folder / "model.safetensors", tensors);
    return TensorFiles::open(folder);
  }
  std::string error_of(const std::vector<NamedTensor>& tensors) {
    try {
      Weights::load(files(tensors), table, DType::f32);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(TensorTableTest, LoadsTiedNamesAndSkipsComputedOnes) {
  const Weights weights = Weights::load(files({{"a", Tensor::full({2, 3}, 2.0, DType::bf16)},
                                               {"b_tied", Tensor::full({3}, 4.0)},
                                               {"computed", Tensor::zeros({9})}}),
                                        table, DType::f32);
  EXPECT_EQ(weights["a"].tensor().to_vector<float>(), std::vector<float>(6, 2.0f));
  EXPECT_EQ(weights["b"].tensor().to_vector<float>(), std::vector<float>(3, 4.0f));
  ASSERT_EQ(weights.parameters().size(), 2u);
  EXPECT_TRUE(weights.parameters()[0].decays);
  EXPECT_FALSE(weights.parameters()[1].decays);
}

TEST_F(TensorTableTest, TiedNamesWithNumbersOfTheirOwnStandApart) {
  const auto load = [&](const std::vector<NamedTensor>& tensors) {
    return Weights::load(files(tensors), table, DType::f32);
  };
  const NamedTensor a{"a", Tensor::zeros({2, 3})}, b{"b", Tensor::full({3}, 1.0)};
  const Weights equal = load({a, b, {"b_tied", Tensor::full({3}, 1.0)}});
  EXPECT_EQ(equal.parameters().size(), 2u);
  EXPECT_TRUE(equal["b_tied"].tensor().is_same(equal["b"]));
  const Weights apart = load({a, b, {"b_tied", Tensor::full({3}, 5.0)}});
  ASSERT_EQ(apart.parameters().size(), 3u);
  EXPECT_EQ(apart.parameters()[2].name, "b_tied");
  EXPECT_EQ(apart["b"].tensor().to_vector<float>(), std::vector<float>(3, 1.0f));
  EXPECT_EQ(apart["b_tied"].tensor().to_vector<float>(), std::vector<float>(3, 5.0f));
  EXPECT_EQ(apart.stored(DType::f32).size(), 3u);
  EXPECT_THAT(error_of({a, b, {"b_tied", Tensor::zeros({4})}}),
              testing::HasSubstr("b_tied: expected floating numbers [3]"));
}

TEST_F(TensorTableTest, FindsNamesWithoutThePrefixAndAliases) {
  table = {
      {{"model.a", {2}, Init::zeros, true, true, {"head"}, {"model.old"}}}, {"model.computed"}, "model."};
  for (const char* name : {"model.a", "a", "head", "model.old", "old"}) {
    const Weights weights = Weights::load(
        files({{name, Tensor::full({2}, 7.0)}, {"computed", Tensor::zeros({1})}}), table, DType::f32);
    EXPECT_EQ(weights["model.a"].tensor().to_vector<float>(), std::vector<float>(2, 7.0f)) << name;
    EXPECT_TRUE(weights["head"].tensor().is_same(weights["model.a"])) << name;
  }
  EXPECT_THAT(error_of({{"other.a", Tensor::zeros({2})}}), testing::HasSubstr("not found: model.a"));
}

TEST_F(TensorTableTest, NamesWhatIsMissingUnusedOrOfAnotherShape) {
  EXPECT_THAT(error_of({{"a", Tensor::zeros({2, 3})}}), testing::HasSubstr("not found: b"));
  EXPECT_THAT(error_of({{"a", Tensor::zeros({2, 3})}, {"b", Tensor::zeros({3})}, {"c", Tensor::zeros({1})}}),
              testing::HasSubstr("got also c"));
  EXPECT_THAT(error_of({{"a", Tensor::zeros({3, 2})}, {"b", Tensor::zeros({3})}}),
              testing::HasSubstr("a: expected floating numbers [2, 3]"));
}

TEST_F(TensorTableTest, InitialWeightsDependOnTheSeedAlone) {
  Generator one(3), same(3), other(4);
  const auto first = Weights::initialise(table, one)["a"].tensor().to_vector<float>();
  EXPECT_EQ(first, Weights::initialise(table, same)["a"].tensor().to_vector<float>());
  EXPECT_NE(first, Weights::initialise(table, other)["a"].tensor().to_vector<float>());
  const float limit = std::sqrt(6.0f / 5.0f);
  for (const float value : first) EXPECT_LE(std::abs(value), limit);
}

}  // namespace
}  // namespace heed
