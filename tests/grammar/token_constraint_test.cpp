#include "heed/grammar/grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "heed/text/tokenizer.h"
#include "heed/text/training.h"
#include "matching.h"
#include "reference/error.h"

namespace heed {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr float kExcludedScore = -std::numeric_limits<float>::infinity();

std::unique_ptr<Tokenizer> trained(const char* type, std::int64_t size) {
  TokenizerTraining training;
  training.type = type;
  training.vocab_size = size;
  training.sentencepiece.byte_fallback = training.type != "byte_bpe";
  int left = 200;
  return train_tokenizer(training, [&](std::string& text) {
    text = R"({"name": "Zo)"
           "\xC3\xAB"
           R"(", "age": )" +
           std::to_string(left * 7 % 90) + R"(, "tags": ["red", "blue"], "ok": true})" +
           std::string(static_cast<std::size_t>(left % 3), '}') + " and names of tags, \xF0\x9F\x98\x80 null";
    return left-- > 0;
  });
}

const std::vector<std::unique_ptr<Tokenizer>>& tokenizers() {
  static const auto kTokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    made.push_back(trained("byte_bpe", 400));
    made.push_back(trained("bpe", 330));
    return made;
  }();
  return kTokenizers;
}

std::vector<float> constrained(const auto& process, const Ids& ids, std::size_t size) {
  std::vector<float> scores(size, 1.0f);
  process(0, ids, scores);
  return scores;
}

Ids allowed_ids(const std::vector<float>& scores) {
  Ids ids;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] > kExcludedScore) ids.push_back(static_cast<std::int64_t>(id));
  }
  return ids;
}

TEST(TokenBytes, JoinToText) {
  for (const auto& tokenizer : tokenizers()) {
    const std::vector<std::string> bytes = token_bytes(*tokenizer);
    ASSERT_EQ(bytes.size(), static_cast<std::size_t>(tokenizer->vocab_size()));
    const Ids prompt = tokenizer->encode("names", false).ids,
              ids = tokenizer->encode(" \"Zo\xC3\xAB\": [1, \xE4\xBD\xA0\xF0\x9F\x98\x80] tags", false).ids;
    std::string joined;
    for (const std::int64_t id : ids) joined += bytes[static_cast<std::size_t>(id)];
    EXPECT_EQ(joined, tokenizer->decode_continuation(prompt, ids));
    EXPECT_EQ(bytes[static_cast<std::size_t>(*tokenizer->eos_id())], "");
  }
}

const char* const kSchemas[] = {
    R"({"type": "object"})",
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
        "maximum": 120}, "tags": {"type": "array", "items": {"enum": ["red", "blue", "é"]}, "maxItems": 3}}, "required": ["name", "age"]})",
    R"({"anyOf": [{"type": "string", "format": "date"}, {"type": "array", "items": {"type": "boolean"}, "minItems": 2}, {"type": "null"}]})",
    R"({"type": "object", "properties": {"v": {"type": "number"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["v", "next"]})"};

// Whatever a model's scores are, the text is JSON of the schema, or the beginning of one at the largest
// length.
TEST(TokenConstraint, RandomTextsMatch) {
  int ended = 0;
  for (const auto& tokenizer : tokenizers()) {
    const TokenVocabulary vocabulary(*tokenizer);
    const std::vector<std::string> bytes = token_bytes(*tokenizer);
    const std::int64_t end = *tokenizer->eos_id();
    const Ids prompt = tokenizer->encode("names", false).ids;
    for (const char* schema : kSchemas) {
      const Grammar grammar = Grammar::json_schema(schema);
      const auto process = constrain_tokens(grammar, vocabulary, {prompt.size()}, {end});
      for (std::uint32_t seed = 0; seed < 25; ++seed) {
        std::mt19937 random(seed);
        Ids ids = prompt;
        bool whole = false;
        while (!whole && ids.size() < prompt.size() + 80) {
          const Ids allowed = allowed_ids(constrained(process, ids, bytes.size() + 3));
          ASSERT_FALSE(allowed.empty());
          const std::int64_t id = allowed[random() % allowed.size()];
          whole = id == end || (allowed.back() != end && allowed.front() == end && random() % 2 == 0);
          if (!whole) ids.push_back(id);
        }
        const std::string text = tokenizer->decode_continuation(
            prompt, {ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()), ids.end()});
        if (whole) {
          ++ended;
          EXPECT_TRUE(matches(grammar, text)) << text;
          EXPECT_TRUE(nlohmann::json::accept(text)) << text;
        } else {
          std::string joined;
          for (std::size_t i = prompt.size(); i < ids.size(); ++i)
            joined += bytes[static_cast<std::size_t>(ids[i])];
          EXPECT_TRUE(begins(grammar, joined)) << joined;
        }
      }
    }
  }
  EXPECT_GT(ended, 60);
}

// The walk over the vocabulary allows what each token allows by itself.
TEST(TokenConstraint, AllowsWhatTheMatcherAccepts) {
  for (const auto& tokenizer : tokenizers()) {
    const std::vector<std::string> bytes = token_bytes(*tokenizer);
    const auto end = static_cast<std::size_t>(*tokenizer->eos_id());
    const Ids ids =
        tokenizer->encode("{\"name\": \"Zo\xC3\xAB red\", \"age\": 57, \"tags\": [\"blue\"]}", false).ids;
    const Grammar grammar = Grammar::json_schema(kSchemas[1]);
    const auto process =
        constrain_tokens(grammar, TokenVocabulary(*tokenizer), {0}, {static_cast<std::int64_t>(end)});
    GrammarMatcher matcher(grammar);
    for (std::size_t i = 0; i <= ids.size(); ++i) {
      const Ids prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i));
      const std::vector<float> scores = constrained(process, prefix, bytes.size());
      for (std::size_t id = 0; id < bytes.size(); ++id) {
        GrammarMatcher next = matcher;
        const bool expected = id == end ? matcher.may_end() : !bytes[id].empty() && next.accept(bytes[id]);
        EXPECT_EQ(scores[id] > kExcludedScore, expected) << i << ' ' << bytes[id];
      }
      if (i < ids.size()) {
        ASSERT_TRUE(matcher.accept(bytes[static_cast<std::size_t>(ids[i])]));
      }
    }
    EXPECT_TRUE(matcher.must_end());
  }
}

// Of random calls: what the walk over the vocabulary allows, and each token by itself.
TEST(TokenConstraint, SpecialTokensStandWhereAGrammarHasThem) {
  int ended = 0;
  for (const auto& tokenizer : tokenizers()) {
    std::vector<std::string> bytes = token_bytes(*tokenizer);
    const auto first = static_cast<std::int64_t>(bytes.size());
    bytes.resize(bytes.size() + 3);
    const std::int64_t end = *tokenizer->eos_id(), word = tokenizer->encode("ag", false).ids.back();
    const Grammar grammar = Grammar::tool_calls(
        R"([{"function": {"name": "tag", "parameters": {"properties": {"age": {"enum": [7, "a"]}}, "required": ["age"]}}},
            {"function": {"name": "name"}}])",
        {.begin = "<a>",
         .end = "<d>",
         .syntax = ToolCallMarks::Syntax::named,
         .list_begin = "<c>",
         .separator = "",
         .several = true,
         .name_end = "<b>",
         .tokens = {{"<a>", first}, {"<b>", first + 1}, {"<c>", first + 2}, {"<d>", word}}});
    const auto process = constrain_tokens(grammar, TokenVocabulary(bytes), {0}, {end});
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      std::mt19937 random(seed);
      GrammarMatcher matcher(grammar);
      Ids ids;
      while (ids.size() < 60) {
        const std::vector<float> scores = constrained(process, ids, bytes.size());
        for (std::size_t id = 0; id < bytes.size(); ++id) {
          const auto token = static_cast<std::int64_t>(id);
          GrammarMatcher by_token = matcher, by_text = matcher;
          const bool expected = token == end ? matcher.may_end()
                                             : by_token.accept_token(token) ||
                                                   (!bytes[id].empty() && by_text.accept(bytes[id]));
          ASSERT_EQ(scores[id] > kExcludedScore, expected) << ids.size() << ' ' << id << ' ' << bytes[id];
        }
        const Ids allowed = allowed_ids(scores);
        const std::int64_t id = allowed[random() % allowed.size()];
        if (id == end) {
          ++ended;
          break;
        }
        GrammarMatcher next = matcher;
        if (!next.accept_token(id)) {
          ASSERT_TRUE(matcher.accept(bytes[static_cast<std::size_t>(id)]));
        } else {
          matcher = next;
        }
        ids.push_back(id);
      }
    }
  }
  EXPECT_GT(ended, 10);
}

// 47 characters that took 26 s for one token of 49,152: the sets of configurations after its texts differ.
TEST(TokenConstraint, TheWorkForATokenIsLimited) {
  std::mt19937_64 random(5);
  std::vector<std::string> tokens;
  for (int i = 0; i < 20000; ++i) {
    std::string text(1 + random() % 10, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    tokens.push_back(text);
  }
  const auto mask = [&](const char* pattern) {
    const auto process = constrain_tokens(Grammar::regex(pattern), TokenVocabulary(tokens), {0}, {});
    return allowed_ids(constrained(process, {}, tokens.size())).size();
  };
  EXPECT_EQ(mask("[a-z ]*[aeiou][a-z ]{300}"), tokens.size());
  EXPECT_ERROR(mask("([a-z ]*[aeiou][a-z ]{300}|([a-z ]{0,3}){1500})"),
               "guided_regex: expected a grammar of less work");
}

TEST(TokenConstraint, EndsOnlyWholeTexts) {
  const TokenVocabulary vocabulary(std::vector<std::string>{"", "ab", "a", "b", "abx", "x"});
  const std::vector<std::string> choices = {"ab"};
  const auto process = constrain_tokens(Grammar::choices(choices), vocabulary, {2, 1}, {0, 5});
  EXPECT_EQ(allowed_ids(constrained(process, {3, 3}, 7)), (Ids{1, 2}));
  EXPECT_EQ(allowed_ids(constrained(process, {3, 3, 2}, 7)), (Ids{3}));
  EXPECT_EQ(allowed_ids(constrained(process, {3, 3, 2, 3}, 7)), (Ids{0, 5}));
  std::vector<float> second_row(7, 1.0f);
  process(1, Ids{3, 2}, second_row);
  EXPECT_EQ(allowed_ids(second_row), (Ids{3}));
  // Another option excluded the token that is left.
  std::vector<float> scores(7, 1.0f);
  scores[3] = kExcludedScore;
  EXPECT_ERROR(process(0, Ids{3, 3, 2}, scores),
               "guided_choice: expected a token that continues the text, got none with a score after \"a\"");
  // A whole text without end tokens: nothing is left, which ends a search.
  scores.assign(7, 1.0f);
  scores[0] = scores[5] = kExcludedScore;
  process(0, Ids{3, 3, 1}, scores);
  EXPECT_EQ(allowed_ids(scores), Ids{});
  EXPECT_ERROR(constrained(process, {3, 3, 5}, 7), "guided_choice: expected a token that continues the text");
  EXPECT_ERROR(constrained(process, {3}, 7), "guided_choice: expected tokens that begin with the prompt");
}

}  // namespace
}  // namespace heed
