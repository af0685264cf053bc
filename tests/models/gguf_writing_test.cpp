// Models written as GGUF files, against those of llama.cpp's converter (tests/fixtures/gguf.py).
#include "models/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "files/gguf_file.h"
#include "heed/autograd.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "ops/quantization.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kConverted = fs::path(HEED_FIXTURES) / "gguf";

std::vector<float> numbers_of(const GgufTensor& tensor) {
  std::vector<float> numbers(tensor.bytes / sizeof(float));
  std::memcpy(numbers.data(), tensor.data, tensor.bytes);
  return numbers;
}

void expect_same_tensors(const GgufFile& written, const GgufFile& converted) {
  EXPECT_EQ(written.tensors().size(), converted.tensors().size());
  for (const GgufTensor& expected : converted.tensors()) {
    const GgufTensor* actual = written.find(expected.name);
    ASSERT_NE(actual, nullptr) << expected.name;
    ASSERT_EQ(actual->shape, expected.shape) << expected.name;
    const std::vector<float> numbers = numbers_of(expected);
    if (expected.shape.size() == 1) {
      ASSERT_EQ(actual->layout.type, BlockType::f32) << expected.name;
      const std::vector<float> own = numbers_of(*actual);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_NEAR(own[i], numbers[i], 1e-6 * std::abs(numbers[i]) + 1e-7) << expected.name;
      continue;
    }
    const std::vector<std::byte> blocks = block_codes(numbers, actual->layout.type);
    ASSERT_EQ(actual->bytes, blocks.size()) << expected.name;
    EXPECT_EQ(std::memcmp(actual->data, blocks.data(), blocks.size()), 0) << expected.name;
  }
}

// All that the converter says of the model and its tokens; heed may say more.
void expect_same_values(const GgufFile& written, const GgufFile& converted) {
  for (const std::string& key : converted.keys()) {
    const bool own = key == "general.name" || key == "general.size_label" || key == "general.file_type";
    if (own) continue;
    ASSERT_TRUE(written.has(key)) << key;
    if (key.ends_with(".tokens")) {
      EXPECT_EQ(written.strings(key), converted.strings(key)) << key;
    } else if (key.ends_with("_type") && !key.ends_with("token_type")) {
      EXPECT_EQ(written.string(key), converted.string(key)) << key;
    } else if (key.starts_with("general.arch") || key == "general.type" || key.ends_with(".type") ||
               key.ends_with(".model") || key.ends_with(".pre")) {
      EXPECT_EQ(written.string(key), converted.string(key)) << key;
    } else {
      EXPECT_EQ(written.numbers(key), converted.numbers(key)) << key;
    }
  }
}

class WrittenGguf : public ::testing::TestWithParam<const char*> {};

TEST_P(WrittenGguf, IsThatOfTheConverter) {
  const fs::path path = kConverted / (std::string(GetParam()) + ".gguf");
  const TemporaryFolder folder;
  const QuantizeReport report = load_model(path)->save_gguf(folder / "x.gguf", GgufType::q8_0, path);
  EXPECT_FALSE(report.kept.empty() && report.maps.empty());
  const GgufFile written = GgufFile::open(folder / "x.gguf"), converted = GgufFile::open(path);
  expect_same_values(written, converted);
  expect_same_tensors(written, converted);
  EXPECT_EQ(load_model_config(folder / "x.gguf").text(), load_model_config(path).text());
}

INSTANTIATE_TEST_SUITE_P(Families, WrittenGguf,
                         ::testing::Values("llama", "llama-biased", "llama3", "llama3-short", "llama-linear",
                                           "llama-yarn", "mixtral", "smollm3", "granite", "qwen2", "qwen3",
                                           "qwen3-moe", "olmo2", "phi3", "phi3-longrope", "gemma2", "gemma3",
                                           "gpt2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A LLaMA of whole blocks, whose output map is the table of tokens or not.
std::unique_ptr<Model> wide_llama(bool tied) {
  const Config config =
      load_model_config(kConverted / "llama.gguf")
          .with(std::string(R"({"hidden_size": 64, "intermediate_size": 96, "head_dim": 16,)") +
                R"("tie_word_embeddings": )" + (tied ? "true}" : "false}"));
  Generator generator(3);
  return make_model(config, generator);
}

TEST(GgufWriting, GivesTheOutputMapEightBits) {
  const fs::path tokenizer = kConverted / "llama.gguf";
  for (const bool tied : {false, true}) {
    for (const auto& [type, block, most] : {std::tuple(GgufType::q8_0, BlockType::q8_0, 0.01),
                                            std::tuple(GgufType::q4_0, BlockType::q4_0, 0.12),
                                            std::tuple(GgufType::q4_1, BlockType::q4_1, 0.1)}) {
      const auto model = wide_llama(tied);
      const TemporaryFolder folder;
      const QuantizeReport report = model->save_gguf(folder / "x.gguf", type, tokenizer);
      EXPECT_TRUE(report.kept.empty());
      for (const QuantizedMap& map : report.maps) {
        EXPECT_GT(map.weight_error, 0) << map.name;
        EXPECT_LT(map.weight_error, most) << map.name;
      }
      const GgufFile file = GgufFile::open(folder / "x.gguf");
      EXPECT_EQ(file.find("blk.0.attn_q.weight")->layout.type, block);
      EXPECT_EQ(file.find("token_embd.weight")->layout.type, tied ? BlockType::q8_0 : block);
      EXPECT_EQ(file.find("output.weight") != nullptr, !tied);
      if (!tied) {
        EXPECT_EQ(file.find("output.weight")->layout.type, BlockType::q8_0);
      }
      EXPECT_EQ(file.find("blk.0.attn_norm.weight")->layout.type, BlockType::f32);
      // As it is read: near what it was.
      const TensorMap inputs = {{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8}, {1, 4})}};
      const NoGradients guard;
      EXPECT_LE(relative_error(load_model(folder / "x.gguf")->forward(inputs).at("logits"),
                               model->forward(inputs).at("logits")),
                type == GgufType::q8_0 ? 0.02 : 0.4);
    }
  }
}

TEST(GgufWriting, KeepsPlainNumbers) {
  const auto model = wide_llama(true);
  for (const auto& [type, block, most] :
       {std::tuple(GgufType::f32, BlockType::f32, 0.0), std::tuple(GgufType::f16, BlockType::f16, 1e-3),
        std::tuple(GgufType::bf16, BlockType::bf16, 1e-2)}) {
    const TemporaryFolder folder;
    const QuantizeReport report = model->save_gguf(folder / "x.gguf", type, kConverted / "llama.gguf");
    EXPECT_TRUE(report.kept.empty() && report.maps.empty());
    const GgufFile file = GgufFile::open(folder / "x.gguf");
    EXPECT_EQ(file.find("blk.0.attn_q.weight")->layout.type, block);
    EXPECT_EQ(file.find("token_embd.weight")->layout.type, block);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->layout.type, BlockType::f32);
    const TensorMap inputs = {{"input_ids", Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8}, {1, 4})}};
    const NoGradients guard;
    EXPECT_LE(relative_error(load_model(folder / "x.gguf")->forward(inputs).at("logits"),
                             model->forward(inputs).at("logits")),
              most);
  }
}

TEST(GgufWriting, RefusesWhatTheFileWouldLose) {
  const TemporaryFolder folder;
  const fs::path tokenizer = kConverted / "llama.gguf", to = folder / "x.gguf";
  const auto error = [&](const std::string& members) {
    const Config config = load_model_config(kConverted / "llama.gguf").with(members);
    Generator generator(3);
    return error_of([&] { make_model(config, generator)->save_gguf(to, GgufType::q8_0, tokenizer); });
  };
  EXPECT_THAT(error(R"({"hidden_act": "gelu"})"),
              HasSubstr("hidden_act: expected silu, as a GGUF file of llama keeps no other"));
  EXPECT_THAT(
      error(R"({"model_type": "mistral", "attention_bias": null, "mlp_bias": null, "sliding_window": 8})"),
      HasSubstr("sliding_window: expected none, as a GGUF file of llama"));
  EXPECT_EQ(
      error(R"({"model_type": "mistral", "attention_bias": null, "mlp_bias": null, "sliding_window": 64})"),
      "no error");
  EXPECT_THAT(error(R"({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})"),
              HasSubstr("rope_scaling: expected none, linear, yarn, llama3 or longrope"));
  EXPECT_THAT(error(R"({"vocab_size": 39})"), HasSubstr("expected at most 39 tokens"));
  EXPECT_ERROR(load_model(kConverted / "bloom.gguf")->save_gguf(to, GgufType::q8_0, tokenizer),
               "model_type: expected one of gemma2, gemma3_text, granite, llama, mistral, mixtral");
  const Config gpt2 =
      load_model_config(kConverted / "gpt2.gguf").with(R"({"scale_attn_by_inverse_layer_idx": true})");
  Generator generator(3);
  EXPECT_ERROR(make_model(gpt2, generator)->save_gguf(to, GgufType::q8_0, tokenizer),
               "scale_attn_by_inverse_layer_idx: expected false, as a GGUF file of gpt2 keeps no other");
}

}  // namespace
}  // namespace heed
