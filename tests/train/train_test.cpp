// Whole runs from a recipe: the reversal task, files of pairs, fine-tuning, and resuming with a real model.
#include "heed/train/train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "heed/error.h"
#include "heed/generate/translate.h"
#include "heed/models/registry.h"
#include "heed/text/tokenizer.h"
#include "heed/train/checkpoint.h"
#include "reference/error.h"
#include "run_folder.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

class TrainTest : public FolderTest {
 protected:
  // Returns a recipe whose model and data are so small that a step takes milliseconds.
  static Recipe tiny() {
    Recipe r;
    r.task.kind = "reverse";
    r.task.symbols = 6;
    r.task.max_length = 5;
    r.task.pairs = 400;
    r.data.dev_size = 30;
    r.tokenizer.vocab_size = 16;
    r.model = {.d_model = 16,
               .encoder_layers = 1,
               .decoder_layers = 1,
               .heads = 2,
               .ffn = 32,
               .dropout = 0.1,
               .max_positions = 32};
    r.train.steps = 12;
    r.train.warmup = 4;
    r.train.batch_tokens = 256;
    r.train.accumulate = 2;
    r.train.label_smoothing = 0.1;
    r.eval.every = 5;
    r.checkpoint.every = 4;
    r.checkpoint.average = 2;
    return r;
  }
};

TEST_F(TrainTest, LeavesADirectoryThatTranslates) {
  std::string messages;
  TrainOptions options{.output = folder_ / "run"};
  options.on_message = [&](const std::string& text) { messages += text + "\n"; };
  const TrainResult result = train(tiny(), options);
  EXPECT_EQ(result.steps, 12);
  ASSERT_TRUE(result.evaluation.has_value());
  EXPECT_TRUE(result.evaluation->metric("bleu").has_value());
  EXPECT_TRUE(result.evaluation->metric("exact").has_value());
  expect_whole_log(options.output, 12);
  EXPECT_THAT(messages, HasSubstr("400 pairs to train on, 30 for development"));
  const std::vector<std::string> texts{"a b c", "f e d"};
  for (const auto& directory : {options.output, checkpoint_path(options.output, 12)}) {
    TranslateOptions how;
    how.generation = load_generation_options(directory);
    how.generation.max_new_tokens = 8;
    EXPECT_EQ(
        translate(*load_as<EncoderDecoderModel>(directory), *load_tokenizer(directory), texts, how).size(),
        2u);
  }
}

TEST_F(TrainTest, StoppedAndResumedEqualsUnbroken) {
  train(tiny(), {.output = folder_ / "straight"});
  std::atomic<bool> stop = false;
  TrainOptions options{.output = folder_ / "broken", .resume = true};
  options.stop = &stop;
  options.on_progress = [&](const ProgressEvent& e) { stop = e.step == 3 || e.step == 10; };
  int parts = 0;
  for (TrainResult result{.stopped = true}; result.stopped; ++parts) {
    stop = false;
    result = train(tiny(), options);
  }
  EXPECT_EQ(parts, 3);
  EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
  expect_whole_log(folder_ / "broken", 12);
}

TEST_F(TrainTest, ReadsPairsAndSaysWhatItSkipped) {
  std::string tsv;
  for (const char* a : {"red", "green", "blue", "old", "new", "big", "small"}) {
    for (const char* b : {"house", "door", "tree", "road", "river", "bird"}) {
      tsv += std::string(a) + " " + b + "\t" + b + " " + a + "\n";
    }
  }
  write_file(folder_ / "pairs.tsv", tsv + "no second column\n\tno source\n");
  Recipe r = tiny();
  r.task.kind = "translation";
  r.data.train = folder_ / "pairs.tsv";
  r.data.dev_size = 6;
  r.data.test_size = 4;
  r.tokenizer.type = "bpe";
  r.tokenizer.vocab_size = 60;
  r.checkpoint.dtype = "bf16";
  std::string messages;
  TrainOptions options{.output = folder_ / "run"};
  options.on_message = [&](const std::string& text) { messages += text + "\n"; };
  const TrainResult result = train(r, options);
  EXPECT_TRUE(result.test.has_value());
  const Config test = Config::parse(log_lines(folder_ / "run").back(), "log.jsonl");
  EXPECT_EQ(test.required_number("test_loss"), result.test->loss);
  EXPECT_TRUE(test.boolean("final", false));
  EXPECT_THAT(messages, HasSubstr("44 lines, 42 kept, 2 skipped"));
  EXPECT_THAT(messages, HasSubstr("32 pairs to train on, 6 for development, 4 for the test"));
  EXPECT_EQ(load_as<EncoderDecoderModel>(options.output)->vocab_size(), 60);
  const std::string held_out = read_file(options.output / "test.source.txt");
  EXPECT_EQ(std::count(held_out.begin(), held_out.end(), '\n'), 4);
  EXPECT_EQ(std::count(held_out.begin(), held_out.end(), ' '), 4);

  // Fine-tuning uses the model's own configuration and tokenizer.
  TrainOptions tuning{.output = folder_ / "tuned", .init = options.output};
  tuning.on_message = options.on_message;
  messages.clear();
  r.train.lr = 0;
  r.checkpoint.dtype = "f32";
  train(r, tuning);
  EXPECT_THAT(messages, HasSubstr("starting from the model and tokenizer of"));
  const auto bias = [](const std::filesystem::path& directory) {
    return load_as<EncoderDecoderModel>(directory)->parameters().back().tensor.to_vector<float>();
  };
  EXPECT_EQ(bias(options.output), bias(tuning.output));
}

TEST_F(TrainTest, SaysWhatIsWrongWithTheData) {
  const auto train_error = [&](const Recipe& r) -> std::string {
    return error_of([&] { train(r, {.output = folder_ / "run"}); });
  };
  Recipe r = tiny();
  r.task.pairs = 100000;
  EXPECT_THAT(train_error(r), HasSubstr("task.pairs: expected at most half of"));
  r = tiny();
  r.task.kind = "translation";
  r.data.train = folder_ / "none.tsv";
  EXPECT_THAT(train_error(r), HasSubstr("none.tsv"));
  write_file(folder_ / "empty.tsv", "");
  r.data.train = folder_ / "empty.tsv";
  EXPECT_THAT(train_error(r), HasSubstr("empty.tsv"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(TrainTest, AverageOfModelsIsTheirMean) {
  train(tiny(), {.output = folder_ / "run"});
  const auto a = checkpoint_path(folder_ / "run", 10);
  const auto b = checkpoint_path(folder_ / "run", 12);
  average_models({a, b}, folder_ / "mean");
  const auto numbers = [](const std::filesystem::path& directory) {
    return load_as<EncoderDecoderModel>(directory)->parameters().front().tensor.to_vector<float>();
  };
  const std::vector<float> first = numbers(a);
  const std::vector<float> second = numbers(b);
  const std::vector<float> mean = numbers(folder_ / "mean");
  for (std::size_t i = 0; i < mean.size(); ++i) {
    EXPECT_EQ(mean[i], static_cast<float>((static_cast<double>(first[i]) + second[i]) / 2));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "mean" / "training.json"));
  EXPECT_NO_THROW(load_tokenizer(folder_ / "mean"));
  EXPECT_ERROR(average_models({}, folder_ / "none"), "average: no model directories given");
  EXPECT_ERROR(average_models({a, folder_}, folder_ / "none"),
               "neither model.safetensors nor model.safetensors.index.json found");
}

}  // namespace
}  // namespace heed
