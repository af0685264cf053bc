// Documents are packed whole.
#include "data/packed_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "heed/random.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;

// Documents of these lengths, whose token of number i is i.
TextCorpus corpus_of(const std::vector<std::int64_t>& lengths) {
  const TemporaryFolder folder;
  spill(folder / "text", [&] {
    std::string text;
    for (const std::int64_t length : lengths)
      text += std::string(static_cast<std::size_t>(length), 'x') + "\n";
    return text;
  }());
  DataOptions data;
  data.format = "text";
  data.documents = "line";
  TextReader reader(folder / "text", data);
  return tokenize_texts(
      reader,
      [](const TextPart& part) {
        return std::vector<TokenizedPart>{{std::vector<std::int64_t>(part.text.size(), 7)}};
      },
      folder.path());
}

std::vector<TextRow> ranges(const std::vector<DocumentPart>& parts) {
  std::vector<TextRow> all;
  for (const DocumentPart& part : parts) all.emplace_back(part.begin, part.end);
  return all;
}

TEST(PackedRows, HoldsEveryPartOnceAndFillsRows) {
  const RandomStream random{1, 0};
  std::vector<std::int64_t> lengths;
  for (std::uint64_t i = 0; i < 3000; ++i) lengths.push_back(200 + random.word(i) % 653);  // 526 on average
  const TextCorpus corpus = corpus_of(lengths);
  const DocumentParts found = parts_of_documents(corpus, {}, 2048, LongDocuments::truncate);
  EXPECT_EQ(found.documents, 3000);
  EXPECT_EQ(found.longer, 0);
  const PackedRows rows(found.parts, 2048);
  std::set<std::int64_t> begins;
  std::int64_t tokens = 0;
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    EXPECT_LE(rows.length(row), 2048);
    tokens += rows.length(row);
    for (const DocumentPart& part : rows.row(row)) begins.insert(part.begin);
  }
  EXPECT_EQ(begins.size(), 3000u);
  EXPECT_EQ(tokens, static_cast<std::int64_t>(corpus.ids().size()));
  EXPECT_GE(static_cast<double>(tokens), 0.95 * 2048 * static_cast<double>(rows.size()));
}

TEST(PackedRows, TakesTheFullestRowWithRoom) {
  const PackedRows rows({{0, 6}, {6, 11}, {11, 15}, {15, 17}, {17, 20}, {20, 32}}, 10);
  std::vector<std::vector<std::int64_t>> begins;
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    begins.emplace_back();
    for (const DocumentPart& part : rows.row(row)) begins.back().push_back(part.begin);
  }
  EXPECT_THAT(begins, ElementsAre(ElementsAre(20), ElementsAre(0, 11), ElementsAre(6, 17, 15)));
  EXPECT_EQ(PackedRows({{0, 2}, {2, 4}}, 0).size(), 2);
}

TEST(PackedRows, LongDocumentsAreTruncatedSkippedOrSplit) {
  const TextCorpus corpus = corpus_of({3, 9, 1, 4});
  const auto parts = [&](LongDocuments policy) { return parts_of_documents(corpus, {}, 4, policy); };
  EXPECT_THAT(ranges(parts(LongDocuments::truncate).parts),
              ElementsAre(TextRow(0, 3), TextRow(3, 7), TextRow(13, 17)));
  EXPECT_THAT(ranges(parts(LongDocuments::skip).parts), ElementsAre(TextRow(0, 3), TextRow(13, 17)));
  const DocumentParts split = parts(LongDocuments::split);
  // The ninth token follows the eighth, so that it is a label; alone, it has none.
  EXPECT_THAT(ranges(split.parts),
              ElementsAre(TextRow(0, 3), TextRow(3, 7), TextRow(7, 11), TextRow(13, 17)));
  EXPECT_TRUE(split.parts[1].goes_on && split.parts[2].goes_on && !split.parts[3].goes_on);
  EXPECT_EQ(split.longer, 1);
  EXPECT_EQ(split.longest, 9);
  EXPECT_EQ(split.without_targets, 1);
}

TEST(PackedRows, PartsWithoutAnAnswerAreLeftOut) {
  const TextCorpus corpus = corpus_of({6, 6, 6});
  // The first token of a document is no label: an answer that is one is none.
  const std::vector<TextRow> answers{{5, 6}, {6, 7}, {15, 17}};
  const DocumentParts whole = parts_of_documents(corpus, answers, 6, LongDocuments::truncate);
  EXPECT_THAT(ranges(whole.parts), ElementsAre(TextRow(0, 6), TextRow(12, 18)));
  EXPECT_EQ(whole.without_targets, 1);
  EXPECT_THAT(ranges(parts_of_documents(corpus, answers, 3, LongDocuments::truncate).parts), ElementsAre());
  EXPECT_THAT(ranges(parts_of_documents(corpus, answers, 3, LongDocuments::split).parts),
              ElementsAre(TextRow(3, 6), TextRow(12, 15), TextRow(15, 18)));
}

}  // namespace
}  // namespace heed
