// Images and sounds that the page sends: what is held of them, what models make of them, what is refused.
#include "explore/model/explored_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "explore/explorer.h"
#include "explore/sample_models.h"
#include "heed/autograd.h"
#include "heed/image/image.h"
#include "heed/inspect/record.h"
#include "heed/nn/tap.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "reference/error.h"
#include "reference/pack.h"

namespace heed::explore_test {
namespace {

using Answer = nlohmann::json;

std::string contents(const std::string& fixture) {
  std::ifstream file(kFixtures / fixture, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string kPhoto = "image/pictures/photo.jpg", kOtherPhoto = "image/pictures/rotated.jpg",
                  kSpeech = "sound/speech.wav";

std::int64_t sent(explore::Explorer& explorer, const std::string& fixture) {
  return Answer::parse(explorer.add_file(0, contents(fixture), kGoOn))["file"];
}

Answer answer_of(explore::Explorer& explorer, const Answer& request) {
  return Answer::parse(explore::answer_to(explorer, "/api/run", request.dump(), kGoOn));
}

/// What the model computes of the photo without the explorer; `replace` a head's output, or not.
TensorMap outputs_of(const Model& model, const TensorMap& inputs, Taps* taps = nullptr) {
  const NoGradients guard;
  Context context{.taps = taps};
  return model.forward(inputs, {.hidden_states = false, .attentions = true}, context);
}

TensorMap photo_inputs(const std::string& fixture, const std::string& photo) {
  const auto model = load_model(kFixtures / fixture);
  return tasks::file_input(model->input(),
                           tasks::load_file_processor(model->input(), model_files(kFixtures / fixture)),
                           (kFixtures / photo).string())
      .tensors;
}

/// The map of a head over all positions, from its pack.
std::vector<double> map_of(const explore::Explorer& explorer, const Answer& answer, const Answer& map) {
  std::vector<double> numbers;
  const double largest = map["largest"];
  for (const int code : codes_of_pack(explorer.chunk(answer["run"], map["pack"]).value(), 16))
    numbers.push_back(code * largest / 65535);
  return numbers;
}

TEST(Files, HoldsTheNewestOnes) {
  explore::Files files;
  const std::int64_t first = files.add("a"), second = files.add("b");
  EXPECT_EQ(files.bytes(first), "a");
  EXPECT_EQ(files.bytes(second), "b");
  files.drop_last();
  EXPECT_EQ(error_of([&] { files.bytes(second); }), "file: not found (choose the file again)");
  const std::int64_t third = files.add("c");
  EXPECT_NE(third, second) << "a number is never used again";
  for (int i = 0; i < 32; ++i) files.add("d");
  EXPECT_ERROR(files.bytes(first), "file: not found");
  explore::Files large;
  const std::int64_t one = large.add(std::string(100u << 20, 'a')),
                     two = large.add(std::string(100u << 20, 'b'));
  EXPECT_EQ(large.bytes(one)[0], 'a') << "the last two are held, whatever their size";
  large.add("c");
  EXPECT_ERROR(large.bytes(one), "file: not found");
  EXPECT_EQ(large.bytes(two)[0], 'b');
}

TEST(Files, AnImageIsAsTheModelComputesIt) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit"));
  const Answer model = Answer::parse(explorer.models())["models"][0];
  EXPECT_EQ(model["input"], "image");
  EXPECT_EQ(model["head"], "sequence");
  EXPECT_EQ(model["layers"], Answer({{"decoder", 0}, {"encoder", 2}}));
  const Answer answer = answer_of(explorer, {{"model", 0}, {"file", sent(explorer, kPhoto)}});
  const auto vit = load_model(kFixtures / "vit");
  const TensorMap outputs = outputs_of(*vit, photo_inputs("vit", kPhoto));

  const Answer& image = answer["data"]["image"];
  EXPECT_EQ(image["rows"], 4);
  EXPECT_EQ(image["columns"], 4);
  EXPECT_EQ(image["first"], 1);
  const Answer& kind = answer["data"]["kinds"][0];
  EXPECT_EQ(kind["queries"][0], "[CLS]");
  EXPECT_EQ(kind["queries"][16], "3,3");
  int weights = 0, rollouts = 0;
  for (const Answer& map : kind["maps"]) {
    const std::vector<double> found = map_of(explorer, answer, map);
    ASSERT_EQ(found.size(), 17u * 17u);
    double over = 0;  // what the page shows first: the class token's attention to the patches
    for (std::size_t key = 1; key < 17; ++key) over = std::max(over, found[key]);
    EXPECT_NEAR(map["over"][0], over, 1e-3 * over);
    rollouts += map["measure"] == "rollout" ? 1 : 0;
    if (map["measure"] != "weights") continue;
    const auto layer = outputs.at("attentions." + std::to_string(map["layer"].get<int>())).to_vector<float>();
    const std::size_t first = map["head"].get<std::size_t>() * found.size();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], static_cast<double>(layer[first + i]), 3e-5);
    ++weights;
  }
  EXPECT_EQ(weights, 8);
  EXPECT_EQ(rollouts, 2);

  const Answer& prediction = answer["predictions"][0];
  EXPECT_TRUE(prediction["position"].is_null());
  ASSERT_EQ(prediction["candidates"].size(), 5u);
  const auto logits = outputs.at("logits").to_vector<float>();
  for (const Answer& one : prediction["candidates"]) {
    EXPECT_NEAR(one["logit"], static_cast<double>(logits[one["id"].get<std::size_t>()]), 1e-5);
    EXPECT_EQ(one["token"], "LABEL_" + std::to_string(one["id"].get<int>()));
  }
}

TEST(Files, HeadsAreChangedLive) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit"));
  const std::int64_t photo = sent(explorer, kPhoto), other = sent(explorer, kOtherPhoto);
  const auto vit = load_model(kFixtures / "vit");
  const TensorMap inputs = photo_inputs("vit", kPhoto);
  const std::string tap = "encoder.layers.1.self_attn.heads";
  Tensor of_other;
  {
    Taps taps;
    taps.listen(tap, {.heads = {2}}, [&](const std::string&, Tensor& value) { of_other = value.clone(); });
    outputs_of(*vit, photo_inputs("vit", kOtherPhoto), &taps);
  }
  const std::vector<float> plain = outputs_of(*vit, inputs).at("logits").to_vector<float>();
  const auto expect_logits_of = [&](const Listener& listener, const Answer& change) {
    Taps taps;
    taps.listen(tap, {.heads = {2}}, listener);
    const auto wanted = outputs_of(*vit, inputs, &taps).at("logits").to_vector<float>();
    Answer head{{"kind", "encoder"}, {"layer", 1}, {"head", 2}};
    head.update(change);
    const Answer answer = answer_of(explorer, {{"model", 0}, {"file", photo}, {"changes", {head}}});
    EXPECT_EQ(answer["changes"][0], head);
    for (const Answer& one : answer["predictions"][0]["candidates"]) {
      const auto id = one["id"].get<std::size_t>();
      EXPECT_NEAR(one["logit"], static_cast<double>(wanted[id]), 1e-5);
      EXPECT_NEAR(one["change"], static_cast<double>(wanted[id] - plain[id]), 1e-5);
    }
  };
  expect_logits_of(replace_by_zeros(), {{"factor", 0}});
  expect_logits_of(replace_by_scaled(0.5), {{"factor", 0.5}});
  expect_logits_of(
      [](const std::string&, Tensor& value) {
        value = broadcast_to(mean(value, 2, true), value.shape()).contiguous();
      },
      {{"mean", true}});
  expect_logits_of(replace_by(of_other), {{"patch", {{"file", other}}}});

  Taps taps;
  taps.listen(tap, {.heads = {2}}, replace_by_zeros());
  const auto without = outputs_of(*vit, inputs, &taps).at("logits").to_vector<float>();
  const Answer ablation{{"model", 0}, {"file", photo}, {"id", 3}, {"layer", 1}};
  const Answer changes =
      Answer::parse(explore::answer_to(explorer, "/api/ablation", ablation.dump(), kGoOn))["change"];
  ASSERT_EQ(changes.size(), 4u);
  EXPECT_NEAR(changes[2]["change"], static_cast<double>(without[3] - plain[3]), 1e-5);
}

TEST(Files, TowersOfTextAndImageShowTheirImages) {
  for (const char* name : {"clip", "siglip", "siglip2"}) {
    explore::Explorer explorer = explorer_of(sample_of_files(name));
    const std::int64_t photo = sent(explorer, kPhoto);
    const Answer answer = answer_of(explorer, {{"model", 0}, {"file", photo}});
    EXPECT_EQ(answer["data"]["kinds"][0]["maps"].size(), 10u) << name;  // of 2 layers: 8 heads, 2 rollouts
    EXPECT_EQ(answer["data"]["image"]["first"], name == std::string("clip") ? 1 : 0);
    const Answer& image = answer["data"]["image"];
    if (name == std::string("siglip2")) {
      EXPECT_GT(image["columns"], image["rows"]) << "in the proportions of the photo";
    }
    const Answer head{{"kind", "encoder"}, {"layer", 0}, {"head", 1}, {"factor", 0}};
    EXPECT_EQ(answer_of(explorer, {{"model", 0}, {"file", photo}, {"changes", {head}}})["changes"][0], head);
  }
}

TEST(Files, SoundsAreCutIntoTheirFrames) {
  explore::Explorer spectrogram = explorer_of(sample_of_files("audio-spectrogram"));
  EXPECT_EQ(Answer::parse(spectrogram.models())["models"][0]["input"], "sound");
  const Answer answer = answer_of(spectrogram, {{"model", 0}, {"file", sent(spectrogram, kSpeech)}});
  const Answer &image = answer["data"]["image"], &keys = answer["data"]["kinds"][0]["keys"];
  EXPECT_EQ(image["rows"], 3);     // of 20 bins, 8 each, every 6
  EXPECT_EQ(image["columns"], 5);  // of 30 frames, 8 each, every 5
  EXPECT_EQ(image["first"], 2);
  EXPECT_EQ(image["upward"], true);
  EXPECT_EQ(keys[1], "[DIST]");
  EXPECT_EQ(keys[2 + 5 + 1], "0.05 s, 1");
  EXPECT_EQ(answer["predictions"][0]["candidates"].size(), 5u);

  explore::Explorer waveform = explorer_of(sample_of_files("wav2vec2-ctc"));
  const Answer frames = answer_of(waveform, {{"model", 0}, {"file", sent(waveform, kSpeech)}});
  const Answer& positions = frames["data"]["kinds"][0]["queries"];
  EXPECT_EQ(frames["data"]["image"]["rows"], 1);
  EXPECT_EQ(frames["data"]["image"]["columns"], positions.size());
  EXPECT_FALSE(frames["data"]["image"].contains("upward"));
  EXPECT_NEAR(frames["data"]["sound"]["seconds"], 5600 / 16e3, 1e-9);
  ASSERT_EQ(frames["predictions"].size(), positions.size()) << "of each frame";
  EXPECT_EQ(frames["predictions"][1]["token"], positions[1]);
}

// The text is that of generate() in transformers (tests/fixtures/captions.py).
TEST(Files, CaptionsAttendToTheirImage) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit-gpt2", true));
  const Answer model = Answer::parse(explorer.models())["models"][0];
  EXPECT_EQ(model["kind"], "encoder-decoder");
  EXPECT_EQ(model["input"], "image");
  EXPECT_EQ(model["takes_target"], true);
  const std::int64_t photo = sent(explorer, kPhoto), other = sent(explorer, kOtherPhoto);
  const Answer request{{"model", 0}, {"file", photo}, {"max_new_tokens", 12}};
  const Answer answer = answer_of(explorer, request);
  const Answer runs = Answer::parse(contents("vit-gpt2/captions.json"));
  const auto run = std::find_if(runs.begin(), runs.end(), [](const Answer& one) {
    return one["file"] == "photo.jpg" && !one["options"].contains("num_beams");
  });
  ASSERT_NE(run, runs.end());
  EXPECT_EQ(answer["target"], (*run)["texts"][0]);
  const auto vit = load_model(kFixtures / "vit-gpt2");
  const auto& both = dynamic_cast<const EncoderDecoderModel&>(*vit);
  std::vector<std::int64_t> labels = answer["target_ids"];
  if (labels.back() != both.eos_id()) labels.push_back(both.eos_id());
  TensorMap inputs = photo_inputs("vit-gpt2", kPhoto);
  inputs["decoder_input_ids"] = both.decoder_inputs(Tensor::from(labels, {1, std::ssize(labels)}), -100);
  const TensorMap outputs = outputs_of(*vit, inputs);
  const Answer& cross = answer["data"]["kinds"][0];
  EXPECT_EQ(cross["kind"], "cross");
  EXPECT_EQ(cross["keys"][1], "0,0");
  const std::size_t cells = cross["queries"].size() * cross["keys"].size();
  for (const Answer& map : cross["maps"]) {
    const std::vector<double> found = map_of(explorer, answer, map);
    ASSERT_EQ(found.size(), cells);
    const auto layer =
        outputs.at("cross_attentions." + std::to_string(map["layer"].get<int>())).to_vector<float>();
    for (std::size_t i = 0; i < cells; ++i)
      EXPECT_NEAR(found[i], static_cast<double>(layer[map["head"].get<std::size_t>() * cells + i]), 3e-5);
  }
  EXPECT_EQ(answer["data"]["image"]["rows"].get<int>() * answer["data"]["image"]["columns"].get<int>() +
                answer["data"]["image"]["first"].get<int>(),
            std::ssize(cross["keys"]));
  EXPECT_EQ(answer["predictions"].size(), cross["queries"].size());

  // A given caption, a changed head, a patch from another image, and what a head does.
  Answer given = request;
  given["target_ids"] = {5, 6, 7};
  const Answer plain = answer_of(explorer, given);
  EXPECT_EQ(plain["target_ids"], (Answer{5, 6, 7}));
  for (const Answer& what : {Answer{{"factor", 0}}, Answer{{"patch", {{"file", other}}}}}) {
    Answer head{{"kind", "cross"}, {"layer", 0}, {"head", 1}};
    head.update(what);
    given["changes"] = Answer::array({head});
    const Answer changed = answer_of(explorer, given);
    EXPECT_NE(changed["predictions"][3]["candidates"][0]["change"], 0);
  }
  Answer ablation{{"model", 0}, {"file", photo}, {"target_ids", {5, 6, 7}}, {"id", 3}, {"position", 2}};
  EXPECT_GT(
      Answer::parse(explore::answer_to(explorer, "/api/ablation", ablation.dump(), kGoOn))["change"].size(),
      8u);
}

TEST(Files, RefusesWhatIsNoWholeImage) {
  explore::Explorer explorer = explorer_of(sample_of_files("vit"), sample_decoder());
  const auto error = [&](const std::string& bytes, std::size_t model = 0) {
    return error_of([&] { explorer.add_file(model, bytes, kGoOn); });
  };
  EXPECT_THAT(error("Dear all,"), testing::StartsWith("image: expected a PNG, JPEG, WebP, GIF or PNM image"));
  EXPECT_THAT(error(""), testing::StartsWith("image: "));
  EXPECT_EQ(error(contents(kPhoto).substr(0, 4000)),
            "image: expected a whole image, got a truncated one (copy or download it again)");
  EXPECT_EQ(
      error("P6 20000 20000 255\n"),
      "image: expected at most 50000000 pixels, got 20000 x 20000 (make it smaller, or raise the limit)");
  EXPECT_EQ(error(contents(kPhoto), 1), "file: expected a text, which decoders/gpt2 reads, got a file");
  EXPECT_EQ(error(contents(kPhoto), 2), "model: expected a number below 2, got 2");
  const auto run_error = [&](const Answer& request) {
    return error_of([&] { explore::answer_to(explorer, "/api/run", request.dump(), kGoOn); });
  };
  EXPECT_EQ(run_error({{"model", 0}, {"file", 1}}), "file: not found (choose the file again)")
      << "what was refused is not held";
  EXPECT_EQ(run_error({{"model", 0}, {"text", "5 6"}}),
            "text: expected an image, which vit reads, got a text");
  EXPECT_EQ(run_error({{"model", 0}, {"file", sent(explorer, kPhoto)}, {"target", "5"}}),
            "target: expected an encoder-decoder, got the encoder vit");
  EXPECT_THAT(
      error_of(
          [&] { explorer_of(sample_of_files("audio-spectrogram")).add_file(0, contents(kPhoto), kGoOn); }),
      testing::StartsWith("sound: expected a sound file (WAV, FLAC, Ogg, MP3, AIFF, AU, CAF or W64)"));
}

TEST(Files, RefusesModelsWithoutPreprocessor) {
  EXPECT_ERROR(sample_of_files("vit-model"), "preprocessor_config.json");
}

}  // namespace
}  // namespace heed::explore_test
