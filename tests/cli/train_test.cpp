// heed train: its output, and that a killed run resumes to exactly the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
using testing::Not;

Words training(const std::string& output, const Words& more = {}) {
  Words words = tiny_training();
  words.insert(words.end(), {"--quiet", "--output", output});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Train, LeavesAModelInHuggingFaceLayout) {
  EXPECT_EQ(
      listing(tiny_model()),
      (Words{"checkpoints", "config.json", "dev.reference.txt", "dev.source.txt", "generation_config.json",
             "log.csv", "log.jsonl", "loss.svg", "model.safetensors", "predictions-dev.jsonl", "report.html",
             "source.spm", "special_tokens_map.json", "target.spm", "tokenizer_config.json", "vocab.json"}));
  EXPECT_EQ(lines(slurp(tiny_model() + "/dev.source.txt")).size(), 12u);
  const auto log = json_lines(slurp(tiny_model() + "/log.jsonl"));
  EXPECT_GE(log.size(), 24u);
  EXPECT_EQ(read_json(tiny_model() + "/config.json").at("model_type"), "marian");
}

TEST(Train, KilledAndResumedIsBitIdentical) {
  const Folder folder;
  const std::string output = folder / "run", first = output + "/checkpoints/8/complete";
  const pid_t process = start(training(output));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!std::filesystem::exists(first) && std::chrono::steady_clock::now() < deadline) ::usleep(500);
  ::kill(process, SIGKILL);
  ASSERT_EQ(wait_for(process), 128 + SIGKILL);  // otherwise it ended before it could be killed
  ASSERT_FALSE(std::filesystem::exists(output + "/model.safetensors"));
  EXPECT_EQ(Json::parse(output_of(training(output, {"--resume", "--json"}))).at("steps"), 24);
  for (const char* file : {"model.safetensors", "config.json", "source.spm", "vocab.json"}) {
    EXPECT_TRUE(slurp(output + "/" + file) == slurp(tiny_model() + "/" + file)) << file;
  }
  for (const std::string& name : listing(output)) EXPECT_EQ(name.find(".tmp-"), std::string::npos) << name;
  Words again = tiny_training();
  again.insert(again.end(), {"--output", output, "--resume"});
  EXPECT_THAT(run(again).err, HasSubstr("already finished"));
  again[again.size() - 2] = folder / "new";
  EXPECT_THAT(run(again).err, HasSubstr("warning: no run to resume: starting anew"));
}

// Starts a run that continues until it is stopped, and waits for its first checkpoint.
pid_t start_endless(const std::string& output, const Words& more = {}) {
  Words words = training(output, {"--set", "train.steps=1000000", "--set", "eval.every=0", "--set",
                                  "eval.metric=loss", "--set", "checkpoint.keep=1000"});
  words.insert(words.end(), more.begin(), more.end());
  const pid_t process = start(words);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!std::filesystem::exists(output + "/checkpoints/8/complete") &&
         std::chrono::steady_clock::now() < deadline) {
    ::usleep(500);
  }
  return process;
}

TEST(Train, ASignalEndsTheRunWithACheckpointAndItsStatus) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const Folder folder;
    const std::string output = folder / "run";
    const pid_t process = start_endless(output);
    ::kill(process, signal);
    ASSERT_EQ(wait_for(process), 128 + signal);
    // The step of the log's last line has a checkpoint.
    const std::int64_t steps = json_lines(slurp(output + "/log.jsonl")).back().at("step");
    EXPECT_TRUE(std::filesystem::exists(output + "/checkpoints/" + std::to_string(steps) + "/complete"));
    EXPECT_FALSE(std::filesystem::exists(output + "/lock"));
  }
}

TEST(Train, ASignalEndsTheMakingOfData) {
  const Folder folder;
  const std::string output = folder / "run";
  const pid_t process =
      start(training(output, {"--set", "task.pairs=9000000", "--set", "task.max_length=20"}));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!std::filesystem::exists(output) && std::chrono::steady_clock::now() < deadline) ::usleep(500);
  ::kill(process, SIGTERM);
  ASSERT_EQ(wait_for(process), 128 + SIGTERM);
  EXPECT_FALSE(std::filesystem::exists(output + "/log.jsonl"));
}

TEST(Train, ADryRunNeedsNoOutput) {
  Words words = tiny_training();
  words.insert(words.end(), {"--dry-run", "--quiet"});
  const Result text = run(words);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, testing::ContainsRegex("^data\n +training +development\n +pairs +400 +12\n"));
  EXPECT_THAT(text.out, testing::ContainsRegex(
                            "\n[0-9]+ trained parameters, [0-9]+ batches in an epoch; reading the data "
                            "and making the model took [0-9.]+ s\n24 steps"));
  EXPECT_THAT(text.out, HasSubstr("peak memory: "));
  words.emplace_back("--json");
  const Json json = Json::parse(run(words).out);
  EXPECT_EQ(json.at("steps"), 24);
  EXPECT_GT(json.at("trained_parameters"), 1000);
  EXPECT_EQ(json.at("data").at("sets").at(0).at("examples"), 400);
  words.emplace_back("--resume");
  EXPECT_THAT(run(words).err, HasSubstr("--dry-run: expected a new run, got one to resume"));
  EXPECT_THAT(run(tiny_training()).err, HasSubstr("train: missing --output"));
}

TEST(Train, ASearchOfLearningRatesLeavesAFigureAlone) {
  const Folder folder;
  Words words = tiny_training();
  words.insert(words.end(), {"--find-lr", "--quiet"});
  EXPECT_THAT(output_of(words), HasSubstr("a tenth of that: train.lr = "));
  words.insert(words.end(), {"--output", folder / "lr.svg", "--json"});
  EXPECT_GT(Json::parse(output_of(words)).at("suggested"), 1e-7);
  EXPECT_EQ(listing(folder / ""), Words{"lr.svg"});
  EXPECT_THAT(slurp(folder / "lr.svg"), HasSubstr("learning rates: "));
  words[words.size() - 2] = folder / "run";
  EXPECT_THAT(run(words).err, HasSubstr("--output: expected a figure, FILE.svg, beside --find-lr"));
}

TEST(Train, ASignalThatWasIgnoredStaysIgnored) {
  const Folder folder;
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  const pid_t process = start_endless(folder / "run");
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGHUP, SIG_DFL);
  ::kill(process, SIGINT);
  ::kill(process, SIGHUP);
  ::usleep(200000);
  ::kill(process, SIGTERM);
  EXPECT_EQ(wait_for(process), 128 + SIGTERM);
}

TEST(Train, OneRunAtATimeAndAPointerToItsCheckpoint) {
  const Folder folder;
  const std::string output = folder / "run";
  const pid_t process = start_endless(output);
  const Result second = run(training(output, {"--resume"}));
  const Result average = run({"convert", tiny_model(), tiny_model(), "--output", output});
  ::kill(process, SIGKILL);
  ASSERT_EQ(wait_for(process), 128 + SIGKILL);
  for (const Result& refused : {second, average}) {
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("run: expected a folder that nobody else writes to, got one in use by "
                                       "process " +
                                       std::to_string(process)));
  }
  const Result translated = run({"translate", "--model", output, "a b"});
  EXPECT_EQ(translated.status, 1);
  EXPECT_THAT(translated.err, HasSubstr("run: no final model yet (use " + output + "/checkpoints/"));
  EXPECT_THAT(translated.err, HasSubstr("--resume"));
  const Result resumed = run(training(
      output, {"--resume", "--set", "train.steps=8", "--set", "eval.every=0", "--set", "eval.metric=loss"}));
  EXPECT_EQ(resumed.status, 0) << resumed.err;
}

TEST(Train, GoesOnFromAnOlderCheckpoint) {
  const Folder folder;
  const std::string output = folder / "run";
  std::filesystem::copy(tiny_model(), output, std::filesystem::copy_options::recursive);
  const std::string damaged = output + "/checkpoints/24/optimizer.safetensors";
  std::string bytes = slurp(damaged);
  bytes.back() ^= 1;
  spill(damaged, bytes);
  const Result refused = run(training(output, {"--resume"}));
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("heed: error: " + damaged + ": expected the "));
  EXPECT_THAT(refused.err, HasSubstr("(checkpoint 12 is whole: --resume-from 12 goes on from it"));
  const Result resumed = run(training(output, {"--resume-from", "12"}));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_TRUE(slurp(output + "/model.safetensors") == slurp(tiny_model() + "/model.safetensors"));
  EXPECT_EQ(run(training(output, {"--resume-from", "last"})).status, 2);
}

TEST(Train, AFileTooLargeIsAnErrorAndLeavesNothing) {
  const Folder folder;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit limit = before;
  limit.rlim_cur = 8000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const Result result = run({"convert", tiny_model(), tiny_model(), "--output", folder / "out"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("File too large"));
  EXPECT_EQ(listing(folder.path()), Words{});
}

TEST(Train, ProgressAndSummaryCountEpochsAlike) {
  const Folder folder;
  Words words = tiny_training();
  words.insert(words.end(),
               {"--output", folder / "run", "--set", "eval.every=0", "--set", "eval.metric=loss"});
  const Result result = run(words);
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string head = "24 steps, ";
  const std::string epochs = result.out.substr(head.size(), result.out.find(" epochs") - head.size());
  EXPECT_THAT(result.out, testing::StartsWith(head));
  EXPECT_NE(epochs.find('.'), std::string::npos) << result.out;
  EXPECT_THAT(result.err, HasSubstr("24/24 epoch " + epochs + "  loss "));
}

TEST(Train, AnotherSeedIsAnotherModelAndInitIsRead) {
  const Folder folder;
  const Result other = run(training(folder / "other", {"--seed", "7", "--set", "train.steps=2"}));
  ASSERT_EQ(other.status, 0) << other.err;
  const Result same = run(training(folder / "same", {"--set", "train.steps=2"}));
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_NE(slurp(folder / "other/model.safetensors"), slurp(folder / "same/model.safetensors"));
  const Words words{"train",    HEED_SOURCE "/recipes/reverse.toml",
                    "--output", folder / "further",
                    "--init",   tiny_model(),
                    "--set",    "task.pairs=400",
                    "--set",    "data.dev_size=12",
                    "--set",    "train.batch_tokens=256",
                    "--set",    "train.steps=1",
                    "--json"};
  EXPECT_EQ(Json::parse(output_of(words)).at("steps"), 1);
}

// A picture for each text, before the first step and at each checkpoint; a resumed run goes on with them.
TEST(Train, RecordsMaps) {
  const Folder folder;
  const std::string output = folder / "run", texts = folder / "texts.tsv";
  std::ofstream(texts) << "a b c\tc b a\n\nb a\ta b\n";
  const Words shorter{"--set", "train.steps=16", "--maps", texts};
  ASSERT_EQ(run(training(output, shorter)).status, 0);
  EXPECT_EQ(listing(output + "/maps"),
            (Words{"00000000.json", "00000008.json", "00000012.json", "00000016.json"}));
  const Json frame = read_json(output + "/maps/00000012.json");
  EXPECT_EQ(frame["step"], 12);
  EXPECT_TRUE(frame["loss"].is_number());
  ASSERT_EQ(frame["texts"].size(), 2u);
  EXPECT_EQ(frame["texts"][0]["data"]["title"], "a b c → c b a");
  EXPECT_EQ(frame["texts"][0]["data"]["model"]["name"], "run");
  const std::string page = slurp(output + "/maps.html");
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("\"step\":16"));
  EXPECT_THAT(page, HasSubstr("\"step\":0"));

  // Later steps than that from which a run goes on are forgotten.
  ASSERT_EQ(run(training(output, {"--set", "train.steps=16", "--maps", texts, "--resume-from", "12"})).status,
            0);
  EXPECT_EQ(listing(output + "/maps"),
            (Words{"00000000.json", "00000008.json", "00000012.json", "00000016.json"}));

  std::ofstream(texts) << "a b c\n";
  expect_error(1, training(folder / "other", {"--maps", texts}),
               "--maps: expected a source, a tab and a target on each line");
  std::ofstream(texts) << "\n";
  expect_error(1, training(folder / "none", {"--maps", texts}),
               "texts.tsv: expected 1 to 8 texts, one a line, got 0");
}

TEST(Train, FindsTheRecipesOfHeedByName) {
  const Folder folder;
  Words words = training(folder / "run", {"--set", "train.steps=1"});
  words[1] = "reverse";
  const Result result = run(words);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(run({"train", "revers", "--output", folder / "none"}).err,
              HasSubstr("revers: not found (did you mean the recipe reverse?)"));
  EXPECT_THAT(run({"train", "nothing-like-it", "--output", folder / "none"}).err,
              HasSubstr("not found (give the path of a TOML file, or a recipe of heed: answers, chat, "
                        "chat-messages, cifar10, classifier, embedding, "
                        "en-fr, "));
}

// `heed train reverse --output reverse` leaves a folder of the recipe's name, from which --resume continues.
TEST(Train, AFolderOfARecipesNameIsPassedOver) {
  const Folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  Words words = training("reverse", {"--set", "train.steps=1"});
  words[1] = "reverse";
  const Result first = run(words);
  words.emplace_back("--resume");
  const Result resumed = run(words);
  const Result path = run({"train", "recipes/reverse.toml", "--output", "none"});
  std::filesystem::current_path(before);
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(path.err, HasSubstr("recipes/reverse.toml: not found (did you mean the recipe reverse?)"));
}

TEST(Train, TheBarFitsTheTerminal) {
  const Folder folder;
  for (const unsigned short columns : {40, 80, 120}) {
    Words words = tiny_training();
    words.insert(words.end(), {"--output", folder / std::to_string(columns)});
    const Result result = run_on_terminal(words, "", columns);
    ASSERT_EQ(result.status, 0) << result.out;
    std::size_t bars = 0;
    for (std::size_t at = result.out.find("\r\033[K"); at != std::string::npos;
         at = result.out.find("\r\033[K", at + 1), ++bars) {
      const std::size_t begin = at + 4, end = std::min(result.out.find('\r', begin), result.out.size());
      const std::string line = result.out.substr(begin, end - begin);
      const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
      EXPECT_LT(std::count_if(line.begin(), line.end(), is_start), columns);
    }
    EXPECT_GT(bars, 0u);
  }
}

TEST(Train, TellsWhatARecipeLacks) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 40; ++i) text += "a line of letters\n";
  spill(folder / "text.txt", text);
  spill(folder / "r.toml",
        "[task]\nkind = \"causal-lm\"\ncontext = 8\n[data]\ntrain = \"text.txt\"\n[tokenizer]\ntype = "
        "\"character\"\n"
        "[model]\nn_layer = 1\nn_head = 1\nn_embd = 8\nn_positions = 8\n[train]\nsteps = 1\nbatch_tokens = "
        "64\n");
  const Result small = run({"train", folder / "r.toml", "--output", folder / "small"});
  EXPECT_EQ(small.status, 0) << small.err;
  EXPECT_THAT(small.err, HasSubstr("no development set, so no evaluations"));
  EXPECT_THAT(small.err, Not(HasSubstr("warning")));
  const Result large =
      run({"train", folder / "r.toml", "--output", folder / "large", "--set", "model.n_embd=768"});
  EXPECT_EQ(large.status, 0) << large.err;
  EXPECT_THAT(large.err, HasSubstr("warning: 7"));
  EXPECT_THAT(large.err, HasSubstr("tokens of data: steps are slow, and the model learns the data by heart"));
  const Result begun = run({"train", folder / "r.toml", "--dry-run", "--init", folder / "large"});
  EXPECT_EQ(begun.status, 0) << begun.err;
  EXPECT_THAT(begun.err, Not(HasSubstr("warning")));
}

TEST(Train, TakesNoFolderThatHasAModel) {
  const std::string before = slurp(tiny_model() + "/model.safetensors");
  expect_error(1, training(tiny_model()), "expected a folder without a training run or model");
  EXPECT_TRUE(slurp(tiny_model() + "/model.safetensors") == before);
}

TEST(Train, SkipsBadLinesAndTellsWhich) {
  const Folder folder;
  std::string corpus;
  for (int i = 0; i < 60; ++i) {
    const std::string word(1, static_cast<char>('a' + i % 20));
    corpus += word + " b c d " + std::to_string(i) + "\t" + std::to_string(i) + " d c b " + word + "\n";
  }
  spill(folder / "corpus.tsv", corpus + "only one column\n\n\xff\tx\n");
  spill(folder / "recipe.toml",
        "[data]\ntrain = \"" + (folder / "corpus.tsv") +
            "\"\ndev_size = 4\n[tokenizer]\nvocab_size = 60\n[model]\nd_model = 16\nheads = 2\nffn = "
            "16\nencoder_layers = 1\n"
            "decoder_layers = 1\nmax_positions = 64\n[train]\nsteps = 2\nbatch_tokens = 128\n");
  const Result result = run({"train", folder / "recipe.toml", "--output", folder / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("corpus.tsv: 63 lines, 60 kept, 3 skipped\n"));
  EXPECT_THAT(result.err, HasSubstr("not UTF-8: 1 (line 63)\n"));
  EXPECT_THAT(result.err, HasSubstr("wrong number of columns: 1 (line 61)\n"));
  EXPECT_THAT(result.err, HasSubstr("empty side: 1 (line 62)\n"));
  EXPECT_EQ(lines(slurp(folder / "run/dev.source.txt")).size(), 4u);
}

}  // namespace
}  // namespace heed::cli_test
