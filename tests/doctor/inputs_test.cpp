// What the checks of tokenizers, processors, pooling and of the decoder's start find in changed copies of
// sound models. (scripts/doctor-cases.py has more alterations, each of a whole command.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "doctor/copy.h"
#include "heed/open/loaded_model.h"

namespace heed {
namespace {

using testing::HasSubstr;

Finding finding_of(const Copy& copy, const char* check) {
  const LoadedModel opened = open_model(copy.path(), {.head = true});
  return found(checked_model(opened), check);
}

TEST(DoctorInputs, LowerCaseOfTheFilesDisagrees) {
  const Copy copy("../../models/reviews");
  expect_finding(finding_of(copy, "tokenizer case"), CheckStatus::ok, "the tokenizer lower-cases texts; 0 %");
  const auto with = [&](const char* file, const nlohmann::json& members) {
    copy.update(file, members);
    return finding_of(copy, "tokenizer case");
  };
  expect_finding(with("tokenizer_config.json", {{"do_lower_case", false}}), CheckStatus::warning,
                 "do_lower_case is false, but the tokenizer lower-cases texts");
  with("tokenizer_config.json", {{"do_lower_case", nullptr}});
  expect_finding(with("tokenizer.json", {{"normalizer", nullptr}}), CheckStatus::warning,
                 "keeps capital letters; 0 % of its tokens of letters have a capital");
}

TEST(DoctorInputs, TokenizersOfTheTwoLanguagesExchanged) {
  // The target's vocabulary of the copy is a small one, which reads English in more tokens than that of the
  // source.
  const Copy copy("../../models/en-fr");
  const auto spm = [&](const char* file) { return copy.path() / file; };
  using std::filesystem::copy_options;
  std::filesystem::copy_file(std::filesystem::path(HEED_FIXTURES) / "text/marian/target.spm",
                             spm("target.spm"), copy_options::overwrite_existing);
  const auto languages = [&](const char* source, const char* target) {
    copy.update("tokenizer_config.json", {{"source_lang", source}, {"target_lang", target}});
    return finding_of(copy, "tokenizer case");
  };
  EXPECT_EQ(languages("en", "fr").status, CheckStatus::ok);
  expect_finding(languages("fr", "en"), CheckStatus::warning,
                 "target_lang is English, but the tokenizer of the source reads");
  EXPECT_EQ(languages("de", "fr").status, CheckStatus::ok);
  std::filesystem::rename(spm("source.spm"), spm("exchanged"));
  std::filesystem::rename(spm("target.spm"), spm("source.spm"));
  std::filesystem::rename(spm("exchanged"), spm("target.spm"));
  const Finding exchanged = languages("en", "fr");
  expect_finding(exchanged, CheckStatus::warning,
                 "source_lang is English, but the tokenizer of the target reads English in ");
  EXPECT_EQ(exchanged.advice, "exchange source.spm and target.spm if they were exchanged");
}

TEST(DoctorInputs, TheDecoderStartsWithAnotherToken) {
  const Copy copy("../../models/en-fr");
  expect_finding(finding_of(copy, "decoder start"), CheckStatus::ok, "3 sentences from 5999 (<pad>)");
  copy.update("generation_config.json", {{"decoder_start_token_id", 0}});
  expect_finding(finding_of(copy, "special ids"), CheckStatus::warning,
                 "decoder_start_token_id is 5999 in config.json and 0 in generation_config.json");
  expect_finding(finding_of(copy, "decoder start"), CheckStatus::warning, ", from 5999 (<pad>): ");
}

TEST(DoctorInputs, EmbeddingsWithoutTheirScale) {
  const Copy copy("../../models/en-fr");
  expect_finding(finding_of(copy, "order"), CheckStatus::ok, "differ by");
  copy.update("config.json", {{"scale_embedding", false}});
  const Finding finding = finding_of(copy, "order");
  expect_finding(finding, CheckStatus::failed,
                 "positions are 4.21 times as large as the embeddings of tokens");
  EXPECT_THAT(finding.advice, HasSubstr("scale_embedding"));
}

TEST(DoctorInputs, FramesThatTheModelDoesNotRead) {
  const Copy copy("speech");
  const Finding sound = finding_of(copy, "processor");
  EXPECT_EQ(sound.status, CheckStatus::ok) << sound.measurement;
  expect_finding(finding_of(copy, "generation settings"), CheckStatus::ok, "all settings can work");
  nlohmann::json settings = copy.json("preprocessor_config.json");
  settings["hop_length"] = 2 * settings.value("hop_length", 160);
  settings.erase("nb_max_frames");
  copy.write("preprocessor_config.json", settings);
  expect_finding(finding_of(copy, "processor"), CheckStatus::failed, ", the model reads ");
}

TEST(DoctorInputs, PicturesOfAnotherSize) {
  const Copy copy("../../models/cifar10");
  expect_finding(finding_of(copy, "processor"), CheckStatus::ok,
                 "makes [3, 32, 32] of an input, the model reads [3, 32, 32]");
  copy.update("preprocessor_config.json", {{"size", {{"height", 64}, {"width", 64}}}});
  expect_finding(finding_of(copy, "processor"), CheckStatus::failed, "makes [3, 64, 64]");
}

TEST(DoctorInputs, PoolingThatTheCardContradicts) {
  const Copy copy("../../models/reviews-mlm");
  expect_finding(finding_of(copy, "pooling"), CheckStatus::skipped, "no modules");
  copy.write("modules.json", nlohmann::json::parse(R"([
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])"));
  std::filesystem::create_directory(copy.path() / "1_Pooling");
  const auto with = [&](bool cls) {
    copy.write("1_Pooling/config.json", {{"word_embedding_dimension", 256},
                                         {"pooling_mode_cls_token", cls},
                                         {"pooling_mode_mean_tokens", !cls}});
    return finding_of(copy, "pooling");
  };
  spill(copy.path() / "README.md", "No word on it.");
  expect_finding(with(true), CheckStatus::skipped, "does not say");
  spill(copy.path() / "README.md", "vectors = mean_pooling(output, mask)");
  expect_finding(with(false), CheckStatus::ok, "pooled by the mean");
  expect_finding(with(true), CheckStatus::warning,
                 "by the first token, but the card (README.md) says the mean");
}

TEST(DoctorInputs, ATemplateOfAnotherModel) {
  const Copy copy("encoders/bert-mlm");
  copy.update("tokenizer_config.json",
              {{"chat_template", "{{ '[INST] ' + messages[0].content + ' [/INST]' }}"}});
  expect_finding(finding_of(copy, "chat template"), CheckStatus::ok,
                 "all its tokens known");  // as plain text (Llama 2)
  nlohmann::json tokenizer = copy.json("tokenizer.json");
  tokenizer["added_tokens"].push_back({{"id", 700},
                                       {"content", "<|im_start|>"},
                                       {"single_word", false},
                                       {"lstrip", false},
                                       {"rstrip", false},
                                       {"normalized", false},
                                       {"special", true}});
  copy.write("tokenizer.json", tokenizer);
  expect_finding(finding_of(copy, "chat template"), CheckStatus::warning,
                 "[INST], though the tokenizer has <|im_start|>");
}

}  // namespace
}  // namespace heed
