// ViT and Whisper against the numbers of Hugging Face transformers (see the case.json of each fixture for the
// versions): outputs, hidden states, attentions, every gradient, transcripts with a cache, and what does not
// fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// How many numbers besides gradients, and how many gradients, a case holds.
struct Case {
  const char* name;
  int outputs;
  int gradients;
};

class VisionSpeech : public testing::TestWithParam<Case> {
 protected:
  fs::path directory = fs::path(HEED_FIXTURES) / GetParam().name;
  std::unique_ptr<Model> model = load_model(directory);
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  Context context;
  fs::path folder = fs::temp_directory_path() / ("heed_vision_speech_test_" + std::to_string(::getpid()));
  void TearDown() override { fs::remove_all(folder); }

  const char* signal() const { return inputs.contains("pixel_values") ? "pixel_values" : "input_features"; }
  void refuses(const char* name, const Tensor& value, const char* message) {
    TensorMap bad = inputs;
    bad[name] = value;
    try {
      model->forward(bad, {}, context);
      ADD_FAILURE() << name << " " << value.str();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(name));
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, VisionSpeech,
                         testing::Values(Case{"vit", 7, 40}, Case{"vit-model", 7, 0}, Case{"whisper", 15, 88},
                                         Case{"whisper-untied", 13, 74}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_P(VisionSpeech, OutputsAndGradientsEqualHuggingFace) {
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  double largest_gradient = 0;
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) {
      largest_gradient = std::max(largest_gradient, max(abs(reshape(tensor, {tensor.numel()})), 0).item());
      continue;
    }
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, GetParam().outputs);
  if (GetParam().gradients == 0) return;
  outputs.at("loss").backward();
  int gradients = 0;
  for (const Parameter& p : model->parameters()) {
    ASSERT_TRUE(expected.contains("grad." + p.name)) << p.name;
    ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
    ++gradients;
    // The gradient of a key bias is zero but for rounding: softmax ignores what all keys share.
    if (p.name.ends_with("key.bias")) {
      EXPECT_LE(max(abs(p.tensor.grad()), 0).item(), 1e-6 * largest_gradient) << p.name;
    } else {
      EXPECT_LE(relative_error(p.tensor.grad(), expected.at("grad." + p.name)), 2e-5) << p.name;
    }
  }
  EXPECT_EQ(gradients, GetParam().gradients);
}

TEST_P(VisionSpeech, SavedDirectoryLoadsWithTheSameNumbers) {
  fs::create_directories(folder);
  model->save(folder);
  const NoGradients guard;
  const TensorMap before = model->forward(inputs, {}, context),
                  after = load_model(folder)->forward(inputs, {}, context);
  for (const auto& [name, tensor] : before)
    EXPECT_EQ(after.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
  EXPECT_EQ(nlohmann::json::parse(read_file(directory / "config.json")),
            nlohmann::json::parse(read_file(folder / "config.json")));
}

TEST_P(VisionSpeech, WeightsHeldInBf16StayClose) {
  const NoGradients guard;
  const auto narrow = load_model(directory, DType::bf16);
  for (const auto& [name, tensor] : narrow->forward(inputs, {}, context)) {
    if (name == "last_hidden_state" && expected.contains("logits")) continue;  // which come of it
    EXPECT_LE(relative_error(tensor, expected.at(name)), 0.1) << name;
  }
}

TEST_P(VisionSpeech, RefusesWhatDoesNotFit) {
  const Tensor whole = inputs.at(signal());
  const int last = whole.rank() - 1;
  refuses(signal(), slice(whole, last, 0, whole.size(last) - 1).contiguous(), "rows of");
  refuses(signal(), slice(whole, 1, 0, whole.size(1) - 1).contiguous(), "rows of");
  refuses(signal(), slice(whole, 0, 0, 0).contiguous(), "at least one");
  refuses(signal(), Tensor::zeros(whole.shape(), DType::i64), "floating numbers");
  refuses(signal(), Tensor::zeros({2}), "rows of");
  refuses("attention_mask", Tensor::zeros({2, 3}, DType::i64), "inputs this model takes");
  inputs.erase(signal());
  EXPECT_THROW(model->forward(inputs, {}, context), Error);
}

TEST(Vit, ABareModelIsFoundInTheFileOfAHead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit",
                 folder = fs::temp_directory_path() / ("heed_vit_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto config = nlohmann::json::parse(read_file(from / "config.json"));
  config["architectures"] = {"ViTModel"};
  write_file(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  TensorMap inputs = read_tensors(from / "inputs.safetensors");
  inputs.erase("labels");
  Context context;
  const TensorMap got = load_model(folder)->forward(inputs, {}, context);
  fs::remove_all(folder);
  // The classifier sees the first token of what the bare model gives.
  const TensorMap weights = read_tensors(from / "model.safetensors"),
                  expected = read_tensors(from / "expected.safetensors");
  const Tensor first = slice(got.at("last_hidden_state"), 1, 0, 1);
  const Tensor logits = linear(first, weights.at("classifier.weight"), weights.at("classifier.bias"));
  EXPECT_LE(relative_error(reshape(logits, {2, 5}), expected.at("logits")), 1e-5);
  EXPECT_FALSE(got.contains("pooler_output"));
}

TEST(Vit, ABareModelsFileLacksTheHeadAlone) {
  const fs::path from = fs::path(HEED_FIXTURES) / "vit-model",
                 folder = fs::temp_directory_path() / ("heed_vit_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto config = nlohmann::json::parse(read_file(from / "config.json"));
  config["architectures"] = {"ViTForImageClassification"};
  write_file(folder / "config.json", config.dump());
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  try {
    load_model(folder);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("classifier.weight"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("embeddings")));
  }
  fs::remove_all(folder);
}

TEST(VisionSpeechConfig, RefusesWhatMakesNoModelByName) {
  struct {
    const char *fixture, *key, *value, *message;
  } cases[] = {
      {"vit", "architectures", R"(["ViTForMaskedImageModeling"])", "ViTModel or ViTForImageClassification"},
      {"vit", "patch_size", "33", "at most the sizes of image_size"},
      {"vit", "patch_size", "0", "1 to 65536"},
      {"vit", "image_size", "4611686018427387904", "1 to 65536"},
      {"vit", "image_size", "[32, 32, 32]", "one number or two"},
      {"vit", "num_attention_heads", "5", "divides the model dimension 48"},
      {"vit", "pooler_act", R"("step")", "step"},
      {"vit", "layer_norm_eps", "-1e-5", "layer_norm_eps"},
      {"vit", "new_setting", "true", "only known settings"},
      {"vit", "num_labels", "1073741824", "at most 1048576"},
      {"whisper", "architectures", R"(["WhisperForAudioClassification"])", "WhisperForConditionalGeneration"},
      {"whisper", "max_source_positions", "1000000000", "at most 65536"},
      {"whisper", "num_mel_bins", "0", "an integer of at least 1"},
      {"whisper", "decoder_attention_heads", "7", "divides the model dimension 48"},
      {"whisper", "decoder_start_token_id", "130", "an id in [0, 130)"},
      {"whisper", "dropout", "-0.5", "a probability in [0, 1)"},
  };
  for (const auto& c : cases) {
    auto json = nlohmann::json::parse(read_file(fs::path(HEED_FIXTURES) / c.fixture / "config.json"));
    json.erase("id2label");
    json[c.key] = nlohmann::json::parse(c.value);
    const std::string what = std::string(c.fixture) + " " + c.key + " " + c.value;
    try {
      Generator generator(1);
      make_model(Config::parse(json.dump(), "DIR/config.json"), generator);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(c.message)) << what;
      EXPECT_THAT(error.what(), testing::StartsWith(std::string("DIR/config.json: ") + c.key)) << what;
    }
  }
}

// The file's table was computed with angles in f32, up to 30 * 2^-24 off.
TEST(Whisper, ANewModelHasTheSinusoidsOfTheFile) {
  const fs::path fixture = fs::path(HEED_FIXTURES) / "whisper";
  Generator generator(1);
  const auto model = make_model(Config::load(fixture / "config.json"), generator);
  const fs::path folder = fs::temp_directory_path() / ("heed_whisper_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  model->save(folder);
  const char* name = "model.encoder.embed_positions.weight";
  const Tensor made = read_tensors(folder / "model.safetensors").at(name).clone();
  fs::remove_all(folder);
  EXPECT_LE(relative_error(made, read_tensors(fixture / "model.safetensors").at(name)), 2e-6);
}

// As WhisperModel saves it: no output projection, and names without the prefix.
TEST(Whisper, ABareModelIsRead) {
  const fs::path from = fs::path(HEED_FIXTURES) / "whisper",
                 folder = fs::temp_directory_path() / ("heed_whisper_test_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto config = nlohmann::json::parse(read_file(from / "config.json"));
  config["architectures"] = {"WhisperModel"};
  write_file(folder / "config.json", config.dump());
  std::vector<NamedTensor> bare;
  for (const auto& [name, tensor] : read_tensors(from / "model.safetensors")) {
    if (name.starts_with("model.")) bare.push_back({name.substr(6), tensor});
  }
  save_safetensors(folder / "model.safetensors", bare);
  Context context;
  const TensorMap got = load_model(folder)->forward(read_tensors(from / "inputs.safetensors"), {}, context);
  fs::remove_all(folder);
  EXPECT_LE(relative_error(got.at("logits"), read_tensors(from / "expected.safetensors").at("logits")), 1e-5);
}

TEST(Whisper, CachedStepsEqualTheFullPass) {
  const fs::path fixture = fs::path(HEED_FIXTURES) / "whisper";
  const auto model = load_encoder_decoder(fixture);
  const TensorMap inputs = read_tensors(fixture / "inputs.safetensors"),
                  expected = read_tensors(fixture / "expected.safetensors");
  const Tensor ids = inputs.at("decoder_input_ids"), logits = expected.at("logits");
  Context context;
  const auto decoding = model->decode({{}, {}, inputs.at("input_features")}, context);
  for (std::int64_t at = 0, count = 1; at < ids.size(1); at += count, count = count % 3 + 1) {
    count = std::min(count, ids.size(1) - at);
    const Tensor got = decoding->step(slice(ids, 1, at, at + count).contiguous(), context);
    const Tensor want = reshape(slice(logits, 1, at + count - 1, at + count), got.shape());
    EXPECT_LE(relative_error(got, want.contiguous()), 1e-5) << "from " << at;
  }
}

TEST(Whisper, ReadsNoTextAndTextModelsHearNothing) {
  const Tensor ids = Tensor::zeros({1, 3}, DType::i64);
  Context context;
  const auto whisper = load_encoder_decoder(fs::path(HEED_FIXTURES) / "whisper"),
             bart = load_encoder_decoder(fs::path(HEED_FIXTURES) / "bart");
  const auto error = [&](const EncoderDecoderModel& model, const SourceBatch& source) -> std::string {
    try {
      model.decode(source, context);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  using testing::HasSubstr;
  EXPECT_THAT(error(*whisper, {ids, {}}),
              HasSubstr("(the model has an audio frontend), got token ids (heed translate"));
  EXPECT_THAT(error(*whisper, {{}, {}, Tensor::zeros({1, 80, 61})}), HasSubstr("f32[B, 80, 60], got"));
  EXPECT_THAT(error(*bart, {{}, {}, Tensor::zeros({1, 80, 60})}),
              HasSubstr("(the model has no audio frontend), got input_features (heed translate"));
}

}  // namespace
}  // namespace heed
