#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/io/safetensors.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor numbers(float first) { return Tensor::from<float>({first, first + 1}, {2}); }

// Writes two files and their index, as save_pretrained does for large models.
void write_shards(const TemporaryFolder& folder) {
  save_safetensors(folder / "model-00001-of-00002.safetensors", {{"a", numbers(1)}, {"b", numbers(2)}});
  save_safetensors(folder / "model-00002-of-00002.safetensors", {{"c", numbers(3)}});
  spill(folder / "model.safetensors.index.json", R"({"metadata": {"total_size": 24}, "weight_map": {
    "a": "model-00001-of-00002.safetensors", "c": "model-00002-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors"}})");
}

std::string open_with_index(const TemporaryFolder& folder, const std::string& index) {
  spill(folder / "model.safetensors.index.json", index);
  return error_of([&] { TensorFiles::open(folder.path()); });
}

TEST(TensorFiles, ReadsOneFile) {
  const TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", {{"b", numbers(2)}, {"a", numbers(1)}});
  const TensorFiles files = TensorFiles::open(folder.path());
  EXPECT_THAT(files.names(), ElementsAre("b", "a"));
  EXPECT_THAT(files.get("a").to_vector<float>(), ElementsAre(1, 2));
  EXPECT_TRUE(TensorFiles::open(folder / "model.safetensors").contains("a"));
}

TEST(TensorFiles, ReadsShards) {
  const TemporaryFolder folder;
  write_shards(folder);
  const TensorFiles files = TensorFiles::open(folder.path());
  EXPECT_THAT(files.names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(files.get("c").to_vector<float>(), ElementsAre(3, 4));
  EXPECT_EQ(files.path_of("c"), folder / "model-00002-of-00002.safetensors");
  EXPECT_EQ(files.info("b").shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(files.file_count(), 2u);
  EXPECT_ERROR(files.get("d"), "model.safetensors.index.json: tensor \"d\" not found");
}

// As transformers: shards are read whole, and what a model lacks is told where it is loaded.
TEST(TensorFiles, AnIndexMayDisagreeWithItsFiles) {
  const TemporaryFolder folder;
  save_safetensors(folder / "one.safetensors", {{"a", numbers(1)}, {"b", numbers(2)}});
  save_safetensors(folder / "two.safetensors", {{"b", numbers(3)}, {"c", numbers(4)}});
  spill(folder / "model.safetensors.index.json",
        R"({"weight_map": {"a": "two.safetensors", "b": "two.safetensors",
    "none": "one.safetensors"}})");
  const TensorFiles files = TensorFiles::open(folder.path());
  EXPECT_THAT(files.names(), ::testing::UnorderedElementsAre("a", "b", "c"));
  EXPECT_THAT(files.get("a").to_vector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(files.get("b").to_vector<float>(), ElementsAre(3, 4)) << "of the file that the index names";
  EXPECT_ERROR(files.get("none"), "model.safetensors.index.json: tensor \"none\" not found");
}

TEST(TensorFiles, RefusesMalformedIndexes) {
  const TemporaryFolder folder;
  write_shards(folder);
  const std::string one = "model-00001-of-00002.safetensors";
  const auto map = [](const std::string& members) { return "{\"weight_map\": {" + members + "}}"; };
  const std::string a_b = "\"a\": \"" + one + "\", \"b\": \"" + one + "\"";
  EXPECT_THAT(open_with_index(folder, map(a_b + ", \"c\": \"gone.safetensors\"")),
              HasSubstr("gone.safetensors: not found"));
  EXPECT_THAT(open_with_index(folder, map("\"a\": 1")), HasSubstr("weight_map.a: expected a string, got 1"));
  EXPECT_THAT(open_with_index(folder, map("")),
              HasSubstr("weight_map: expected tensors and their files, got an object"));
  EXPECT_THAT(open_with_index(folder, "{}"), HasSubstr("weight_map: not found"));
  EXPECT_THAT(open_with_index(folder, map(a_b + "," + a_b)), HasSubstr("\"a\" twice"));
  EXPECT_THAT(open_with_index(folder, "[]"), HasSubstr("an object"));
}

TEST(TensorFiles, ReadsNothingOutsideTheDirectory) {
  const TemporaryFolder folder;
  save_safetensors(folder / "secret.safetensors", {{"a", numbers(1)}});
  std::filesystem::create_directory(folder / "model");
  for (const char* name :
       {"../secret.safetensors", "/etc/passwd", "..", ".", "", "x/../../secret.safetensors",
        "..\\\\secret.safetensors", "secret\\u0000.safetensors"}) {
    spill(folder / "model" / "model.safetensors.index.json",
          R"({"weight_map": {"a": ")" + std::string(name) + "\"}}");
    EXPECT_ERROR(TensorFiles::open(folder / "model"), "expected the name of a file in the same directory")
        << name;
  }
}

TEST(TensorFiles, SuggestsConversionOfPickles) {
  const TemporaryFolder folder;
  EXPECT_ERROR(TensorFiles::open(folder.path()),
               "neither model.safetensors nor model.safetensors.index.json found");
  spill(folder / "pytorch_model.bin", "PK");
  const std::string message = error_of([&] { TensorFiles::open(folder.path()); });
  EXPECT_THAT(message, HasSubstr("can run code"));
  EXPECT_THAT(message, HasSubstr("save_pretrained(DIR, safe_serialization=True)"));
  EXPECT_ERROR(TensorFiles::open(folder / "none"), "none: not found");
}

}  // namespace
}  // namespace heed
