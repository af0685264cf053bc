// Tokenizers of GGUF files: each kind that llama.cpp's converter writes, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/gguf_writer.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GgufTokenizers : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const GgufWriter& w) {
    spill(folder_ / "x.gguf", w.bytes());
    return load_tokenizer(folder_ / "x.gguf");
  }
  std::string error(const GgufWriter& w) {
    return error_of([&] { load(w); });
  }
  TemporaryFolder folder_;
};

GgufWriter byte_level(std::string_view pre) {
  GgufWriter w;
  w.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", pre);
  w.strings("tokenizer.ggml.tokens", {"<s>", "<|x|>", "a", "b", "1", "2", "\xC4\xA0", "ab",
                                      "\xC4\xA0"
                                      "ab",
                                      "12", "  "});
  w.array<std::int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4});
  w.strings("tokenizer.ggml.merges", {"a b", "\xC4\xA0 ab", "1 2"});
  return w.integer("tokenizer.ggml.bos_token_id", 0).integer("tokenizer.ggml.eos_token_id", 1);
}

TEST_F(GgufTokenizers, SplitTextsAsTheirNameSays) {
  const auto digits_alone = load(byte_level("smollm")), digits = load(byte_level("gpt-2"));
  EXPECT_THAT(digits_alone->encode("ab ab12").ids, ElementsAre(7, 8, 4, 5));
  EXPECT_THAT(digits->encode("ab ab12").ids, ElementsAre(7, 8, 9));
  EXPECT_EQ(digits->decode(std::vector<std::int64_t>{7, 8, 9}), "ab ab12");
  EXPECT_THAT(digits->encode("ab<|x|>b  a").ids, ElementsAre(7, 1, 3, 10, 2));
  EXPECT_EQ(digits->decode(std::vector<std::int64_t>{7, 1, 3}), "abb");
}

TEST_F(GgufTokenizers, AddWhatTheFileSaysOrTheKindHas) {
  EXPECT_THAT(load(byte_level("llama-bpe"))->encode("ab").ids, ElementsAre(0, 7));
  EXPECT_THAT(load(byte_level("llama-bpe").boolean("tokenizer.ggml.add_bos_token", false))->encode("ab").ids,
              ElementsAre(7));
  const auto around = load(byte_level("roberta-bpe")
                               .boolean("tokenizer.ggml.add_bos_token", true)
                               .boolean("tokenizer.ggml.add_eos_token", true));
  EXPECT_THAT(around->encode("ab").ids, ElementsAre(0, 7, 1));
  EXPECT_THAT(around->encode_pair("ab", "b").ids, ElementsAre(0, 7, 1, 1, 3, 1));
  GgufWriter unnamed;  // RoBERTa's names only its separator
  unnamed.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "roberta-bpe");
  unnamed.strings("tokenizer.ggml.tokens", {"a", "<s>", "</s>"});
  unnamed.array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 3, 3});
  unnamed.integer("tokenizer.ggml.seperator_token_id", 2);
  unnamed.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(load(unnamed)->encode("a").ids, ElementsAre(1, 0, 2));
}

TEST_F(GgufTokenizers, OfSentencePieceFallBackToBytes) {
  GgufWriter w;
  w.string("general.architecture", "llama").string("tokenizer.ggml.model", "llama");
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {2, 3, 3};
  std::vector<float> scores(3, 0);
  for (int i = 0; i < 256; ++i) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", i);
    tokens.emplace_back(name);
    types.push_back(6);
    scores.push_back(0);
  }
  const std::vector<std::string> pieces = {"\xE2\x96\x81",
                                           "a",
                                           "b",
                                           "ab",
                                           "\xE2\x96\x81"
                                           "ab",
                                           "<|turn|>"};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    tokens.push_back(pieces[i]);
    types.push_back(i == 5 ? 3 : 1);
    scores.push_back(-static_cast<float>(5 - i));
  }
  w.strings("tokenizer.ggml.tokens", tokens).array("tokenizer.ggml.token_type", 5, types);
  w.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.eos_token_id", 2);
  EXPECT_THAT(error(w), HasSubstr("tokenizer.ggml.scores: expected one for each of 265 tokens, got 0"));
  w.array("tokenizer.ggml.scores", 6, scores);
  EXPECT_THAT(load(w)->encode("ab ab").ids, ElementsAre(1, 263, 263));
  EXPECT_THAT(load(w)->encode("b\xC3\xA9").ids, ElementsAre(1, 259, 261, 3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(load(w)->encode("<|turn|>", false).ids, ElementsAre(264));
  EXPECT_EQ(load(w)->decode(std::vector<std::int64_t>{263, 263}), "ab ab");
  w.boolean("tokenizer.ggml.add_space_prefix", false).boolean("tokenizer.ggml.add_bos_token", false);
  w.boolean("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(load(w)->encode("ab ab").ids, ElementsAre(262, 263, 2));
}

// <unk>, <s>, </s>, bytes, and pieces, with these types of the first and of the last.
GgufWriter sentencepiece(std::int32_t unknown, const std::vector<std::int32_t>& last,
                         const char* last_piece = "<y>") {
  GgufWriter w;
  w.string("general.architecture", "llama").string("tokenizer.ggml.model", "llama");
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {unknown, 3, 3};
  for (int i = 0; i < 256; ++i) {
    tokens.push_back(fmt::format("<0x{:02X}>", i));
    types.push_back(6);
  }
  for (const char* piece : {"\xE2\x96\x81", "a", "b", "<x>", last_piece}) tokens.push_back(piece);
  types.insert(types.end(), {1, 1, 1});
  types.insert(types.end(), last.begin(), last.end());
  w.strings("tokenizer.ggml.tokens", tokens).array("tokenizer.ggml.token_type", 5, types);
  w.array("tokenizer.ggml.scores", 6, std::vector<float>(tokens.size(), -1));
  return w.boolean("tokenizer.ggml.add_bos_token", false);
}

TEST_F(GgufTokenizers, OfSentencePieceNeedNotHaveOneUnknownPiece) {
  const std::vector<std::int64_t> wanted = load(sentencepiece(2, {1, 1}))->encode("ab \xC3\xA9").ids;
  EXPECT_THAT(wanted, ElementsAre(259, 260, 261, 259, 3 + 0xC3, 3 + 0xA9));
  // As Gemma's, whose <unk> is a control token; as Phi-3's, whose unused tokens have the type of an unknown
  // one.
  for (const auto& last : {std::vector<std::int32_t>{1, 1}, {2, 2}}) {
    auto gguf = sentencepiece(3, last);
    const auto tokenizer = load(gguf.integer("tokenizer.ggml.unknown_token_id", 0));
    EXPECT_EQ(tokenizer->encode("ab \xC3\xA9").ids, wanted);
    EXPECT_EQ(tokenizer->decode(std::vector<std::int64_t>{260, 263}), "a<y>");
  }
  EXPECT_EQ(load(sentencepiece(3, {2, 1}))->encode("ab").ids.size(), 3u);
}

// As Gemma's, of which transformers leaves the space before it.
TEST_F(GgufTokenizers, OfSentencePieceKeepTheSpaceBeforeAMask) {
  auto gguf = sentencepiece(3, {1, 3}, "<mask>");
  const auto tokenizer = load(gguf.boolean("tokenizer.ggml.add_space_prefix", false));
  EXPECT_THAT(tokenizer->encode("a <mask>b").ids, ElementsAre(260, 259, 263, 261));
}

TEST_F(GgufTokenizers, ErrorsNameTheFileAndItsKey) {
  EXPECT_EQ(error(sentencepiece(2, {6, 1})),
            (folder_ / "x.gguf").string() +
                ": tokenizer.ggml.token_type: expected 256 tokens of bytes (type 6), or none, got 257");
}

TEST_F(GgufTokenizers, OfBertHaveTheirWordPiecesBack) {
  GgufWriter w;
  w.string("tokenizer.ggml.model", "bert");
  w.strings("tokenizer.ggml.tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81play", "ing",
                                      "\xE2\x96\x81!", "\xE2\x96\x81[unused0]"});
  w.array<std::int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 3, 3, 1, 1, 1, 1});
  w.integer("tokenizer.ggml.unknown_token_id", 1).integer("tokenizer.ggml.seperator_token_id", 3);
  w.integer("tokenizer.ggml.padding_token_id", 0);
  const auto tokenizer = load(w);
  const Encoding pair = tokenizer->encode_pair("Playing!", "odd");
  EXPECT_THAT(pair.ids, ElementsAre(2, 4, 5, 6, 3, 1, 3));
  EXPECT_THAT(pair.type_ids, ElementsAre(0, 0, 0, 0, 0, 1, 1));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int64_t>{4, 5, 6}), "playing!");
}

TEST_F(GgufTokenizers, OfT5AreUnigramModels) {
  GgufWriter w;
  w.string("tokenizer.ggml.model", "t5");
  w.strings("tokenizer.ggml.tokens", {"<pad>", "</s>", "<unk>",
                                      "\xE2\x96\x81"
                                      "a",
                                      "b", "ab", "[PAD6]", "[PAD7]"});
  w.array<std::int32_t>("tokenizer.ggml.token_type", 5, {3, 3, 2, 1, 1, 1, 5, 5});
  w.array<float>("tokenizer.ggml.scores", 6, {0, 0, 0, -1, -2, -1, -10000, -10000});
  w.integer("tokenizer.ggml.eos_token_id", 1).integer("tokenizer.ggml.padding_token_id", 0);
  const auto tokenizer = load(w);
  EXPECT_THAT(tokenizer->encode("a ab").ids, ElementsAre(3, 3, 4, 1));
  EXPECT_EQ(tokenizer->token_to_id("<extra_id_0>"), 7);
}

TEST_F(GgufTokenizers, AreSavedAsFilesOfADirectory) {
  const TemporaryFolder saved;
  load(byte_level("llama-bpe").string("tokenizer.chat_template", "{{ x }}"))->save(saved.path());
  EXPECT_THAT(load_tokenizer(saved.path())->encode("ab ab12").ids, ElementsAre(0, 7, 8, 9));
  EXPECT_THAT(slurp(saved / "tokenizer_config.json"), HasSubstr("{{ x }}"));
}

TEST_F(GgufTokenizers, RefuseWhatHeedDoesNotHave) {
  EXPECT_THAT(error(GgufWriter()),
              HasSubstr("x.gguf: tokenizer.ggml.tokens: expected a vocabulary, got none"));
  EXPECT_THAT(error(byte_level("superbpe")),
              HasSubstr("tokenizer.ggml.pre: expected a way to split texts that heed has"));
  EXPECT_THAT(error(byte_level("gpt")), HasSubstr("got gpt"));
  const auto of_kind = [](const char* model) {
    return GgufWriter().string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", {"a"});
  };
  EXPECT_THAT(error(of_kind("rwkv")),
              HasSubstr("tokenizer.ggml.model: expected gpt2, llama, bert or t5, got rwkv"));
  EXPECT_THAT(error(of_kind("gpt2").array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1})),
              HasSubstr("tokenizer.ggml.token_type: expected one for each of 1 tokens, got 2"));
  EXPECT_THAT(error(of_kind("gpt2").array<std::int32_t>("tokenizer.ggml.token_type", 5, {7})),
              HasSubstr("types from 1 to 6"));
  EXPECT_THAT(
      error(GgufWriter().string("tokenizer.ggml.model", "gpt2").strings("tokenizer.ggml.tokens", {"\xFF"})),
      HasSubstr("tokenizer.ggml.tokens: expected tokens in UTF-8, got other bytes in token 0"));
}

}  // namespace
}  // namespace heed
