// SQuAD's JSON as real files have it, and files that are something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/labeled_data.h"
#include "files/temporary_folder.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Squad : public ::testing::Test {
 protected:
  AnsweredQuestions read(const std::string& text) const {
    spill(folder_ / "squad.json", text);
    return read_squad(folder_ / "squad.json", folder_.path());
  }
  std::string refusal(const std::string& text) const {
    return error_of([&] { read(text); });
  }
  static std::string paragraph(const std::string& members) {
    return R"({"version": "1.1", "data": [{"title": "t", "paragraphs": [{)" + members + "}]}]}";
  }
  TemporaryFolder folder_;
};

TEST_F(Squad, MembersComeInAnyOrderAndImpossibleQuestionsAreLeftOut) {
  const AnsweredQuestions read = this->read(paragraph(
      R"("qas": [{"is_impossible": true, "question": "When?", "answers": [], "plausible_answers": [{"text": 1}]},
                 {"answers": [{"answer_start": 2, "text": "\u00e9tat"}, {"text": "L", "answer_start": 0}],
                  "id": 7, "question": "What?"}, {"question": "Who?", "answers": [{"text": "moi", "answer_start": 14}]}],
         "context": "L'état, c'est moi")"));
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[0].question, "What?");
  EXPECT_EQ(read[0].context, "L'état, c'est moi");
  EXPECT_THAT(read[0].answers, ElementsAre("état", "L"));
  EXPECT_EQ(read[0].start, 2);
  EXPECT_EQ(read[1].question, "Who?");
  EXPECT_EQ(read[1].context, read[0].context);
  EXPECT_EQ(read[1].start, 14);
}

TEST_F(Squad, ReadsTheFilesOfAFolder) {
  const auto one = [](const std::string& name) {
    return paragraph(R"("context": ")" + name + R"(", "qas": [{"question": "?", "answers": [{"text": ")" +
                     name + R"(", "answer_start": 0}]}])");
  };
  std::filesystem::create_directories(folder_ / "files");
  spill(folder_ / "files/b.json", one("Bob"));
  spill(folder_ / "files/a.json", one("Ann"));
  const AnsweredQuestions read = read_squad(folder_ / "files", {});
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[0].context, "Ann");
  EXPECT_EQ(read[1].context, "Bob");
  spill(folder_ / "files/b.json", "[]");
  EXPECT_THAT(error_of([&] { read_squad(folder_ / "files", {}); }),
              HasSubstr("files/b.json: expected an object, got \"[\" (line 1, column 1)"));
}

TEST_F(Squad, RefusesWhatIsNot) {
  const std::string article = "squad.json: data.0.paragraphs", paragraph_0 = article + ".0.";
  EXPECT_THAT(refusal("{}"),
              HasSubstr("squad.json: expected SQuAD's JSON (data[].paragraphs[].qas[]), got no data"));
  EXPECT_THAT(refusal("{\"data\": [{}]}"), HasSubstr(article + ": not found"));
  EXPECT_THAT(refusal("{\"data\": [], \"data\": []}"), HasSubstr("every key once, got \"data\" twice"));
  EXPECT_THAT(refusal(paragraph(R"("qas": [])")), HasSubstr(paragraph_0 + "context: not found"));
  EXPECT_THAT(refusal(paragraph(R"("context": "c")")), HasSubstr(paragraph_0 + "qas: not found"));
  EXPECT_THAT(refusal(paragraph(R"("context": "c", "qas": [{"answers": []}])")),
              HasSubstr(paragraph_0 + "qas.0.question: not found"));
  EXPECT_THAT(refusal(paragraph(R"("context": "c", "qas": [{"question": "q"}])")),
              HasSubstr(paragraph_0 + "qas.0.answers: not found"));
  const auto answer = [&](const std::string& members) {
    return refusal(
        paragraph(R"("context": "c", "qas": [{"question": "q", "answers": [{)" + members + "}]}]"));
  };
  const std::string answer_0 = paragraph_0 + "qas.0.answers.0.";
  EXPECT_THAT(answer(R"("answer_start": 0)"), HasSubstr(answer_0 + "text: not found"));
  EXPECT_THAT(answer(R"("text": "c")"), HasSubstr(answer_0 + "answer_start: not found"));
  EXPECT_THAT(
      answer(R"("text": "c", "answer_start": 0.5)"),
      HasSubstr(answer_0 + "answer_start: expected an integer from 0 to 9223372036854775807, got 0.5"));
  EXPECT_THAT(
      answer(R"("text": "c", "answer_start": 1)"),
      HasSubstr(answer_0 + "answer_start: expected the character of the context at which \"c\" begins, "
                           "got 1"));
  EXPECT_THAT(answer(R"("text": "c", "text": "c")"),
              HasSubstr("expected every key once, got \"text\" twice"));
  EXPECT_THAT(refusal(paragraph(R"("context": "c", "qas": [])")),
              HasSubstr("squad.json: expected questions with answers, got none"));
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("squad.json: expected"), HasSubstr("got the end of the text")));
  EXPECT_THAT(refusal(paragraph("") + "}"), HasSubstr("squad.json: "));
}

}  // namespace
}  // namespace heed
