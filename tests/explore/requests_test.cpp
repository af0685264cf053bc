// Requests: what they may say, and the message for what they may not.
#include "explore/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"

namespace heed::explore {
namespace {

std::string run_error(const std::string& json) {
  return error_of([&] { read_request<RunRequest>(json); });
}
std::string ablation_error(const std::string& json) {
  return error_of([&] { read_request<AblationRequest>(json); });
}

TEST(RunRequest, ReadsEveryKey) {
  const RunRequest request =
      read_request<RunRequest>(R"({"model": 1, "text": "a", "pair": "b", "target": null, "max_new_tokens": 5,
    "candidates": 3, "vectors": true, "steering": [0.5, -2], "show": {"kind": "cross", "layer": 1, "head": 2}, "changes": [{"kind": "cross", "layer": 2, "head": 3, "factor": 0.5},
    {"kind": "encoder", "layer": 0, "head": 1, "patch": {"ids": [1, 2], "target_ids": [3]}}]})");
  RunRequest expected;
  expected.model = 1;
  expected.text.text = "a";
  expected.text.pair = "b";
  expected.max_new_tokens = 5;
  expected.candidates = 3;
  expected.vectors = true;
  expected.steering = {0.5, -2};
  expected.show = {"cross", 1, 2};
  expected.changes.push_back({"cross", 2, 3, 0.5, false});
  RequestedText patch;
  patch.ids = {1, 2};
  patch.target_ids = {3};
  expected.changes.push_back({"encoder", 0, 1, 0, false, patch});
  EXPECT_EQ(request, expected);
  const AblationRequest ablation = read_request<AblationRequest>(
      R"({"model": 0, "ids": [4], "position": 7, "id": 8, "kind": "decoder", "layer": 1, "candidates": 3})");
  EXPECT_EQ(ablation.position, 7);
  EXPECT_EQ(ablation.id, 8);
  EXPECT_EQ(ablation.kind, "decoder");
  EXPECT_EQ(ablation.layer, 1);
}

TEST(RunRequest, ReadsWhatOtherViewsAsk) {
  const FlowRequest flow = read_request<FlowRequest>(
      R"({"model": 0, "text": "a", "stack": "encoder", "position": 3, "id": 9, "changes": [{"kind": "encoder", "layer": 0, "head": 1, "factor": 0}]})");
  EXPECT_EQ(flow.stack, "encoder");
  EXPECT_EQ(flow.position, 3);
  EXPECT_EQ(flow.id, 9);
  EXPECT_EQ(flow.run.changes.size(), 1u);
  const StepsRequest steps = read_request<StepsRequest>(
      R"({"model": 0, "text": "a", "kind": "cross", "layer": 1, "head": 2, "query": 3})");
  EXPECT_EQ(steps.head.kind, "cross");
  EXPECT_EQ(steps.head.layer, 1);
  EXPECT_EQ(steps.head.head, 2);
  EXPECT_EQ(steps.query, 3);
  const MistakesRequest traps = read_request<MistakesRequest>(
      R"({"model": 0, "text": "a", "kind": "decoder", "layer": 1, "head": 2, "traps": ["mask", "exchange"], "exchange": [0, 4]})");
  EXPECT_EQ(traps.mistakes, (std::vector<std::string>{"mask", "exchange"}));
  EXPECT_EQ(*traps.exchange, (std::vector<std::int64_t>{0, 4}));
  EXPECT_ERROR(read_request<FlowRequest>(R"({"model": 0, "text": "a", "position": 3})"), "stack");
  EXPECT_ERROR(read_request<StepsRequest>(
                   R"({"model": 0, "text": "a", "kind": "cross", "layer": 1, "head": 2, "query": -1})"),
               "request: query: expected an integer from 0");
  EXPECT_ERROR(
      read_request<MistakesRequest>(
          R"({"model": 0, "text": "a", "kind": "cross", "layer": 1, "head": 2, "traps": [], "exchange": [1]})"),
      "request: exchange: expected two positions");
}

TEST(RunRequest, NamesWhatIsWrong) {
  EXPECT_EQ(run_error("{"), "request: expected a key in quotes, got the end of the text (line 1, column 2)");
  EXPECT_THAT(run_error("{\"model\": 0, \"text\": \"\xff\"}"),
              testing::StartsWith("request: expected UTF-8"));
  EXPECT_THAT(run_error(R"({"model": 0, "text": "a", "changes": [1e999]})"),
              testing::StartsWith("request: expected a number that fits a double"));
  EXPECT_EQ(run_error("[]"), "request: expected a JSON object, got an array of 0");
  EXPECT_EQ(run_error(R"({"text": "a"})"), "request: model: expected an integer, got nothing");
  EXPECT_EQ(run_error(R"({"model": 0})"), "request: text: expected one of text, ids and file, got none");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "ids": []})"),
            "request: text: expected one of text, ids and file, got several");
  EXPECT_EQ(run_error(R"({"model": 0, "file": 1, "text": "a"})"),
            "request: text: expected one of text, ids and file, got several");
  EXPECT_EQ(run_error(R"({"model": 0, "file": 1, "pair": "a"})"),
            "request: pair: expected no pair beside a file");
  EXPECT_EQ(run_error(R"({"model": 0, "file": -1})"),
            "request: file: expected an integer from 0 to 2147483647, got -1");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "target": "b", "target_ids": []})"),
            "request: target: expected either target or target_ids, got both");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": [1], "pair": "b"})"),
            "request: pair: expected no pair beside ids, which hold both texts");
  EXPECT_EQ(run_error(R"({"model": 0, "text": 1})"), "request: text: expected a string, got 1");
  EXPECT_EQ(run_error(R"({"model": -1, "text": "a"})"),
            "request: model: expected an integer from 0 to 2147483647, got -1");
  EXPECT_EQ(run_error(R"({"model": 18446744073709551615, "text": "a"})"),
            "request: model: expected an integer from 0 to 2147483647, got 18446744073709551615");
  EXPECT_EQ(run_error(R"({"model": 0.5, "text": "a"})"),
            "request: model: expected an integer from 0 to 2147483647, got 0.5");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": [1, "2"]})"),
            "request: ids.1: expected an integer from 0 to 2147483647, got \"2\"");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": {}})"), "request: ids: expected an array, got an object");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": [1, -2]})"),
            "request: ids.1: expected an integer from 0 to 2147483647, got -2");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "vectors": 1})"),
            "request: vectors: expected true or false, got 1");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "candidates": 0})"),
            "request: candidates: expected an integer from 1 to 1000, got 0");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "max_new_tokens": 9999})"),
            "request: max_new_tokens: expected an integer from 1 to 1024, got 9999");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "color": 1})"), "request: color: expected a known key");
}

TEST(RunRequest, TellsTheKeyThatWasMeant) {
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "candidate": 1})"),
            "request: candidate: expected a known key (perhaps candidates)");
}

TEST(RunRequest, MessagesAreShortLines) {
  const std::string key = "\"\\n" + std::string(500, 'x') + "\"";
  for (const std::string& members : {key + ": 1", key + ": 1, " + key + ": 2", "\"ids\": {" + key + ": 1}"}) {
    const std::string message = run_error("{\"model\": 0, \"text\": \"a\", " + members + "}");
    EXPECT_THAT(message, testing::StartsWith("request: "));
    EXPECT_LT(message.size(), 200u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(RunRequest, NamesWrongChanges) {
  const auto change_error = [](const std::string& change) {
    return run_error(
        R"({"model": 0, "text": "a", "changes": [{"kind": "decoder", "layer": 0, "head": 0, "factor": 1}, )" +
        change + "]}");
  };
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "changes": 1})"),
            "request: changes: expected an array, got 1");
  EXPECT_EQ(change_error("3"), "request: changes.1: expected an object, got 3");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "factor": 1})"),
            "request: changes.1.head: expected an integer, got nothing");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0})"),
            "request: changes.1: expected one of factor, mean and patch, got none");
  EXPECT_EQ(
      change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "factor": 1, "patch": {"text": "b"}})"),
      "request: changes.1: expected one of factor, mean and patch, got several");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "factor": 1e9})"),
            "request: changes.1.factor: expected a number from -1000 to 1000, got 1000000000.0");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "patch": {"model": 1, "text": "b"}})"),
            "request: changes.1.patch.model: expected a known key");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "patch": {}})"),
            "request: changes.1.patch.text: expected one of text, ids and file, got none");
}

TEST(RunRequest, AblationsHaveNoChanges) {
  EXPECT_EQ(ablation_error(R"({"model": 0, "text": "a"})"), "request: id: expected an integer, got nothing");
  EXPECT_THAT(ablation_error(R"({"model": 0, "text": "a", "id": 1, "changes": []})"),
              testing::StartsWith("request: changes: expected a known key"));
  EXPECT_EQ(ablation_error(R"({"model": 0, "text": "a", "id": -1})"),
            "request: id: expected an integer from 0 to 2147483647, got -1");
}

}  // namespace
}  // namespace heed::explore
