// Training on preferences, against TRL (tests/fixtures/train/preferences), and what becomes of its data.
#include "train/tasks/preference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/io/safetensors.h"
#include "heed/ops/reduce.h"
#include "heed/train/checkpoint.h"
#include "reference/json.h"
#include "run_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const fs::path kFixture = fs::path(HEED_FIXTURES) / "train" / "preferences";

class PreferenceTest : public FolderTest {
 protected:
  static Recipe recipe(const std::string& loss, std::int64_t steps) {
    Recipe r;
    r.task.kind = "preference";
    r.task.loss = loss;
    r.task.context = 64;
    r.data.train = kFixture / "data.jsonl";
    r.train.batch_tokens = 4096;
    r.train.steps = steps;
    r.train.lr = 1e-3;
    r.train.schedule = "constant";
    r.train.warmup = 0;
    r.train.betas = {0.9, 0.999};
    r.train.eps = 1e-8;
    r.eval.every = 0;
    r.checkpoint.every = 100;
    return r;
  }
  static Recipe with_lora(Recipe r) {
    r.lora.rank = 4;
    r.lora.alpha = 8;
    r.lora.targets = {.names = {"q_proj", "v_proj"}};
    return r;
  }
  TrainOptions options(const std::string& model = "llama") {
    said_.clear();
    TrainOptions o{.output = folder_ / "run", .init = kFixture / model};
    o.on_message = [this](const std::string& message) { said_ += message + "\n"; };
    return o;
  }
  TrainResult run(const Recipe& r, const std::string& model = "llama") {
    fs::remove_all(folder_ / "run");
    return train(r, options(model));
  }
  std::string refusal(const Recipe& r) {
    return error_of([&] { run(r); });
  }
  Config log_line(std::size_t line) const {
    return Config::parse(log_lines(folder_ / "run").at(line), "log.jsonl");
  }
  // A file of pairs.
  fs::path written(const std::string& lines) const {
    write_file(folder_ / "pairs.jsonl", lines);
    return folder_ / "pairs.jsonl";
  }
  // The gradient, the values and six losses of a case of the fixture.
  void expect_case(const std::string& name, const Recipe& given, const std::string& model,
                   const std::string& adapter = "");

  std::string said_;
  const nlohmann::json expected_ = read_json(kFixture / "expected.json");
};

void PreferenceTest::expect_case(const std::string& name, const Recipe& given, const std::string& model,
                                 const std::string& adapter) {
  SCOPED_TRACE(name);
  const nlohmann::json& wanted = expected_.at(name);
  const Recipe r = with_defaults(given);
  validate_recipe(r);
  fs::remove_all(folder_ / "run");
  fs::create_directories(folder_ / "run");
  const TrainOptions o = options(model);
  PreferenceTask task(r, o, {});
  if (!adapter.empty()) load_checkpoint_weights(kFixture / adapter, task.parameters());
  Context context{.training = true};
  const SummedLoss loss = task.next_loss(context);
  ASSERT_EQ(loss.tokens, 6);
  EXPECT_NEAR(loss.sum.item() / 6, wanted.at("loss").get<double>(),
              std::max(1e-5, wanted.at("tolerances").at("loss").get<double>()));
  loss.sum.backward();
  const SafetensorsFile gradients = SafetensorsFile::open(kFixture / "gradients.safetensors");
  const auto norms = wanted.at("gradient_norms").get<std::map<std::string, double>>();
  for (const Parameter& p : task.parameters()) {
    const auto norm = std::find_if(norms.begin(), norms.end(),
                                   [&](const auto& entry) { return entry.first.ends_with(p.name); });
    ASSERT_NE(norm, norms.end()) << p.name;
    EXPECT_NEAR(std::sqrt(sum_of_squares(p.tensor.grad())) / 6, norm->second, 1e-3 * norm->second) << p.name;
    if (!gradients.contains(name + "/" + norm->first)) continue;
    const auto got = p.tensor.grad().to_vector<float>(),
               all = gradients.get(name + "/" + norm->first).to_vector<float>();
    for (std::size_t i = 0; i < all.size(); ++i)
      ASSERT_NEAR(got[i] / 6, all[i], 1e-3 * norm->second) << p.name << " " << i;
  }
  for (const Parameter& p : task.parameters()) p.tensor.zero_grad();
  task.seek({});
  train_loop(task, r, o);
  const auto losses = wanted.at("training_losses").get<std::vector<double>>();
  const auto tolerances = wanted.at("tolerances").at("training_losses").get<std::vector<double>>();
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(log_line(step).required_number("loss"), losses[step], std::max(1e-5, tolerances[step]))
        << step;
  double chosen = 0, rejected = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    chosen += wanted.at("chosen_rewards")[i].get<double>() / 6;
    rejected += wanted.at("rejected_rewards")[i].get<double>() / 6;
  }
  const Config first = log_line(0);
  EXPECT_NEAR(first.required_number("rewards/chosen"), chosen, 5e-5);
  EXPECT_NEAR(first.required_number("rewards/rejected"), rejected, 5e-5);
  EXPECT_NEAR(first.required_number("margin"), chosen - rejected, 5e-5);
  EXPECT_NEAR(first.required_number("accuracy"), 100 * wanted.at("accuracy").get<double>(), 1e-4);
  EXPECT_EQ(first.required_integer("pairs"), 6);
}

TEST_F(PreferenceTest, DpoFollowsTrl) {
  Recipe r = recipe("", 6);
  r.task.reference = kFixture / "reference";
  expect_case("dpo-sigmoid", r, "llama");
  const nlohmann::json& wanted = expected_.at("dpo-sigmoid");
  const auto logps =
      SafetensorsFile::open(folder_ / "run" / "reference_logps.safetensors").get("train").to_vector<double>();
  ASSERT_EQ(logps.size(), 12u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(logps[2 * i], wanted.at("ref_chosen_logps")[i].get<double>(), 2e-4);
    EXPECT_NEAR(logps[2 * i + 1], wanted.at("ref_rejected_logps")[i].get<double>(), 2e-4);
  }
}

// With plain PyTorch on the same checkpoints: it gives TRL's losses and gradients of dpo-sigmoid.
TEST_F(PreferenceTest, WholeModelsFollowPyTorch) {
  Recipe r = recipe("ipo", 6);
  r.task.reference = kFixture / "reference";
  expect_case("ipo-whole", r, "llama");
  r.task.loss = "dpo";
  r.task.beta = 0.3;
  r.train.label_smoothing = 0.1;
  expect_case("dpo-smooth-whole", r, "llama");
}

TEST_F(PreferenceTest, AdaptersFollowTrl) {
  expect_case("dpo-lora", with_lora(recipe("dpo", 6)), "llama", "dpo-adapter");
  expect_case("ipo-lora", with_lora(recipe("ipo", 6)), "llama", "ipo-adapter");
}

TEST_F(PreferenceTest, WithoutAReferenceFollowTrl) {
  expect_case("orpo", recipe("orpo", 6), "llama");
  EXPECT_FALSE(fs::exists(folder_ / "run" / "reference_logps.safetensors"));
  // TRL puts the start token before a prompt, which GPT-2's tokenizer does not.
  std::string lines = read_file(kFixture / "data.jsonl");
  for (std::size_t at = 0; (at = lines.find("\"prompt\": \"", at)) != std::string::npos; at += 11)
    lines.insert(at + 11, "<|endoftext|>");
  Recipe r = recipe("simpo", 6);
  r.data.train = written(lines);
  expect_case("simpo", r, "gpt2");
}

TEST_F(PreferenceTest, BatchesDoNotMatter) {
  for (const char* loss : {"dpo", "orpo"}) {
    Recipe whole = recipe(loss, 1);
    whole.train.lr = 1e-30;
    if (has_reference(loss)) whole.task.reference = kFixture / "reference";
    Recipe parts = whole;
    parts.train.batch_tokens = 128;
    parts.data.dev = whole.data.dev = whole.data.train;
    parts.eval.every = whole.eval.every = 1;
    const Evaluation one = *run(whole).evaluation, several = *run(parts).evaluation;
    EXPECT_NEAR(one.loss, several.loss, 1e-6 * one.loss);
    for (std::size_t i = 0; i < one.metrics.size(); ++i)
      EXPECT_NEAR(one.metrics[i].value, several.metrics[i].value, 1e-4) << one.metrics[i].name;
  }
}

TEST_F(PreferenceTest, BeginsAtTheModelAndLearns) {
  Recipe r = recipe("dpo", 8);
  r.data.dev = r.data.train;
  r.eval.every = 4;
  r.eval.metric = "margin";
  const TrainResult result = run(r);
  EXPECT_NEAR(log_line(0).required_number("loss"), std::log(2), 1e-6);
  EXPECT_EQ(log_line(0).required_number("margin"), 0);
  EXPECT_LT(result.evaluation->loss, 0.2);
  EXPECT_EQ(result.evaluation->metric("accuracy"), 100);
  EXPECT_THAT(said_, AllOf(HasSubstr("reference: computing the log-probabilities of 12 pairs with " +
                                     (kFixture / "llama").string()),
                           HasSubstr("reference: done in ")));
  EXPECT_NEAR(run(with_lora(r)).steps, 8, 0);
  EXPECT_NEAR(log_line(0).required_number("loss"), std::log(2), 1e-6);
}

TEST_F(PreferenceTest, StoppedAndResumedEqualsUnbroken) {
  for (const bool adapts : {false, true}) {
    SCOPED_TRACE(adapts);
    Recipe r = recipe("dpo", 9);
    if (adapts) r = with_lora(r);
    r.train.batch_tokens = 200;
    r.checkpoint.every = 4;
    r.data.dev_share = 0.2;
    r.eval.every = 3;
    train_twice(r, folder_ / "straight", folder_ / "broken", kFixture / "llama");
    const char* file = adapts ? "adapter_model.safetensors" : "model.safetensors";
    EXPECT_EQ(read_file(folder_ / "straight" / file), read_file(folder_ / "broken" / file));
    // The reference is not computed again.
    TrainOptions again = options();
    again.output = folder_ / "straight";
    again.resume = true;
    if (!adapts) again.init.clear();
    r.train.steps = 10;
    train(r, again);
    EXPECT_THAT(said_, AllOf(HasSubstr("reference: the log-probabilities of "), Not(HasSubstr("computing"))));
    fs::remove(folder_ / "straight" / "reference_logps.safetensors");
    r.train.steps = 11;
    if (adapts) {
      train(r, again);
      EXPECT_THAT(said_, HasSubstr("reference: computing"));
    } else {
      EXPECT_THAT(
          error_of([&] { train(r, again); }),
          HasSubstr("reference_logps.safetensors: not found, or of other data (give --init, the model "
                    "that the run started from)"));
      again.init = kFixture / "llama";
      train(r, again);
      EXPECT_THAT(said_, HasSubstr("reference: computing"));
    }
    for (const char* run : {"straight", "broken"}) fs::remove_all(folder_ / run);
  }
}

TEST_F(PreferenceTest, ADryRunAsksNoReference) {
  const DryRun cost = dry_run(recipe("dpo", 4), options());
  EXPECT_EQ(cost.unit, "pairs");
  EXPECT_EQ(cost.targets_per_step, 6);
  EXPECT_THAT(said_, HasSubstr("reference: not asked in a dry run"));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(PreferenceTest, LongerEqualAndUnusablePairsAreTold) {
  const std::string good = read_file(kFixture / "data.jsonl");
  Recipe r = recipe("dpo", 1);
  r.data.train = written(good + R"({"prompt": "a", "chosen": " b", "rejected": " b"})" + "\n");
  run(r);
  EXPECT_THAT(said_, HasSubstr("pairs.jsonl: left out, with equal answers: 1"));
  EXPECT_EQ(log_line(0).required_integer("pairs"), 6);

  r.task.context = 24;
  run(r);
  EXPECT_THAT(said_, HasSubstr("warning: " + r.data.train.string() +
                               ": 3 of 7 pairs have more than 24 tokens (task.context) and are truncated at "
                               "their ends; left out, with equal answers: 1"));
  EXPECT_EQ(log_line(0).required_integer("pairs"), 6);
  r.data.longer = "skip";
  run(r);
  EXPECT_THAT(said_, HasSubstr("3 of 7 pairs have more than 24 tokens (task.context) and are left out"));
  EXPECT_EQ(log_line(0).required_integer("pairs"), 3);
  r.task.context = 4;
  EXPECT_THAT(refusal(r), HasSubstr("expected pairs to learn from, got none: 6 of 7 pairs have more than 4 "
                                    "tokens"));
  r.data.longer = "truncate";
  EXPECT_THAT(refusal(r), HasSubstr("left out, without an answer in what is kept: "));

  r.task.context = 64;
  r.data.train = written(good + R"({"prompt": "a", "chosen": " b"})" + "\n");
  EXPECT_THAT(refusal(r), AllOf(HasSubstr("pairs.jsonl:7: rejected: not found (so are 1 of 7 pairs: "
                                          "data.bad_share, 0.1, is the share that is skipped)")));
  r.data.bad_share = 0.2;
  run(r);
  EXPECT_THAT(said_, HasSubstr("1 of 7 pairs cannot be used and is skipped, the first for " +
                               r.data.train.string() + ":7: rejected: not found"));
  r.data.bad_share = 0;
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"prompt": 3, "chosen": "b", "rejected": "c"})", ":1: prompt: expected a string, got 3"},
      {R"({"prompt": "a", "chosen": "", "rejected": "c"})", ":1: chosen: expected an answer, got \"\""},
      {R"({"chosen": "a b", "rejected": "a c"})", ":1: prompt: not found"},
      {R"(["a"])", ":1: expected an object with prompt, chosen and rejected"},
      {R"({"prompt": "a", "chosen": [{"role": "assistant", "content": "b"}], "rejected": "c"})",
       ":1: expected prompt, chosen and rejected as texts, got messages, for which the model has no chat "
       "template"},
      {"{", ":1: "}};
  for (const auto& [line, message] : wrong) {
    r.data.train = written(std::string(line) + "\n");
    EXPECT_THAT(refusal(r), HasSubstr("pairs.jsonl" + std::string(message)));
  }
}

TEST_F(PreferenceTest, HoldsOutPromptsWhole) {
  Recipe r = recipe("dpo", 1);
  r.eval.every = 1;
  r.data.dev_share = 0.2;
  const std::string more = R"({"prompt": "Say hello", "chosen": " Hi!", "rejected": " No."})";
  r.data.train = written(more + "\n" + read_file(kFixture / "data.jsonl") + more + "\n");
  run(r);  // the last prompt has 3 of 8 pairs
  EXPECT_EQ(log_line(0).required_integer("pairs"), 5);
  r.data.train = written(more + "\n");
  EXPECT_THAT(refusal(r), HasSubstr("data.dev_share: expected pairs of at least 2 prompts, got 1"));
}

TEST_F(PreferenceTest, OfMessagesLearnTheirLastAnswers) {
  const fs::path chat = fs::path(HEED_FIXTURES) / "train" / "conversations";
  const std::string system = R"({"role": "system", "content": "s"})",
                    user = R"({"role": "user", "content": "u"})",
                    good = R"({"role": "assistant", "content": "yes"})",
                    bad = R"({"role": "assistant", "content": "no, no"})";
  const std::string forms[] = {
      fmt::format(R"({{"prompt": [{0}, {1}], "chosen": [{2}], "rejected": [{3}]}})", system, user, good, bad),
      fmt::format(R"({{"chosen": [{0}, {1}, {2}], "rejected": [{0}, {1}, {3}]}})", system, user, good, bad),
      fmt::format(R"({{"system": "s", "prompt": "u", "chosen": [{1}, {2}], "rejected": [{1}, {3}]}})", system,
                  user, good, bad),
      fmt::format(R"({{"prompt": [{0}, {1}], "chosen": "yes", "rejected": "no, no"}})", system, user)};
  std::vector<double> losses;
  for (const std::string& form : forms) {
    Recipe r = recipe("simpo", 1);
    r.data.train = written(form + "\n");
    fs::remove_all(folder_ / "run");
    TrainOptions o = options();
    o.init = chat;
    train(r, o);
    losses.push_back(log_line(0).required_number("loss"));
    EXPECT_EQ(losses.back(), losses.front()) << form;
  }
}

TEST_F(PreferenceTest, SettingsOfOtherLossesAreRefused) {
  const auto refused = [&](const std::string& loss, const char* key, const auto& change) {
    Recipe r = recipe(loss, 1);
    r.given[key] = "recipe";
    change(r);
    return refusal(r);
  };
  const auto nothing = [](Recipe&) {};
  EXPECT_THAT(refused("orpo", "task.beta", nothing),
              HasSubstr("task.beta: expected task.loss = dpo, ipo or simpo, got orpo"));
  EXPECT_THAT(refused("dpo", "task.gamma", nothing),
              HasSubstr("task.gamma: expected task.loss = simpo, got dpo"));
  EXPECT_THAT(refused("dpo", "task.lambda", nothing),
              HasSubstr("task.lambda: expected task.loss = orpo, got dpo"));
  EXPECT_THAT(refused("simpo", "task.reference", nothing),
              HasSubstr("task.reference: expected task.loss = dpo or ipo, got simpo"));
  EXPECT_THAT(refused("ipo", "train.lr", [](Recipe& r) { r.train.label_smoothing = 0.1; }),
              HasSubstr("train.label_smoothing: expected 0 with task.loss = ipo, got 0.1"));
  EXPECT_THAT(refused("dpo", "train.lr", [](Recipe& r) { r.data.longer = "split"; }),
              HasSubstr("data.longer: expected truncate or skip for the task preference, got split"));
  EXPECT_THAT(refused("dpo", "model.family", nothing),
              HasSubstr("model.family: the task preference trains a model that there is (--init)"));
  EXPECT_THAT(error_of([&] { train(recipe("dpo", 1), {.output = folder_ / "none"}); }),
              HasSubstr("expected a model to train (--init), got none for \"preference\""));
  Recipe r = recipe("dpo", 1);
  r.task.reference = (folder_ / "nowhere").string();
  EXPECT_THAT(refusal(r), HasSubstr("nowhere"));
  r.task.reference = kFixture / "gpt2";
  EXPECT_THAT(refusal(r), HasSubstr("expected a tokenizer of at most 512 tokens"));
  r.task.reference.clear();
  r.eval.metric = "bleu";
  EXPECT_THAT(refusal(r), HasSubstr("margin"));
}

}  // namespace
}  // namespace heed
