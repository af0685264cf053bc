// What can be done with models of every kind.
#include "heed/open/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <set>

#include "heed/models/kind.h"
#include "heed/models/registry.h"

namespace heed {
namespace {

using testing::ElementsAreArray;
using Words = std::vector<std::string>;

struct Expected {
  std::string model, kind;
  std::vector<Task> tasks;
  Words commands, served;
};

std::unique_ptr<Model> fixture_model(const std::string& name) { return load_model(HEED_FIXTURES "/" + name); }

class CapabilitiesOf : public testing::TestWithParam<Expected> {};

TEST_P(CapabilitiesOf, AKindOfModel) {
  const auto model = fixture_model(GetParam().model);
  EXPECT_EQ(kind_of(*model), GetParam().kind);
  EXPECT_THAT(tasks_of(*model), ElementsAreArray(GetParam().tasks));
  EXPECT_THAT(commands_for(*model), ElementsAreArray(GetParam().commands));
  Words served;
  for (const Capability& one : served_for(*model, false)) served.emplace_back(one.name);
  EXPECT_THAT(served, ElementsAreArray(GetParam().served));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, CapabilitiesOf,
    testing::Values(
        Expected{"decoders/gpt2",
                 "a gpt2 decoder",
                 {Task::generate, Task::embed, Task::attention},
                 {"generate", "evaluate --texts", "embed", "attend", "explore", "heads", "lens", "ablate",
                  "patch", "attribute", "tokenize", "serve", "forward", "doctor"},
                 {"completion", "embedding", "attention"}},
        Expected{"marian",
                 "a marian encoder-decoder",
                 {Task::translate, Task::embed, Task::attention},
                 {"translate", "evaluate --source", "train --init", "embed", "attend", "explore", "heads",
                  "lens", "ablate", "patch", "attribute", "tokenize", "serve", "forward", "doctor"},
                 {"translation", "embedding", "attention"}},
        Expected{"encoders/bert-classify",
                 "a bert sequence classifier",
                 {Task::classify, Task::embed, Task::attention},
                 {"classify", "evaluate --data", "embed", "attend", "explore", "heads", "attribute",
                  "tokenize", "serve", "forward", "doctor"},
                 {"classification", "embedding", "attention"}},
        Expected{"encoders/bert-tag",
                 "a bert token classifier",
                 {Task::tag, Task::embed, Task::attention},
                 {"classify", "evaluate --data", "embed", "attend", "explore", "heads", "attribute",
                  "tokenize", "serve", "forward", "doctor"},
                 {"token_classification", "embedding", "attention"}},
        Expected{"encoders/bert-mlm",
                 "a bert masked language model",
                 {Task::fill, Task::embed, Task::attention},
                 {"fill", "embed", "attend", "explore", "heads", "attribute", "tokenize", "serve", "forward",
                  "doctor"},
                 {"embedding", "sparse_embedding", "attention"}},
        Expected{"encoders/xlm-roberta-cross-encoder",
                 "a xlm-roberta sequence classifier",
                 {Task::classify, Task::embed, Task::attention},
                 {"classify", "evaluate --data", "embed", "attend", "explore", "heads", "attribute",
                  "tokenize", "serve", "forward", "doctor"},
                 {"reranking", "classification", "embedding", "attention"}},
        Expected{"recurrent/none-gru",
                 "a heed_recurrent encoder-decoder",
                 {Task::translate, Task::embed},
                 {"translate", "evaluate --source", "train --init", "embed", "patch", "tokenize", "serve",
                  "forward", "doctor"},
                 {"translation", "embedding"}},
        Expected{"recurrent/additive-gru",
                 "a heed_recurrent encoder-decoder",
                 {Task::translate, Task::embed, Task::attention},
                 {"translate", "evaluate --source", "train --init", "embed", "attend", "explore", "patch",
                  "tokenize", "serve", "forward", "doctor"},
                 {"translation", "embedding", "attention"}},
        Expected{"wav2vec2-model",
                 "a wav2vec2 encoder",
                 {},
                 {"explore", "heads", "attribute", "forward", "doctor"},
                 {}},
        Expected{"deit-model",
                 "a deit image model",
                 {Task::embed_images},
                 {"embed --image", "attend", "explore", "heads", "attribute", "forward", "doctor"},
                 {}},
        Expected{"vit",
                 "a vit image model",
                 {Task::classify_images, Task::embed_images},
                 {"classify", "embed --image", "attend", "explore", "heads", "lens", "ablate", "patch",
                  "attribute", "forward", "doctor"},
                 {}},
        Expected{"clip",
                 "a clip dual encoder",
                 {Task::classify_images, Task::embed, Task::embed_images},
                 {"classify --labels", "embed", "embed --image", "serve", "forward", "doctor"},
                 {"embedding"}},
        Expected{"whisper",
                 "a whisper encoder-decoder",
                 {Task::transcribe},
                 {"transcribe", "translate --input", "evaluate --data", "serve", "forward", "doctor"},
                 {"transcription"}},
        Expected{
            "wav2vec2-ctc",
            "a wav2vec2 speech recognizer",
            {Task::transcribe},
            {"transcribe", "evaluate --data", "explore", "heads", "attribute", "serve", "forward", "doctor"},
            {"transcription"}},
        Expected{
            "audio-spectrogram",
            "an audio-spectrogram-transformer sequence classifier",
            {Task::classify_sounds},
            {"classify", "explore", "heads", "lens", "ablate", "patch", "attribute", "forward", "doctor"},
            {}},
        Expected{"trocr",
                 "a vision-encoder-decoder image model",
                 {Task::caption},
                 {"caption", "forward", "doctor"},
                 {}}),
    [](const auto& info) {
      std::string name = info.param.model;
      for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
      }
      return name;
    });

TEST(Capabilities, AConversationNeedsATemplate) {
  const auto model = fixture_model("decoders/gpt2");
  EXPECT_EQ(served_for(*model, true).front().route, "/v1/chat/completions");
  EXPECT_THAT(commands_for(*model), testing::Not(testing::Contains("chat")));
}

TEST(Capabilities, RoutesAndTheirNamesAreOnce) {
  std::set<std::string_view> names, routes;
  for (const Capability& one : capabilities()) {
    EXPECT_EQ(one.name.empty(), one.route.empty());
    EXPECT_FALSE(one.command.empty() && one.route.empty());
    if (one.route.empty()) continue;
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_TRUE(routes.insert(one.route).second) << one.route;
  }
}

}  // namespace
}  // namespace heed
