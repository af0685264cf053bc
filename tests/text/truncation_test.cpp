// Checks encode_truncated() against the first of encode_windows(), which tokenizes the whole text; and texts
// and tokenizer files that could take excessive memory or time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "fixtures.h"
#include "heed/error.h"
#include "heed/text/tokenizer.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

constexpr const char* kWords[] = {"the",
                                  "a",
                                  "I'm",
                                  "don't",
                                  "Cat",
                                  "42",
                                  "3.14",
                                  "x1",
                                  "1x",
                                  "caf\u00E9",
                                  "cafe\u0301",
                                  "\u00C5ngstr\u00F6m",
                                  "\u043F\u0440\u0438\u0432\u0435\u0442",
                                  "\u03A3\u03AF\u03C3\u03C5\u03C6\u03BF\u03C2",
                                  "\u0130stanbul",
                                  "\uD55C\uAD6D\uC5B4",
                                  "\u4E2D\u6587",
                                  "\u0627\u0644\u0639\u0631\u0628\u064A\u0629",
                                  "\u0928\u092E\u0938\u094D\u0924\u0947",
                                  "\u0301",
                                  "\u00BD",
                                  "\uFB01n",
                                  "...",
                                  "(b)",
                                  "\u2581",
                                  "\U0001F600",
                                  "<mask>",
                                  "</s>",
                                  "[MASK]",
                                  "<x>",
                                  ">>fra<<",
                                  "``",
                                  "unaffable",
                                  "ba",
                                  "lo",
                                  "mi",
                                  "\u0600a",
                                  "\u00B4"};
constexpr const char* kGaps[] = {" ",  " ",      " ",  " ",    " ", " ",      "  ", "   ",
                                 "\t", "\u00A0", "\n", " \n ", "",  "\u3000", "-"};

std::string made_up_text(std::mt19937& random, std::size_t bytes) {
  std::string text = random() % 3 == 0 ? " " : "";
  // A few words per text, so that the texts after the same position differ.
  const std::size_t words = 2 + random() % std::size(kWords);
  const std::size_t first = random() % std::size(kWords);
  while (text.size() < bytes) {
    text += kWords[(first + random() % words) % std::size(kWords)];
    text += kGaps[random() % std::size(kGaps)];
  }
  return text;
}

void expect_equal(const Encoding& got, const Encoding& wanted, const std::string& label) {
  EXPECT_EQ(got.ids, wanted.ids) << label;
  EXPECT_EQ(got.tokens, wanted.tokens) << label;
  EXPECT_EQ(got.offsets, wanted.offsets) << label;
  EXPECT_EQ(got.type_ids, wanted.type_ids) << label;
  EXPECT_EQ(got.special_tokens_mask, wanted.special_tokens_mask) << label;
  EXPECT_EQ(got.sequence_ids, wanted.sequence_ids) << label;
}

void check_truncation(const Tokenizer& tokenizer, std::mt19937& random, const std::string& name) {
  const std::int64_t added = tokenizer.added_tokens(true);
  for (const bool pair : {false, true}) {
    const std::string first = made_up_text(random, 5200 + random() % 800),
                      second = made_up_text(random, random() % 2 == 0 ? 5600 : 60);
    Truncation truncation;
    truncation.max_length = added + 40 + static_cast<std::int64_t>(random() % 40);
    truncation.left = random() % 8 == 0;
    const auto text_b = pair ? std::optional<std::string_view>(second) : std::nullopt;
    std::vector<Encoding> windows;
    // If the part that is cut off cannot be tokenized, only the tokenization of the whole text fails.
    if (error_of([&] { windows = tokenizer.encode_windows(first, text_b, truncation); }) != "no error")
      continue;
    bool shortened = false;
    const Encoding got = tokenizer.encode_truncated(first, text_b, truncation, true, &shortened);
    expect_equal(got, windows.front(), name);
    EXPECT_EQ(shortened, windows.size() > 1) << name;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Truncation, IsTheFirstWindowForEveryKindOfTokenizer) {
  std::mt19937 random(7);
  // Every third case of components.json: most differ only in ways that do not matter here.
  for (const char* file : {"components.json", "spaces.json", "whole.json"}) {
    const Json cases = read_json<Json>(tokenizer_fixtures() / file)["cases"];
    for (std::size_t i = 0; i<cases.size(); i += cases.size()> 100 ? 3 : 1) {
      const Json& item = cases[i];
      const TemporaryFolder directory;
      spill(directory / "tokenizer.json", item["tokenizer"].dump());
      check_truncation(*load_tokenizer(directory), random, item["name"].get<std::string>());
      if (HasFailure()) return;
    }
  }
}

TEST(Truncation, IsTheFirstWindowForSentencePieceModels) {
  std::mt19937 random(8);
  for (int round = 0; round < 3; ++round) {
    check_truncation(*load_tokenizer(text_fixtures() / "marian"), random, "marian");
    for (const char* name : {"plain", "bytes", "symbols", "spaces", "suffix", "unused"}) {
      check_truncation(*load_tokenizer(text_fixtures() / "unigram" / (std::string(name) + ".model")), random,
                       name);
    }
  }
  const TemporaryFolder directory;
  std::filesystem::copy_file(tokenizer_fixtures() / "families" / "t5.model", directory / "spiece.model");
  for (int round = 0; round < 3; ++round) check_truncation(*load_tokenizer(directory), random, "t5");
}

/// A pipeline that splits words and cannot tokenize a text with "!": success proves that the rest was not
/// tokenized.
constexpr const char* kStrict = R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u0120": 2}, "merges": [], "unk_token": "<unk>"}})";

TEST(Truncation, LooksNoFurtherThanItNeeds) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", kStrict);
  const auto tokenizer = load_tokenizer(directory);
  std::string text;
  for (int i = 0; i < 100000; ++i) text += i % 3 == 0 ? "a " : "b ";
  text += "!";
  Truncation truncation;
  truncation.max_length = 7;
  EXPECT_ERROR(tokenizer->encode_windows(text, std::nullopt, truncation),
               "the text has characters outside the vocabulary, and the unknown token <unk> is not in it");
  bool shortened = false;
  const Encoding one = tokenizer->encode_truncated(text, std::nullopt, truncation, true, &shortened);
  EXPECT_EQ(one.ids, (std::vector<std::int64_t>{0, 2, 1, 2, 1, 2, 0}));
  EXPECT_TRUE(shortened);
  // The same for two texts, and for which of them gets the odd token.
  const std::string longer = text + text;
  EXPECT_EQ(tokenizer->encode_truncated(text.substr(0, 50000), longer.substr(0, 60000), truncation).ids,
            (std::vector<std::int64_t>{0, 2, 1, 0, 2, 1, 2}));
  EXPECT_EQ(tokenizer->encode_truncated(longer.substr(0, 60000), text.substr(0, 50000), truncation).ids,
            (std::vector<std::int64_t>{0, 2, 1, 2, 0, 2, 1}));
}

TEST(Truncation, RefusesWhatWindowsRefuse) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", kStrict);
  const auto tokenizer = load_tokenizer(directory);
  const auto error = [&](std::optional<std::string_view> second, Truncation truncation) -> std::string {
    return error_of([&] { tokenizer->encode_truncated("a b a b", second, truncation); });
  };
  EXPECT_THAT(error(std::nullopt, {-1}), StartsWith("truncation: expected a length of at least"));
  EXPECT_THAT(error(std::nullopt, {2, Truncation::Strategy::only_second}),
              HasSubstr("expected a second text"));
  EXPECT_THAT(error("a a a", {4, Truncation::Strategy::only_first}), HasSubstr("as the other has 5"));
}

TEST(Tokenizers, BoundWhatNormalizersMakeOfAText) {
  const TemporaryFolder directory;
  Json document = Json::parse(R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}},
      "normalizer": {"type": "Sequence", "normalizers": []}})");
  for (int i = 0; i < 12; ++i) {
    document["normalizer"]["normalizers"].push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaa"}});
  }
  spill(directory / "tokenizer.json", document.dump());
  const auto tokenizer = load_tokenizer(directory);
  EXPECT_ERROR(tokenizer->encode("a"),
               AllOf(HasSubstr("tokenizer.json: "), HasSubstr("a text of 1 bytes into at most 1048640")));
  // Normalization by Unicode is far below the limit: this character becomes 18, whose bytes become two each.
  document["normalizer"] =
      Json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "ByteLevel"}]})");
  spill(directory / "tokenizer.json", document.dump());
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "\uFDFA";
  EXPECT_EQ(load_tokenizer(directory)->encode(text).size(), 1);
}

TEST(Tokenizers, SpacesThatStripOnBothSidesTakeLinearTime) {
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}},
      "added_tokens": [{"id": 1, "content": " ", "lstrip": true, "rstrip": true, "normalized": false}]})");
  // A quadratic algorithm would take hours.
  const std::string text(4'000'000, ' ');
  EXPECT_EQ(load_tokenizer(directory)->encode("a" + text + "a").ids, (std::vector<std::int64_t>{0, 1, 0}));
}

TEST(Tokenizers, TakeRegularFilesOnly) {
  const auto error = [](const TemporaryFolder& directory) -> std::string {
    return error_of([&] { load_tokenizer(directory); });
  };
  for (const char* name : {"tokenizer.json", "vocab.txt", "tokenizer.model", "spiece.model"}) {
    const TemporaryFolder directory;
    ASSERT_EQ(mkfifo((directory / name).c_str(), 0600), 0);
    EXPECT_THAT(error(directory), HasSubstr(std::string(name) + ": expected a regular file, got a pipe"));
  }
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const TemporaryFolder directory;
    spill(directory / "tokenizer.json", kStrict);
    std::filesystem::create_symlink("/dev/zero", directory / name);
    EXPECT_THAT(error(directory), HasSubstr(std::string(name) + ": expected a regular file, got a device"));
    std::filesystem::remove(directory / name);
    std::filesystem::create_symlink("nowhere", directory / name);
    EXPECT_THAT(error(directory), HasSubstr(std::string(name) + ": not found (a symbolic link to nowhere"));
  }
  const TemporaryFolder directory;
  spill(directory / "tokenizer.json", "{}");
  std::filesystem::resize_file(directory / "tokenizer.json", std::uintmax_t{1} << 40);
  EXPECT_THAT(error(directory), HasSubstr("tokenizer.json: expected a file of at most 536870912 bytes"));
}

}  // namespace
}  // namespace heed
