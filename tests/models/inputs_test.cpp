// Inputs that are no token ids: embeddings, pixels and spectrograms; and what is particular to ViT and
// Whisper: models without a head, positions of a new model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Logits of transformers 5.24.0 (tests/fixtures/embeddings.py).
class Embeddings : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, Embeddings,
                         testing::Values("encoders/bert-mlm", "encoders/roberta-mlm",
                                         "encoders/modernbert-mlm", "encoders/albert-mlm",
                                         "encoders/deberta-v3-mlm", "decoders/gpt2", "decoders/llama",
                                         "decoders/gemma2", "decoders/gemma3", "decoders/granite",
                                         "decoders/bloom", "bart", "marian", "t5", "m2m100"),
                         [](const auto& info) {
                           std::string name = fs::path(info.param).filename();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(Embeddings, StandInPlaceOfIds) {
  const std::string name = fs::path(GetParam()).filename();
  TensorMap inputs;
  for (const auto& [key, tensor] : read_tensors(fs::path(HEED_FIXTURES) / "embeddings.safetensors")) {
    if (key.starts_with(name + ".")) inputs[key.substr(name.size() + 1)] = tensor;
  }
  const Tensor expected = inputs.at("logits");
  inputs.erase("logits");
  const auto model = load_model(fs::path(HEED_FIXTURES) / GetParam());
  const NoGradients guard;
  const Tensor got = model->forward(inputs).at("logits");
  EXPECT_LE(relative_error(slice(got, 2, 0, 32).contiguous(), expected), 1e-4);

  const Tensor& embeddings = inputs.at("inputs_embeds");
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(model.get())) {  // the same step by step
    const auto decoding = decoder->decode(2);
    Context context;
    decoding->step(slice(embeddings, 1, 0, 3).contiguous(), context);
    const Tensor last = decoding->step(slice(embeddings, 1, 3, 5).contiguous(), context);
    EXPECT_LE(relative_error(reshape(slice(last, 1, 0, 32), {2, 1, 32}), slice(expected, 1, 4, 5)), 1e-4);
  }
}

TEST(Inputs, ThatDoNotFitAreNamed) {
  const auto model = load_model(fs::path(HEED_FIXTURES) / "encoders/bert-mlm");
  const Tensor wide = Tensor::zeros({1, 2, 5});
  EXPECT_ERROR(model->forward({{"inputs_embeds", wide}}),
               "inputs_embeds: expected floating numbers [batch, length, ");
  const TensorMap both{{"inputs_embeds", wide}, {"input_ids", Tensor::zeros({1, 2}, DType::i64)}};
  EXPECT_ERROR(model->forward(both), "got input_ids i64[1, 2]");
  EXPECT_ERROR(model->forward({{"pixel_values", wide}}), "got pixel_values f32[1, 2, 5]");
}

TEST(Vit, ABareModelIsFoundInTheFileOfAHead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"ViTModel"};
  spill(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  TensorMap inputs = read_tensors(from / "inputs.safetensors");
  inputs.erase("labels");
  Context context;
  const TensorMap got = load_model(folder)->forward(inputs, {}, context);
  // The classifier sees the first token of what the bare model gives.
  const TensorMap weights = read_tensors(from / "model.safetensors"),
                  expected = read_tensors(from / "expected.safetensors");
  const Tensor first = slice(got.at("last_hidden_state"), 1, 0, 1);
  const Tensor logits = linear(first, weights.at("classifier.weight"), weights.at("classifier.bias"));
  EXPECT_LE(relative_error(reshape(logits, {2, 5}), expected.at("logits")), 1e-5);
  EXPECT_FALSE(got.contains("pooler_output"));
}

TEST(Vit, ABareModelsFileLacksTheHeadAlone) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit-model";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"ViTForImageClassification"};
  spill(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  EXPECT_ERROR(load_model(folder), testing::AllOf(testing::HasSubstr("classifier.weight"),
                                                  testing::Not(testing::HasSubstr("embeddings"))));
}

// As transformers before version 5 wrote the convolution of positions.
TEST(Wav2Vec2, TheNamesOfOlderFilesAreRead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "wav2vec2-ctc";
  const TemporaryFolder folder;
  fs::copy_file(from / "config.json", folder / "config.json");
  std::vector<NamedTensor> older;
  int renamed = 0;
  for (const auto& [name, tensor] : read_tensors(from / "model.safetensors")) {
    std::string old = name;
    if (const std::size_t at = name.find(".parametrizations.weight.original"); at != name.npos) {
      old = name.substr(0, at) + (name.back() == '0' ? ".weight_g" : ".weight_v");
      ++renamed;
    }
    older.push_back({old, tensor});
  }
  EXPECT_EQ(renamed, 2);
  save_safetensors(folder / "model.safetensors", older);
  Context context;
  const TensorMap got = load_model(folder)->forward(read_tensors(from / "inputs.safetensors"), {}, context);
  EXPECT_LE(relative_error(got.at("logits"), read_tensors(from / "expected.safetensors").at("logits")), 1e-5);
}

TEST(Wav2Vec2, MasksOfSamplesThatDoNotFitAreNamed) {
  const auto model = load_model(fs::path(HEED_FIXTURES) / "wav2vec2-ctc");
  const auto& encoder = dynamic_cast<const EncoderModel&>(*model);
  Context context;
  const Tensor samples = Tensor::full({2, 100}, 0.5), short_row = Tensor::full({2, 100}, 1, DType::i64);
  std::fill_n(short_row.data<std::int64_t>() + 117, 83, 0);  // 17 samples; a frame has 22
  EXPECT_ERROR(encoder.encode({.mask = short_row, .values = samples}, context), "fewer in row 1");
  EXPECT_ERROR(encoder.encode({.mask = Tensor::full({2, 6}, 1, DType::i64), .values = samples}, context),
               "expected a mask like input_values f32[2, 100], got i64[2, 6]");
  EXPECT_ERROR(encoder.encode({.values = slice(samples, 1, 0, 17)}, context), "at least 22 samples");
}

// A row of padding alone, without a mask: a label more than frames.
TEST(Wav2Vec2, TheLossOfTooFewFramesIsInfiniteOrDoesNotCount) {
  const fs::path from = fs::path(HEED_FIXTURES) / "wav2vec2-ctc";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["ctc_zero_infinity"] = true;
  spill(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  TensorMap inputs = read_tensors(from / "inputs.safetensors");
  inputs["labels"] = Tensor::full({2, 16}, 3, DType::i64);
  Context context;
  EXPECT_EQ(load_model(from)->forward(inputs, {}, context).at("loss").item(),
            std::numeric_limits<double>::infinity());
  EXPECT_EQ(load_model(folder)->forward(inputs, {}, context).at("loss").item(), 0);
}

// The file's table was computed with angles in f32, up to 30 * 2^-24 off.
TEST(Whisper, ANewModelHasTheSinusoidsOfTheFile) {
  const fs::path fixture = fs::path(HEED_FIXTURES) / "whisper";
  Generator generator(1);
  const auto model = make_model(Config::load(fixture / "config.json"), generator);
  const TemporaryFolder folder;
  model->save(folder);
  const char* name = "model.encoder.embed_positions.weight";
  const Tensor made = read_tensors(folder / "model.safetensors").at(name).clone();
  EXPECT_LE(relative_error(made, read_tensors(fixture / "model.safetensors").at(name)), 2e-6);
}

// As WhisperModel saves it: no output projection, and names without the prefix.
TEST(Whisper, ABareModelIsRead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "whisper";
  const TemporaryFolder folder;
  auto config = read_json(from / "config.json");
  config["architectures"] = {"WhisperModel"};
  spill(folder / "config.json", config.dump());
  std::vector<NamedTensor> bare;
  for (const auto& [name, tensor] : read_tensors(from / "model.safetensors")) {
    if (name.starts_with("model.")) bare.push_back({name.substr(6), tensor});
  }
  save_safetensors(folder / "model.safetensors", bare);
  Context context;
  const TensorMap got = load_model(folder)->forward(read_tensors(from / "inputs.safetensors"), {}, context);
  EXPECT_LE(relative_error(got.at("logits"), read_tensors(from / "expected.safetensors").at("logits")), 1e-5);
}

TEST(Whisper, ReadsNoTextAndTextModelsHearNothing) {
  const Tensor ids = Tensor::zeros({1, 3}, DType::i64);
  Context context;
  const auto whisper = load_as<EncoderDecoderModel>(fs::path(HEED_FIXTURES) / "whisper"),
             bart = load_as<EncoderDecoderModel>(fs::path(HEED_FIXTURES) / "bart");
  EXPECT_ERROR(whisper->decode({ids, {}}, context), "expected input_features, got token ids i64[1, 3]");
  EXPECT_ERROR(whisper->decode({.values = Tensor::zeros({1, 80, 61})}, context),
               "rows [80, 60], got f32[1, 80, 61]");
  EXPECT_ERROR(bart->decode({.values = Tensor::zeros({1, 80, 60})}, context),
               "expected input_ids, got pixels or sound f32[1, 80, 60]");
}

}  // namespace
}  // namespace heed
