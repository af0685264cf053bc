// What a final model says of its held-out examples: the files, and the page of the run.
#include "train/tasks/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "heed/io/json.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Predictions, AreJsonLines) {
  EXPECT_EQ(
      predictions_jsonl({{.number = 0,
                          .text = "a \"b\"",
                          .right = "x",
                          .predicted = "y",
                          .probabilities = {0.25, 0.75},
                          .loss = 1.5},
                         {.number = 1, .text = "c", .right = "r", .predicted = "p"}},
                        {"x", "y"}),
      "{\"text\": \"a \\\"b\\\"\", \"right\": \"x\", \"predicted\": \"y\", \"probabilities\": {\"x\": 0.25, "
      "\"y\": 0.75}, \"loss\": 1.5}\n"
      "{\"text\": \"c\", \"right\": \"r\", \"predicted\": \"p\"}\n");
}

class PredictionsTest : public TasksTest {
 protected:
  std::vector<Config> lines_of(const std::string& file) const {
    std::istringstream text(read_file(folder_ / "run" / file));
    std::vector<Config> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(Config::parse(line, file));
    return lines;
  }
  std::string page() const { return read_file(folder_ / "run" / "report.html"); }
  void TearDown() override { std::filesystem::remove_all(folder_ / "run"); }
};

TEST_F(PredictionsTest, OfLabelsHaveTheTextsAndTheLossOfTheEvaluation) {
  Recipe r = classification(20);
  r.data.test = r.data.dev;
  const TrainResult result = train(r, {.output = folder_ / "run"});
  for (const char* file : {"predictions-dev.jsonl", "predictions-test.jsonl"}) {
    const std::vector<Config> lines = lines_of(file);
    ASSERT_EQ(lines.size(), 16u);
    EXPECT_EQ(lines[0].required_string("text"), "a fine film");
    EXPECT_EQ(lines[1].required_string("text"), "a poor film");
    EXPECT_EQ(lines[1].required_string("right"), "bad");
    double loss = 0, hits = 0;
    for (const Config& line : lines) {
      const std::string right = line.required_string("right"), predicted = line.required_string("predicted");
      const Config probabilities = line.sub("probabilities");
      const double bad = probabilities.required_number("bad"), good = probabilities.required_number("good");
      EXPECT_NEAR(bad + good, 1, 1e-6);
      EXPECT_EQ(predicted, bad > good ? "bad" : "good");
      EXPECT_NEAR(line.required_number("loss"), -std::log(right == "bad" ? bad : good), 1e-5);
      loss += line.required_number("loss") / 16;
      hits += right == predicted;
    }
    EXPECT_NEAR(loss, result.evaluation->loss, 1e-5);
    EXPECT_NEAR(100 * hits / 16, *result.evaluation->metric("accuracy"), 1e-9);
  }
  EXPECT_THAT(page(),
              AllOf(HasSubstr("<title>classification: run</title>"), HasSubstr("Reliability: expected"),
                    HasSubstr("Right labels (rows)"), HasSubstr("Predictions on the test set"),
                    HasSubstr(">Loss</text>"), HasSubstr(">Learning rate</text>"), Not(HasSubstr("<script")),
                    Not(HasSubstr("http://www.w3.org/1999/xhtml"))));
}

TEST_F(PredictionsTest, OfOtherTasks) {
  for (const Recipe& recipe : {tagging(8), answers(8), several_labels(8), regression(8), images(8)}) {
    SCOPED_TRACE(recipe.task.kind + recipe.task.problem);
    train(recipe, {.output = folder_ / "run"});
    const std::vector<Config> lines = lines_of("predictions-dev.jsonl");
    ASSERT_GT(lines.size(), 3u);
    EXPECT_THAT(page(), HasSubstr("Predictions on the development set"));
    const Config& first = lines.front();
    const std::string text = first.required_string("text"), right = first.required_string("right");
    if (recipe.task.kind == "tagging") {
      EXPECT_EQ(text, "Ann Lee lives in Rome");
      EXPECT_EQ(right, "B-PER I-PER O O B-LOC");
    } else if (recipe.task.kind == "answers") {
      EXPECT_EQ(text, "Who owns the house ?");
      EXPECT_EQ(right, "Ann");
    } else if (recipe.task.problem == "multi-label") {
      EXPECT_EQ(lines[1].required_string("right"), "a,b");
    } else if (recipe.task.problem == "regression") {
      EXPECT_EQ(right, "0.5");
    } else {
      EXPECT_THAT(text, testing::EndsWith(".ppm"));
      EXPECT_EQ(right, "blue");
    }
    std::filesystem::remove_all(folder_ / "run");
  }
}

// Rows of a stream, and documents: together they have the development loss.
TEST_F(PredictionsTest, OfHeldOutTexts) {
  for (const bool stream : {true, false}) {
    SCOPED_TRACE(stream);
    Recipe r = causal(3);
    if (!stream) {
      r.task.cross_documents = false;
      r.task.context = 64;
      r.model.settings["n_positions"] = "64";
      r.data.documents = "line";
    }
    const TrainResult result = train(r, {.output = folder_ / "run"});
    double sum = 0;
    std::int64_t tokens = 0;
    std::string text;
    for (const Config& line : lines_of("predictions-dev.jsonl")) {
      const double loss = line.required_number("loss");
      const std::int64_t count = line.required_integer("tokens");
      EXPECT_NEAR(line.required_number("perplexity"), std::exp(loss), 1e-9 * std::exp(loss));
      EXPECT_FALSE(line.has("predicted"));
      sum += loss * static_cast<double>(count);
      tokens += count;
      text += line.required_string("text") + (stream ? "" : "\n");
    }
    EXPECT_NEAR(sum / static_cast<double>(tokens), result.evaluation->loss, 1e-9);
    const std::string held_out = read_file(folder_ / "text.txt").substr(60 * 44 - 12 * 44);
    EXPECT_EQ(text, stream ? held_out.substr(1) : held_out);
    EXPECT_EQ(tokens, stream ? 12 * 44 - 1 : 12 * 42);
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(PredictionsTest, APageHasNoTextThatEndsIt) {
  Recipe r = classification(1);
  write_file(folder_ / "dev.txt", "good a <script>alert(1)</script> & \"film\"\nbad a fine film\n");
  r.data.dev = folder_ / "dev.txt";
  train(r, {.output = folder_ / "run"});
  EXPECT_THAT(page(), Not(HasSubstr("<script")));
  train(causal(2), {.output = folder_ / "other"});
  const std::string page_of_texts = read_file(folder_ / "other" / "report.html");
  EXPECT_THAT(page_of_texts, AllOf(HasSubstr("development"), HasSubstr("<h2>Samples</h2>")));
  // The dev set is the end of the lines; the first of its samples begins with a line.
  EXPECT_THAT(page_of_texts, HasSubstr("<td>the quick brown </td>"));
}

}  // namespace
}  // namespace heed
