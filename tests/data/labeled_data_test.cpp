// Labeled texts as real files have them.
#include "data/labeled_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <algorithm>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A record of every kind of member.
struct Everything {
  std::string text;
  std::vector<std::string> texts;
  std::vector<float> numbers;
  std::int8_t number = 0;
  static auto fields(auto& e) { return std::tie(e.text, e.texts, e.numbers, e.number); }
  bool operator==(const Everything&) const = default;
};

TEST(SpilledRecords, AreReadAsTheyWereWrittenInMemoryAndFromAFile) {
  const TemporaryFolder folder;
  const auto record = [](std::int64_t i) {
    const auto size = static_cast<std::size_t>(i);
    return Everything{
        std::string(size % 7 * 20000, 'x'), std::vector<std::string>(size % 3, std::to_string(i)),
        std::vector<float>(size % 5, 0.5f * static_cast<float>(i)), static_cast<std::int8_t>(i % 100)};
  };
  for (const std::int64_t count : {0, 20, 1000}) {  // the last are 60 MB
    SpilledRecords<Everything> records(folder.path());
    for (std::int64_t i = 0; i < count; ++i) records.add(record(i));
    records.finish();
    const SpilledRecords<Everything> moved = std::move(records);
    ASSERT_EQ(moved.size(), count);
    for (std::int64_t i = count; i-- > 0;) ASSERT_TRUE(moved[i] == record(i)) << i;
  }
  EXPECT_THAT(listing(folder.path()), ElementsAre());
}

TEST(LabeledData, EntriesWithoutATextAreCountedAndLeftOut) {
  const TemporaryFolder folder;
  DataOptions options;
  const auto read = [&](const std::string& format, const std::string& content) {
    options.format = format;
    spill(folder / "texts", content);
    return read_labeled(folder / "texts", options, false, {});
  };
  for (const auto& [format, content] : std::vector<std::pair<std::string, std::string>>{
           {"labelled", "1 good\n0 \n0\n\n0 not good\n"}, {"jsonl", R"({"label": 1, "text": "good"}
{"label": 0, "text": ""}
{"label": 0, "text": " "}
{"label": 0, "text": "not good"})"}}) {
    const LabeledTexts texts = read(format, content);
    EXPECT_EQ(texts.skipped, 2) << format;
    ASSERT_EQ(texts.size(), 2) << format;
    EXPECT_EQ(texts[1].text, "not good");
    EXPECT_EQ(texts[1].labels, std::vector<std::string>{"0"});
    EXPECT_EQ(texts[1].line, format == "jsonl" ? 4 : 5);
  }
  EXPECT_ERROR(read("labelled", "1\n0 \n"), "expected labeled texts, got none");
  EXPECT_ERROR(read("jsonl", R"({"label": [], "text": "good"})"),
               "texts:1: label: expected one label, got 0");
  EXPECT_ERROR(read("labelled", "1 good\n0 \xff\n"), "texts:2: expected UTF-8");
}

TEST(LabeledData, RowsOfTabsAndOfCommasAreReadAlike) {
  const TemporaryFolder folder;
  DataOptions options;
  options.header = true;
  options.text_column = 1, options.label_column = 3, options.pair_column = 2;
  for (const auto& [format, content] : std::vector<std::pair<std::string, std::string>>{
           {"tsv", "text\tmore\tlabel\na, b\tc\tgood\n\t\t\n \td\tbad\n"},
           {"csv", "text,more,label\n\"a, b\",c,good\n,,\n ,d,bad\n"}}) {
    options.format = format;
    spill(folder / "texts", content);
    const LabeledTexts texts = read_labeled(folder / "texts", options, false, {});
    ASSERT_EQ(texts.size(), 1) << format;
    EXPECT_EQ(texts.skipped, 1);
    EXPECT_EQ(texts[0].text, "a, b");
    EXPECT_EQ(texts[0].pair, "c");
    EXPECT_THAT(texts[0].labels, ElementsAre("good"));
    EXPECT_EQ(texts[0].line, 2);
    spill(folder / "texts", format == "tsv" ? "t\tp\tl\na\tb\t \n" : "t,p,l\na,b,\n");
    EXPECT_THAT(error_of([&] { read_labeled(folder / "texts", options, false, {}); }),
                HasSubstr("texts:2: expected a label, got none"));
    EXPECT_EQ(read_labeled(folder / "texts", options, true, {}).size(), 1);  // none of several
  }
  spill(folder / "texts", "h\na\n");
  EXPECT_THAT(error_of([&] { read_labeled(folder / "texts", options, false, {}); }),
              HasSubstr("texts:2: expected 2 columns separated by commas"));
}

TEST(LabeledData, ASeparatorInATextIsAnError) {
  const TemporaryFolder folder;
  DataOptions options;
  const auto refusal = [&](const std::string& format, const std::string& content) {
    options.format = format;
    spill(folder / "texts", content);
    return error_of([&] { read_labeled(folder / "texts", options, false, {}); });
  };
  EXPECT_THAT(refusal("tsv", "good\ta film\n\nbad\ta\tfilm\n"),
              HasSubstr("texts:3: expected 2 columns, as in the first row, got 3 (a tab separates columns"));
  // The first row has the tab.
  EXPECT_THAT(refusal("tsv", "good\ta\tfilm\nbad\ta film\n"),
              HasSubstr("texts:2: expected 3 columns, as in the first row, got 2"));
  EXPECT_THAT(refusal("csv", "good,a film\nbad,\"well, a film\"\nbad,well, a film\n"),
              HasSubstr("texts:3: expected 2 columns, as in the first row, got 3 (a text that has commas"));
  options.header = true;
  EXPECT_THAT(refusal("tsv", "label\ttext\nbad\ta\tfilm\n"), HasSubstr("texts:2: expected 2 columns"));
}

TEST(LabeledData, FoldersAreReadFileByFile) {
  const TemporaryFolder folder;
  for (const char* name : {"texts", "words", "none"}) std::filesystem::create_directories(folder / name);
  DataOptions options;
  options.format = "labelled";
  spill(folder / "texts/b", "\n0 third\n");
  spill(folder / "texts/a", "1 first\n\n0 second\n");
  spill(folder / "texts/.hidden", "1\n");
  const LabeledTexts texts = read_labeled(folder / "texts", options, false, folder.path());
  ASSERT_EQ(texts.size(), 3);
  EXPECT_EQ(texts[1].text, "second");
  EXPECT_EQ(texts.where(texts[1]), (folder / "texts/a").string() + ":3");
  EXPECT_EQ(texts.where(texts[2]), (folder / "texts/b").string() + ":2");

  spill(folder / "words/a", "Ann PER\nsings O");  // the end of a file ends a sentence
  spill(folder / "words/b", "Bob NN PER\n");      // with columns of its own
  const TaggedSentences sentences = read_conll(folder / "words", options, folder.path());
  ASSERT_EQ(sentences.size(), 2);
  EXPECT_THAT(sentences[0].tags, ElementsAre("PER", "O"));
  EXPECT_EQ(sentences.where(sentences[0], 1), (folder / "words/a").string() + ":2");
  EXPECT_THAT(sentences[1].words, ElementsAre("Bob"));
  spill(folder / "words/b", "Bob\n");
  EXPECT_ERROR(read_conll(folder / "words", options, {}), "words/b:1: expected a word and its tag");
  EXPECT_ERROR(read_labeled(folder / "none", options, false, {}),
               "none: expected a folder with text files, got none in it");
}

// An example is in one part of each fold, and is tested in one fold.
TEST(Folds, TestEachExampleOnce) {
  std::vector<std::int64_t> tested;
  for (std::int64_t fold = 0; fold < 3; ++fold) {
    DataOptions options;
    options.folds = 3;
    options.fold = fold;
    options.dev_size = 2;
    const Folds parts = split_examples({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, options);
    EXPECT_EQ(parts.dev.size(), 2u);
    tested.insert(tested.end(), parts.test.begin(), parts.test.end());
    std::vector<std::int64_t> all = parts.test;
    for (const auto* part : {&parts.train, &parts.dev}) all.insert(all.end(), part->begin(), part->end());
    std::sort(all.begin(), all.end());
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)) << "fold " << fold;
  }
  std::sort(tested.begin(), tested.end());
  EXPECT_THAT(tested, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

// 100 texts, each four times.
TEST(Folds, KeepEqualExamplesTogether) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 400; ++i) keys.push_back(i % 100);
  for (const std::int64_t folds : {0, 5}) {
    DataOptions options;
    options.dev_size = 20;
    if (folds > 0) options.folds = folds;
    if (folds == 0) options.test_size = 21;
    const Folds parts = split_examples(keys, options);
    EXPECT_EQ(parts.dev.size(), 20u);
    EXPECT_EQ(parts.test.size(), folds == 0 ? 24u : 80u);
    std::map<std::uint64_t, std::set<const void*>> sets_of_key;
    std::size_t all = 0;
    for (const auto* part : {&parts.train, &parts.dev, &parts.test}) {
      for (const std::int64_t i : *part) sets_of_key[keys[static_cast<std::size_t>(i)]].insert(part);
      all += part->size();
    }
    EXPECT_EQ(all, 400u);
    for (const auto& [key, sets] : sets_of_key) EXPECT_EQ(sets.size(), 1u) << key;
  }
  EXPECT_EQ(repeated_examples(keys, "texts"),
            "300 of 400 texts repeat another one; equal ones are kept in one set");
  EXPECT_EQ(repeated_examples({1, 2}, "texts"), "");
  EXPECT_EQ(trained_examples(keys, {3, 200, 4}, "dev.tsv", "texts"),
            "warning: dev.tsv: 2 of 3 texts are in the training set, too, so that scores on them say little");
  EXPECT_EQ(trained_examples(keys, {200}, "dev.tsv", "texts"), "");
}

TEST(LabeledData, EqualTextsHaveEqualKeys) {
  EXPECT_EQ(content_key(LabeledText{"a", "b", {"x"}, 0, 1}), content_key(LabeledText{"a", "b", {"y"}, 1, 2}));
  EXPECT_NE(content_key(LabeledText{"a", "b", {}}), content_key(LabeledText{"ab", "", {}}));
  EXPECT_EQ(content_key(TaggedWords{{"a", "b"}, {"O", "O"}}),
            content_key(TaggedWords{{"a", "b"}, {"O", "X"}}));
  EXPECT_NE(content_key(AnsweredQuestion{"q", "c", {}}), content_key(AnsweredQuestion{"q", "d", {}}));
}

TEST(LabeledData, NullIsNoLabel) {
  const TemporaryFolder folder;
  spill(folder / "a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": null}\n");
  DataOptions options;
  options.format = "jsonl";
  EXPECT_ERROR(read_labeled(folder / "a.jsonl", options, false, {}),
               "a.jsonl:2: label: expected a label, got null");
  spill(folder / "a.jsonl", "{\"text\": \"a\", \"label\": [\"x\", null]}\n");
  EXPECT_ERROR(read_labeled(folder / "a.jsonl", options, true, {}),
               "a.jsonl:1: label: expected a label, got null");
}

TEST(ComparedTexts, AreReadInEveryForm) {
  const TemporaryFolder folder;
  DataOptions options;
  const auto read = [&](const std::string& content, bool scored = false) {
    spill(folder / "rows", content);
    return read_compared(folder / "rows", options, scored, {});
  };
  options.format = "jsonl";
  const ComparedEntries rows = read(
      "{\"anchor\": \"a\", \"positive\": \"b\"}\n\n"
      "{\"query\": \"a\", \"positive\": \"b\", \"negative\": [\"c\"], \"negative_1\": \"d\", \"negative_2\": "
      "\"e\"}\n"
      "{\"sentence1\": \"a\", \"sentence2\": \"b\", \"score\": 0.5}\n"
      "{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"labels\": [1, 0]}\n");
  ASSERT_EQ(rows.size(), 4);
  EXPECT_THAT(rows[0].texts, ElementsAre("b"));
  EXPECT_THAT(rows[0].labels, ElementsAre());
  EXPECT_THAT(rows[1].texts, ElementsAre("b", "c", "d", "e"));
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_THAT(rows[2].labels, ElementsAre(0.5));
  EXPECT_THAT(rows[3].labels, ElementsAre(1, 0));
  EXPECT_EQ(content_key(rows[0]), content_key(rows[3]));
  options.format = "tsv";
  EXPECT_THAT(read("a\tb\tc\td\n")[0].texts, ElementsAre("b", "c", "d"));
  const ComparedTexts scored = read("a\tb\t0.25\n", true)[0];
  EXPECT_THAT(scored.texts, ElementsAre("b"));
  EXPECT_THAT(scored.labels, ElementsAre(0.25));
}

TEST(ComparedTexts, ErrorsNameFileLineAndField) {
  const TemporaryFolder folder;
  DataOptions options;
  const auto refusal = [&](const std::string& content, bool scored = false) {
    spill(folder / "rows", content);
    return error_of([&] { read_compared(folder / "rows", options, scored, {}); });
  };
  options.format = "jsonl";
  EXPECT_THAT(refusal("{\"positive\": \"b\"}\n"),
              HasSubstr("rows:1: expected a text under anchor, query, text1 or sentence1, got none"));
  EXPECT_THAT(refusal("{\"anchor\": \"a\"}\n"), HasSubstr("rows:1: expected a text under positive, "));
  EXPECT_THAT(refusal("{\"anchor\": \"a\", \"positive\": 1}\n"), HasSubstr("rows:1: positive: expected "));
  EXPECT_THAT(refusal("{\"anchor\": \"a\", \"positive\": \" \"}\n"),
              HasSubstr("rows:1: expected texts to compare, got a blank one"));
  EXPECT_THAT(refusal("{\"query\": \"a\", \"documents\": [\"b\", \"c\"], \"labels\": [1]}\n"),
              HasSubstr("rows:1: labels: expected a number for each text, 2, got 1"));
  EXPECT_THAT(refusal("{\"query\": \"a\", \"documents\": [\"b\", \"c\"]}\n"),
              HasSubstr("rows:1: labels: expected a number for each text, 2, got none"));
  options.format = "tsv";
  EXPECT_THAT(refusal("a\n"),
              HasSubstr("rows:1: expected a text, its positive and negatives, got 1 columns"));
  EXPECT_THAT(refusal("a\tb\n", true), HasSubstr("rows:1: expected two texts and a number, got 2 columns"));
  EXPECT_THAT(refusal("first\tsecond\tscore\na\tb\t1\n", true),
              HasSubstr("rows:1: expected a number in the last column, got \"score\" (is it a header line?"));
}

}  // namespace
}  // namespace heed
