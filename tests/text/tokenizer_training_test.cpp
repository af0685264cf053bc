// Checks trained vocabularies against the trainers of the tokenizers library (see
// fixtures/tokenizers/README.md).
#include "heed/text/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures.h"
#include "heed/error.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "text/algorithms/sentencepiece_model.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int64_t>;

std::vector<std::string> tokens_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) tokens.push_back(tokenizer.token(id));
  return tokens;
}

TokenizerTraining training_of(const Json& item) {
  TokenizerTraining training;
  training.type = item["type"].get<std::string>();
  training.vocab_size = item["vocab_size"].get<std::int64_t>();
  training.min_frequency = item["min_frequency"].get<std::int64_t>();
  training.lower_case = item.value("lower_case", true);
  training.append_end = item.value("append_end", false);
  return training;
}

std::string training_error(const TokenizerTraining& training, const std::vector<std::string>& texts) {
  return error_of([&] { train_tokenizer(training, sentences_of(texts)); });
}

TEST(TokenizerTraining, MatchesTheTokenizersLibrary) {
  const Json fixture = read_json<Json>(tokenizer_fixtures() / "training.json");
  const auto corpus = fixture["corpus"].get<std::vector<std::string>>();
  ASSERT_GE(fixture["cases"].size(), 5u);
  for (const Json& item : fixture["cases"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    TokenizerTrainingReport report;
    const auto tokenizer = train_tokenizer(training_of(item), sentences_of(corpus), &report);
    EXPECT_EQ(report.texts, static_cast<std::int64_t>(corpus.size()));
    EXPECT_EQ(tokens_of(*tokenizer), item["tokens"].get<std::vector<std::string>>());
    const TemporaryFolder directory;
    tokenizer->save(directory);
    const Json saved = read_json<Json>(directory / "tokenizer.json");
    if (item.contains("merges")) {
      EXPECT_EQ(saved["model"]["merges"], item["merges"]);
    }
    const auto loaded = load_tokenizer(directory);
    for (const Json& expected : item["texts"]) {
      const auto text = expected["text"].get<std::string>();
      SCOPED_TRACE(expected["text"].dump());
      for (const Tokenizer* used :
           {static_cast<const Tokenizer*>(tokenizer.get()), static_cast<const Tokenizer*>(loaded.get())}) {
        const Ids ids = used->encode(text).ids;
        EXPECT_EQ(ids, expected["ids"].get<Ids>());
        EXPECT_EQ(used->decode(ids, true), expected["decoded"].get<std::string>());
      }
    }
  }
}

TEST(TokenizerTraining, CharactersAreInTheOrderOfTheirCodePoints) {
  TokenizerTraining training;
  training.type = "character";
  const auto tokenizer = train_tokenizer(training, sentences_of({"hé\n", "a 日\n"}));
  EXPECT_THAT(tokens_of(*tokenizer), ElementsAre("\n", " ", "a", "h", "é", "日", "<unk>"));
  EXPECT_THAT(tokenizer->encode("ah\n?日").ids, ElementsAre(2, 3, 0, 6, 5));
  EXPECT_EQ(tokenizer->unk_id(), 6);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a h 日\n").ids), "a h 日\n");
}

TEST(TokenizerTraining, ByteBpeGivesAnyTextBack) {
  const auto tokenizer = train_tokenizer({.vocab_size = 300}, sentences_of(made_up_sentences(200)));
  for (const char* text :
       {"", " ", "bali tremi", "日本語 \t\n\r\n  x", "\x01\x7F é 👍🏽", "it's 1,234.5"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text).ids), text);
  EXPECT_EQ(tokenizer->token(0), "<|endoftext|>");
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_EQ(tokenizer->vocab_size(), 300);
  EXPECT_THAT(tokenizer->encode("<|endoftext|>").ids, ElementsAre(0));
  const auto ended =
      train_tokenizer({.vocab_size = 300, .append_end = true}, sentences_of(made_up_sentences(200)));
  EXPECT_EQ(ended->encode("ba").ids.back(), 0);
}

TEST(TokenizerTraining, SpecialTokensOfEncoderDecoders) {
  for (const char* type : {"unigram", "bpe", "byte_bpe"}) {
    SCOPED_TRACE(type);
    const std::int64_t size = type == std::string("byte_bpe") ? 400 : 160;
    const auto t5 = train_tokenizer({.type = type, .special_tokens = "t5", .vocab_size = size},
                                    sentences_of(made_up_sentences(200)));
    EXPECT_EQ(t5->vocab_size(), size);
    EXPECT_EQ(t5->pad_id(), 0);
    EXPECT_EQ(t5->eos_id(), 1);
    EXPECT_EQ(t5->unk_id(), 2);
    EXPECT_EQ(t5->token_to_id("<extra_id_0>"), size - 1);
    EXPECT_EQ(t5->token_to_id("<extra_id_99>"), size - 100);
    EXPECT_TRUE(t5->is_special(size - 1));
    EXPECT_EQ(t5->encode("bali").ids.back(), 1);
    const TemporaryFolder directory;
    const auto bart = train_tokenizer({.type = type, .special_tokens = "bart", .vocab_size = size - 99},
                                      sentences_of(made_up_sentences(200)));
    bart->save(directory);
    const auto loaded = load_tokenizer(directory);
    EXPECT_EQ(loaded->vocab_size(), size - 99);
    EXPECT_EQ(loaded->bos_id(), 0);
    EXPECT_EQ(loaded->pad_id(), 1);
    EXPECT_EQ(loaded->eos_id(), 2);
    EXPECT_EQ(loaded->unk_id(), 3);
    EXPECT_EQ(loaded->mask_id(), size - 100);
    const Ids ids = loaded->encode("bali <mask> tremi").ids;
    EXPECT_EQ(ids.front(), 0);
    EXPECT_EQ(ids.back(), 2);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), size - 100), 1);
    EXPECT_EQ(loaded->decode(loaded->encode("bali tremi").ids), "bali tremi");
  }
  EXPECT_THAT(training_error({.type = "wordpiece", .special_tokens = "t5"}, {"a"}),
              HasSubstr("special_tokens: expected a vocabulary of byte_bpe, unigram or bpe, got wordpiece"));
  EXPECT_THAT(training_error({.type = "bpe", .special_tokens = "gpt"}, {"a"}),
              HasSubstr("special_tokens: expected t5 or bart, got gpt"));
}

TEST(TokenizerTraining, WordPieceAddsItsTokensAndNamesItsRoles) {
  TokenizerTraining training{.type = "wordpiece", .vocab_size = 60, .model_max_length = 128};
  const auto tokenizer = train_tokenizer(training, sentences_of(made_up_sentences(200)));
  EXPECT_EQ(tokenizer->pad_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 1);
  EXPECT_EQ(tokenizer->cls_id(), 2);
  EXPECT_EQ(tokenizer->sep_id(), 3);
  EXPECT_EQ(tokenizer->mask_id(), 4);
  EXPECT_EQ(tokenizer->model_max_length(), 128);
  const Encoding pair = tokenizer->encode_pair("Bali", "tre [MASK] ☃");
  EXPECT_EQ(pair.ids.front(), 2);
  EXPECT_EQ(pair.ids.back(), 3);
  EXPECT_EQ(pair.type_ids.front(), 0);
  EXPECT_EQ(pair.type_ids.back(), 1);
  EXPECT_THAT(pair.ids, testing::Contains(4));
  EXPECT_THAT(pair.ids, testing::Contains(1));
  const TemporaryFolder directory;
  tokenizer->save(directory);
  EXPECT_EQ(load_tokenizer(directory)->mask_id(), 4);
  EXPECT_EQ(load_tokenizer(directory)->model_max_length(), 128);
  EXPECT_EQ(load_tokenizer(directory)->encode("BALI").ids, tokenizer->encode("bali").ids);
}

// The order is that of the tokenizers library's WordLevelTrainer: frequency, then the word.
TEST(TokenizerTraining, WordsByFrequencyAndTheRestIsUnknown) {
  const std::vector<std::string> texts = {"The cat saw the dog.", "A dog saw it.", "Once"};
  const auto tokenizer =
      train_tokenizer({.type = "word", .vocab_size = 100, .min_frequency = 2}, sentences_of(texts));
  EXPECT_EQ(tokens_of(*tokenizer), (std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]",
                                                             ".", "dog", "saw", "the"}));
  EXPECT_EQ(tokenizer->encode("The bird saw.").ids, (std::vector<std::int64_t>{2, 8, 1, 7, 5, 3}));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int64_t>{8, 6}), "the dog");
  const auto small =
      train_tokenizer({.type = "word", .vocab_size = 7, .min_frequency = 1}, sentences_of(texts));
  EXPECT_EQ(tokens_of(*small).back(), "dog");
}

TEST(TokenizerTraining, TheOrderOfTextsAndInvalidBytesDoNotMatter) {
  std::vector<std::string> texts = made_up_sentences(300);
  const auto first = train_tokenizer({.vocab_size = 400}, sentences_of(texts));
  std::reverse(texts.begin(), texts.end());
  texts.emplace_back();
  TokenizerTrainingReport report;
  const auto second = train_tokenizer({.vocab_size = 400}, sentences_of(texts), &report);
  EXPECT_EQ(tokens_of(*first), tokens_of(*second));
  EXPECT_EQ(report.replaced_in_utf8, 0);
  EXPECT_GT(report.words, 100);
  texts.emplace_back("\xFF ba \xFF");
  train_tokenizer({.vocab_size = 400}, sentences_of(texts), &report);
  EXPECT_EQ(report.replaced_in_utf8, 2);
}

TEST(TokenizerTraining, StopsWhenThereIsNothingToMerge) {
  EXPECT_EQ(train_tokenizer({.vocab_size = 1000, .min_frequency = 0}, sentences_of({"abab"}))->vocab_size(),
            257 + 2);  // ab, abab
  EXPECT_EQ(train_tokenizer({.vocab_size = 1000, .min_frequency = 2}, sentences_of({"abab"}))->vocab_size(),
            257 + 1);
  TokenizerTraining few{.type = "wordpiece", .vocab_size = 100, .most_characters = 2};
  EXPECT_THAT(tokens_of(*train_tokenizer(few, sentences_of({"aab", "bca", "a"}))),
              ElementsAre("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "##b"));
}

class TrainedSentencePiece : public testing::TestWithParam<const char*> {
 protected:
  TokenizerTraining training(std::int64_t vocab_size) const {
    return {.type = GetParam(), .vocab_size = vocab_size};
  }
  std::vector<std::string> sentences_ = made_up_sentences(600);
};

TEST_P(TrainedSentencePiece, SplitsAsTheModelItself) {
  sentences_.emplace_back();
  TokenizerTrainingReport report;
  const auto tokenizer = train_tokenizer(training(80), sentences_of(sentences_), &report);
  EXPECT_EQ(report.texts, 601);
  EXPECT_EQ(report.skipped, 1);
  EXPECT_EQ(tokenizer->vocab_size(), 80);
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 1);
  EXPECT_EQ(tokenizer->pad_id(), 79);
  SentencePieceOptions options;
  options.model_type = GetParam();
  options.vocab_size = 79;
  const SentencePieceModel model(train_sentencepiece(options, sentences_of(sentences_)), "model");
  const TemporaryFolder directory;
  tokenizer->save(directory);
  const auto loaded = load_tokenizer(directory);
  sentences_.insert(sentences_.end(), {" two  spaces ", "ba\tlo\n", "ＢＡ ﬁ ☃☃ é", "\u00A0x", "...", "a ba"});
  for (const std::string& text : sentences_) {
    Ids expected;
    model.encode(text, [&](std::string_view, int id, std::size_t, std::size_t) { expected.push_back(id); });
    EXPECT_EQ(tokenizer->encode(text).ids, expected) << text;
    EXPECT_EQ(loaded->encode(text).ids, expected) << text;
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(" two  tre ").ids),
            tokenizer->decode(tokenizer->encode("two tre").ids));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(sentences_[0]).ids), sentences_[0]);
}

TEST_P(TrainedSentencePiece, SpellsBytesAndKeepsSymbolsWhole) {
  TokenizerTraining options = training(340);
  options.sentencepiece.byte_fallback = true;
  options.sentencepiece.user_defined_symbols = {">>fr<<"};
  options.append_end = true;
  const auto tokenizer = train_tokenizer(options, sentences_of(sentences_));
  const Ids ids = tokenizer->encode(">>fr<<ba ☃ 日").ids;
  EXPECT_EQ(ids.front(), tokenizer->token_to_id(">>fr<<"));
  EXPECT_EQ(ids.back(), tokenizer->eos_id());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("ba ☃ 日本").ids), "ba ☃ 日本");
  const TemporaryFolder directory;
  tokenizer->save(directory);
  EXPECT_EQ(load_tokenizer(directory)->encode(">>fr<<ba ☃ 日").ids, ids);
}

INSTANTIATE_TEST_SUITE_P(Types, TrainedSentencePiece, testing::Values("unigram", "bpe"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TokenizerTraining, RefusesOptionsOutOfRange) {
  const std::vector<std::string> texts = {"a text"};
  EXPECT_THAT(training_error({.type = "words"}, texts),
              HasSubstr("type: expected character, word, byte_bpe, wordpiece, unigram or bpe, got words"));
  EXPECT_THAT(training_error({.vocab_size = 0}, texts), HasSubstr("vocab_size: expected 1 to"));
  EXPECT_THAT(training_error({.vocab_size = 256}, texts),
              HasSubstr("vocab_size: expected at least 257 (special tokens and characters), got 256"));
  EXPECT_THAT(training_error({.min_frequency = -1}, texts), HasSubstr("min_frequency: expected"));
  EXPECT_THAT(training_error({.most_characters = 0}, texts), HasSubstr("most_characters: expected"));
  EXPECT_THAT(training_error({.model_max_length = 0}, texts), HasSubstr("model_max_length: expected"));
  for (const char* type : {"character", "word", "byte_bpe", "wordpiece"})
    EXPECT_THAT(training_error({.type = type}, {"", ""}), HasSubstr("expected a corpus, got no text"));
}

TEST(TokenizerTraining, LinesOfAFileKeepTheirEnds) {
  const TemporaryFolder directory;
  spill(directory / "text", "a\n\nb\r\nc");
  const SentenceSource source = lines_of_file(directory / "text");
  std::vector<std::string> lines;
  for (std::string line; source(line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("a\n", "\n", "b\r\n", "c"));
  EXPECT_ERROR(lines_of_file(directory / "none"), "none: cannot be read");
}

}  // namespace
}  // namespace heed
