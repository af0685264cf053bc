// Models in GGUF files against those of Hugging Face from which llama.cpp's converter made them
// (tests/fixtures/gguf.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "heed/io/json.h"
#include "heed/models/find_model.h"
#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/gguf_writer.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kGguf = fs::path(HEED_FIXTURES) / "gguf";

Tensor some_ids(std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back((7 * i + 3) % 40);
  return Tensor::from(ids, {1, count});
}

class GgufModels : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufModels, EqualThoseTheyWereConvertedFrom) {
  const fs::path path = kGguf / (std::string(GetParam()) + ".gguf");
  const Tensor expected = read_tensors(kGguf / "outputs.safetensors").at(GetParam());
  const auto model = load_model(find_model(path.string()));
  TensorMap inputs = {{"input_ids", some_ids(12)}};
  const bool decodes = expected.size(1) == 5;
  if (decodes) inputs["decoder_input_ids"] = some_ids(5);
  const NoGradients guard;
  const TensorMap outputs = model->forward(inputs);
  const bool bare = !outputs.contains("logits");
  const Tensor actual = outputs.at(bare ? "last_hidden_state" : "logits");
  EXPECT_LE(relative_error(actual, expected), 1e-5);
  EXPECT_TRUE(model->unknown_settings().empty()) << model->unknown_settings().front();
}

INSTANTIATE_TEST_SUITE_P(Architectures, GgufModels,
                         ::testing::Values("llama", "llama-biased", "llama3", "llama3-short", "llama-linear",
                                           "llama-yarn", "mixtral", "smollm3", "granite", "qwen2", "qwen3",
                                           "qwen3-moe", "olmo2", "phi3", "phi3-longrope", "gemma2", "gemma3",
                                           "gpt2", "gpt-neox", "bloom", "mpt", "bert", "distilbert",
                                           "roberta-classify", "modernbert", "t5", "t5-v1.1", "t5-encoder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// What a model from a GGUF file saves is a directory like any other.
TEST(GgufModel, IsSavedAsADirectory) {
  const auto model = load_model(find_model((kGguf / "llama.gguf").string()));
  const TemporaryFolder folder;
  model->save(folder.path());
  const NoGradients guard;
  const TensorMap inputs = {{"input_ids", some_ids(12)}};
  EXPECT_EQ(relative_error(load_model(folder.path())->forward(inputs).at("logits"),
                           model->forward(inputs).at("logits")),
            0);
  const Config generation = Config::load(folder / "generation_config.json");
  EXPECT_EQ(generation.required_integer("eos_token_id"), 2);
}

GgufWriter small_llama() {
  GgufWriter w;
  w.string("general.architecture", "llama")
      .integer("llama.block_count", 1)
      .integer("llama.context_length", 8);
  w.integer("llama.embedding_length", 4)
      .integer("llama.feed_forward_length", 4)
      .integer("llama.attention.head_count", 2);
  return w.tensor("token_embd.weight", {4, 3}, std::vector<float>(12));
}

class GgufConfigs : public ::testing::Test {
 protected:
  std::string error(const GgufWriter& w) {
    spill(folder_ / "x.gguf", w.bytes());
    return error_of([&] { load_model_config(folder_ / "x.gguf"); });
  }
  TemporaryFolder folder_;
};

TEST_F(GgufConfigs, AreMadeOfTheMetadata) {
  spill(folder_ / "x.gguf", small_llama()
                                .number("llama.attention.layer_norm_rms_epsilon", 1e-5F)
                                .number("llama.rope.freq_base", 5000)
                                .integer("tokenizer.ggml.eos_token_id", 2)
                                .integer("tokenizer.ggml.padding_token_id", UINT32_MAX)
                                .integer("llama.some.new_setting", 1)
                                .bytes());
  const Config config = load_model_config(folder_ / "x.gguf");
  EXPECT_EQ(config.required_string("model_type"), "llama");
  EXPECT_EQ(config.required_integer("vocab_size"), 3);
  EXPECT_EQ(config.required_integer("num_key_value_heads"), 2);
  EXPECT_EQ(config.required_number("rms_norm_eps"), 1e-5);
  EXPECT_EQ(config.required_number("rope_theta"), 5000);
  EXPECT_TRUE(config.boolean("tie_word_embeddings", false));
  EXPECT_EQ(config.required_integer("eos_token_id"), 2);
  EXPECT_FALSE(config.has("pad_token_id"));
  EXPECT_TRUE(config.has("llama.some.new_setting"));
}

TEST_F(GgufConfigs, CountTheTokensOfAVocabularyAlone) {
  GgufWriter w;
  w.string("general.architecture", "llama")
      .integer("llama.block_count", 1)
      .integer("llama.context_length", 8);
  w.integer("llama.embedding_length", 4).integer("llama.feed_forward_length", 4);
  w.integer("llama.attention.head_count", 2).strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  w.integer("tokenizer.ggml.eos_token_id", 2);
  spill(folder_ / "x.gguf", w.bytes());
  const Config config = load_model_config(folder_ / "x.gguf");
  EXPECT_EQ(config.required_integer("vocab_size"), 3);
  EXPECT_EQ(config.required_integer("eos_token_id"), 2);
}

TEST_F(GgufConfigs, RefuseWhatHeedDoesNotFollow) {
  EXPECT_THAT(error(GgufWriter().string("general.architecture", "mamba")),
              HasSubstr("x.gguf: general.architecture: expected one of bert, bloom"));
  EXPECT_THAT(error(GgufWriter()),
              HasSubstr("general.architecture: expected the name of a kind of model, got none"));
  EXPECT_THAT(error(GgufWriter().string("general.architecture", "llama")),
              HasSubstr("token_embd.weight: expected a table of tokens, got none"));
  EXPECT_THAT(error(small_llama().string("llama.attention.head_count_kv", "two")),
              HasSubstr("llama.attention.head_count_kv: expected integers, got a string"));
  EXPECT_THAT(error(small_llama().array<std::uint32_t>("llama.attention.head_count_kv", 4, {1, 2})),
              HasSubstr("expected the same number for all layers, got several"));
  EXPECT_THAT(
      error(small_llama().string("llama.rope.scaling.type", "longrope")),
      HasSubstr("llama.rope.scaling.type: expected none, linear or yarn, or longrope with its factors"));
  EXPECT_THAT(error(small_llama().number("llama.logit_scale", 2)),
              HasSubstr("llama.logit_scale: expected 1"));
  EXPECT_THAT(error(small_llama().number("llama.attention.scale", 2)),
              HasSubstr("llama.attention.scale: expected 0.7"));
  EXPECT_THAT(error(small_llama().integer("llama.rope.dimension_count", 1)),
              HasSubstr("llama.rope.dimension_count: expected 2, all of a head, got 1"));
  EXPECT_THAT(error(small_llama().tensor("rope_freqs.weight", {1}, {-1})),
              HasSubstr("rope_freqs.weight: expected numbers above 0"));
}

TEST_F(GgufConfigs, NameTensorsThatDoNotFit) {
  spill(folder_ / "x.gguf", small_llama().tensor("blk.0.attn_odd.weight", {1}, {1}).bytes());
  EXPECT_ERROR(load_model(folder_ / "x.gguf"),
               "x.gguf: tensors that config.json describes not found: model.layers.0.");
  spill(folder_ / "x.gguf",
        small_llama().tensor("blk.0.attn_q.weight", {4, 3}, std::vector<float>(12)).bytes());
  EXPECT_ERROR(load_model(folder_ / "x.gguf"), "blk.0.attn_q.weight: expected rows for 2 heads, got 3");
}

}  // namespace
}  // namespace heed
