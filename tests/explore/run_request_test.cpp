// Requests: what they may say, and the message for what they may not.
#include "explore/run_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::explore {
namespace {

template <class Parse>
std::string error_of(const std::string& json, Parse parse) {
  try {
    parse(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
std::string run_error(const std::string& json) { return error_of(json, parse_run_request); }
std::string ablation_error(const std::string& json) { return error_of(json, parse_ablation_request); }

TEST(RunRequest, ReadsEveryKey) {
  const RunRequest request =
      parse_run_request(R"({"model": 1, "text": "a", "pair": "b", "target": null, "max_new_tokens": 5,
    "candidates": 3, "vectors": true, "changes": [{"kind": "cross", "layer": 2, "head": 3, "factor": 0.5},
    {"kind": "encoder", "layer": 0, "head": 1, "patch": {"ids": [1, 2], "target_ids": [3]}}]})");
  RunRequest expected;
  expected.model = 1;
  expected.text.text = "a";
  expected.text.pair = "b";
  expected.max_new_tokens = 5;
  expected.candidates = 3;
  expected.vectors = true;
  expected.changes.push_back({"cross", 2, 3, 0.5});
  RequestedText patch;
  patch.ids = {1, 2};
  patch.target_ids = {3};
  expected.changes.push_back({"encoder", 0, 1, 0, patch});
  EXPECT_EQ(request, expected);
  const AblationRequest ablation = parse_ablation_request(
      R"({"model": 0, "ids": [4], "position": 7, "id": 8, "kind": "decoder", "layer": 1, "candidates": 3})");
  EXPECT_EQ(ablation.position, 7);
  EXPECT_EQ(ablation.id, 8);
  EXPECT_EQ(ablation.kind, "decoder");
  EXPECT_EQ(ablation.layer, 1);
}

TEST(RunRequest, NamesWhatIsWrong) {
  EXPECT_EQ(run_error("{"), "request: expected JSON (not at byte 2)");
  EXPECT_THAT(run_error("{\"model\": 0, \"text\": \"\xff\"}"), testing::StartsWith("request: expected JSON"));
  EXPECT_THAT(run_error(R"({"model": 0, "text": "a", "changes": [1e999]})"),
              testing::StartsWith("request: expected JSON"));
  EXPECT_EQ(run_error("[]"), "request: expected an object");
  EXPECT_EQ(run_error(R"({"text": "a"})"), "model: expected the number of a model");
  EXPECT_EQ(run_error(R"({"model": 0})"), "text: expected either text or ids, got neither");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "ids": []})"),
            "text: expected either text or ids, got both");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "target": "b", "target_ids": []})"),
            "target: expected either target or target_ids, got both");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": [1], "pair": "b"})"),
            "pair: expected no pair beside ids, which hold both texts");
  EXPECT_EQ(run_error(R"({"model": 0, "text": 1})"), "text: expected a string");
  EXPECT_EQ(run_error(R"({"model": -1, "text": "a"})"),
            "model: expected a whole number from 0 to 2147483647, got -1");
  EXPECT_EQ(run_error(R"({"model": 18446744073709551615, "text": "a"})"),
            "model: expected a whole number from 0 to 2147483647");
  EXPECT_EQ(run_error(R"({"model": 0.5, "text": "a"})"),
            "model: expected a whole number from 0 to 2147483647");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": [1, "2"]})"),
            "ids: expected a whole number from 0 to 2147483647");
  EXPECT_EQ(run_error(R"({"model": 0, "ids": 1})"), "ids: expected a list of token ids");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "vectors": 1})"), "vectors: expected true or false");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "candidates": 0})"),
            "candidates: expected a whole number from 1 to 1000, got 0");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "max_new_tokens": 9999})"),
            "max_new_tokens: expected a whole number from 1 to 1024, got 9999");
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "colour": 1})"),
            "colour: expected a known key (candidates, changes, ids, max_new_tokens, model, pair, target, "
            "target_ids, text, vectors)");
}

TEST(RunRequest, MessagesAreShortLines) {
  const std::string message = run_error("{\"\\n" + std::string(500, 'x') + "\": 1}");
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

TEST(RunRequest, NamesWrongChanges) {
  const auto change_error = [](const std::string& change) {
    return run_error(
        R"({"model": 0, "text": "a", "changes": [{"kind": "decoder", "layer": 0, "head": 0, "factor": 1}, )" +
        change + "]}");
  };
  EXPECT_EQ(run_error(R"({"model": 0, "text": "a", "changes": {}})"),
            "changes: expected a list of at most 4096 changes");
  EXPECT_EQ(change_error("3"), "changes[1]: expected an object");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "factor": 1})"),
            "changes[1]: expected kind, layer and head");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0})"),
            "changes[1]: expected either factor or patch, got neither");
  EXPECT_EQ(
      change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "factor": 1, "patch": {"text": "b"}})"),
      "changes[1]: expected either factor or patch, got both");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "factor": 1e9})"),
            "changes[1].factor: expected a number from -1000 to 1000");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "patch": {"model": 1}})"),
            "changes[1].patch.model: expected a known key (ids, pair, target, target_ids, text)");
  EXPECT_EQ(change_error(R"({"kind": "decoder", "layer": 0, "head": 0, "patch": {}})"),
            "changes[1].patch.text: expected either text or ids, got neither");
}

TEST(RunRequest, AblationsHaveNoChanges) {
  EXPECT_EQ(ablation_error(R"({"model": 0, "text": "a"})"),
            "id: expected the token or label whose logit is measured");
  EXPECT_THAT(ablation_error(R"({"model": 0, "text": "a", "id": 1, "changes": []})"),
              testing::StartsWith("changes: expected a known key"));
  EXPECT_EQ(ablation_error(R"({"model": 0, "text": "a", "id": -1})"),
            "id: expected a whole number from 0 to 2147483647, got -1");
}

}  // namespace
}  // namespace heed::explore
