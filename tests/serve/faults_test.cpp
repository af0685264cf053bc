// Requests and files that once spoiled an answer: of their own prompts, of the texts computed with them, or
// of all that follow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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

}  // namespace
}  // namespace heed::serve_test
