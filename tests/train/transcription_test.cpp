// Training of models of speech; tests/fixtures/spoken.py made what transformers gives for the same batches.
#include "train/tasks/transcription.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "heed/autograd.h"
#include "heed/models/adapter.h"
#include "heed/models/registry.h"
#include "heed/tasks/transcribe.h"
#include "reference/json.h"
#include "tasks_fixture.h"

namespace heed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

const std::filesystem::path kFixtures = HEED_FIXTURES;

class Transcription : public TasksTest {
 protected:
  // The recordings of tests/fixtures/spoken with the texts for a model.
  static Recipe spoken(const std::string& model, std::int64_t steps) {
    Recipe r;
    r.task.kind = "transcription";
    r.data.format = "csv";
    r.data.train = r.data.dev = kFixtures / "spoken" / (model + ".csv");
    if (model == "speech") r.task.language = "en";
    shorten(r, steps);
    r.train.batch_tokens = 1000;
    if (steps > 20) r.checkpoint.every = steps;
    r.eval.metric = "wer";
    return r;
  }

  static std::vector<std::string> texts_of(const std::filesystem::path& run) {
    const auto model = load_model(run);
    const auto tokenizer = load_tokenizer(run);
    const Transcriber transcriber(*model, *tokenizer, run.string());
    std::vector<std::string> texts;
    for (const char* file : {"first.flac", "second.flac"})
      texts.push_back(transcriber(SoundReader(kFixtures / "spoken" / file)).text);
    return texts;
  }
};

TEST_F(Transcription, OneStepHasTheLossAndGradientsOfTransformers) {
  const nlohmann::json all = read_json((kFixtures / "spoken/steps.json").string());
  for (const char* model : {"ctc", "moonshine-speech", "speech"}) {
    SCOPED_TRACE(model);
    const nlohmann::json& wanted = all.at(model);
    const Recipe recipe = with_defaults(spoken(model, 1));
    TranscriptionTask task(recipe, {.output = folder_ / model, .init = kFixtures / model}, {});
    Context context;
    const SummedLoss loss = task.next_loss(context);
    const auto targets = static_cast<double>(loss.tokens);  // recordings of CTC, else tokens
    EXPECT_EQ(targets, task.unit() == "recordings" ? 2 : model == std::string("speech") ? 17 : 11);
    const double loss_wanted = wanted.at("loss").get<double>();
    EXPECT_NEAR(loss.sum.item() / targets, loss_wanted, 1e-5 * loss_wanted);
    loss.sum.backward();
    std::set<std::string> left;
    for (const auto& [name, sums] : wanted.at("gradients").items()) left.insert(name);
    for (const Parameter& p : task.parameters()) {
      if (!wanted.at("gradients").contains(p.name)) continue;
      SCOPED_TRACE(p.name);
      const nlohmann::json& sums = wanted.at("gradients").at(p.name);
      double sum = 0, magnitude = 0;
      for (const float x : p.tensor.grad().contiguous().to_vector<float>()) {
        sum += static_cast<double>(x) / targets;
        magnitude += std::abs(static_cast<double>(x)) / targets;
      }
      const double whole = sums[1].get<double>();
      EXPECT_NEAR(magnitude, whole, 1e-3 * whole + 1e-5);
      EXPECT_NEAR(sum, sums[0].get<double>(), 1e-3 * whole + 1e-5);
      left.erase(p.name);
    }
    EXPECT_THAT(left, IsSubsetOf({"model.encoder.embed_positions.weight"}));  // frozen
  }
}

TEST_F(Transcription, LearnsWithACtcHeadAndTheSavedModelTranscribes) {
  Recipe r = spoken("ctc", 600);
  r.train.lr = 5e-3;
  r.task.freeze = "wav2vec2.feature_extractor.*";
  std::string said, unit;
  TrainOptions options{.output = folder_ / "run", .init = kFixtures / "ctc"};
  options.on_message = [&](const std::string& text) { said += text + "\n"; };
  options.on_progress = [&](const ProgressEvent& e) { unit = e.unit; };
  const TrainResult result = train(r, options);
  EXPECT_EQ(unit, "recordings");
  EXPECT_THAT(said, HasSubstr("2 recordings to train on, 2 for development, 0 for the test"));
  EXPECT_EQ(result.evaluation->metric("wer").value(), 0.0);
  EXPECT_EQ(result.evaluation->metric("cer").value(), 0.0);
  EXPECT_THAT(texts_of(folder_ / "run"), ElementsAre("ASK SHE", "NOT"));
  r.data.test = r.data.train;
  EXPECT_EQ(evaluate(r, {.init = folder_ / "run"}).metric("wer").value(), 0.0);
  EXPECT_GT(evaluate(r, {.init = kFixtures / "ctc"}).metric("wer").value(), 50.0);
}

TEST_F(Transcription, LearnsWithDecoders) {
  for (const char* model : {"moonshine-speech", "speech"}) {
    SCOPED_TRACE(model);
    Recipe r = spoken(model, 100);
    r.train.lr = 1e-2;
    const TrainResult result = train(r, {.output = folder_ / model, .init = kFixtures / model});
    EXPECT_EQ(result.evaluation->metric("wer").value(), 0.0);
  }
  const Config generation = Config::load(folder_ / "speech/generation_config.json");
  EXPECT_EQ(generation.required_string("language"), "en");
  EXPECT_EQ(generation.required_string("task"), "transcribe");
  EXPECT_TRUE(generation.has("no_timestamps_token_id"));
}

TEST_F(Transcription, StoppedAndResumedEqualsUnbroken) {
  for (const char* model : {"ctc", "speech"}) {
    SCOPED_TRACE(model);
    Recipe r = spoken(model, 9);
    r.train.batch_tokens = model == std::string("ctc") ? 50 : 100;  // a recording a batch
    train_twice(r, folder_ / "straight", folder_ / "broken", kFixtures / model);
    EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
    std::filesystem::remove_all(folder_ / "straight");
    std::filesystem::remove_all(folder_ / "broken");
  }
}

TEST_F(Transcription, TrainsAnAdapter) {
  Recipe r = spoken("ctc", 600);
  r.train.lr = 1e-2;
  r.lora.rank = 8;
  r.lora.alpha = 16;
  r.lora.targets.names = {"q_proj", "v_proj", "intermediate_dense", "output_dense"};
  r.lora.train = {"lm_head"};
  const TrainResult result = train(r, {.output = folder_ / "adapter", .init = kFixtures / "ctc"});
  EXPECT_TRUE(is_adapter(folder_ / "adapter"));
  EXPECT_LE(result.evaluation->metric("wer").value(), 50.0);
}

TEST_F(Transcription, AnotherTokenizerGetsANewHead) {
  const std::filesystem::path letters = folder_ / "letters";
  std::filesystem::create_directories(letters);
  write_file(letters / "vocab.json",
             R"({"A": 0, "S": 1, "K": 2, "H": 3, "E": 4, "N": 5, "O": 6, "T": 7, "|": 8,
                                        "<unk>": 9, "<pad>": 10, "<s>": 11, "</s>": 12})");
  Recipe r = spoken("ctc", 600);
  r.train.lr = 5e-3;
  r.tokenizer.from = letters;
  const TrainResult result = train(r, {.output = folder_ / "run", .init = kFixtures / "ctc"});
  EXPECT_EQ(result.evaluation->metric("wer").value(), 0.0);
  EXPECT_EQ(load_as<EncoderModel>(folder_ / "run")->vocab_size(), 13);
  EXPECT_THAT(texts_of(folder_ / "run"), ElementsAre("ASK SHE", "NOT"));
}

TEST_F(Transcription, SkipsWhatTheModelCannotTake) {
  const std::string first = (kFixtures / "spoken/first.flac").string();
  write_file(folder_ / "sounds.tsv", first + "\tASK ask\n" + first + "\t \n" +
                                         (kFixtures / "speech/tones.flac").string() + "\tNOT\n" + first +
                                         "\t" + std::string(60, 'A') + "\n");
  Recipe r = spoken("ctc", 2);
  r.data.format = "tsv";
  r.data.dev.clear();
  r.eval.every = 0;
  r.eval.metric = "loss";
  r.data.train = folder_ / "sounds.tsv";
  r.data.max_seconds = 2;
  std::string said;
  TrainOptions options{.output = folder_ / "run", .init = kFixtures / "ctc"};
  options.on_message = [&](const std::string& text) { said += text + "\n"; };
  train(r, options);
  EXPECT_THAT(said, AllOf(HasSubstr("1 recording without text skipped"),
                          HasSubstr("training set: 1 recording skipped: longer than 2 s"),
                          HasSubstr("training set: 1 recording skipped: more tokens of text than frames"),
                          HasSubstr("training set: 3 tokens of texts unknown to the tokenizer"),
                          HasSubstr("1 recordings to train on")));
}

TEST_F(Transcription, NamesWhatIsWrong) {
  const Recipe r = spoken("ctc", 2);
  EXPECT_THAT(refusal_of(r), HasSubstr("expected a model to start from for the task transcription"));
  EXPECT_THAT(refusal_of(r, kFixtures / "bart"), HasSubstr("preprocessor_config.json"));
  EXPECT_THAT(refusal_of(r, kFixtures / "vit"), HasSubstr("no tokenizer found"));
  Recipe other = spoken("speech", 2);
  other.task.language.clear();
  EXPECT_THAT(refusal_of(other, kFixtures / "speech"), HasSubstr("task.language: not set"));
  other.task.language = "klingon";
  EXPECT_THAT(refusal_of(other, kFixtures / "speech"),
              HasSubstr("language: expected a code or the English name"));
  other = spoken("moonshine-speech", 2);
  other.task.translate = true;
  EXPECT_THAT(refusal_of(other, kFixtures / "moonshine-speech"), HasSubstr("task.translate: expected none"));
  other = r;
  other.train.label_smoothing = 0.1;
  EXPECT_THAT(refusal_of(other, kFixtures / "ctc"), HasSubstr("train.label_smoothing: expected 0"));
  other = r;
  write_file(folder_ / "bad.csv", "missing.wav,NOT\n");
  other.data.train = folder_ / "bad.csv";
  EXPECT_THAT(refusal_of(other, kFixtures / "ctc"), HasSubstr("bad.csv:1: "));
  other = r;
  other.data.target_column = 1;
  EXPECT_THAT(refusal_of(other, kFixtures / "ctc"), HasSubstr("data.target_column: expected another column"));
}

}  // namespace
}  // namespace heed
