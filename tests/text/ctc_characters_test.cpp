// Compares the tokenizer of wav2vec 2.0 with Wav2Vec2CTCTokenizer of transformers (tests/fixtures/ctc.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;

const std::filesystem::path kCtc = std::filesystem::path(HEED_FIXTURES) / "ctc";

// A folder with the vocabulary, or another one, and settings.
struct CharacterFiles {
  TemporaryFolder folder;
  explicit CharacterFiles(const std::string& settings, const std::string& vocabulary = {}) {
    if (vocabulary.empty())
      std::filesystem::copy_file(kCtc / "vocab.json", folder / "vocab.json");
    else
      spill(folder / "vocab.json", vocabulary);
    spill(folder / "tokenizer_config.json", settings);
  }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(folder); }
};

TEST(CtcCharacters, GiveTheTokensAndTextsOfTransformers) {
  const Json cases = read_json<Json>(kCtc / "tokenizer_vectors.json");
  ASSERT_GE(cases.size(), 6u);
  for (const Json& one : cases) {
    SCOPED_TRACE(one.at("settings").dump());
    const CharacterFiles files(one.at("settings").dump());
    if (!one.at("added").is_null()) spill(files.folder / "added_tokens.json", one.at("added").dump());
    const auto tokenizer = files.load();
    for (const Json& text : one.at("texts")) {
      SCOPED_TRACE(text.at("text").dump());
      const Encoding encoding = tokenizer->encode(text.at("text").get<std::string>());
      EXPECT_EQ(encoding.ids, text.at("ids").get<Ids>());
      std::vector<std::string> tokens = encoding.tokens;  // of <unk> and the like, with the spaces around
      for (std::string& token : tokens)
        token.erase(std::remove(token.begin(), token.end(), ' '), token.end());
      EXPECT_EQ(tokens, text.at("tokens").get<std::vector<std::string>>());
    }
    for (const Json& ids : one.at("ids")) {
      SCOPED_TRACE(ids.at("ids").dump());
      EXPECT_EQ(tokenizer->decode(ids.at("ids").get<Ids>(), false), ids.at("text"));
      EXPECT_EQ(tokenizer->decode(ids.at("ids").get<Ids>(), true), ids.at("without_special"));
    }
  }
}

TEST(CtcCharacters, KnowTheirRolesAndSurviveSaving) {
  const auto tokenizer = load_tokenizer(kCtc);
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 3);
  EXPECT_EQ(tokenizer->word_delimiter_id(), 4);
  EXPECT_EQ(tokenizer->vocab_size(), 34);
  const TemporaryFolder folder;
  tokenizer->save(folder);
  EXPECT_EQ(load_tokenizer(folder)->encode("HI sh").ids, tokenizer->encode("HI sh").ids);
}

TEST(CtcCharacters, NameWhatIsWrong) {
  EXPECT_ERROR(CharacterFiles(R"({"target_lang": "fra"})").load(),
               "tokenizer_config.json: target_lang: expected null");
  EXPECT_ERROR(CharacterFiles(R"({"tokenizer_class": "Wav2Vec2PhonemeCTCTokenizer"})").load(),
               "tokenizer_class: expected Wav2Vec2CTCTokenizer");
  EXPECT_ERROR(CharacterFiles(R"({"word_delimiter_token": 4})").load(), "word_delimiter_token");
  EXPECT_ERROR(CharacterFiles(R"({"unk_token": "?"})").load(), "vocab.json: expected the unknown token ?");
  EXPECT_ERROR(CharacterFiles("{}", R"({"fra": {"a": 0}})").load(), "vocab.json");
  EXPECT_ERROR(CharacterFiles("{}", R"({"a": 0, "b": 0})").load(), "vocab.json");
  CharacterFiles added("{}");
  spill(added.folder / "added_tokens.json", R"({"<new>": 5})");
  EXPECT_ERROR(added.load(), "added_tokens.json: <new>: expected an id that vocab.json gives to this token");
}

}  // namespace
}  // namespace heed
