// Checks the Marian tokenizer against MarianTokenizer of Hugging Face transformers (see
// fixtures/text/README.md).
#include "heed/text/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "fixtures.h"
#include "heed/error.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Ids = std::vector<std::int64_t>;
using Offsets = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(Marian, MatchesTransformers) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  const auto vectors = read_vectors("marian_vectors.json");
  for (const auto& expected : vectors["strings"]) {
    const auto text = expected["text"].get<std::string>();
    const Encoding source = tokenizer->encode(text);
    EXPECT_EQ(source.ids, expected["ids"].get<Ids>()) << text;
    auto tokens = expected["tokens"].get<std::vector<std::string>>();
    EXPECT_EQ(tokenizer->encode(text, false).tokens, tokens) << text;
    tokens.push_back("</s>");
    EXPECT_EQ(source.tokens, tokens) << text;
    const Encoding target = tokenizer->encode_target(text);
    EXPECT_EQ(target.ids, expected["target_ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer->decode(target.ids), expected["decoded"].get<std::string>()) << text;
    EXPECT_EQ(tokenizer->decode(target.ids, false), expected["decoded_with_special"].get<std::string>())
        << text;
  }
  for (const auto& expected : vectors["decode"]) {
    const auto ids = expected["ids"].get<Ids>();
    EXPECT_EQ(tokenizer->decode(ids), expected["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, false), expected["decoded_with_special"].get<std::string>());
  }
  EXPECT_GT(vectors["strings"].size(), 200u);
}

TEST(Marian, OffsetsAreSentencePieces) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  const auto vectors = read_vectors("sentencepiece_unigram_vectors.json");
  for (const auto& expected : vectors["strings"]) {
    const auto text = expected["text"].get<std::string>();
    // Special tokens in the text are matched by Marian, not by SentencePiece.
    if (text.find("</s>") != text.npos || text.find("<unk>") != text.npos || text.find("<pad>") != text.npos)
      continue;
    auto offsets = expected["offsets"].get<Offsets>();
    offsets.emplace_back(0, 0);
    EXPECT_EQ(tokenizer->encode(text).offsets, offsets) << text;
  }
  const Encoding marked = tokenizer->encode(">>fr<< \xC3\xA9t\xC3\xA9</s>a");
  EXPECT_THAT(marked.tokens, ElementsAre(">>fr<<", "\xE2\x96\x81", "\xC3\xA9", "t", "\xC3\xA9", "</s>",
                                         "\xE2\x96\x81"
                                         "a",
                                         "</s>"));
  EXPECT_THAT(marked.offsets, ElementsAre(Pair(0, 6), Pair(7, 7), Pair(7, 8), Pair(8, 9), Pair(9, 10),
                                          Pair(10, 14), Pair(14, 15), Pair(0, 0)));
}

TEST(Marian, TakesAnyBytes) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  const Encoding broken = tokenizer->encode("a\xFF\xC3 b");
  const Encoding repaired = tokenizer->encode("a\uFFFD\uFFFD b");
  EXPECT_EQ(broken.ids, repaired.ids);
  EXPECT_EQ(broken.offsets, repaired.offsets);
  EXPECT_EQ(tokenizer->encode("").ids, Ids{0});
  EXPECT_EQ(tokenizer->encode("", false).ids, Ids{});
  EXPECT_EQ(tokenizer->decode(Ids{}), "");
}

TEST(Marian, TellsItsSpecialIds) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  EXPECT_EQ(tokenizer->eos_id(), 0);
  EXPECT_EQ(tokenizer->unk_id(), 1);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->pad_id(), tokenizer->vocab_size() - 1);
  EXPECT_EQ(tokenizer->token(tokenizer->vocab_size() - 1), "<pad>");
  EXPECT_EQ(tokenizer->model_max_length(), 512);
  EXPECT_ERROR(tokenizer->token(tokenizer->vocab_size()),
               "token: expected an id of the vocabulary (0 to 1053), got 1054");
  EXPECT_ERROR(tokenizer->token(-1), "token: expected an id of the vocabulary (0 to 1053), got -1");
  EXPECT_ERROR(tokenizer->decode(Ids{0, 99999}), "decode: expected ids from 0 to 1053, got 99999");
}

TEST(Marian, SavesWhatItLoads) {
  const TemporaryFolder directory;
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  tokenizer->save(directory / "new");
  for (const char* name : {"source.spm", "target.spm"}) {
    EXPECT_TRUE(slurp(directory / "new" / name) == slurp(text_fixtures() / "marian" / name));
  }
  const auto again = load_tokenizer(directory / "new");
  const auto vocabulary = read_json(directory / "new" / "vocab.json");
  EXPECT_EQ(vocabulary, read_json(text_fixtures() / "marian" / "vocab.json"));
  const auto config = read_json(directory / "new" / "tokenizer_config.json");
  EXPECT_EQ(config["target_lang"], "fr");
  EXPECT_EQ(config["tokenizer_class"], "MarianTokenizer");
  EXPECT_EQ(config["model_max_length"], 512);
  EXPECT_EQ(again->encode(">>fr<< The q").ids, tokenizer->encode(">>fr<< The q").ids);
}

TEST(Marian, TrainsInMariansLayout) {
  const auto sentences = made_up_sentences(600);
  MarianTokenizerOptions options;
  options.sentencepiece.vocab_size = 330;
  options.sentencepiece.byte_fallback = true;
  options.source_language = "en";
  options.target_language = "fr";
  const auto tokenizer = train_marian_tokenizer(options, sentences_of(sentences));
  EXPECT_EQ(tokenizer->vocab_size(), 330);
  EXPECT_EQ(tokenizer->token(0), "</s>");
  EXPECT_EQ(tokenizer->token(1), "<unk>");
  EXPECT_EQ(tokenizer->token(2), "<0x00>");
  EXPECT_EQ(tokenizer->token(329), "<pad>");
  EXPECT_EQ(tokenizer->pad_id(), 329);
  for (const std::string text : {"ba lo mi.", "snow \xE2\x98\x83 man", "\xF0\x9F\x98\x80"}) {
    const Encoding encoding = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(encoding.ids), text);
    for (const std::int64_t id : encoding.ids) EXPECT_NE(id, 1);
  }

  const TemporaryFolder directory;
  tokenizer->save(directory);
  const auto loaded = load_tokenizer(directory);
  for (const std::string& sentence : sentences) {
    ASSERT_EQ(loaded->encode(sentence).ids, tokenizer->encode(sentence).ids);
    ASSERT_EQ(loaded->encode_target(sentence).ids, tokenizer->encode(sentence).ids);
  }
}

TEST(Marian, SpeaksOfTheWholeVocabularyInErrors) {
  const auto sentences = made_up_sentences(600);
  MarianTokenizerOptions options;
  const auto train = [&](std::int64_t size) {
    options.sentencepiece.vocab_size = size;
    return train_marian_tokenizer(options, sentences_of(sentences));
  };
  const std::string message = error_of([&] { train(90000); });
  const std::string phrase = "vocab_size: expected at most ";
  ASSERT_THAT(message, HasSubstr(phrase));
  const std::int64_t most = std::stoll(message.substr(message.find(phrase) + phrase.size()));
  EXPECT_EQ(train(most)->vocab_size(), most);
  EXPECT_ERROR(train(most + 1), "vocab_size: expected at most ");
}

TEST(Marian, EncodesPairsAndWindows) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  const Ids a = tokenizer->encode("the little cat", false).ids, b = tokenizer->encode("a dog", false).ids;
  const Encoding pair = tokenizer->encode_pair("the little cat", "a dog");
  Ids joined = a;
  joined.insert(joined.end(), b.begin(), b.end());
  joined.push_back(*tokenizer->eos_id());
  EXPECT_EQ(pair.ids, joined);
  EXPECT_EQ(pair.sequence_ids[a.size()], 1);
  EXPECT_EQ(pair.special_tokens_mask.back(), 1);
  EXPECT_EQ(pair.sequence_ids.back(), -1);

  const auto windows =
      tokenizer->encode_windows("the little cat", std::nullopt, {.max_length = 4, .stride = 1});
  ASSERT_EQ(windows.size(), (a.size() - 1 + 1) / 2);
  EXPECT_EQ(windows[0].ids, (Ids{a[0], a[1], a[2], *tokenizer->eos_id()}));
  EXPECT_EQ(windows[1].ids[0], a[2]);
  EXPECT_ERROR(tokenizer->encode_windows("the little cat", std::nullopt, {.max_length = 4, .stride = 3}),
               "expected a stride below the 3 tokens there is room for, got 3");
  EXPECT_ERROR(tokenizer->encode_windows("a", std::nullopt, {.max_length = 0}),
               "expected a length of at least the 1 tokens that are added");
  EXPECT_ERROR(tokenizer->encode_windows("the little cat", "a dog",
                                         {.max_length = 4, .strategy = Truncation::Strategy::only_second}),
               "the second text cannot be cut to fit");
}

TEST(Marian, StreamsText) {
  const auto tokenizer = load_tokenizer(text_fixtures() / "marian");
  for (const char* text :
       {"the little cat, \xC3\xA9t\xC3\xA9", "\xF0\x9F\x98\x80 \xE6\x97\xA5\xE6\x9C\xAC"}) {
    const Ids ids = tokenizer->encode_target(text).ids;
    StreamingDecoder stream(*tokenizer);
    std::string joined;
    for (const std::int64_t id : ids) {
      const std::string fresh = stream.push(id);
      EXPECT_EQ(fresh.find("\xEF\xBF\xBD"), fresh.npos);
      joined += fresh;
    }
    EXPECT_EQ(joined + stream.finish(), tokenizer->decode(ids));
  }
}

TEST(Marian, KeepsSeparateVocabularies) {
  const TemporaryFolder directory;
  const auto fixture = text_fixtures() / "marian";
  for (const char* name : {"source.spm", "target.spm"}) {
    std::filesystem::copy_file(fixture / name, directory / name);
  }
  spill(directory / "vocab.json", R"({"</s>": 0, "<unk>": 1, "\u2581a": 2, "<pad>": 3})");
  spill(directory / "target_vocab.json", R"({"<unk>": 0, "</s>": 1, "\u2581a": 2, "b": 3, "<pad>": 4})");
  spill(directory / "tokenizer_config.json",
        R"({"separate_vocabs": true, "clean_up_tokenization_spaces": true})");
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->vocab_size(), 4);
  EXPECT_EQ(tokenizer->encode("a").ids, (Ids{2, 0}));
  EXPECT_EQ(tokenizer->encode_target("a").ids, (Ids{2, 1}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 3, 1, 4}), "ab");
  EXPECT_EQ(tokenizer->token(4), "<pad>");
  tokenizer->save(directory / "again");
  EXPECT_EQ(load_tokenizer(directory / "again")->encode_target("a").ids, (Ids{2, 1}));
}

TEST(Marian, FollowsItsConfig) {
  const TemporaryFolder directory;
  const auto fixture = text_fixtures() / "marian";
  for (const char* name : {"source.spm", "target.spm"}) {
    std::filesystem::copy_file(fixture / name, directory / name);
  }
  spill(directory / "vocab.json",
        R"({"[E]": 0, "[U]": 1, "\u2581a": 2, "\u2581,": 3, "\u2581?": 4, "\u2581n't": 5})");
  spill(directory / "tokenizer_config.json",
        R"({"eos_token": {"content": "[E]"}, "clean_up_tokenization_spaces": true,
    "added_tokens_decoder": {"0": {"content": "[E]", "special": true}, "6": {"content": "[X]", "special": true},
                             "7": {"content": "[Y]"}}})");
  spill(directory / "special_tokens_map.json", R"({"unk_token": "[U]", "eos_token": "ignored"})");
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->pad_id(), std::nullopt);
  EXPECT_EQ(tokenizer->encode("a[X]a[Y]").ids, (Ids{2, 6, 2, 7, 0}));
  EXPECT_EQ(tokenizer->decode(Ids{2, 3, 6, 2, 4, 7, 5, 0}), "a, a?[Y]n't");
}

}  // namespace
}  // namespace heed
