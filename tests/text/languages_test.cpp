// Checks the tokenizers of models with languages, and Pegasus's, against transformers 5.12.1 (see
// fixtures/tokenizers/README.md).
#include "text/pipeline/languages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures.h"
#include "heed/error.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;

std::filesystem::path language_fixtures() { return tokenizer_fixtures() / "languages"; }

/// Writes the files of a case: copies of fixtures, or JSON.
void write_case(const Json& item, const TemporaryFolder& directory) {
  for (const auto& [name, content] : item["files"].items()) {
    if (content.is_string()) {
      std::filesystem::copy_file(tokenizer_fixtures() / content.get<std::string>(), directory / name);
    } else {
      spill(directory / name, content.dump());
    }
  }
}

TEST(LanguageTokenizers, MatchTransformers) {
  const Json cases = read_json<Json>(language_fixtures() / "vectors.json")["cases"];
  ASSERT_GE(cases.size(), 10u);
  for (const Json& item : cases) {
    SCOPED_TRACE(item["name"].get<std::string>());
    const TemporaryFolder directory;
    write_case(item, directory);
    const auto tokenizer = load_tokenizer(directory);
    for (const Json& use : item["uses"]) {
      if (use.contains("source"))
        tokenizer->set_languages(use["source"].get<std::string>(), use["target"].get<std::string>());
      if (use.contains("target_id")) {
        ASSERT_NE(tokenizer->languages(), nullptr);
        ASSERT_TRUE(tokenizer->languages()->target);
        EXPECT_EQ(tokenizer->languages()->target->id, use["target_id"].get<std::int64_t>());
      }
      for (const Json& expected : use["texts"]) {
        const auto text = expected["text"].get<std::string>();
        SCOPED_TRACE(expected["text"].dump());
        const Ids ids = tokenizer->encode(text).ids;
        EXPECT_EQ(ids, expected["ids"].get<Ids>());
        if (expected.contains("target_ids")) {
          EXPECT_EQ(tokenizer->encode_target(text).ids, expected["target_ids"].get<Ids>());
        }
        EXPECT_EQ(tokenizer->decode(ids, true), expected["decoded"].get<std::string>());
        EXPECT_EQ(tokenizer->decode(ids, false), expected["decoded_all"].get<std::string>());
      }
    }
    EXPECT_EQ(tokenizer->vocab_size(), item["size"].get<std::int64_t>());
    const std::filesystem::path again = directory / "again";
    tokenizer->save(again);
    if (item["files"].contains("config.json"))  // the model's file, which names the family
      std::filesystem::copy_file(directory / "config.json", again / "config.json");
    EXPECT_EQ(load_tokenizer(again)->encode("I like tea.").ids,
              load_tokenizer(directory)->encode("I like tea.").ids);
  }
}

class M2m100 : public testing::Test {
 protected:
  M2m100() {
    std::filesystem::copy_file(language_fixtures() / "bpe.model", directory_ / "sentencepiece.bpe.model");
    std::filesystem::copy_file(language_fixtures() / "vocab.json", directory_ / "vocab.json");
    configure("{}");
  }
  void configure(const std::string& more) const {
    Json config = Json::parse(more);
    config["tokenizer_class"] = "M2M100Tokenizer";
    spill(directory_ / "tokenizer_config.json", config.dump());
  }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(directory_); }
  std::string error() const {
    return error_of([this] { load(); });
  }
  TemporaryFolder directory_;
};

TEST_F(M2m100, KnowsItsLanguagesByNameAndToken) {
  const auto tokenizer = load();
  const Languages& languages = *tokenizer->languages();
  EXPECT_EQ(languages.list.size(), 100u);
  EXPECT_EQ(languages.source.name, "en");
  EXPECT_FALSE(languages.target);
  EXPECT_FALSE(languages.starts_decoder);
  ASSERT_NE(languages.find("fr"), nullptr);
  EXPECT_EQ(languages.find("fr"), languages.find("__fr__"));
  EXPECT_EQ(languages.find("fr")->id, tokenizer->token_to_id("__fr__"));
  EXPECT_EQ(tokenizer->vocab_size(), 313 + 100 + 8);
  EXPECT_EQ(tokenizer->token(420), "<unk>");  // one of num_madeup_words
  configure(R"({"src_lang": "fr", "tgt_lang": "__de__", "num_madeup_words": 0})");
  const auto recorded = load();
  EXPECT_EQ(recorded->languages()->source.name, "fr");
  EXPECT_EQ(recorded->languages()->target->name, "de");
  EXPECT_EQ(recorded->vocab_size(), 413);
  const std::int64_t before = recorded->encode("tea").ids.front();
  recorded->set_languages("zu", std::nullopt);
  EXPECT_NE(recorded->encode("tea").ids.front(), before);
  EXPECT_EQ(recorded->encode_target("tea").ids.front(), recorded->token_to_id("__de__"));
  configure(R"({"language_codes": "wmt21"})");
  EXPECT_EQ(load()->languages()->list.size(), 8u);
  spill(directory_ / "tokenizer_config.json", "{}");
  spill(directory_ / "config.json", R"({"model_type": "m2m_100"})");
  EXPECT_EQ(load()->languages()->source.token, "__en__");  // because of vocab.json
  std::filesystem::remove(directory_ / "vocab.json");
  EXPECT_EQ(load()->languages()->source.token, "eng_Latn");
}

TEST_F(M2m100, ReadsTokensAddedToIt) {
  spill(directory_ / "added_tokens.json", R"({"<new>": 413, "__fr__": 337})");
  const auto tokenizer = load();
  EXPECT_THAT(tokenizer->encode("tea <new>").ids, testing::Contains(413));
  EXPECT_EQ(tokenizer->vocab_size(), 414 + 8);
  EXPECT_FALSE(tokenizer->is_special(413));
  EXPECT_TRUE(tokenizer->is_special(337));
  tokenizer->save(directory_ / "again");
  EXPECT_EQ(load_tokenizer(directory_ / "again")->vocab_size(), 422);
  spill(directory_ / "added_tokens.json", R"({"<new>": 500})");
  EXPECT_THAT(error(), HasSubstr("added token <new>: expected the id 413, got 500"));
  spill(directory_ / "added_tokens.json", R"({"": 413})");
  EXPECT_EQ(error(), "no error");
}

TEST_F(M2m100, OnlyTheBeginningOfALongTextIsNeeded) {
  const auto tokenizer = load();
  std::string text;
  for (int i = 0; i < 500; ++i) text += "the cold sea and the ice ";
  Truncation truncation;
  truncation.max_length = 20;
  EXPECT_EQ(tokenizer->encode_truncated(text, std::nullopt, truncation).ids,
            tokenizer->encode_windows(text, std::nullopt, truncation).front().ids);
}

TEST_F(M2m100, NamesWhatIsWrong) {
  const auto with = [this](const char* config) {
    configure(config);
    return error();
  };
  EXPECT_THAT(
      with(R"({"src_lang": "xx"})"),
      HasSubstr(
          R"(tokenizer_config.json: src_lang: expected the code of one of the model's languages, got "xx")"));
  EXPECT_THAT(with(R"({"tgt_lang": 3})"), HasSubstr("tgt_lang: expected a string"));
  EXPECT_THAT(with(R"({"language_codes": "wmt99"})"), HasSubstr("language_codes: expected m2m100 or wmt21"));
  EXPECT_THAT(with(R"({"num_madeup_words": -1})"), HasSubstr("num_madeup_words: expected"));
  EXPECT_THAT(with(R"({"unk_token": "<none>"})"), HasSubstr("vocab.json: token <none> not found"));
  configure("{}");
  spill(directory_ / "vocab.json", R"({"<s>": 0, "</s>": 2, "<unk>": 3})");
  EXPECT_THAT(
      error(),
      HasSubstr(
          R"(vocab.json: token "<unk>": expected an id from 0 to 2 (3 tokens, ids without gaps), got 3)"));
  spill(directory_ / "vocab.json", "[]");
  EXPECT_THAT(error(), HasSubstr("vocab.json"));
  std::filesystem::remove(directory_ / "vocab.json");
  EXPECT_THAT(error(), HasSubstr("vocab.json"));
}

TEST_F(M2m100, UnknownLanguagesListTheNearest) {
  const auto tokenizer = load();
  const auto choose = [&](const char* name) {
    return error_of([&] { tokenizer->set_languages(name, std::nullopt); });
  };
  EXPECT_EQ(choose("fr"), "no error");
  EXPECT_THAT(choose("frr"), AllOf(HasSubstr("language: expected one of the model's 100 languages, got frr"),
                                   HasSubstr("(the nearest: fr,")));
  spill(directory_ / "tokenizer_config.json", R"({"tokenizer_class": "NllbTokenizer"})");
  const auto nllb = load();
  EXPECT_ERROR(nllb->set_languages(std::nullopt, "fr"), "nearest: fra_Latn");
  EXPECT_EQ(nllb->languages()->source.name, "eng_Latn");
}

// M2M100 as other tools convert it; transformers itself has no such file.
TEST(LanguageTokenizers, ATokenizerJsonMayHaveTheTokensOfM2m100) {
  const TemporaryFolder directory;
  const auto added = [](int id, const char* content) {
    return Json{{"id", id}, {"content", content}, {"special", true}, {"normalized", false}};
  };
  const Json json = {
      {"added_tokens", Json::array({added(1, "</s>"), added(3, "__fr__"), added(4, "__en__")})},
      {"model",
       {{"type", "WordLevel"},
        {"unk_token", "<unk>"},
        {"vocab", {{"<unk>", 0}, {"</s>", 1}, {"fr", 2}, {"__fr__", 3}, {"__en__", 4}}}}}};
  spill(directory / "tokenizer.json", json.dump());
  spill(directory / "tokenizer_config.json",
        R"({"tokenizer_class": "M2M100Tokenizer", "eos_token": "</s>"})");
  const auto tokenizer = load_tokenizer(directory);
  ASSERT_EQ(tokenizer->languages()->list.size(), 2u);
  EXPECT_EQ(tokenizer->languages()->find("fr")->id, 3);
  EXPECT_THAT(tokenizer->encode("fr").ids, testing::ElementsAre(4, 2, 1));
  tokenizer->set_languages("fr", std::nullopt);
  EXPECT_THAT(tokenizer->encode("fr").ids, testing::ElementsAre(3, 2, 1));
}

TEST(LanguageTokenizers, OthersHaveNone) {
  const TemporaryFolder directory;
  std::filesystem::copy_file(tokenizer_fixtures() / "families" / "t5.model", directory / "spiece.model");
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->languages(), nullptr);
  EXPECT_ERROR(tokenizer->set_languages("fr", std::nullopt), "got one whose tokenizer names none");
}

TEST(LanguageTokenizers, MbartStartsItsDecoderWithTheLanguage) {
  for (const char* name : {"MBartTokenizer", "MBart50TokenizerFast"}) {
    const TemporaryFolder directory;
    std::filesystem::copy_file(tokenizer_fixtures() / "families" / "fairseq.model",
                               directory / "sentencepiece.bpe.model");
    spill(directory / "tokenizer_config.json",
          std::string(R"({"tokenizer_class": ")") + name + R"(", "src_lang": "fr_XX", "tgt_lang": "de_DE"})");
    const auto tokenizer = load_tokenizer(directory);
    const bool mbart = name == std::string("MBartTokenizer");
    EXPECT_EQ(tokenizer->languages()->starts_decoder, mbart);
    EXPECT_EQ(tokenizer->languages()->list.size(), mbart ? 25u : 52u);
    const Ids source = tokenizer->encode("a").ids, target = tokenizer->encode_target("a").ids;
    EXPECT_EQ(mbart ? source.back() : source.front(), tokenizer->token_to_id("fr_XX"));
    EXPECT_EQ(mbart ? target.back() : target.front(), tokenizer->token_to_id("de_DE"));
  }
}

TEST(Pegasus, RefusesWhatItHasNoIdsFor) {
  const TemporaryFolder directory;
  std::filesystem::copy_file(tokenizer_fixtures() / "families" / "t5.model", directory / "spiece.model");
  const auto error = [&](const char* more) {
    spill(directory / "tokenizer_config.json",
          std::string(R"({"tokenizer_class": "PegasusTokenizer", )") + more + "}");
    return error_of([&] { load_tokenizer(directory); });
  };
  EXPECT_THAT(error(R"("offset": 0)"), HasSubstr("tokenizer_config.json: offset: expected"));
  EXPECT_THAT(error(R"("mask_token_sent": 1)"), HasSubstr("mask_token_sent: expected a string"));
  EXPECT_THAT(error(R"("mask_token_sent": null)"),
              HasSubstr("tokenizer_config.json: mask_token_sent: not found"));
  EXPECT_EQ(error(R"("offset": 2)"), "no error");
}

}  // namespace
}  // namespace heed
