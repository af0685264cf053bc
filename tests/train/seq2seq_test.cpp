// The tasks of encoder-decoders other than translation: summaries from JSON lines, and denoising of texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/json.h"
#include "heed/error.h"
#include "heed/generate/options.h"
#include "heed/generate/translate.h"
#include "heed/models/registry.h"
#include "heed/train/checkpoint.h"
#include "heed/train/train.h"
#include "run_folder.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Seq2SeqTest : public FolderTest {
 protected:
  static void add_t5(Recipe& r) {
    r.model.family = "t5";
    r.model.sizes = {{"d_model", "32"}};
    r.model.settings = {{"d_kv", "16"},
                        {"d_ff", "64"},
                        {"num_layers", "1"},
                        {"num_heads", "2"},
                        {"dropout_rate", "0"},
                        {"relative_attention_num_buckets", "8"},
                        {"relative_attention_max_distance", "16"}};
  }
  static void add_bart(Recipe& r) {
    r.model.family = "bart";
    r.model.sizes = {{"d_model", "32"}, {"encoder_layers", "1"}, {"decoder_layers", "1"}, {"dropout", "0"}};
    r.model.settings = {{"encoder_attention_heads", "2"},
                        {"decoder_attention_heads", "2"},
                        {"encoder_ffn_dim", "64"},
                        {"decoder_ffn_dim", "64"},
                        {"max_position_embeddings", "64"}};
  }
  static void shorten(Recipe& r, std::int64_t steps) {
    r.train.steps = steps;
    r.train.warmup = 5;
    r.train.lr = 5e-3;
    r.train.schedule = "linear";
    r.train.batch_tokens = 512;
    r.eval.every = steps;
    r.checkpoint.every = 4;
  }
  Recipe summaries(std::int64_t steps) const {
    std::string lines;
    for (const char* thing : {"film", "book", "song", "play", "game", "show"}) {
      lines += std::string(R"({"article": ["We saw the )") + thing +
               R"( .", "It was fine ."], "tldr": ["the )" + thing + R"( was fine", "a fine )" + thing +
               "\"]}\n";
    }
    write_file(folder_ / "pairs.jsonl", lines);
    Recipe r;
    r.task.kind = "seq2seq";
    r.data.train = r.data.dev = folder_ / "pairs.jsonl";
    r.data.source_key = "article";
    r.data.target_key = "tldr";
    r.tokenizer.type = "byte_bpe";
    r.tokenizer.vocab_size = 420;
    add_t5(r);
    shorten(r, steps);
    r.eval.metric = "rougeL";
    return r;
  }
  Recipe denoising(std::int64_t steps, const std::string& objective) const {
    std::string text;
    for (int i = 0; i < 30; ++i) text += "One two three four five six. Seven eight nine ten.\n";
    write_file(folder_ / "text.txt", text);
    Recipe r;
    r.task.kind = "denoising";
    r.task.objective = objective;
    r.task.context = 24;
    r.data.train = r.data.dev = folder_ / "text.txt";
    r.data.documents = "line";
    r.tokenizer.vocab_size = 123;
    r.tokenizer.type = "unigram";
    if (objective == "bart") {
      r.tokenizer.vocab_size = 300;
      r.tokenizer.type = "byte_bpe";
    }
    objective == "bart" ? add_bart(r) : add_t5(r);
    shorten(r, steps);
    return r;
  }
};

TEST_F(Seq2SeqTest, LearnsSummariesByHeart) {
  std::string messages;
  TrainOptions options{.output = folder_ / "run"};
  options.on_message = [&](const std::string& text) { messages += text + "\n"; };
  Recipe r = summaries(250);
  r.data.prefix = "summarize: ";
  r.data.max_source = 40;
  r.data.max_target = 30;
  const TrainResult result = train(r, options);
  EXPECT_THAT(messages, HasSubstr("6 pairs to train on, 12 for development"));
  // Two references a source: the outputs equal the first of them.
  EXPECT_GT(result.evaluation->metric("rouge1").value(), 99.0) << messages;
  EXPECT_GT(result.evaluation->metric("rouge2").value(), 99.0);
  EXPECT_GT(result.evaluation->metric("rougeLsum").value(), 99.0);
  const auto model = load_as<EncoderDecoderModel>(folder_ / "run");
  EXPECT_EQ(model->decoder_start_id(), 0);
  EXPECT_EQ(model->eos_id(), 1);
  TranslateOptions use{.generation = load_generation_options(folder_ / "run"), .prefix = "summarize: "};
  EXPECT_EQ(use.generation.max_new_tokens, 30);
  const std::vector<std::string> texts{"We saw the song . It was fine ."};
  EXPECT_EQ(translate(*model, *load_tokenizer(folder_ / "run"), texts, use).front().text(),
            "the song was fine");
  EXPECT_EQ(read_file(folder_ / "run/dev.source.txt").substr(0, 31), "We saw the film . It was fine .");
  EXPECT_THAT(read_file(folder_ / "run/dev.reference.txt"), HasSubstr("the film was fine\nthe book"));
  EXPECT_THAT(read_file(folder_ / "run/dev.reference.2.txt"), HasSubstr("a fine film\na fine book"));
}

TEST_F(Seq2SeqTest, AFolderIsReadAsItsFilesInOne) {
  Recipe r = summaries(3);
  train(r, {.output = folder_ / "one"});
  const std::string text = read_file(r.data.train);
  const std::size_t cut = text.find('\n', text.size() / 2) + 1;
  r.data.train = r.data.dev = folder_ / "files";
  std::filesystem::create_directories(r.data.train);
  write_file(r.data.train / "1.jsonl", text.substr(0, cut));
  write_file(r.data.train / "2.jsonl", text.substr(cut));
  train(r, {.output = folder_ / "two"});
  EXPECT_TRUE(weights(folder_ / "one") == weights(folder_ / "two"));
  write_file(r.data.train / "2.jsonl", "{}\n");
  EXPECT_THAT(refusal_of(r), HasSubstr("files/2.jsonl:1: article: not found"));
}

TEST_F(Seq2SeqTest, OverfitsOneBatchWithBart) {
  Recipe r = summaries(120);
  add_bart(r);
  r.tokenizer.type = "unigram";
  r.tokenizer.vocab_size = 30;
  const TrainResult result = train(r, {.output = folder_ / "run"});
  EXPECT_GT(result.evaluation->metric("rougeL").value(), 99.0);
  const auto tokenizer = load_tokenizer(folder_ / "run");
  EXPECT_EQ(tokenizer->vocab_size(), 30);
  EXPECT_EQ(tokenizer->token(29), "<mask>");
  EXPECT_EQ(load_as<EncoderDecoderModel>(folder_ / "run")->decoder_start_id(), 2);
}

// Data, truncation, model and AdamW against transformers and PyTorch on the same files; the initial weights
// and the tokenizer are those that heed makes (tests/fixtures/train/README.md).
TEST_F(Seq2SeqTest, TenStepsFollowTransformers) {
  const Config expected = Config::load(HEED_FIXTURES "/train/seq2seq_curves.json");
  for (const char* family : {"t5", "bart"}) {
    SCOPED_TRACE(family);
    Recipe r;
    r.task.kind = "seq2seq";
    r.data.train = HEED_FIXTURES "/train/pairs.jsonl";
    r.data.prefix = "summarize: ";
    r.data.max_source = 40;
    r.data.max_target = 8;
    r.tokenizer.type = "byte_bpe";
    r.tokenizer.vocab_size = 400;
    family == std::string("t5") ? add_t5(r) : add_bart(r);
    shorten(r, 10);
    r.train.schedule = "constant";
    r.train.warmup = 0;
    r.train.batch_tokens = 4096;
    r.train.eps = 1e-8;
    r.eval.every = 0;
    train(r, {.output = folder_ / family});
    std::vector<double> losses;
    for (const std::string& line : log_lines(folder_ / family)) {
      const Config json = Config::parse(line, "log.jsonl");
      if (json.has("lr")) losses.push_back(json.required_number("loss"));
    }
    const std::vector<double> wanted = expected.numbers(family);
    ASSERT_EQ(losses.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(losses[i], wanted[i], 1e-4) << i;
  }
}

TEST_F(Seq2SeqTest, TruncatesToTheGivenTokens) {
  std::string messages;
  TrainOptions options{.output = folder_ / "run"};
  options.on_message = [&](const std::string& text) { messages += text + "\n"; };
  Recipe r = summaries(1);
  r.data.max_source = 8;
  r.data.max_target = 2;
  train(r, options);
  EXPECT_THAT(messages, HasSubstr("tokens of the training set: 6 sources truncated to 8, 6 targets to 2"));
  EXPECT_THAT(messages,
              HasSubstr("tokens of the development set: 12 sources truncated to 8, 12 targets to 2"));
  for (const char* family : {"t5", "bart"}) {  // which has positions
    SCOPED_TRACE(family);
    if (family == std::string("bart")) {
      add_bart(r);
      options.output = folder_ / "bart";
      train(r, options);
    }
    const auto tokenizer = load_tokenizer(options.output);
    std::vector<std::string> warnings;
    TranslateOptions use{.generation = load_generation_options(options.output)};
    EXPECT_EQ(use.generation.max_new_tokens, 2);
    use.task.on_warning = [&](std::size_t, const std::string& text) { warnings.push_back(text); };
    const std::vector<std::string> texts{"We saw the song . It was fine ."};
    const Translation found =
        translate(*load_as<EncoderDecoderModel>(options.output), *tokenizer, texts, use).front();
    EXPECT_EQ(found.source_tokens.size(), 8);
    EXPECT_EQ(found.source_tokens.back(), tokenizer->token(tokenizer->eos_id().value()));
    EXPECT_THAT(warnings,
                ElementsAre("more than the 8 of the longest sources in training: the rest is ignored"));
    EXPECT_THAT(read_file(options.output / "predictions-dev.jsonl"), HasSubstr(json_quoted(found.text())));
  }
  add_bart(r);
  r.data.max_source = 0;
  train(r, {.output = folder_ / "longer", .init = folder_ / "bart"});
  EXPECT_EQ(load_generation_options(folder_ / "longer").max_source_length, std::nullopt);
  r.data.max_source = 65;
  EXPECT_THAT(refusal_of(r),
              HasSubstr("data.max_source: expected at most 64, the model's positions, got 65"));
}

TEST_F(Seq2SeqTest, ListsOfTargetsMayBeSentences) {
  Recipe r = summaries(1);
  r.data.target_list = "sentences";
  r.data.dev.clear();
  r.data.dev_size = 2;
  train(r, {.output = folder_ / "run"});
  EXPECT_THAT(read_file(folder_ / "run/dev.reference.txt"), HasSubstr(" was fine a fine "));
}

TEST_F(Seq2SeqTest, DenoisingLearnsATextByHeart) {
  for (const char* objective : {"spans", "bart"}) {
    SCOPED_TRACE(objective);
    const std::filesystem::path run = folder_ / objective;
    const TrainResult result = train(denoising(200, objective), {.output = run});
    EXPECT_LT(result.evaluation->loss, 0.5);  // from ln(vocabulary) = 5
    // And goes on to summaries.
    Recipe tuned = summaries(4);
    tuned.model.settings.clear();
    EXPECT_EQ(train(tuned, {.output = folder_ / (std::string("tuned-") + objective), .init = run}).steps, 4);
  }
}

TEST_F(Seq2SeqTest, DenoisingReadsListsOfSentences) {
  Recipe r = denoising(1, "spans");
  write_file(folder_ / "text.jsonl",
             "{\"source\": [\"One two three.\", \"Four five six seven.\"]}\n"
             "{\"source\": \"Eight nine ten eleven twelve.\"}\n");
  r.data.train = r.data.dev = folder_ / "text.jsonl";
  r.data.format = "jsonl";
  r.data.text_key = "source";
  r.tokenizer.vocab_size = 130;
  EXPECT_EQ(train(r, {.output = folder_ / "run"}).steps, 1);
}

TEST_F(Seq2SeqTest, StoppedAndResumedEqualsUnbroken) {
  for (Recipe r : {summaries(9), denoising(9, "spans"), denoising(9, "bart")}) {
    SCOPED_TRACE(r.task.kind + r.task.objective);
    r.train.batch_tokens = 128;
    train_twice(r, folder_ / "straight", folder_ / "broken");
    EXPECT_EQ(weights(folder_ / "straight"), weights(folder_ / "broken"));
    std::filesystem::remove_all(folder_ / "straight");
    std::filesystem::remove_all(folder_ / "broken");
  }
}

TEST_F(Seq2SeqTest, RefusesWhatDoesNotFit) {
  Recipe r = summaries(1);
  r.data.target_key = "summary";
  EXPECT_THAT(refusal_of(r), HasSubstr("pairs.jsonl:1: summary: not found"));
  r = summaries(1);
  r.eval.metric = "bleu";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("eval.metric: expected one of loss, rouge1, rouge2, rougeL, rougeLsum, got bleu"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused" / "dev.source.txt"));
  r = summaries(1);
  r.tokenizer.vocab_size = 60;
  EXPECT_THAT(refusal_of(r), HasSubstr("tokenizer training: vocab_size: expected at least 359 (special "
                                       "tokens of t5 and characters), got 60"));
  r.tokenizer.type = "unigram";
  EXPECT_THAT(refusal_of(r), HasSubstr("vocab_size: expected at least 104 (special tokens of t5"));
  r = summaries(1);
  r.model = {.family = "gpt2", .settings = {{"n_embd", "32"}, {"n_layer", "1"}, {"n_head", "2"}}};
  EXPECT_THAT(refusal_of(r),
              HasSubstr("expected an encoder-decoder of texts for the task seq2seq, got gpt2, a decoder "
                        "(task.kind = \"causal-lm\" trains it)"));
  r = denoising(1, "spans");
  r.tokenizer.special_tokens = "bart";
  r.tokenizer.vocab_size = 25;
  EXPECT_THAT(refusal_of(r), HasSubstr("(tokenizer.special_tokens = \"t5\" makes them)"));
  r = denoising(1, "bart");
  r.tokenizer.special_tokens = "t5";
  r.tokenizer.vocab_size = 400;
  EXPECT_THAT(refusal_of(r), HasSubstr("(tokenizer.special_tokens = \"bart\" makes one)"));
  r = denoising(1, "spans");
  r.task.context = 3000;
  EXPECT_THAT(refusal_of(r), HasSubstr("task.context: expected at most 100 spans in a row"));
  r = denoising(1, "spans");
  r.data.prefix = "x";
  EXPECT_THAT(refusal_of(r),
              HasSubstr("data.prefix, data.max_source, data.max_target: only the tasks seq2seq"));
  r = summaries(1);
  r.task.objective = "spans";
  EXPECT_THAT(refusal_of(r), HasSubstr("task.objective: only the task denoising has one"));
}

}  // namespace
}  // namespace heed
