#include "heed/generate/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "generate/option_fields.h"
#include "heed/error.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionsFile : public ::testing::Test {
 protected:
  GenerationOptions load(const std::string& json, std::vector<std::string>* unused = nullptr) const {
    spill(folder_ / "generation_config.json", json);
    return load_generation_options(folder_.path(), unused);
  }
  std::string load_error(const std::string& json) const {
    return error_of([&] { load(json); });
  }
  TemporaryFolder folder_;
};

// In the form that published translation models use.
TEST_F(OptionsFile, ReadsEveryKeyOfAPublishedModel) {
  std::vector<std::string> unused;
  const GenerationOptions options = load(
      R"({"_from_model_config": true, "bad_words_ids": [[59513]], "bos_token_id": 0, "decoder_start_token_id": 59513,
          "eos_token_id": 0, "forced_eos_token_id": 0, "max_length": 512, "num_beams": 4, "pad_token_id": 59513,
          "renormalize_logits": true, "transformers_version": "4.32.0.dev0"})",
      &unused);
  EXPECT_TRUE(unused.empty());
  EXPECT_THAT(options.bad_words_ids, ElementsAre(ElementsAre(59513)));
  EXPECT_EQ(options.bos_token_id, 0);
  EXPECT_EQ(options.decoder_start_token_id, 59513);
  EXPECT_THAT(options.eos_token_id, ElementsAre(0));
  EXPECT_THAT(options.forced_eos_token_id, ElementsAre(0));
  EXPECT_EQ(options.max_length, 512);
  EXPECT_EQ(options.num_beams, 4);
  EXPECT_EQ(options.pad_token_id, 59513);
  EXPECT_TRUE(options.renormalize_logits);
  EXPECT_EQ(resolved_max_length(options, 1), 512);
}

TEST_F(OptionsFile, ReadsTheRest) {
  const GenerationOptions options = load(
      R"({"max_new_tokens": 7, "min_new_tokens": 2, "min_length": 3, "num_beams": 5, "num_return_sequences": 2,
          "length_penalty": 0.6, "early_stopping": "never", "repetition_penalty": 1.1, "no_repeat_ngram_size": 3,
          "eos_token_id": [1, 2], "suppress_tokens": [4], "begin_suppress_tokens": [5, 6], "forced_bos_token_id": 8,
          "do_sample": true, "temperature": 0.7, "top_k": 10, "top_p": 0.9, "min_p": 0.1, "top_h": 0.4,
          "encoder_repetition_penalty": 1.5, "remove_invalid_values": true})");
  EXPECT_EQ(resolved_max_length(options, 3), 10);
  EXPECT_EQ(options.min_new_tokens, 2);
  EXPECT_EQ(options.min_length, 3);
  EXPECT_EQ(options.num_return_sequences, 2);
  EXPECT_EQ(options.length_penalty, 0.6);
  EXPECT_EQ(options.early_stopping, EarlyStopping::never);
  EXPECT_EQ(options.repetition_penalty, 1.1);
  EXPECT_EQ(options.no_repeat_ngram_size, 3);
  EXPECT_THAT(options.eos_token_id, ElementsAre(1, 2));
  EXPECT_THAT(options.suppress_tokens, ElementsAre(4));
  EXPECT_THAT(options.begin_suppress_tokens, ElementsAre(5, 6));
  EXPECT_EQ(options.forced_bos_token_id, 8);
  EXPECT_TRUE(options.do_sample);
  EXPECT_EQ(options.temperature, 0.7);
  EXPECT_EQ(options.top_k, 10);
  EXPECT_EQ(options.top_p, 0.9);
  EXPECT_EQ(options.min_p, 0.1);
  EXPECT_EQ(options.top_h, 0.4);
  EXPECT_EQ(options.encoder_repetition_penalty, 1.5);
  EXPECT_TRUE(options.remove_invalid_values);
  EXPECT_EQ(load(R"({"early_stopping": true})").early_stopping, EarlyStopping::yes);
  EXPECT_EQ(load(R"({"early_stopping": false})").early_stopping, EarlyStopping::no);
}

// A field whose member is not its own would be read into another.
TEST_F(OptionsFile, EveryFieldIsReadIntoItsOwnMember) {
  const GenerationOptions defaults;
  for (const generate::OptionField& field : generate::option_fields()) {
    SCOPED_TRACE(field.name);
    if (field.name == std::string_view("num_return_sequences")) continue;  // needs another option
    const auto same = [&](const GenerationOptions& a, const GenerationOptions& b, const auto& other) {
      return std::visit(
          [&](auto member) {
            return ::testing::PrintToString(a.*member) == ::testing::PrintToString(b.*member);
          },
          other.member);
    };
    const std::string key = "{\"" + std::string(field.name) + "\": ";
    std::string error;
    GenerationOptions options;
    for (const char* value : {"3", "0.75", "true", "[[3]]", "[[[3], 0.5]]", "[3, 0.5]", "\"bf16\""}) {
      error = load_error(key + value + "}");
      if (error != "no error") continue;
      options = load(key + value + "}");
      if (!same(options, defaults, field)) break;
    }
    EXPECT_FALSE(same(options, defaults, field)) << error;
    for (const generate::OptionField& other : generate::option_fields())
      EXPECT_EQ(same(options, defaults, other), &other != &field) << other.name;
  }
}

TEST_F(OptionsFile, TellsWhatItDoesNotUnderstand) {
  std::vector<std::string> unused;
  load(
      R"({"num_beam_groups": 1, "diversity_penalty": 0.0, "watermarking_config": {"bias": 2.0},
           "guidance_scale": null, "new_key": 1, "token_healing": true})",
      &unused);
  EXPECT_THAT(unused, ::testing::UnorderedElementsAre("watermarking_config", "new_key", "token_healing"));
}

TEST_F(OptionsFile, MayBeMissing) {
  const GenerationOptions options = load_generation_options(folder_.path());
  EXPECT_EQ(options.num_beams, 1);
  EXPECT_EQ(resolved_max_length(options, 1), 21);
}

// In the form that summarization models and T5 used before generation_config.json existed.
TEST_F(OptionsFile, OlderModelsHaveThemInTheirConfig) {
  spill(folder_ / "config.json", R"({"model_type": "bart", "d_model": 1024, "eos_token_id": 2,
      "forced_eos_token_id": 2, "max_length": 142, "min_length": 56, "num_beams": 4, "length_penalty": 2.0,
      "early_stopping": true, "no_repeat_ngram_size": 3, "task_specific_params": {
        "summarization": {"max_length": 200, "num_beams": 6},
        "translation_en_to_de": {"max_length": 300, "prefix": "translate English to German: "}}})");
  std::vector<std::string> unused;
  GenerationOptions options = load_generation_options(folder_.path(), &unused);
  EXPECT_TRUE(unused.empty());  // the other keys belong to the model
  EXPECT_EQ(options.max_length, 142);
  EXPECT_EQ(options.min_length, 56);
  EXPECT_EQ(options.num_beams, 4);
  EXPECT_EQ(options.length_penalty, 2.0);
  EXPECT_EQ(options.early_stopping, EarlyStopping::yes);
  EXPECT_EQ(options.no_repeat_ngram_size, 3);
  EXPECT_THAT(options.forced_eos_token_id, ElementsAre(2));
  EXPECT_EQ(apply_task(folder_.path(), "summarization", options), "");
  EXPECT_EQ(options.max_length, 200);
  EXPECT_EQ(options.num_beams, 6);
  EXPECT_EQ(options.min_length, 56);
  EXPECT_EQ(apply_task(folder_.path(), "translation_en_to_de", options), "translate English to German: ");
  EXPECT_EQ(options.max_length, 300);
  EXPECT_ERROR(apply_task(folder_.path(), "poetry", options),
               "there are summarization, translation_en_to_de");
  EXPECT_EQ(load(R"({"num_beams": 2})").max_length,
            std::nullopt);  // if the new file exists, only it is read
}

TEST_F(OptionsFile, ErrorsNameFileAndKey) {
  EXPECT_THAT(load_error(R"({"num_beams": "four"})"), HasSubstr("num_beams"));
  EXPECT_THAT(load_error(R"({"early_stopping": "soon"})"), HasSubstr("true, false or \"never\""));
  EXPECT_THAT(load_error(R"({"early_stopping": 3})"), HasSubstr("true, false or \"never\""));
  EXPECT_THAT(load_error(R"({"cache_dtype": "f64"})"),
              HasSubstr("cache_dtype: expected f32, bf16, f16 or int8, got \"f64\""));
  EXPECT_THAT(load_error(R"({"num_beams": 0})"),
              ::testing::AllOf(HasSubstr("generation_config.json"), HasSubstr("num_beams")));
  EXPECT_THAT(load_error(R"({"num_beams": )"), HasSubstr("generation_config.json"));
}

std::string complaint(const GenerationOptions& options) {
  return error_of([&] { check_generation_options(options, 100); });
}

TEST(Options, OutOfRangeIsRefusedByName) {
  EXPECT_EQ(complaint({}), "no error");
  EXPECT_THAT(complaint({.max_new_tokens = 0}),
              HasSubstr("max_new_tokens: expected a whole number of at least 1, got 0"));
  EXPECT_THAT(complaint({.max_length = -1}), HasSubstr("max_length"));
  EXPECT_THAT(complaint({.max_new_tokens = 3, .min_new_tokens = 4}), HasSubstr("min_new_tokens"));
  EXPECT_THAT(complaint({.min_length = -1}), HasSubstr("min_length"));
  EXPECT_THAT(complaint({.num_beams = -3}), HasSubstr("num_beams"));
  EXPECT_THAT(complaint({.num_beams = 1000000}), HasSubstr("num_beams"));
  EXPECT_THAT(complaint({.num_beams = 2, .num_return_sequences = 3}), HasSubstr("num_return_sequences"));
  EXPECT_THAT(complaint({.num_return_sequences = 3}), HasSubstr("greedy"));
  EXPECT_THAT(complaint({.length_penalty = NAN}), HasSubstr("length_penalty"));
  EXPECT_THAT(complaint({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(complaint({.repetition_penalty = NAN}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(complaint({.no_repeat_ngram_size = -1}), HasSubstr("no_repeat_ngram_size"));
  EXPECT_THAT(complaint({.bad_words_ids = {{}}}), HasSubstr("bad_words_ids"));
  EXPECT_THAT(complaint({.bad_words_ids = {{3, 100}}}), HasSubstr("bad_words_ids"));
  EXPECT_THAT(complaint({.suppress_tokens = {-1}}), HasSubstr("suppress_tokens"));
  EXPECT_THAT(complaint({.eos_token_id = {-1}}), HasSubstr("eos_token_id"));
  EXPECT_NO_THROW(check_generation_options({.eos_token_id = {100}}, 100));  // never generated
  EXPECT_THAT(complaint({.encoder_repetition_penalty = 0}), HasSubstr("encoder_repetition_penalty"));
  EXPECT_THAT(complaint({.top_h = 0}), HasSubstr("top_h"));
  EXPECT_THAT(complaint({.top_h = NAN}), HasSubstr("top_h"));
  EXPECT_THAT(complaint({.decoder_start_token_id = 100}), HasSubstr("decoder_start_token_id"));
  EXPECT_THAT(complaint({.do_sample = true, .temperature = 0}), HasSubstr("temperature"));
  EXPECT_THAT(complaint({.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(complaint({.top_k = -1}), HasSubstr("top_k"));
  EXPECT_THAT(complaint({.top_p = 1.5}), HasSubstr("top_p"));
  EXPECT_THAT(complaint({.top_p = NAN}), HasSubstr("top_p"));
  EXPECT_THAT(complaint({.min_p = 2}), HasSubstr("min_p"));
}

}  // namespace
}  // namespace heed
