// Requests and files that once spoiled an answer: of their own prompts, of the texts computed with them, or
// of all that follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <thread>

#include "heed/io/safetensors.h"
#include "heed/text/tokenizer.h"
#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using testing::HasSubstr;

std::vector<serve::ServedModel> alone(serve::ServedModel model) {
  std::vector<serve::ServedModel> models;
  models.push_back(std::move(model));
  return models;
}

Json continuing(Json more) {
  Json body = {{"prompt", "KING: What, "}, {"max_tokens", 30}, {"temperature", 0}};
  body.update(more);
  return body;
}

TEST(ServeFaults, AModelWhoseFileWasOverwrittenAnswersNoMore) {
  const TemporaryFolder folder;
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / "../../models/shakespeare", folder.path(),
                        std::filesystem::copy_options::recursive);
  std::vector<serve::ServedModel> models = alone(serve::serve_model("copied", load(folder.path().string())));
  models.push_back(shakespeare());
  Asking server(std::move(models));
  EXPECT_EQ(server.post("/v1/completions", continuing({{"model", "copied"}})).status, 200);
  spill(folder / "model.safetensors", "");
  const Answer refused = server.post("/v1/completions", continuing({{"model", "copied"}}));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.json["error"]["code"], "model_changed");
  EXPECT_THAT(refused.json["error"]["message"],
              testing::StartsWith("copied/model.safetensors: expected the "));
  EXPECT_EQ(server.post("/v1/embeddings", {{"model", "copied"}, {"input", "a"}}).status, 503);
  EXPECT_EQ(server.post("/v1/completions", continuing({{"model", "shakespeare"}})).status, 200);
}

TEST(ServeFaults, EachPromptHasItsOwnRoom) {
  const serve::ServedModel model = shakespeare();
  Asking server(alone(shakespeare()));
  const std::vector<std::int64_t> brief{1}, lengthy(static_cast<std::size_t>(model.context() - 12), 1);
  const Answer both = server.post(
      "/v1/completions",
      {{"prompt", {brief, lengthy}}, {"max_tokens", 30}, {"ignore_eos", true}, {"temperature", 0}});
  EXPECT_EQ(both.json["usage"]["completion_tokens"], 30 + 12);
  const Answer alone = server.post(
      "/v1/completions", {{"prompt", brief}, {"max_tokens", 30}, {"ignore_eos", true}, {"temperature", 0}});
  EXPECT_EQ(both.json["choices"][0]["text"], alone.json["choices"][0]["text"]);
}

TEST(ServeFaults, AnEchoIsWhatTheModelReads) {
  Asking server(alone(shakespeare()));
  const Json one = server
                       .post("/v1/completions", continuing({{"prompt", "Once upon a time there was a dog"},
                                                            {"echo", true},
                                                            {"logprobs", 0},
                                                            {"max_tokens", 2},
                                                            {"truncate_prompt_tokens", 3}}))
                       .json["choices"][0];
  EXPECT_THAT(one["text"].get<std::string>(), testing::StartsWith("dog"));
  EXPECT_EQ(one["text"].get<std::string>().size(), 5u);
  EXPECT_EQ(one["logprobs"]["text_offset"], Json({0, 1, 2, 3, 4}));
}

// A copy of a fixture in which the vector of the token `x` is infinite.
serve::ServedModel with_infinite_x(const TemporaryFolder& folder, const std::string& fixture) {
  std::filesystem::copy(std::filesystem::path(HEED_FIXTURES) / fixture, folder.path(),
                        std::filesystem::copy_options::recursive);
  const std::int64_t x = load_tokenizer(folder.path())->encode("x", false).ids.front();
  std::vector<NamedTensor> tensors;
  const TensorFiles files = TensorFiles::open(folder.path());
  for (const std::string& name : files.names()) {
    tensors.push_back({name, files.get(name).clone()});
    if (!name.ends_with("word_embeddings.weight")) continue;
    const std::int64_t width = tensors.back().tensor.size(1);
    std::fill_n(tensors.back().tensor.data<float>() + x * width, width,
                std::numeric_limits<float>::infinity());
  }
  save_safetensors(folder / "model.safetensors", tensors);
  return serve::serve_model("infinite", load(folder.path().string()));
}

TEST(ServeFaults, ATextThatFailsFailsNoOthersOfItsBatch) {
  for (const auto& [fixture, route] :
       {std::pair("encoders/bert-mlm", "/embed"), {"encoders/bert-classify", "/predict"}}) {
    const TemporaryFolder folder;
    Asking server(alone(with_infinite_x(folder, fixture)));
    std::vector<std::shared_ptr<Received>> answers;
    for (int i = 0; i < 12; ++i)
      answers.push_back(
          server.begin(request_of("POST", route, json_text(Json{{"inputs", i % 3 == 1 ? "a x b" : "a b"}}))));
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(answers[i]->response().status, i % 3 == 1 ? 424 : 200) << route << i;
  }
  const TemporaryFolder folder;  // whose output map is the table of tokens
  Asking server(alone(with_infinite_x(folder, "encoders/bert-mlm")));
  EXPECT_EQ(server.post("/embed_sparse", {{"inputs", "a b"}}).status, 424);
}

TEST(ServeFaults, LimitsCountTextsAndNotTheIdsOfOne) {
  Asking server(alone(served("encoders/bert-mlm")));
  const std::vector<int> ids(5000, 1);
  EXPECT_EQ(server.post("/embed", {{"inputs", ids}}).status, 200);
  EXPECT_EQ(server.post("/v1/embeddings", {{"input", ids}}).status, 200);
  EXPECT_EQ(server.post("/decode", {{"ids", ids}}).status, 200);
  EXPECT_EQ(server.post("/detokenize", {{"tokens", ids}}).status, 200);
  EXPECT_EQ(server.post("/embed", {{"inputs", std::vector<std::string>(4097, "a")}}).status, 413);
  const auto similarity = [&](std::size_t count) {
    return server.post(
        "/similarity",
        {{"inputs", {{"source_sentence", "a"}, {"sentences", std::vector<std::string>(count, "a")}}}});
  };
  EXPECT_EQ(similarity(4096).json.size(), 4096u);
  EXPECT_EQ(similarity(4097).status, 413);
}

// While a step computes; between two steps it is looked at anyway.
TEST(ServeFaults, AClientThatLeavesWithinAStepIsNoFault) {
  Asking server(alone(shakespeare()));
  const std::vector<std::string> prompts(6, std::string(200, 'a'));
  const Json body = {{"prompt", prompts}, {"echo", true}, {"logprobs", 3}, {"max_tokens", 1}};
  for (int i = 0; i < 20; ++i) {
    const auto answer = server.begin(request_of("POST", "/v1/completions", json_text(body)));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    answer->leave();
    EXPECT_NE(answer->response().status, 500) << answer->response().body;
  }
}

}  // namespace
}  // namespace heed::serve_test
