// heed doctor: its lines, its JSON and its exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kFixture = std::string(HEED_FIXTURES) + "/decoders/gpt2";

// A copy of the fixture with other settings of generation.
void copy_with(const Folder& folder, const std::string& generation) {
  for (const char* file : {"config.json", "model.safetensors"})
    spill(folder / file, slurp(kFixture + "/" + file));
  spill(folder / "generation_config.json", generation);
}

TEST(Doctor, ALineForEachCheck) {
  const Result result = run({"doctor", kFixture});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("ok       causality            decoder: 12 earlier outputs are the same to the bit"));
  EXPECT_THAT(result.out, HasSubstr("skipped  lengths              no text (give one with --texts FILE)"));
  EXPECT_THAT(lines(result.out).back(), HasSubstr(" 0 failed, "));
  EXPECT_EQ(result.err, "");
}

TEST(Doctor, HasColorsOnATerminal) {
  const Result result = run_on_terminal({"doctor", tiny_model()});
  EXPECT_THAT(result.out, testing::ContainsRegex("\x1b\\[32mok      \x1b\\[0m [a-z]"));
}

TEST(Doctor, JsonHasTheNumbers) {
  const Json json = json_lines(output_of({"doctor", kFixture, "--json"})).at(0);
  EXPECT_EQ(json.at("model_type"), "gpt2");
  EXPECT_EQ(json.at("failed"), 0);
  const auto& checks = json.at("checks");
  const auto batch =
      std::find_if(checks.begin(), checks.end(), [](const Json& c) { return c.at("name") == "batch"; });
  ASSERT_NE(batch, checks.end());
  EXPECT_EQ(batch->at("status"), "ok");
  EXPECT_EQ(batch->at("values").at("decoder.difference"), 0.0);
}

TEST(Doctor, AFailedCheckIsTheExitStatus) {
  const Folder folder;
  copy_with(folder, R"({"eos_token_id": 0, "num_beams": 2, "num_return_sequences": 3})");
  const Result result = run({"doctor", folder.path().string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("failed   generation settings"));
  EXPECT_THAT(result.out, HasSubstr("num_return_sequences: expected at most num_beams 2, got 3"));
}

TEST(Doctor, ChecksAModelWithItsAdapter) {
  const std::string adapter = std::string(HEED_FIXTURES) + "/adapters/gpt2";
  const Result sound = run({"doctor", kFixture, "--adapter", adapter});
  EXPECT_EQ(sound.status, 0) << sound.out << sound.err;
  EXPECT_NE(sound.out, run({"doctor", kFixture}).out);

  const Folder folder;
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
    spill(folder / file, slurp(adapter + "/" + file));
  std::string tensors = slurp(folder / "adapter_model.safetensors");
  tensors.replace(tensors.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));  // NaN
  spill(folder / "adapter_model.safetensors", tensors);
  const Result damaged = run({"doctor", kFixture, "--adapter", folder.path().string()});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.out, HasSubstr("1 NaN and 0 infinite numbers; adapter_model.safetensors: base_model."));
}

TEST(Doctor, ReadsTranslations) {
  const Folder folder;
  std::string text, reference;
  for (int i = 0; i < 12; ++i) {
    text += "a b c d\n";
    reference += "d c b a\n";
  }
  spill(folder / "text", text);
  spill(folder / "reference", reference);
  const Result result =
      run({"doctor", tiny_model(), "--texts", folder / "text", "--reference", folder / "reference"});
  EXPECT_EQ(result.status, 1);  // 20 steps of training: guessing is better
  EXPECT_THAT(result.out, testing::ContainsRegex("failed +lengths +loss [0-9.]+ at 1 to .*would lose"));
  expect_error(2, {"doctor", tiny_model(), "--reference", folder / "reference"},
               "--reference: needs --texts FILE");
  expect_error(2, {"doctor", kFixture, "--texts", folder / "text", "--reference", folder / "reference"},
               "--reference: expected an encoder-decoder, got");
}

TEST(Doctor, AModelThatCannotBeLoadedHasItsFilesChecked) {
  const Folder folder;
  copy_with(folder, R"({"eos_token_id": 0, "num_beams": 2, "num_return_sequences": 3})");
  spill(folder / "model.safetensors", "no tensors");
  const Result result = run({"doctor", folder.path().string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("failed   loading              " + (folder / "model.safetensors")));
  EXPECT_THAT(result.out, HasSubstr("failed   generation settings  " + (folder / "generation_config.json") +
                                    ": generation options: num_return_sequences"));
  EXPECT_THAT(result.out, HasSubstr("skipped  finite weights       the error of loading"));
  EXPECT_THAT(result.out, HasSubstr("skipped  causality            the model cannot be loaded"));
  const Json json = json_lines(run({"doctor", folder.path().string(), "--json"}).out).at(0);
  EXPECT_EQ(json.at("model_type"), nullptr);
  const std::string adapter = std::string(HEED_FIXTURES) + "/adapters/gpt2";
  EXPECT_EQ(run({"doctor", folder.path().string(), "--adapter", adapter}).out, result.out);
}

TEST(Doctor, WhatIsNoModelIsOneLine) {
  const Folder folder;
  spill(folder / "model.safetensors", "no tensors");
  const Result result = run({"doctor", folder.path().string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(lines(result.err).size(), 1u);
  EXPECT_THAT(result.err, StartsWith("heed: error: "));
  EXPECT_EQ(run({"doctor", kFixture, "--texts", folder / "absent.txt"}).status, 1);
}

}  // namespace
}  // namespace heed::cli_test
