// Recordings: what is kept, how much of it, and the page that holds it.
#include "explore/recording/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "explore/recording_page.h"
#include "explore/sample_models.h"
#include "reference/error.h"

namespace heed::explore_test {
namespace {

using explore::Recording;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMuch = 100'000'000;

/// Values are equal, numbers to 7 digits.
void expect_same(const Json& got, const Json& expected) {
  if (expected.is_number_float()) {
    const double number = expected.get<double>();
    EXPECT_NEAR(got.get<double>(), number, 1e-6 * std::abs(number));
  } else if (expected.is_structured()) {
    ASSERT_EQ(got.size(), expected.size());
    for (auto one = got.begin(), other = expected.begin(); other != expected.end(); ++one, ++other) {
      if (expected.is_object()) {
        EXPECT_EQ(one.key(), other.key());
      }
      expect_same(*one, *other);
    }
  } else {
    EXPECT_EQ(got, expected);
  }
}

class Recorded : public testing::Test {
 protected:
  /// Runs and records; returns the answer.
  std::string run(Recording& recording, const std::string& request) {
    const std::string answer = explore::answer_to(explorer, "/api/run", request, kGoOn);
    recording.add("/api/run", request, answer, explorer);
    return answer;
  }
  Json answers(const Recording& recording) const { return answers_in(recording.page(explorer.models())); }

  explore::Explorer explorer = explorer_of(sample_decoder());
};

TEST_F(Recorded, ThePageHoldsTheAnswersAndAllMaps) {
  Recording recording(kMuch);
  const std::string request = R"({"text": "5 6 7 8", "model": 0})";
  const Json answer = parse_json(run(recording, request), "answer");
  const std::string page = recording.page(explorer.models());
  EXPECT_EQ(recording_in(page)["models"], Json(parse_json(explorer.models(), "models")["models"]));
  const Json found = answers_in(page);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0][0], "/api/run");
  EXPECT_EQ(found[0][1], Json(parse_json(request, "request")));
  expect_same(found[0][2], answer);
  const std::int64_t run = answer["run"].get<std::int64_t>();
  ASSERT_GT(found[0][3].size(), 4u);
  for (std::size_t i = 0; i < found[0][3].size(); ++i)
    EXPECT_EQ(found[0][3][i], explorer.chunk(run, static_cast<std::int64_t>(i)).value());
  EXPECT_FALSE(explorer.chunk(run, std::ssize(found[0][3])));
}

TEST_F(Recorded, ThePageRunsItsOwnScriptAndAsksNoServer) {
  Recording recording(kMuch);
  run(recording, R"({"model": 0, "text": "5 6"})");
  const std::string page = recording.page(explorer.models());
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("connect-src")));
  EXPECT_THAT(page, Not(HasSubstr("nonce")));
  EXPECT_THAT(page, Not(HasSubstr("@RECORDING@")));
}

TEST_F(Recorded, TheSameRequestIsKeptOnceWhateverTheOrderOfItsKeys) {
  Recording recording(kMuch);
  run(recording, R"({"model": 0, "text": "5 6"})");
  const std::size_t bytes = recording.bytes();
  run(recording, R"({"text": "5 6", "model": 0})");
  EXPECT_EQ(recording.bytes(), bytes);
  EXPECT_EQ(answers(recording).size(), 1u);
}

TEST_F(Recorded, ValuesThatSeveralAnswersHaveAreHeldOnce) {
  Recording recording(kMuch);
  const std::string head = R"({"model": 0, "text": "5 6 7 8", "kind": "decoder", "layer": 0, "head": 1, )";
  std::size_t before = 0;
  for (const char* query : {"0", "1"}) {
    const std::string request = head + "\"query\": " + query + "}";
    before = recording.bytes();
    recording.add("/api/steps", request, explore::answer_to(explorer, "/api/steps", request, kGoOn),
                  explorer);
  }
  EXPECT_LT(recording.bytes() - before, before) << "keys and values are the same";
  const Json found = answers(recording);
  EXPECT_EQ(found[1][2]["k"], found[0][2]["k"]);
  EXPECT_NE(found[1][2]["q"], found[0][2]["q"]);
}

TEST_F(Recorded, OfATextThatIsTypedTheLastRunStays) {
  Recording recording(kMuch);
  for (const char* text : {"5", "5 6", "5 6 7", "5 6"})
    run(recording, R"({"model": 0, "text": ")" + std::string(text) + "\"}");
  ASSERT_EQ(answers(recording).size(), 1u);
  EXPECT_EQ(answers(recording)[0][1]["text"], "5 6");
  run(recording, R"({"model": 0, "text": "9 6"})");
  run(recording,
      R"({"model": 0, "text": "9 6", "changes": [{"kind": "decoder", "layer": 0, "head": 1, "factor": 0}]})");
  EXPECT_EQ(answers(recording).size(), 3u) << "another text, and a change";
}

TEST_F(Recorded, WhatDoesNotFitIsLeftOutAndTheRestIsWhole) {
  Recording all(kMuch);
  const std::string first = R"({"model": 0, "text": "5 6 7 8"})",
                    second = R"({"model": 0, "text": "9 8 7 6 5"})";
  run(all, first);
  Recording limited(all.bytes() + 10);
  const std::string answer = run(limited, first);
  run(limited, second);
  EXPECT_EQ(limited.left_out(), 1u);
  EXPECT_LE(limited.bytes(), all.bytes() + 10);
  const Json found = answers(limited);
  ASSERT_EQ(found.size(), 1u);
  expect_same(found[0][2], parse_json(answer, "answer"));
  Recording none(100);
  run(none, first);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.bytes(), 0u);
  EXPECT_EQ(none.left_out(), 1u);
}

/// The number of recorded requests of a path.
std::size_t count(const Json& answers, const std::string& path) {
  return static_cast<std::size_t>(
      std::count_if(answers.begin(), answers.end(), [&](const Json& one) { return one[0] == path; }));
}

TEST_F(Recorded, ATextIsRecordedAsThePageWouldAsk) {
  Recording recording(kMuch);
  record_texts(explorer, recording, {"5 6 7 8"}, {}, kGoOn);
  const Json found = answers(recording);
  EXPECT_EQ(
      found[0][1],
      Json(parse_json(R"({"candidates": 10, "model": 0, "text": "5 6 7 8", "vectors": true})", "request")));
  EXPECT_EQ(count(found, "/api/run"), 2u) << "and without a head";
  EXPECT_EQ(count(found, "/api/traps"), 5u);
  EXPECT_EQ(count(found, "/api/steps"), 4u);
  EXPECT_EQ(count(found, "/api/flow"), 4u * (1 + 3)) << "each token, then each of its candidates";
  for (const Json& one : found) EXPECT_FALSE(one[2].contains("error")) << one[1];
}

TEST(RecordTexts, TargetsAreThoseOfTheTextInTheSamePlace) {
  explore::Explorer explorer = explorer_of(sample_encoder_decoder());
  Recording recording(kMuch);
  record_texts(explorer, recording, {"5 6", "8"}, {"4", "4 5"}, kGoOn);
  const Json found = answers_in(recording.page(explorer.models()));
  EXPECT_EQ(found[0][1]["target"], "4");
  EXPECT_EQ(found[1][1]["target"], "4 5");
  EXPECT_EQ(count(found, "/api/traps"), 2u * 3 * 5) << "texts, kinds of attention, mistakes";
  for (const Json& one : found) {
    if (one[0] != "/api/steps") continue;
    EXPECT_TRUE(one[1].contains("target_ids"));
    EXPECT_FALSE(one[1].contains("target"));
  }
}

TEST(RecordTexts, WhatAModelRefusesIsRecordedToo) {
  explore::Explorer explorer = explorer_of(sample("encoders/bert-mlm", true, 4));
  Recording recording(kMuch);
  record_texts(explorer, recording, {"5 4 6"}, {}, kGoOn);
  std::vector<std::string> refused;
  for (const Json& one : answers_in(recording.page(explorer.models()))) {
    if (one[2].contains("error")) refused.push_back(one[1].value("traps", Json::array({"none"}))[0]);
  }
  EXPECT_EQ(refused, std::vector<std::string>{"mask"}) << "an encoder has no mask of later tokens";
}

TEST_F(Recorded, ThePageOpensOnAViewOrAnAddressBelowItsNotes) {
  Recording recording(kMuch);
  run(recording, R"({"model": 0, "text": "5 6"})");
  EXPECT_EQ(recording_in(recording.page(explorer.models()))["address"], "at=///matrix");
  const std::string address = "at=decoder/weights/1.0/traps&traps=scale";
  const std::string page = recording.page(explorer.models(), address, "<h1>A lesson</h1>\n");
  EXPECT_EQ(recording_in(page)["address"], address);
  EXPECT_THAT(page, HasSubstr("<section id=\"notes\" aria-label=\"Notes\">\n<h1>A lesson</h1>\n</section>"));
  EXPECT_THAT(recording.page(explorer.models()),
              Not(HasSubstr("<section id=\"notes\" aria-label=\"Notes\">")));
}

TEST_F(Recorded, AChosenHeadIsRecordedBesideTheFirst) {
  std::set<std::string> stepped, removed;
  for (const std::int64_t head : {0, 1}) {
    Recording recording(kMuch);
    record_texts(explorer, recording, {"5 6"}, {}, kGoOn, "decoder.1." + std::to_string(head));
    for (const Json& one : answers(recording)) {
      const Json& asked = one[1];
      if (one[0] == "/api/steps") stepped.insert(asked["layer"].dump() + "." + asked["head"].dump());
      if (!asked.contains("changes")) continue;
      EXPECT_EQ(asked["changes"][0]["factor"], 0);
      removed.insert(asked["changes"][0]["layer"].dump() + "." + asked["changes"][0]["head"].dump());
    }
  }
  EXPECT_THAT(stepped, testing::IsSupersetOf({"1.0", "1.1"}));
  EXPECT_EQ(removed, stepped);
  Recording recording(kMuch);
  EXPECT_ERROR(record_texts(explorer, recording, {"5 6"}, {}, kGoOn, "decoder.1.99"),
               "--export-head: expected a head of");
  EXPECT_ERROR(record_texts(explorer, recording, {"5 6"}, {}, kGoOn, "decoder.1"),
               "--export-head: expected KIND.LAYER.HEAD such as decoder.0.3, got decoder.1");
}

TEST(RecordTexts, RefusesModelsOfImages) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit"));
  Recording recording(kMuch);
  EXPECT_ERROR(record_texts(explorer, recording, {"a"}, {}, kGoOn),
               "--text: expected a model that reads text, got vit, which reads images");
}

}  // namespace
}  // namespace heed::explore_test
