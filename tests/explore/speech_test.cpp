// Models that write what they hear: the maps, predictions and views of a transcript, beside the model's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "explore/numbers.h"
#include "explore/sample_models.h"
#include "heed/autograd.h"
#include "heed/nn/tap.h"
#include "heed/open/loaded_model.h"
#include "heed/open/subject.h"
#include "heed/sound/sound.h"
#include "reference/error.h"
#include "reference/pack.h"

namespace heed::explore_test {
namespace {

using Said = nlohmann::json;

const std::filesystem::path kRecording = kFixtures / "speech/tones.flac";

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// An explored model of speech, and what the model itself makes of the first window of the recording.
struct Heard {
  LoadedModel model;
  explore::Explorer explorer;
  Said request;
  Subject subject;

  explicit Heard(const std::string& fixture)
      : model(load((kFixtures / fixture).string())),
        explorer(explorer_of(explore::ExploredModel(fixture, model))),
        request{{"model", 0}, {"file", sent(kRecording)}},
        subject(subject_of(model, {.given = kRecording.string()})) {}

  std::int64_t sent(const std::filesystem::path& path) {
    return Said::parse(explorer.add_file(0, bytes_of(path), kGoOn))["file"];
  }
  Said ask(const char* path, const Said& more = Said::object()) {
    Said asked = request;
    asked.update(more);
    return Said::parse(explore::answer_to(explorer, path, asked.dump(), kGoOn));
  }
  Said run(const Said& more = Said::object()) { return ask("/api/run", more); }
  std::string refusal(const char* path, const Said& more) {
    return error_of([&] { ask(path, more); });
  }
  TensorMap outputs(Taps* taps = nullptr) const {
    const NoGradients guard;
    Context context{.taps = taps};
    return model.model().forward(subject.inputs, {.hidden_states = false, .attentions = true}, context);
  }
};

/// Compares the maps of a kind with the first `keys` of those of the model.
void expect_maps(const Heard& heard, const Said& answer, const Said& kind, const std::string& name) {
  const TensorMap outputs = heard.outputs();
  const std::size_t rows = kind["queries"].size(), keys = kind["keys"].size();
  ASSERT_EQ(rows, heard.subject.read.size());
  int heads = 0;
  for (const Said& map : kind["maps"]) {
    if (map["measure"] != "weights") continue;
    const Tensor layer = outputs.at(name + "." + std::to_string(map["layer"].get<int>()));  // [1, H, T, S]
    const auto all = layer.to_vector<float>();
    const auto columns = static_cast<std::size_t>(layer.size(3));
    ASSERT_LE(keys, columns);
    const double largest = map["largest"];
    const std::vector<int> codes =
        codes_of_pack(heard.explorer.chunk(answer["run"], map["pack"]).value(), 16);
    ASSERT_EQ(codes.size(), rows * keys);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      const std::size_t row = map["head"].get<std::size_t>() * rows + i / keys;
      EXPECT_NEAR(codes[i] * largest / 65535, static_cast<double>(all[row * columns + i % keys]), 3e-5);
    }
    ++heads;
  }
  EXPECT_GE(heads, 4);
}

TEST(ExploredSpeech, ATranscriptIsThatOfTheModel) {
  for (const char* fixture : {"speech", "moonshine-speech"}) {
    Heard heard(fixture);
    const Said model = Said::parse(heard.explorer.models())["models"][0];
    EXPECT_EQ(model["kind"], "encoder-decoder");
    EXPECT_EQ(model["input"], "sound");
    EXPECT_EQ(model["takes_target"], true);
    EXPECT_EQ(model["layers"], Said({{"decoder", 2}, {"encoder", 0}}));
    const Said answer = heard.run();
    const std::vector<std::int64_t> wanted(heard.subject.read.begin() + 1, heard.subject.read.end());
    EXPECT_EQ(answer["target_ids"], wanted);
    const Said& kinds = answer["data"]["kinds"];
    ASSERT_EQ(kinds.size(), 2u) << "not the encoder's";
    EXPECT_EQ(kinds[0]["kind"], "cross");
    EXPECT_EQ(kinds[1]["kind"], "decoder");
    expect_maps(heard, answer, kinds[0], "cross_attentions");
    expect_maps(heard, answer, kinds[1], "decoder_attentions");
    const auto logits = heard.outputs().at("logits").to_vector<float>();
    const auto vocabulary = static_cast<std::size_t>(heard.model.model().vocab_size());
    ASSERT_EQ(answer["predictions"].size(), heard.subject.read.size());
    for (std::size_t row = 0; row < heard.subject.read.size(); ++row) {
      for (const Said& one : answer["predictions"][row]["candidates"])
        EXPECT_NEAR(one["logit"],
                    static_cast<double>(logits[row * vocabulary + one["id"].get<std::size_t>()]), 1e-4);
    }
  }
}

// 1 s of sound is 50 frames; the last second of 3.3 s has 0.3 s.
TEST(ExploredSpeech, FramesWithSoundHaveTheirTimes) {
  Heard heard("speech");
  const Said answer = heard.run();
  const Said& cross = answer["data"]["kinds"][0];
  ASSERT_EQ(cross["keys"].size(), 50u);
  EXPECT_EQ(cross["keys"][0], "0.00 s");
  EXPECT_EQ(cross["keys"][49], "0.98 s");
  EXPECT_EQ(answer["data"]["image"]["columns"], 50);
  EXPECT_EQ(answer["heard"], Said({{"seconds", 1.0}, {"window", 1.0}, {"more", true}}));
  ASSERT_EQ(answer["data"]["sound"]["words"].size(), heard.subject.sound.words.size());
}

TEST(ExploredSpeech, FramesOfPaddingAreLeftOut) {
  // A WAV file of the first 0.4 s.
  Heard heard("speech");
  const Tensor samples = load_sound(kRecording);
  std::string wav("RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\0\x32\0\0", 44);
  const std::uint32_t riff = 36 + 12800;
  for (int i = 0; i < 4; ++i) wav[4 + static_cast<std::size_t>(i)] = static_cast<char>(riff >> (8 * i));
  for (int i = 0; i < 6400; ++i) {
    const auto value = static_cast<std::int16_t>(samples.data<float>()[i] * 32767);
    wav += static_cast<char>(value & 0xff);
    wav += static_cast<char>(value >> 8);
  }
  const std::int64_t file = Said::parse(heard.explorer.add_file(0, wav, kGoOn))["file"];
  const Said part{{"file", file}};
  const Said answer = heard.run(part);
  const Said& cross = answer["data"]["kinds"][0];
  EXPECT_EQ(cross["keys"].size(), 20u);
  EXPECT_EQ(cross["keys"][19], "0.38 s");
  EXPECT_NEAR(answer["heard"]["seconds"], 0.4, 1e-9);
  EXPECT_EQ(answer["heard"]["more"], false);
  EXPECT_EQ(cross["maps"][0]["norms"].size(), 20u);
  Said head{{"kind", "cross"}, {"layer", 1}, {"head", 2}, {"query", 3}};
  head.update(part);
  const Said steps = heard.ask("/api/steps", head);
  EXPECT_EQ(steps["keys"].size(), 20u);
  double shown = 0;
  const std::vector<float> weights = floats_of(steps["weights"]);
  for (const float weight : weights) shown += static_cast<double>(weight);
  EXPECT_EQ(weights.size(), 20u);
  EXPECT_GT(steps["padding"], 0);
  EXPECT_NEAR(shown + steps["padding"].get<double>(), 1, 1e-5);
  EXPECT_LT(heard.ask("/api/why", head)["key"], 20);
  head["key"] = 20;
  EXPECT_EQ(heard.refusal("/api/why", head), "key: expected a position below 20, got 20");
}

TEST(ExploredSpeech, AGivenTargetFollowsTheStartTokens) {
  Heard heard("speech");
  const Said own = heard.run();
  const std::int64_t prefix = heard.subject.prefix;
  ASSERT_EQ(prefix, 4) << "start, language, task, no timestamps";
  const Said answer = heard.run({{"target", "ab"}});
  for (std::int64_t i = 0; i + 1 < prefix; ++i)
    EXPECT_EQ(answer["target_ids"][static_cast<std::size_t>(i)],
              heard.subject.read[static_cast<std::size_t>(i) + 1]);
  EXPECT_EQ(answer["target"], " ab");
  EXPECT_TRUE(answer["data"]["sound"]["words"].empty()) << "the times of words are those of the transcript";
  const Said same = heard.run({{"target_ids", own["target_ids"]}});
  EXPECT_EQ(same["predictions"], own["predictions"]);
  EXPECT_EQ(same["data"]["sound"], own["data"]["sound"]);
}

TEST(ExploredSpeech, HeadsAreChangedLive) {
  Heard heard("speech");
  const std::vector<float> plain = heard.outputs().at("logits").to_vector<float>();
  Taps taps;
  taps.listen("decoder.layers.1.cross_attn.heads", {.heads = {2}}, replace_by_zeros());
  const std::vector<float> wanted = heard.outputs(&taps).at("logits").to_vector<float>();
  const auto vocabulary = static_cast<std::size_t>(heard.model.model().vocab_size());
  const Said head{{"kind", "cross"}, {"layer", 1}, {"head", 2}};
  Said ablated = head;
  ablated["factor"] = 0;
  const Said answer = heard.run({{"changes", {ablated}}});
  for (std::size_t row = 0; row < answer["predictions"].size(); ++row) {
    for (const Said& one : answer["predictions"][row]["candidates"]) {
      const std::size_t at = row * vocabulary + one["id"].get<std::size_t>();
      EXPECT_NEAR(one["change"], static_cast<double>(wanted[at] - plain[at]), 1e-4);
    }
  }
  const Said effects =
      heard.ask("/api/ablation", {{"position", 5}, {"id", 7}, {"kind", "cross"}, {"layer", 1}});
  ASSERT_EQ(effects["change"].size(), 4u);
  EXPECT_NEAR(effects["change"][2]["change"],
              static_cast<double>(wanted[5 * vocabulary + 7] - plain[5 * vocabulary + 7]), 1e-4);
  Said patched = head;
  patched["patch"] = {{"file", heard.sent(kFixtures / "spoken/first.flac")}};
  EXPECT_NE(heard.run({{"changes", {patched}}})["predictions"][5]["candidates"][0]["change"], 0);
}

TEST(ExploredSpeech, OtherViewsShowOrRefuse) {
  Heard heard("speech");
  const Said flow = heard.ask("/api/flow", {{"stack", "decoder"}, {"position", 5}});
  double sum = 0;
  for (const Said& part : flow["parts"]) sum += part["effect"].get<double>();
  EXPECT_NEAR(sum, flow["logit"], 1e-3) << "effects add up to the logit";
  const Said head{{"kind", "cross"}, {"layer", 1}, {"head", 2}, {"query", 3}};
  const Said why = heard.ask("/api/why", head), steps = heard.ask("/api/steps", head);
  double pairs = why["others"]["sum"];
  for (const Said& pair : why["pairs"]) pairs += pair[2].get<double>();
  EXPECT_NEAR(pairs, why["score"], 1e-3);
  EXPECT_FALSE(steps.contains("padding")) << "all frames have sound";
  EXPECT_EQ(heard.refusal("/api/traps", {{"kind", "cross"}, {"layer", 0}, {"head", 0}, {"traps", {"scale"}}}),
            "traps: expected a text, got a file");
  EXPECT_EQ(
      heard.refusal("/api/flow", {{"stack", "encoder"}, {"position", 0}}),
      "stack: expected a Transformer's encoder or decoder, whose layers add to a stream, got encoder of "
      "whisper");
  EXPECT_EQ(heard.refusal("/api/steps", {{"kind", "encoder"}, {"layer", 0}, {"head", 0}, {"query", 0}}),
            "head.kind: expected cross, decoder, which the model has, got encoder");
}

TEST(ExploredSpeech, SaysWhatCannotBeHeard) {
  Heard heard("speech");
  EXPECT_THAT(
      error_of([&] { heard.sent(kFixtures / "image/pictures/photo.jpg"); }),
      testing::StartsWith("sound: expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64)"));
  EXPECT_EQ(heard.refusal("/api/run", {{"file", 99}}), "file: not found (choose the file again)");
}

}  // namespace
}  // namespace heed::explore_test
