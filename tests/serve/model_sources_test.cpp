// Models whose files change: what is opened again, and when the old one is forgotten.
#include "serve/model_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "reference/temporary_folder.h"
#include "serve/asking.h"

namespace heed::serve_test {
namespace {

using std::filesystem::path;
using testing::ElementsAre;
using testing::HasSubstr;
using Told = std::vector<std::pair<std::string, std::string>>;

constexpr auto kAll = std::filesystem::copy_options::recursive;

serve::ModelSources sources_in(const TemporaryFolder& folder) {
  std::filesystem::copy(path(HEED_FIXTURES) / "../../models/shakespeare", folder.path() / "writer", kAll);
  std::filesystem::copy(path(HEED_FIXTURES) / "encoders/bert-mlm", folder.path() / "reader", kAll);
  return {{{"writer", (folder.path() / "writer").string()},
           {"reader", (folder.path() / "reader").string(), {"r"}}}};
}

// Whom models are told to.
struct Listener {
  Told told;
  serve::ModelSources::Tell tell = [this](const std::string& name, const std::string& failure) {
    told.emplace_back(name, failure);
  };
};

TEST(ModelSources, OpenAgainWhatHasChanged) {
  const TemporaryFolder folder;
  const serve::ModelSources sources = sources_in(folder);
  Listener listener;
  auto& [told, tell] = listener;
  const serve::ServedModels first = sources.open(tell);
  EXPECT_EQ(sources.open_changed(first, tell), first);
  EXPECT_TRUE(told.empty());

  // The same bytes in another file, which another may hold open.
  const path weights = folder.path() / "reader" / "model.safetensors";
  const auto time = std::filesystem::last_write_time(weights);
  std::filesystem::copy_file(weights, folder.path() / "copy");
  std::filesystem::last_write_time(folder.path() / "copy", time);
  std::filesystem::rename(folder.path() / "copy", weights);
  const serve::ServedModels second = sources.open_changed(first, tell);
  EXPECT_EQ(second[0], first[0]);
  EXPECT_NE(second[1], first[1]);
  EXPECT_THAT(second[1]->aliases, ElementsAre("r"));
  EXPECT_NE(second[1]->fingerprint(), first[1]->fingerprint());
  EXPECT_EQ(told, (Told{{"reader", ""}}));

  told.clear();
  spill(folder.path() / "reader" / "config.json", "{}");
  std::filesystem::rename(folder.path() / "writer", folder.path() / "elsewhere");
  EXPECT_EQ(sources.open_changed(second, tell), second);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].first, "writer");
  EXPECT_THAT(told[0].second, HasSubstr("writer"));
  EXPECT_THAT(told[1].second, HasSubstr("config.json"));
}

TEST(ModelSources, LeaveOutWhatCannotBeOpened) {
  const TemporaryFolder folder;
  serve::ModelSources sources = sources_in(folder);
  sources.models[0].options.activations = Activations::int8;  // of float weights
  Listener listener;
  auto& [told, tell] = listener;
  const serve::ServedModels first = sources.open(tell);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]->name, "reader");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, "writer");
  EXPECT_THAT(told[0].second, HasSubstr("heed convert"));

  told.clear();
  EXPECT_EQ(sources.open_changed(first, tell), first) << "and it is tried again";
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, "writer");

  told.clear();
  sources.models[0].options.activations = Activations::automatic;
  const serve::ServedModels second = sources.open_changed(first, tell);
  EXPECT_EQ(told, (Told{{"writer", ""}}));
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0]->name, "writer");
  EXPECT_EQ(second[1], first[0]);

  told.clear();
  for (serve::ModelSource& source : sources.models) source.options.activations = Activations::int8;
  EXPECT_THROW(sources.open(tell), Error);
  EXPECT_TRUE(told.empty());
}

TEST(ModelSources, AnswersEndWithTheModelTheyBeganWith) {
  const TemporaryFolder folder;
  const serve::ModelSources sources = sources_in(folder);
  Asking server({});
  server.replace(sources.open({}));
  const Json asked = {
      {"prompt", "KING: What, "}, {"max_tokens", 300}, {"temperature", 0}, {"ignore_eos", true}};
  const Json alone = server.post("/v1/completions", asked).json;
  const auto begun = server.begin(request_of("POST", "/v1/completions", [&] {
    Json streamed = asked;
    streamed["stream"] = true;
    return json_text(streamed);
  }()));
  begun->await_bytes(1);
  std::weak_ptr<const serve::ServedModel> old = server.services()->models.front();
  spill(folder.path() / "writer" / "chat_template.jinja", "{{ messages }}");
  server.replace(sources.open_changed(server.services()->models, [](const auto&, const auto&) {}));
  const Json changed = server.post("/v1/completions", asked).json;
  EXPECT_EQ(changed["choices"], alone["choices"]) << "the weights are the same";
  EXPECT_NE(changed["system_fingerprint"], alone["system_fingerprint"]);
  EXPECT_EQ(server.get("/v1/models").json["data"].size(), 2u);

  const Answer answer{200, begun->response().body, {}, {}};
  const std::vector<Json> events = answer.events();
  EXPECT_EQ(text_of(events), alone["choices"][0]["text"]);
  for (const Json& event : events) EXPECT_EQ(event["system_fingerprint"], alone["system_fingerprint"]);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!old.expired() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(old.expired());
}

}  // namespace
}  // namespace heed::serve_test
