// Conversations are trained whole: losses of PyTorch on each alone (tests/fixtures/train/conversations).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/train/train.h"
#include "reference/json.h"
#include "run_folder.h"
#include "train/tasks/language_modeling.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const fs::path kCase = fs::path(HEED_FIXTURES) / "train" / "conversations";

class ConversationsTest : public FolderTest {
 protected:
  static Recipe recipe(std::int64_t context, std::int64_t steps) {
    Recipe r;
    r.task.kind = "causal-lm";
    r.task.context = context;
    r.data.format = "chat";
    r.data.train = kCase / "data.jsonl";
    r.train.batch_tokens = 4096;
    r.train.steps = steps;
    r.train.lr = 1e-3;
    r.given["train.lr"] = kRecipeOverride;  // as high as it is
    r.train.schedule = "constant";
    r.train.warmup = 0;
    r.train.betas = {0.9, 0.999};
    r.train.eps = 1e-8;
    r.eval.every = 0;
    r.checkpoint.every = 100;
    return r;
  }
  TrainResult run(const Recipe& r) {
    fs::remove_all(folder_ / "run");
    said_.clear();
    TrainOptions options{.output = folder_ / "run", .init = kCase};
    options.on_message = [this](const std::string& message) { said_ += message + "\n"; };
    return train(r, options);
  }
  double loss_of_step(std::size_t step) const {
    return Config::parse(log_lines(folder_ / "run").at(step), "log.jsonl").required_number("loss");
  }
  std::string refusal(const Recipe& r) {
    try {
      run(r);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::string said_;
  nlohmann::json expected_ = read_json(kCase / "expected.json");
};

// However they are packed: in rows of 512, 256 and 203 tokens, the length of the longest.
TEST_F(ConversationsTest, FollowPyTorch) {
  const auto losses = expected_.at("training_losses").get<std::vector<double>>();
  for (const std::int64_t context : {512, 256, 203}) {
    run(recipe(context, 6));
    EXPECT_THAT(said_, Not(HasSubstr("warning")));
    for (std::size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(loss_of_step(step), losses[step], 1e-5) << context << " " << step;
  }
  EXPECT_THAT(log_lines(folder_ / "run").at(0), HasSubstr("\"tokens\": 229,"));
}

TEST_F(ConversationsTest, LongerOnesAreTruncatedOrLeftOutAndHeldOutOnesWhole) {
  Recipe r = recipe(128, 1);
  r.train.lr = 1e-30;
  r.data.dev = r.data.train;
  r.eval.every = 1;
  const double whole = expected_.at("training_losses").at(0);
  EXPECT_NEAR(run(r).evaluation->loss, whole, 1e-5);
  EXPECT_NEAR(loss_of_step(0), expected_.at("loss_cut_at_128").get<double>(), 1e-5);
  EXPECT_THAT(said_,
              HasSubstr("data.jsonl: 2 of 8 conversations have more than 128 tokens (task.context) and are "
                        "truncated; left out, with nothing to learn within these: 1"));
  r.data.longer = "skip";
  EXPECT_NEAR(run(r).evaluation->loss, whole, 1e-5);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    if (expected_.at("lengths")[i] > 128) continue;
    sum += expected_.at("sums")[i].get<double>();
    count += expected_.at("counts")[i].get<double>();
  }
  EXPECT_NEAR(loss_of_step(0), sum / count, 1e-5);
  EXPECT_THAT(said_,
              HasSubstr("2 of 8 conversations have more than 128 tokens (task.context) and are left out"));

  r.task.context = 17;
  EXPECT_THAT(refusal(r), AllOf(HasSubstr("expected conversations to learn from, got none"),
                                HasSubstr("the longest has 203 tokens: raise task.context")));
  r.data.longer = "";
  r.given["task.cross_documents"] = "true";
  EXPECT_THAT(refusal(r), HasSubstr("task.cross_documents: expected false where answers are learned"));
}

TEST_F(ConversationsTest, AreHeldOutWhole) {
  Recipe r = recipe(256, 1);
  r.train.lr = 1e-30;
  r.eval.every = 1;
  r.data.dev_share = 0.2;  // 203 of 804 tokens are the last conversation
  EXPECT_NEAR(run(r).evaluation->loss,
              expected_.at("sums")[7].get<double>() / expected_.at("counts")[7].get<double>(), 1e-5);
  EXPECT_THAT(log_lines(folder_ / "run").at(0), HasSubstr("\"tokens\": 163,"));
  // The rows have 601 tokens, which tokens_per_second counts.
  const Recipe whole = with_defaults(r);
  const TrainOptions options{.init = kCase};
  CausalLmTask task(whole, options, {});
  Context context;
  const SummedLoss loss = task.next_loss(context);
  EXPECT_EQ(loss.tokens, 163);
  EXPECT_EQ(loss.read, 601);
}

TEST_F(ConversationsTest, UnusableLinesAreSkippedAndCounted) {
  std::string lines = read_file(kCase / "data.jsonl");
  write_file(
      folder_ / "one.jsonl",
      lines + R"({"messages": [{"role": "user", "content": null}, {"role": "assistant", "content": "a"}]})" +
          "\n");
  Recipe r = recipe(512, 1);
  r.data.train = folder_ / "one.jsonl";
  EXPECT_THAT(refusal(r),
              AllOf(HasSubstr("one.jsonl:9: "), HasSubstr("so are 1 of 9 conversations: data.bad_share, "
                                                          "0.1, is the share that is skipped")));
  r.data.bad_share = 0.2;
  run(r);
  EXPECT_NEAR(loss_of_step(0), expected_.at("training_losses").at(0).get<double>(), 1e-5);
  EXPECT_THAT(said_, HasSubstr("warning: " + r.data.train.string() +
                               ": 1 of 9 conversations cannot be used and is skipped, the first for " +
                               r.data.train.string() + ":9: "));
}

TEST_F(ConversationsTest, OfEveryFormAreLearned) {
  std::string sharegpt;
  std::istringstream lines(read_file(kCase / "data.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json turns = nlohmann::json::array();
    const nlohmann::json given = nlohmann::json::parse(line);
    for (const nlohmann::json& message : given["messages"])
      turns.push_back({{"from", message["role"] == "assistant" ? "gpt"
                                : message["role"] == "user"    ? "human"
                                                               : "system"},
                       {"value", message["content"]}});
    sharegpt += nlohmann::json{{"conversations", turns}}.dump() + "\n";
  }
  write_file(folder_ / "sharegpt.jsonl", sharegpt);
  Recipe r = recipe(512, 1);
  r.data.train = folder_ / "sharegpt.jsonl";
  run(r);
  EXPECT_NEAR(loss_of_step(0), expected_.at("training_losses").at(0).get<double>(), 1e-5);
  EXPECT_THAT(said_, HasSubstr("sharegpt.jsonl: 8 as ShareGPT (conversations)"));
}

TEST_F(ConversationsTest, AnswersMayBeLeftOut) {
  const std::string first = R"({"role": "user", "content": "x"}, {"role": "assistant", "content": "y")",
                    second = R"(, {"role": "user", "content": "x"}, {"role": "assistant", "content": "yy")";
  const auto tokens = [&](const std::string& of_first, const std::string& of_second) {
    write_file(folder_ / "two.jsonl",
               "{\"messages\": [" + first + of_first + "}" + second + of_second + "}]}\n");
    Recipe r = recipe(512, 1);
    r.data.train = folder_ / "two.jsonl";
    r.data.bad_share = 0;
    const std::string error = refusal(r);
    return error == "no error" ? log_lines(folder_ / "run").at(0) : error;
  };
  const auto counts = [](int tokens) { return HasSubstr(fmt::format("\"tokens\": {},", tokens)); };
  EXPECT_THAT(tokens("", ""), counts(5));  // y and yy, each with its end
  EXPECT_THAT(tokens(R"(, "train": false)", ""), counts(3));
  EXPECT_THAT(tokens(R"(, "weight": 1)", R"(, "weight": 0)"), counts(2));
  EXPECT_THAT(tokens(R"(, "train": false)", R"(, "weight": 0)"),
              HasSubstr("two.jsonl:1: expected an answer of the assistant to learn, got none"));
  EXPECT_THAT(tokens(R"(, "weight": 0.5)", ""), counts(5));
  EXPECT_THAT(tokens(R"(, "weight": -0.5)", ""),
              HasSubstr("two.jsonl:1: messages.1.weight: expected a number of at least 0, got -0.5"));
}

// Weights of messages and of lines, of which one is 0, however the lines are packed and held out.
TEST_F(ConversationsTest, WeighAnswersAsPyTorchDoes) {
  const nlohmann::json wanted = read_json(kCase / "weighted.json");
  const auto losses = wanted.at("training_losses").get<std::vector<double>>();
  for (const std::int64_t context : {512, 203}) {
    Recipe r = recipe(context, std::ssize(losses));
    r.data.train = kCase / "weighted.jsonl";
    run(r);
    for (std::size_t step = 0; step < losses.size(); ++step)
      EXPECT_NEAR(loss_of_step(step), losses[step], 2e-5) << step;
    EXPECT_EQ(Config::parse(log_lines(folder_ / "run").at(0), "log.jsonl").required_integer("tokens"),
              wanted.at("tokens").get<int>());
    EXPECT_THAT(said_, HasSubstr("left out, with nothing to learn: 1"));
  }
  Recipe r = recipe(203, 1);
  r.data.train = r.data.dev = kCase / "weighted.jsonl";
  r.train.batch_tokens = 256;
  r.train.lr = 1e-30;
  r.eval.every = 1;
  EXPECT_NEAR(run(r).evaluation->loss, losses[0], 2e-5);
}

TEST_F(ConversationsTest, LinesOfOtherFormsHaveWeights) {
  const auto losses = [&](const std::string& first, const std::string& second) {
    write_file(folder_ / "two.jsonl", first + "\n" + second + "\n");
    Recipe r = recipe(512, 1);
    r.data.train = folder_ / "two.jsonl";
    run(r);
    return loss_of_step(0);
  };
  const std::string x = R"("prompt": "x", "completion": "y")", y = R"("text": "story window")";
  const double one = losses("{" + x + "}", "{" + y + R"(, "weight": 0})"),
               two = losses("{" + x + R"(, "weight": 0.0})", "{" + y + "}"),
               both = losses("{" + x + R"(, "weight": 3})", "{" + y + "}");
  const auto counts = [&](const std::string& line) {
    losses(line, "{" + y + R"(, "weight": 0})");
    return Config::parse(log_lines(folder_ / "run").at(0), "log.jsonl").required_number("tokens");
  };
  losses("{" + x + R"(, "weight": 0.0})", "{" + y + "}");
  const double tokens =
      Config::parse(log_lines(folder_ / "run").at(0), "log.jsonl").required_number("tokens");
  EXPECT_NEAR(both, (3 * 2 * one + tokens * two) / (3 * 2 + tokens), 2e-5);
  // The same answer in other forms, with the weight of its line and of its message.
  for (
      const char* line :
      {R"({"instruction": "x", "output": "y", "weight": 3})",
       R"({"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y", "weight": 3}]})",
       R"({"prompt": "x", "completion": [{"role": "assistant", "content": "y", "weight": 1.5}], "weight": 2})"}) {
    EXPECT_NEAR(losses(line, "{" + y + "}"), both, 2e-5) << line;
    EXPECT_EQ(counts(line), 2) << line;
  }
  Recipe r = recipe(512, 1);
  r.data.train = folder_ / "two.jsonl";
  r.data.bad_share = 0;
  write_file(r.data.train, R"({"text": "x", "weight": -1})"
                           "\n");
  EXPECT_THAT(refusal(r), HasSubstr("two.jsonl:1: weight: expected a number of at least 0, got -1"));
}

}  // namespace
}  // namespace heed
