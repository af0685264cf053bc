// Finding and loading models.
#include "heed/models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace heed {
namespace {

namespace fs = std::filesystem;

struct RegistryTest : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("heed_registry_test_" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  void put(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
};

TEST_F(RegistryTest, FindsDirectoriesNamesAndCachedRepositories) {
  put(folder / "models/en-fr/config.json", "{}");
  put(folder / "hub/models--owner--name/snapshots/abc/config.json", "{}");
  EXPECT_EQ(find_model((folder / "models").string(), {}, folder / "hub"), folder / "models");
  EXPECT_EQ(find_model("en-fr", {folder / "none", folder / "models"}, folder / "hub"),
            folder / "models/en-fr");
  EXPECT_EQ(find_model("owner/name", {}, folder / "hub"), folder / "hub/models--owner--name/snapshots/abc");
  EXPECT_THROW(find_model("fr-en", {folder / "models"}, folder / "hub"), Error);
}

TEST_F(RegistryTest, NamesTheFamiliesItKnows) {
  put(folder / "config.json", R"({"model_type": "wavenet"})");
  try {
    load_model(folder);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("marian"));
    EXPECT_THAT(error.what(), testing::HasSubstr("got \"wavenet\""));
  }
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

TEST_F(RegistryTest, ReportsConfigsThatMakeNoModel) {
  auto error_for = [&](const std::string& extra) -> std::string {
    put(folder / "config.json",
        R"({"model_type": "marian", "vocab_size": 20, "pad_token_id": 19, "d_model": 8,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2)" +
            extra + "}");
    try {
      load_model(folder);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_for(R"(, "encoder_layers": 0)"), testing::HasSubstr("encoder_layers"));
  EXPECT_THAT(error_for(R"(, "quantization_config": {"bits": 4})"),
              testing::HasSubstr("quantization_config"));
  EXPECT_THAT(error_for(R"(, "eos_token_id": 20)"), testing::HasSubstr("eos_token_id"));
  EXPECT_THAT(error_for(R"(, "dropout": 1.5)"), testing::HasSubstr("dropout"));
  EXPECT_THAT(error_for(R"(, "activation_function": "prelu")"), testing::HasSubstr("prelu"));
  EXPECT_THAT(error_for(""), testing::HasSubstr("model.safetensors"));
}

// Their keys, with sizes made small.
TEST_F(RegistryTest, KnowsEverySettingOfPublishedConfigs) {
  std::ifstream file(fs::path(HEED_FIXTURES) / "configs.json");
  const auto configs = nlohmann::ordered_json::parse(file);
  EXPECT_GE(configs.size(), 40u);
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
  std::ifstream file(llama / "config.json");
  auto config = nlohmann::ordered_json::parse(file);
  config["colour"] = {{"red", 3}};
  config["rope_parameters"]["shade"] = 7;
  config["rope_parameters"]["tint"] = nullptr;
  put(folder / "config.json", config.dump());
  fs::copy_file(llama / "model.safetensors", folder / "model.safetensors");
  EXPECT_EQ(load_model(folder)->unknown_settings(),
            (std::vector<std::string>{"rope_parameters.shade", "colour"}));
  try {
    Generator generator(1);
    make_model(Config::load(folder / "config.json"), generator);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("rope_parameters.shade: expected only known settings"));
  }
}

}  // namespace
}  // namespace heed
