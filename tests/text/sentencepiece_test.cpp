// Checks the tokenization of SentencePiece models against sentencepiece 0.2.2, and training.
#include "heed/text/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/unicode.h"
#include "reference/error.h"
#include "text/algorithms/sentencepiece_model.h"

namespace heed {
namespace {

using testing::HasSubstr;
using Offsets = std::vector<std::pair<std::int64_t, std::int64_t>>;

std::string join(const SentencePieceModel& model, const std::vector<int>& ids) {
  std::vector<std::string_view> pieces;
  for (const int id : ids) pieces.push_back(model.piece(id));
  return model.decode(pieces);
}

void expect_vectors(const char* model_file, const char* vectors_file) {
  const auto model = SentencePieceModel::load(text_fixtures() / "marian" / model_file);
  const auto vectors = read_vectors(vectors_file);
  for (const auto& expected : vectors["strings"]) {
    const auto text = expected["text"].get<std::string>();
    const CharacterOffsets characters(text);
    std::vector<int> ids;
    std::vector<std::string> pieces;
    Offsets offsets;
    model.encode(text, [&](std::string_view piece, int id, std::size_t begin, std::size_t end) {
      ids.push_back(id);
      pieces.emplace_back(piece);
      offsets.emplace_back(characters[begin], characters[end]);
    });
    EXPECT_EQ(ids, expected["ids"].get<std::vector<int>>()) << text;
    EXPECT_EQ(pieces, expected["pieces"].get<std::vector<std::string>>()) << text;
    EXPECT_EQ(offsets, expected["offsets"].get<Offsets>()) << text;
    EXPECT_EQ(join(model, ids), expected["decoded"].get<std::string>()) << text;
  }
  for (const auto& expected : vectors["decode"]) {
    EXPECT_EQ(join(model, expected["ids"].get<std::vector<int>>()), expected["decoded"].get<std::string>());
  }
  EXPECT_GT(vectors["strings"].size(), 80u);
}

TEST(SentencePieceModel, MatchesUnigramVectors) {
  expect_vectors("source.spm", "sentencepiece_unigram_vectors.json");
}
TEST(SentencePieceModel, MatchesBpeVectors) {
  expect_vectors("target.spm", "sentencepiece_bpe_vectors.json");
}

// Every option of a unigram model, on texts with many segmentations of equal scores.
TEST(SentencePieceModel, CutsAsSentencePieceWhateverTheOptions) {
  const auto vectors = read_vectors("unigram/vectors.json");
  ASSERT_EQ(vectors.size(), 6u);
  for (const auto& [name, texts] : vectors.items()) {
    const auto model = SentencePieceModel::load(text_fixtures() / "unigram" / (name + ".model"));
    ASSERT_GT(texts.size(), 35u);
    for (const auto& expected : texts) {
      std::vector<int> ids;
      Offsets offsets;
      const auto text = expected["text"].get<std::string>();
      model.encode(text, [&](std::string_view, int id, std::size_t begin, std::size_t end) {
        ids.push_back(id);
        offsets.emplace_back(begin, end);
      });
      EXPECT_EQ(ids, expected["ids"].get<std::vector<int>>()) << name << ": " << text;
      EXPECT_EQ(offsets, expected["byte_offsets"].get<Offsets>()) << name << ": " << text;
    }
  }
}

TEST(SentencePieceModel, BrokenCharactersAreUnknown) {
  const auto model = SentencePieceModel::load(text_fixtures() / "unigram" / "plain.model");
  std::vector<std::string> pieces;
  Offsets offsets;
  model.encode("a\xFF\xE2\x96z", [&](std::string_view piece, int, std::size_t begin, std::size_t end) {
    pieces.emplace_back(piece);
    offsets.emplace_back(begin, end);
  });
  EXPECT_THAT(pieces, testing::ElementsAre("\xE2\x96\x81"
                                           "a",
                                           "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", "z"));
  EXPECT_EQ(offsets, (Offsets{{0, 1}, {1, 4}, {4, 5}}));
}

class TrainSentencePiece : public testing::TestWithParam<const char*> {
 protected:
  SentencePieceOptions options(std::int64_t vocab_size) const {
    SentencePieceOptions options;
    options.model_type = GetParam();
    options.vocab_size = vocab_size;
    return options;
  }
  static std::string training_error(const SentencePieceOptions& options,
                                    const std::vector<std::string>& sentences) {
    return error_of([&] { train_sentencepiece(options, sentences_of(sentences)); });
  }
  std::vector<std::string> sentences_ = made_up_sentences(600);
};

TEST_P(TrainSentencePiece, GivesTheSameBytesEachTimeAndSaysNothing) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const std::string first = train_sentencepiece(options(60), sentences_of(sentences_));
  const std::string second = train_sentencepiece(options(60), sentences_of(sentences_));
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(first == second);

  const SentencePieceModel model(first, "model");
  ASSERT_EQ(model.size(), 60);
  EXPECT_EQ(model.piece(0), "</s>");
  EXPECT_EQ(model.piece(1), "<unk>");
  for (const std::string& sentence : sentences_) {
    std::vector<int> ids;
    model.encode(sentence, [&](std::string_view, int id, std::size_t, std::size_t) { ids.push_back(id); });
    ASSERT_EQ(join(model, ids), sentence);
  }
}

TEST_P(TrainSentencePiece, CountsWhatItLeavesOut) {
  sentences_.insert(sentences_.end(), {"", " \t\n", "\xEF\xBF\xBD\xE2\x96\x81", std::string(5000, 'x'),
                                       "bad \xFF", "a \xE2\x96\x85 b"});
  SentencePieceReport report;
  const auto with = train_sentencepiece(options(60), sentences_of(sentences_), &report);
  EXPECT_EQ(report.used, 600);
  EXPECT_EQ(report.blank, 3);
  EXPECT_EQ(report.too_long, 1);
  EXPECT_EQ(report.invalid_utf8, 1);
  EXPECT_EQ(report.reserved_character, 1);
  sentences_.resize(600);
  EXPECT_TRUE(with == train_sentencepiece(options(60), sentences_of(sentences_)));
}

TEST_P(TrainSentencePiece, TellsTheSizesThatArePossible) {
  const auto bound = [&](std::int64_t size, const std::string& phrase) {
    const std::string message = training_error(options(size), sentences_);
    const std::size_t at = message.find(phrase);
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 0 : std::stoll(message.substr(at + phrase.size()));
  };
  const std::int64_t most = bound(90000, "vocab_size: expected at most ");
  const std::int64_t least = bound(5, "vocab_size: expected at least ");
  EXPECT_EQ(SentencePieceModel(train_sentencepiece(options(most), sentences_of(sentences_)), "m").size(),
            most);
  EXPECT_EQ(SentencePieceModel(train_sentencepiece(options(least), sentences_of(sentences_)), "m").size(),
            least);
  EXPECT_THAT(training_error(options(most + 1), sentences_), HasSubstr("got " + std::to_string(most + 1)));
  EXPECT_THAT(training_error(options(least - 1), sentences_), HasSubstr("got " + std::to_string(least - 1)));
}

TEST_P(TrainSentencePiece, KeepsSymbolsWholeAndSpellsBytes) {
  auto with = options(340);
  with.byte_fallback = true;
  with.user_defined_symbols = {">>fr<<", "a,b", "say \"x\""};
  const SentencePieceModel model(train_sentencepiece(with, sentences_of(sentences_)), "model");
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(model.piece(2 + i), with.user_defined_symbols[static_cast<std::size_t>(i)]);
  std::vector<std::string> pieces;
  model.encode(">>fr<<\xE2\x98\x83",
               [&](std::string_view piece, int, std::size_t, std::size_t) { pieces.emplace_back(piece); });
  EXPECT_THAT(pieces, testing::ElementsAre("\xE2\x96\x81", ">>fr<<", "<0xE2>", "<0x98>", "<0x83>"));
  EXPECT_EQ(model.decode({"\xE2\x96\x81", "<0xE2>", "<0x98>", "<0x83>"}), "\xE2\x98\x83");
}

TEST_P(TrainSentencePiece, RefusesTextsOfNothing) {
  for (const char* text :
       {"", "  ", "\x01\x02", "\xE2\x80\x8B", "\xEF\xBF\xBD", "\xE2\x96\x81", "\xE2\x96\x85"}) {
    EXPECT_THAT(training_error(options(60), {text}), HasSubstr("no usable sentences")) << text;
  }
  EXPECT_THAT(training_error(options(60), {}), HasSubstr("no usable sentences"));
}

TEST_P(TrainSentencePiece, RefusesOptionsOutOfRange) {
  auto bad = options(0);
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("vocab_size: expected a positive number"));
  bad = options(60);
  bad.model_type = "word";
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("model_type: expected unigram or bpe, got word"));
  bad = options(60);
  bad.character_coverage = 0.5;
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("character_coverage: expected 0.98 to 1, got 0.5"));
  bad = options(60);
  bad.max_sentence_bytes = 0;
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("max_sentence_bytes: expected"));
  bad = options(60);
  bad.normalization = "nfd";
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("normalization: expected"));
  bad = options(60);
  bad.user_defined_symbols = {"a\nb"};
  EXPECT_THAT(training_error(bad, sentences_), HasSubstr("user_defined_symbols: expected"));
}

INSTANTIATE_TEST_SUITE_P(Types, TrainSentencePiece, testing::Values("unigram", "bpe"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace heed
