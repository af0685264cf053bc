// Finding and loading models.
#include "heed/models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/models/find_model.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct RegistryTest : testing::Test {
  TemporaryFolder folder;
  void put(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    spill(file, text);
  }
};

TEST_F(RegistryTest, FindsDirectoriesNamesAndCachedRepositories) {
  put(folder / "models/en-fr/config.json", "{}");
  put(folder / "hub/models--owner--name/snapshots/abc/config.json", "{}");
  EXPECT_EQ(find_model((folder / "models").string(), {}, folder / "hub"), folder / "models");
  EXPECT_EQ(find_model("en-fr", {folder / "none", folder / "models"}, folder / "hub"),
            folder / "models/en-fr");
  EXPECT_EQ(find_model("owner/name", {}, folder / "hub"), folder / "hub/models--owner--name/snapshots/abc");
  EXPECT_ERROR(find_model("fr-en", {folder / "models"}, folder / "hub"), "model fr-en: not found");
}

TEST_F(RegistryTest, LooksInTheFoldersOfModelsAndOfData) {
  put(folder / "mine/own/config.json", "{}");
  put(folder / "data/heed/models/installed/config.json", "{}");
  put(folder / "data/heed/models/own/config.json", "{}");
  const auto set = [](const char* name, const fs::path& value) { ::setenv(name, value.c_str(), 1); };
  set("HEED_MODELS", (folder / "none").string() + ":" + (folder / "mine").string());
  set("XDG_DATA_HOME", folder / "data");
  set("XDG_DATA_DIRS", folder / "none");
  const fs::path own = find_model("own"), installed = find_model("installed"), shipped = find_model("en-fr");
  const std::string message = error_of([] { find_model("instaled"); });
  for (const char* name : {"HEED_MODELS", "XDG_DATA_HOME", "XDG_DATA_DIRS"}) ::unsetenv(name);
  EXPECT_EQ(own, folder / "mine/own");
  EXPECT_EQ(installed, folder / "data/heed/models/installed");
  EXPECT_TRUE(fs::exists(shipped / "config.json"));
  EXPECT_EQ(message, "model instaled: not found (did you mean installed?)");
}

TEST_F(RegistryTest, FindsTheBaseOfAnAdapter) {
  put(folder / "base/config.json", "{}");
  put(folder / "adapter/adapter_config.json",
      R"({"peft_type": "LORA", "base_model_name_or_path": ")" + (folder / "base").string() + "\"}");
  put(folder / "adapter/adapter_model.safetensors", "");
  const LocatedModel located = locate_model((folder / "adapter").string());
  EXPECT_EQ(located.directory, folder / "base");
  ASSERT_EQ(located.adapters.size(), 1u);
  EXPECT_EQ(located.adapters[0].directory, folder / "adapter");
  EXPECT_EQ(locate_model((folder / "base").string()).adapters.size(), 0u);
  EXPECT_ERROR(find_adapter((folder / "base").string()), "expected an adapter");
}

TEST_F(RegistryTest, NamesTheFamiliesItKnows) {
  put(folder / "config.json", R"({"model_type": "wavenet"})");
  EXPECT_ERROR(load_model(folder),
               testing::AllOf(testing::HasSubstr("marian"), testing::HasSubstr("got \"wavenet\"")));
}

TEST_F(RegistryTest, MakesNewModelsFromAConfig) {
  const std::string text = R"({"model_type": "marian", "vocab_size": 20, "pad_token_id": 19, "d_model": 8,
      "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
      "encoder_ffn_dim": 16, "decoder_ffn_dim": 16})";
  Generator generator(1);
  const auto model = make_model(Config::parse(text, "config.json"), generator);
  EXPECT_EQ(model->family(), "marian");
  EXPECT_EQ(model->vocab_size(), 20);
}

// The rows that are zeros in models that transformers 5.12.1 makes from these configs, with this padding id.
TEST_F(RegistryTest, NewModelsHaveZerosForPaddingWhereTheReferenceHas) {
  const auto words = [](const std::string& prefix, int id = 3) {
    return prefix + "embeddings.word_embeddings.weight:" + std::to_string(id);
  };
  const auto positions = [](const std::string& prefix, int id = 3) {
    return prefix + "embeddings.position_embeddings.weight:" + std::to_string(id);
  };
  std::map<std::string, std::vector<std::string>> expected{
      {"encoders/albert-mlm", {words("albert.")}},
      {"encoders/bert-mlm", {words("bert.")}},
      {"encoders/camembert-tag", {words("roberta."), positions("roberta.")}},
      {"encoders/deberta-v3-mlm", {words("deberta.")}},
      {"encoders/distilbert-mlm", {words("distilbert.")}},
      {"encoders/modernbert-mlm", {}},
      {"encoders/mpnet-mlm", {words("mpnet.", 1), positions("mpnet.", 1)}},
      {"encoders/roberta-mlm", {words("roberta."), positions("roberta.")}},
      {"encoders/xlm-roberta", {words(""), positions("")}},
      {"t5", {}},
      {"whisper", {"model.decoder.embed_tokens.weight:3"}}};
  for (const char* name : {"bloom", "gpt-neox", "gpt2", "mpt"})
    expected["decoders/" + std::string(name)] = {};
  for (const char* name : {"gemma2", "gemma3", "granite", "llama", "mistral", "mixtral", "olmo2", "phi3",
                           "qwen2", "qwen3", "qwen3-moe", "smollm3"})
    expected["decoders/" + std::string(name)] = {"model.embed_tokens.weight:3"};
  for (const char* name : {"bart", "m2m100", "marian", "pegasus"}) expected[name] = {"model.shared.weight:3"};
  for (const auto& [name, rows] : expected) {
    auto config = read_json(fs::path(HEED_FIXTURES) / name / "config.json");
    config["pad_token_id"] = name == "encoders/mpnet-mlm" ? 1 : 3;
    Generator generator(1);
    const auto model = make_model(Config::parse(config.dump(), "config.json"), generator);
    std::vector<std::string> zeros;
    for (const Parameter& p : model->parameters()) {
      if (p.tensor.shape().rank() != 2) continue;
      const std::vector<float> values = p.tensor.to_vector<float>();
      const auto width = static_cast<std::size_t>(p.tensor.size(1));
      for (std::size_t row = 0; row < values.size() / width; ++row) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
        if (std::all_of(begin, begin + static_cast<std::ptrdiff_t>(width), [](float v) { return v == 0; }))
          zeros.push_back(p.name + ":" + std::to_string(row));
      }
    }
    EXPECT_EQ(zeros, rows) << name;
  }
}

TEST_F(RegistryTest, ReportsConfigsThatMakeNoModel) {
  auto error_for = [&](const std::string& extra) -> std::string {
    put(folder / "config.json",
        R"({"model_type": "marian", "vocab_size": 20, "pad_token_id": 19, "d_model": 8,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2)" +
            extra + "}");
    return error_of([&] { load_model(folder); });
  };
  EXPECT_THAT(error_for(R"(, "encoder_layers": 0)"), testing::HasSubstr("encoder_layers"));
  EXPECT_THAT(error_for(R"(, "eos_token_id": 20)"), testing::HasSubstr("eos_token_id"));
  EXPECT_THAT(error_for(R"(, "dropout": 1.5)"), testing::HasSubstr("dropout"));
  EXPECT_THAT(error_for(R"(, "activation_function": "prelu")"), testing::HasSubstr("prelu"));
  EXPECT_THAT(error_for(""), testing::HasSubstr("model.safetensors"));
}

// Their keys, with sizes made small.
TEST_F(RegistryTest, KnowsEverySettingOfPublishedConfigs) {
  const auto configs = read_json<nlohmann::ordered_json>(fs::path(HEED_FIXTURES) / "configs.json");
  EXPECT_EQ(configs.size(), 53u) << "change this number with fixtures/configs.json";
  for (const auto& [name, config] : configs.items()) {
    Generator generator(1);
    EXPECT_NO_THROW(make_model(Config::parse(config.dump(), name), generator)) << name;
  }
}

TEST_F(RegistryTest, SettingsNobodyKnowsAreToldOfModelsAndRefusedInNewOnes) {
  const fs::path llama = fs::path(HEED_FIXTURES) / "decoders/llama";
  for (const char* fixture : {"decoders/llama", "decoders/mpt", "encoders/bert", "t5"}) {
    EXPECT_EQ(load_model(fs::path(HEED_FIXTURES) / fixture)->unknown_settings(), std::vector<std::string>())
        << fixture;
  }
  auto config = read_json<nlohmann::ordered_json>(llama / "config.json");
  config["color"] = {{"red", 3}};
  config["rope_parameters"]["shade"] = 7;
  config["rope_parameters"]["tint"] = nullptr;
  put(folder / "config.json", config.dump());
  fs::copy_file(llama / "model.safetensors", folder / "model.safetensors");
  EXPECT_EQ(load_model(folder)->unknown_settings(),
            (std::vector<std::string>{"rope_parameters.shade", "color"}));
  Generator generator(1);
  EXPECT_ERROR(make_model(Config::load(folder / "config.json"), generator),
               testing::Eq((folder / "config.json").string() +
                           ": rope_parameters.shade: expected only known settings, got one more"));
  config["rope_parameters"].erase("shade");
  config["rope_parameters"]["rope_thets"] = 7;
  put(folder / "config.json", config.dump());
  EXPECT_ERROR(
      make_model(Config::load(folder / "config.json"), generator),
      "rope_parameters.rope_thets: expected only known settings, got one more (did you mean rope_theta?)");
}

}  // namespace
}  // namespace heed
