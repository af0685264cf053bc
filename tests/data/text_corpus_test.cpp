// Texts come in parts of bounded size, however long their lines are.
#include "data/text_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/stop_scope.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {
namespace {

using testing::ElementsAre;

constexpr std::size_t kPart = 64 << 10;

class TextReaderTest : public testing::Test {
 protected:
  std::vector<TextPart> read(const std::string& text, const std::string& documents) {
    spill(folder_ / "text", text);
    DataOptions data;
    data.format = "text";
    data.documents = documents;
    TextReader reader(folder_ / "text", data);
    std::vector<TextPart> parts;
    for (TextPart part; reader.next(part);) parts.push_back(part);
    control_bytes_ = reader.control_bytes();
    return parts;
  }
  static std::string joined(const std::vector<TextPart>& parts) {
    std::string text;
    for (const TextPart& part : parts) text += part.text;
    return text;
  }
  static std::vector<bool> ends(const std::vector<TextPart>& parts) {
    std::vector<bool> all;
    for (const TextPart& part : parts) all.push_back(part.ends_document);
    return all;
  }
  TemporaryFolder folder_;
  std::int64_t control_bytes_ = 0;
};

std::string words(std::size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += "word" + std::to_string(i) + " ";
  return text;
}

TEST_F(TextReaderTest, ALongLineComesInPartsThatBeginWithASpace) {
  for (const char* end : {"", "\n"}) {
    const std::string text = words(5 * kPart) + end;
    for (const char* documents : {"file", "paragraph"}) {
      const std::vector<TextPart> parts = read(text, documents);
      EXPECT_EQ(joined(parts), text);
      EXPECT_THAT(ends(parts), ElementsAre(false, false, false, false, false, true));
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_LE(parts[i].text.size(), kPart);
        EXPECT_TRUE(i == 0 || parts[i].text.starts_with(" word")) << i;
      }
    }
  }
}

TEST_F(TextReaderTest, WithoutSpacesItIsCutBetweenCharacters) {
  std::string text = "x";
  for (int i = 0; i < 50000; ++i) text += "\xE2\x82\xAC";  // 3 bytes
  const std::vector<TextPart> parts = read(text, "file");
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(joined(parts), text);
  EXPECT_TRUE(parts[1].text.starts_with("\xE2\x82\xAC"));
}

TEST_F(TextReaderTest, AFileWithoutTextIsNamed) {
  for (const char* text : {"", "\n", " \n\n\t\n", "\xEF\xBB\xBF"}) {
    for (const char* documents : {"file", "paragraph", "line"})
      EXPECT_ERROR(read(text, documents), (folder_ / "text").string() + ": expected text, got none");
  }
}

TEST_F(TextReaderTest, ALongLineIsOneDocument) {
  const std::string line = words(kPart + 10), blanks(2 * kPart, ' ');
  const std::vector<TextPart> lines = read("a\n" + line + "\r\nb", "line");
  EXPECT_EQ(joined(lines), "a" + line + "b");
  EXPECT_THAT(ends(lines), ElementsAre(true, false, true, true));
  // Only a whole line that is blank ends a paragraph.
  const std::vector<TextPart> paragraphs = read("a" + blanks + "b\n\nc\n", "paragraph");
  EXPECT_EQ(joined(paragraphs), "a" + blanks + "b\nc\n");
  EXPECT_THAT(ends(paragraphs), ElementsAre(false, false, true, true));
}

TEST_F(TextReaderTest, ShortLinesComeWhole) {
  const std::string line = words(1000) + "\n";
  std::string text;
  while (text.size() < 3 * kPart) text += line;
  const std::vector<TextPart> parts = read(text, "file");
  EXPECT_EQ(joined(parts), text);
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    EXPECT_GE(parts[i].text.size(), kPart);
    EXPECT_EQ(parts[i].text.size() % line.size(), 0u);
  }
  EXPECT_EQ(control_bytes_, 0);
  read(std::string("a\0b\n", 4), "file");
  EXPECT_EQ(control_bytes_, 1);
}

TEST_F(TextReaderTest, ByteOrderMarksAndLineEndsAreNoText) {
  for (const char* documents : {"file", "paragraph", "line"}) {
    const std::string plain = joined(read("a b\nc\n\nd\n", documents));
    EXPECT_EQ(joined(read("\xEF\xBB\xBF"
                          "a b\r\nc\r\n\r\nd\r\n",
                          documents)),
              plain)
        << documents;
    EXPECT_EQ(plain.find('\r'), plain.npos);
  }
}

TEST_F(TextReaderTest, ConversationsAreLinesWhoseAnswersAreKnown) {
  spill(folder_ / "chats", "{\"a\": 1}\n\n{\"b\": 2}\n");
  DataOptions data;
  data.format = "chat";
  TextReader reader(folder_ / "chats", data);
  const auto tokenize = [](const TextPart& part) {  // called by several threads
    const bool first = part.where.ends_with("/chats:1");
    EXPECT_TRUE(first || part.where.ends_with("/chats:3")) << part.where;
    EXPECT_EQ(part.text, first ? "{\"a\": 1}\n" : "{\"b\": 2}\n");
    const std::int64_t id = first ? 4 : 8;
    return std::vector<TokenizedPart>{{{id, id + 1, id + 2, id + 3}, {{1, 2}, {3, 4}}}};
  };
  const TextCorpus corpus = tokenize_texts(reader, tokenize, folder_.path());
  EXPECT_THAT(corpus.ids(), ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(corpus.ends(), ElementsAre(4, 8));
  EXPECT_THAT(corpus.answers(), ElementsAre(TextRow(1, 2), TextRow(3, 4), TextRow(5, 6), TextRow(7, 8)));
  EXPECT_THAT(corpus.slice(3, 6).answers(), ElementsAre(TextRow(0, 1), TextRow(2, 3)));
  EXPECT_THAT(corpus.slice(6, 7).answers(), ElementsAre());
}

TEST_F(TextReaderTest, IsStopped) {
  const std::atomic<bool> stop{true};
  EXPECT_NO_THROW(read("a\n", "file"));
  const StopScope scope(&stop);
  EXPECT_THROW(read("a\n", "file"), Canceled);
}

}  // namespace
}  // namespace heed
