// Files that are missing, malformed or contradict each other cause an Error that names the file, never a
// crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"
#include "text/algorithms/sentencepiece_model.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSmallVocabulary = R"({"</s>": 0, "<unk>": 1, "<pad>": 2})";

class TokenizerErrors : public testing::Test {
 protected:
  TokenizerErrors() {
    // Both sides get the smaller model.
    for (const char* name : {"source.spm", "target.spm"}) {
      std::filesystem::copy_file(text_fixtures() / "marian" / "target.spm", directory_ / name);
    }
    spill(directory_ / "vocab.json", kSmallVocabulary);
  }
  std::string error() const {
    return error_of([&] { load_tokenizer(directory_); });
  }
  TemporaryFolder directory_;
};

TEST_F(TokenizerErrors, NamesMissingFiles) {
  EXPECT_EQ(error(), "no error");
  std::filesystem::remove(directory_ / "target.spm");
  EXPECT_THAT(error(), HasSubstr("target.spm not found"));
  std::filesystem::remove(directory_ / "vocab.json");
  EXPECT_THAT(error(), HasSubstr("target.spm, vocab.json not found"));
  std::filesystem::remove(directory_ / "source.spm");
  EXPECT_THAT(error(), HasSubstr("no tokenizer found ("));
  spill(directory_ / "tokenizer.json", "{}");
  EXPECT_THAT(error(), HasSubstr("tokenizer.json: model: not found"));
  EXPECT_ERROR(load_tokenizer(directory_ / "nowhere"), "not found (name the directory of a model");
  EXPECT_ERROR(load_tokenizer(directory_ / "tokenizer.json"), "tokenizer.json: model: not found");
}

// SentencePiece models whose family numbers the pieces in its own way.
class FamilyErrors : public TokenizerErrors {
 protected:
  FamilyErrors() {
    for (const char* name : {"source.spm", "target.spm", "vocab.json"}) remove(name);
    put("fairseq.model", "sentencepiece.bpe.model");
  }
  void put(const char* model, const char* name) {
    std::filesystem::copy_file(tokenizer_fixtures() / "families" / model, directory_ / name);
  }
  void remove(const char* name) { std::filesystem::remove(directory_ / name); }
};

TEST_F(FamilyErrors, NamesWhatTellsNoFamily) {
  EXPECT_THAT(error(),
              AllOf(HasSubstr("sentencepiece.bpe.model: unknown kind of tokenizer"),
                    HasSubstr("tokenizer_class XLMRobertaTokenizer"), HasSubstr("got neither (add the")));
  spill(directory_ / "config.json", R"({"model_type": "bert"})");
  EXPECT_THAT(error(), HasSubstr("got the model_type bert (add the tokenizer_class"));
  spill(directory_ / "tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  EXPECT_THAT(error(), HasSubstr("got the tokenizer_class PreTrainedTokenizerFast"));
  spill(directory_ / "tokenizer_config.json", R"({"tokenizer_class": "AlbertTokenizer"})");
  EXPECT_THAT(error(), HasSubstr("got the tokenizer_class AlbertTokenizer"));
  spill(directory_ / "tokenizer_config.json", R"({"tokenizer_class": "CamembertTokenizer"})");
  EXPECT_EQ(error(), "no error");
  const auto file = directory_ / "sentencepiece.bpe.model";
  EXPECT_EQ(load_tokenizer(file)->bos_id(), 5);
  load_tokenizer(file)->save(directory_ / "again");
  EXPECT_EQ(load_tokenizer(directory_ / "again")->bos_id(), 5);

  for (const char* name : {"sentencepiece.bpe.model", "tokenizer_config.json", "config.json"}) remove(name);
  put("albert.model", "spiece.model");
  EXPECT_THAT(error(), AllOf(HasSubstr("spiece.model: unknown kind of tokenizer"),
                             HasSubstr("AlbertTokenizer or PegasusTokenizer beside it, got neither")));
  spill(directory_ / "config.json", R"({"model_type": "xlnet"})");
  EXPECT_THAT(error(), HasSubstr("got the model_type xlnet"));
  remove("spiece.model");
  put("t5.model", "spiece.model");
  EXPECT_THAT(error(), HasSubstr("got the model_type xlnet"));
  remove("config.json");
  EXPECT_EQ(error(), "no error");  // T5's
  spill(directory_ / "spiece.model", slurp(directory_ / "spiece.model") + "\n\x07\n\x05<cls>");
  EXPECT_THAT(error(), HasSubstr("got neither"));  // XLNet's model has such a piece
  remove("spiece.model");
  put("albert.model", "spiece.model");
  spill(directory_ / "config.json", R"({"model_type": "albert"})");
  EXPECT_EQ(error(), "no error");
  put("albert.model", "tokenizer.model");
  remove("spiece.model");
  EXPECT_EQ(error(), "no error");  // a plain SentencePiece model
}

TEST_F(FamilyErrors, NamesWhatIsWrong) {
  const auto expect = [&](const char* name, const char* content, const char* message) {
    spill(directory_ / name, content);
    EXPECT_THAT(error(), AllOf(HasSubstr(directory_ / name), HasSubstr(message))) << content;
    spill(directory_ / name, "{}");
  };
  expect("config.json", "[]", "expected an object, got an array");
  expect("config.json", R"({"model_type": 3})", "model_type: expected a string, got 3");
  expect("tokenizer_config.json", R"({"tokenizer_class": ["MBartTokenizer"]})",
         "tokenizer_class: expected a string");
  expect("tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer", "src_lang": "xx_YY"})",
         R"(src_lang: expected the code of one of the model's languages, got "xx_YY")");
  expect("tokenizer_config.json", R"({"tokenizer_class": "MBartTokenizer", "src_lang": "sl_SI"})",
         "src_lang: expected the code of one");  // one of mBART-50's
  spill(directory_ / "config.json", R"({"model_type": "xlm-roberta"})");
  EXPECT_EQ(error(), "no error");
  expect("tokenizer_config.json", R"({"add_prefix_space": 1})",
         "add_prefix_space: expected true or false, got 1");
  expect("special_tokens_map.json", R"({"mask_token": {}})", "mask_token.content: not found");
  expect("special_tokens_map.json", R"({"extra_special_tokens": "<x>"})",
         "extra_special_tokens: expected an array");
  expect("added_tokens.json", "[]", "expected an object, got an array");
  expect("added_tokens.json", R"({"<x>": -1})", "<x>: expected an integer from 0");
  expect("sentencepiece.bpe.model", "none", "expected a SentencePiece model, got 4 other bytes");
  expect("sentencepiece.bpe.model", "\n\x02\n", "expected a SentencePiece model");  // truncated
  const std::string piece = "\n\x03\n\x01",
                    others = slurp(tokenizer_fixtures() / "families" / "fairseq.model");
  const std::string ninth_kind = "\n\x05\n\x01x\x18\x09";
  for (const std::string& bad : {piece + '\xFF', std::string("\n\x02\n\0", 4), ninth_kind}) {
    spill(directory_ / "sentencepiece.bpe.model", others + bad);
    EXPECT_THAT(error(), HasSubstr("expected a SentencePiece model"));
  }
  put("albert.model", "spiece.model");
  remove("sentencepiece.bpe.model");
  spill(directory_ / "config.json", R"({"model_type": "albert"})");
  EXPECT_EQ(error(), "no error");
  spill(directory_ / "special_tokens_map.json", R"({"cls_token": "<cls>"})");
  EXPECT_THAT(error(), HasSubstr("spiece.model: token <cls>, which is added around texts, not found"));
}

// A damaged model is rejected, or loads and does not crash.
TEST_F(FamilyErrors, SurviveDamage) {
  const std::string model = slurp(directory_ / "sentencepiece.bpe.model");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 120; ++round) {
    const char* classes[] = {"XLMRobertaTokenizer", "CamembertTokenizer", "MBartTokenizer",
                             "MBart50Tokenizer", "NllbTokenizer"};
    spill(directory_ / "tokenizer_config.json",
          std::string(R"({"tokenizer_class": ")") + classes[round % 5] + "\"}");
    std::string damaged = model;
    if (round % 3 == 0) damaged.resize(random() % model.size());
    for (std::uint32_t flips = 1 + random() % 6; flips > 0 && !damaged.empty(); --flips)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    spill(directory_ / "sentencepiece.bpe.model", damaged);
    try {
      const auto tokenizer = load_tokenizer(directory_);
      const std::string text = "Some \xC3\xA9t\xC3\xA9 <mask> \xF0\x9F\x98\x80 text";
      for (const auto& offset : tokenizer->encode_pair(text, text).offsets) EXPECT_LE(offset.second, 22);
      tokenizer->decode(tokenizer->encode(text).ids);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 110);
}

TEST_F(TokenizerErrors, NamesWhatIsWrongInTheVocabulary) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "got the end of the text"},
      {"{\"</s>\": 0, \"<unk>\": 1", "got the end of the text"},
      {"{\"\xFF\": 0}", "expected UTF-8"},
      {"[\"</s>\"]", "expected an object of tokens and ids, got an array"},
      {"3", "expected an object of tokens and ids, got 3"},
      {"{}", "got an empty one"},
      {R"({"</s>": 0, "<unk>": 0})", R"(token "<unk>": expected an id other than that of "</s>", got 0)"},
      {R"({"</s>": 0, "</s>": 1})", R"(token "</s>": expected one id, got 0 and 1)"},
      {R"({"</s>": 0, "<unk>": 2})",
       R"(token "<unk>": expected an id from 0 to 1 (2 tokens, ids without gaps), got 2)"},
      {R"({"</s>": 0, "<unk>": -1})", R"(token "<unk>": expected an id (an integer from 0), got -1)"},
      {R"({"</s>": 0, "<unk>": 1.0})", R"(token "<unk>": expected an id (an integer from 0), got 1.0)"},
      {R"({"</s>": 0, "<unk>": 99999999999999999999})", R"(token "<unk>": expected an id)"},
      {R"({"</s>": 0, "<unk>": 18446744073709551615})", R"(token "<unk>": expected an id)"},
      {R"({"</s>": 0, "<unk>": "1"})", R"(token "<unk>": expected an id (an integer from 0), got "1")"},
      {R"({"</s>": 0, "<unk>": {"id": 1}})",
       R"(token "<unk>": expected an id (an integer from 0), got an object)"},
      {R"({"</s>": 0, "<unk>": [1]})", R"(token "<unk>": expected an id (an integer from 0), got an array)"},
      {R"({"</s>": 0, "<unk>": null})", R"(token "<unk>": expected an id (an integer from 0), got null)"},
      {R"({"</s>": 0, "x": 1})", "unknown token <unk> not found"},
      {R"({"<unk>": 0, "x": 1})", "end token </s> not found"},
  };
  for (const auto& item : cases) {
    spill(directory_ / "vocab.json", item.first);
    EXPECT_THAT(error(), AllOf(HasSubstr("vocab.json"), HasSubstr(item.second))) << item.first;
  }
}

TEST_F(TokenizerErrors, NamesWhatIsWrongInTheConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {"{", "expected a key in quotes"},
      {"[]", "expected an object, got an array"},
      {R"({"eos_token": 3})", "eos_token: expected a string, got 3"},
      {R"({"eos_token": ""})", "eos_token: expected a token"},
      {R"({"pad_token": {"content": null}})", "pad_token.content: not found"},
      {R"({"separate_vocabs": "yes"})", "separate_vocabs: expected true or false, got \"yes\""},
      {R"({"added_tokens_decoder": []})", "added_tokens_decoder: expected an object"},
      {R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "added_tokens_decoder.x: expected an id"},
      {R"({"added_tokens_decoder": {"3": {}}})", "added_tokens_decoder.3.content: not found"},
      {R"({"added_tokens_decoder": {"0": {"content": "a"}}})",
       "added_tokens_decoder.0: expected a token of vocab.json"},
      {R"({"added_tokens_decoder": {"9": {"content": "a"}}})", "or the id 3 that comes next"},
      {R"({"added_tokens_decoder": {"3": {"content": "a", "lstrip": true}}})",
       "added_tokens_decoder.3.lstrip: expected false, got true"},
      {R"({"added_tokens_decoder": {"3": {"content": "<pad>"}}})",
       R"(token "<pad>": expected one id, got 2 and 3)"},
  };
  for (const auto& item : cases) {
    spill(directory_ / "tokenizer_config.json", item.first);
    EXPECT_THAT(error(), AllOf(HasSubstr("tokenizer_config.json"), HasSubstr(item.second))) << item.first;
  }
  spill(directory_ / "tokenizer_config.json", R"({"separate_vocabs": true})");
  EXPECT_THAT(error(), HasSubstr("target_vocab.json: not found"));
}

TEST_F(TokenizerErrors, RejectsInvalidModels) {
  const std::string model = slurp(text_fixtures() / "marian" / "target.spm");
  testing::internal::CaptureStderr();
  for (const std::string& bytes : {std::string(), std::string("garbage"), model.substr(0, model.size() / 2),
                                   std::string(1000, '\0'), std::string(1000, '\xFF')}) {
    spill(directory_ / "source.spm", bytes);
    EXPECT_THAT(error(), AllOf(HasSubstr("source.spm: expected a SentencePiece model"),
                               HasSubstr(std::to_string(bytes.size()))));
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::remove(directory_ / "source.spm");
  std::filesystem::create_directory(directory_ / "source.spm");
  EXPECT_THAT(error(), HasSubstr("source.spm: expected a file, got a directory"));
}

// For a piece that begins with a zero byte, the library throws its own exception.
TEST(SentencePieceModel, RefusesPiecesThatBeginWithZero) {
  using namespace std::string_literals;
  const std::string model =
      "\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02"
      "\n\x0b\n\x02\0a\x15\0\0\x80\xbf\x18\x01"s;
  EXPECT_ERROR(const SentencePieceModel loaded(model, "zero.model"),
               "zero.model: expected a SentencePiece model");
}

std::string bytes_of(const std::vector<std::uint32_t>& units) {
  return std::string(reinterpret_cast<const char*>(units.data()), units.size() * 4);
}

// Makes a model of two pieces with a character map: the units of a double array, and the replacements.
std::string model_with_map(const std::vector<std::uint32_t>& units, const std::string& replacements) {
  using namespace std::string_literals;
  const auto field = [](char tag, const std::string& bytes) {
    const auto size = static_cast<unsigned>(bytes.size());
    return tag + std::string{static_cast<char>((size & 0x7F) | 0x80), static_cast<char>(size >> 7)} + bytes;
  };
  const std::string map =
      bytes_of({static_cast<std::uint32_t>(units.size() * 4)}) + bytes_of(units) + replacements;
  return "\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0a\n\x01\x62\x15\0\0\x80\xbf\x18\x01"s +
         field('\x1a', field('\x12', map));
}

constexpr std::uint32_t kEnds = 1u << 8, kValue = 1u << 31;
std::uint32_t unit(char byte, std::uint32_t offset, std::uint32_t flags = 0) {
  return static_cast<unsigned char>(byte) | offset << 10 | flags;
}

// The library follows a character map without bounds checks.
TEST(SentencePieceModel, RefusesCharacterMapsThatLeadOutside) {
  const std::vector<std::uint32_t> empty(512, unit(0, 0, kValue));
  std::vector<std::uint32_t> good = empty, far_root = empty, far_child = empty, far_value = empty,
                             circle = empty, chain = empty;
  for (auto* map : {&good, &far_child, &far_value, &circle, &chain}) (*map)[0] = unit(0, 256);
  good[256 ^ 'a'] = unit('a', 2, kEnds);  // the value of "a" is at 256 ^ 'a' ^ 2
  far_root[0] = unit(0, (1u << 21) - 1, 1u << 9);
  far_child[256 ^ 'a'] = unit('a', 512);
  far_value[256 ^ 'a'] = unit('a', 2, kEnds);
  far_value[256 ^ 'a' ^ 2] = kValue | 2;
  circle[256 ^ 'a'] = unit('a', 'a');
  for (std::uint32_t place = 256; place < 256 + 2 * 33; place += 2)  // "a", "aa", "aaa", ...
    chain[place ^ 'a'] = unit('a', place ^ 'a' ^ (place + 2), kEnds);
  const auto outcome_of = [](const std::string& model) {
    try {
      const SentencePieceModel loaded(model, "map.model");
      std::string pieces;
      loaded.encode("ab", [&](std::string_view piece, int, std::size_t, std::size_t) { pieces += piece; });
      return "loaded: " + pieces;
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const std::string replacements("b\0", 2), mark = "\xE2\x96\x81";
  EXPECT_EQ(outcome_of(model_with_map(good, replacements)), "loaded: " + mark + "bb");
  for (const auto& map : {far_root, far_child, far_value, circle, chain, std::vector<std::uint32_t>(7)}) {
    EXPECT_THAT(outcome_of(model_with_map(map, replacements)),
                HasSubstr("map.model: normalizer_spec.precompiled_charsmap: expected"));
  }
}

// A damaged model is rejected, or loads and does not crash.
TEST(SentencePieceModel, SurvivesDamage) {
  for (const char* name : {"source.spm", "target.spm"}) {
    const std::string model = slurp(text_fixtures() / "marian" / name);
    std::mt19937 random(7);
    int refused = 0;
    for (int round = 0; round < 150; ++round) {
      std::string damaged = model;
      if (round % 3 == 0) damaged.resize(random() % model.size());
      const std::size_t reach =
          std::min<std::size_t>(damaged.size(), round % 2 == 0 ? 12000 : damaged.size());
      for (std::uint32_t flip = 0, flips = 1 + random() % 6; flip < flips && reach > 0; ++flip) {
        damaged[random() % reach] = static_cast<char>(random());
      }
      try {
        const SentencePieceModel loaded(damaged, "damaged");
        std::size_t last = 0;
        const std::string text = "Some \xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80 text";
        loaded.encode(text, [&](std::string_view, int id, std::size_t, std::size_t end) {
          EXPECT_LT(id, loaded.size());
          last = std::max(last, end);
        });
        EXPECT_LE(last, text.size());
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 10);
  }
}

}  // namespace
}  // namespace heed
