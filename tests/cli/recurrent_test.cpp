// The commands on recurrent models: the weights of tests/fixtures/recurrent beside the tokenizer of the tiny
// model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// The directory of a model of that name, in `folder`.
std::string recurrent_model(const Folder& folder, const std::string& name) {
  const std::string directory = folder / name;
  fs::create_directories(directory);
  for (const char* file :
       {"source.spm", "target.spm", "special_tokens_map.json", "tokenizer_config.json", "vocab.json"}) {
    fs::copy_file(tiny_model() + "/" + file, directory + "/" + file);
  }
  const std::string fixture = HEED_FIXTURES "/recurrent/" + name;
  for (const char* file : {"config.json", "model.safetensors"})
    fs::copy_file(fixture + "/" + file, directory + "/" + file);
  return directory;
}

TEST(Recurrent, TranslatesAndShowsWhereItLooks) {
  const Folder folder;
  for (const char* name : {"additive-gru", "general-lstm-feeding", "dot-gru"}) {
    SCOPED_TRACE(name);
    const std::string model = recurrent_model(folder, name), map = folder / (std::string(name) + ".json");
    const Result translated = run({"translate", "--model", model, "--num-beams", "2", "--max-new-tokens", "5",
                                   "--attention", map, "a b c"});
    ASSERT_EQ(translated.status, 0) << translated.err;
    EXPECT_EQ(read_json(map).at("maps").size(), 1u);
    const Json picture =
        Json::parse(output_of({"attend", "--json", "--model", model, "--target", "c b", "a b c"}));
    ASSERT_EQ(picture.at("maps").size(), 1u);
    EXPECT_EQ(picture.at("maps")[0].at("queries"), 3);  // two letters and the end token
    EXPECT_EQ(picture.at("maps")[0].at("keys"), 4);
    for (const Json& row : picture.at("maps")[0].at("weights")) {
      double sum = 0;
      for (const Json& weight : row) sum += weight.get<double>();
      EXPECT_NEAR(sum, 1, 1e-5);
    }
    for (const char* kind : {"encoder", "decoder", "self"}) {
      expect_error(2, {"attend", "--model", model, "--kind", kind, "--target", "c b", "a b c"},
                   "--kind: expected cross, the only kind of this model, got");
    }
  }
}

TEST(Recurrent, IsMeasuredAndPatchedWhereItCan) {
  const Folder folder;
  const std::string model = recurrent_model(folder, "additive-gru");
  const Result norms =
      run({"attend", "a b c", "--model", model, "--target", "c b", "--show", "norms", "--json"});
  ASSERT_EQ(norms.status, 0) << norms.err;
  EXPECT_EQ(Json::parse(norms.out).at("maps")[0].at("measure"), "norms");
  const Words patch{"patch", "a b c",   "a d c", "--model", model, "--target",
                    "c b a", "--token", "a",     "--other", "b"};
  const auto patched = [&](const Words& more) {
    Words words = patch;
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  for (const char* kind : {"encoder", "decoder", "cross"}) {
    const Result result = patched({"--kind", kind, "--json"});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(json_lines(result.out).front()["effects"].size(), 1u) << "each stack has one layer";
  }
  EXPECT_THAT(patched({"--kind", "cross", "--site", "attention"}).err,
              HasSubstr("--site: expected heads of a recurrent model, got attention"));
  expect_error(1, {"heads", "--model", model, "a b c"},
               "expected a model with heads and residual streams, got heed_recurrent");
  expect_error(1, {"attribute", "score", "--model", model, "a b c", "--target", "c", "--head", "0.0"},
               "attribute score: expected a model with heads and residual streams, got heed_recurrent");
}

TEST(Recurrent, WithoutAttentionThereIsNothingToShow) {
  const Folder folder;
  const std::string model = recurrent_model(folder, "none-lstm");
  EXPECT_EQ(run({"translate", "--model", model, "--max-new-tokens", "5", "a b c"}).status, 0);
  expect_error(2, {"translate", "--model", model, "--attention", folder / "map.json", "a b c"},
               "--attention: expected a model with cross-attention");
  expect_error(1, {"attend", "--model", model, "--target", "c b", "a b c"},
               "expected a model with attention");
  const Json info = Json::parse(run({"models", "--json", model}).out);
  EXPECT_EQ(info.at("model_type"), "heed_recurrent");
  EXPECT_EQ(info.at("max_positions"), nullptr);
  for (const Json& command : info.at("commands")) EXPECT_NE(command, "attend");
}

TEST(Recurrent, ForwardWritesHiddenStatesAttentionAndGradients) {
  const Folder folder;
  const std::string output = folder / "out.safetensors";
  const std::string model = recurrent_model(folder, "additive-lstm");
  const Result result = run({"forward", "--model", model, "--text", "a b c", "--target", "c b", "--output",
                             output, "--hidden-states", "--attentions", "--gradients"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string header = slurp(output).substr(0, 20000);
  for (const char* name :
       {"\"logits\"", "\"loss\"", "\"encoder_hidden_states.2\"", "\"decoder_hidden_states.2\"",
        "\"cross_attentions.1\"", "\"grad.decoder.attention.v\""}) {
    EXPECT_THAT(header, HasSubstr(name));
  }
}

}  // namespace
}  // namespace heed::cli_test
