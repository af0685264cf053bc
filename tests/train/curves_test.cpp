// Ten steps of every task from given weights follow PyTorch's (tests/fixtures/train/curves): tokenization,
// labels, batches, loss, clipping, learning rates and AdamW together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/ops/shape.h"
#include "heed/train/train.h"
#include "reference/json.h"
#include "reference/tensors.h"
#include "run_folder.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = HEED_FIXTURES;
const fs::path kCurves = kFixtures / "train" / "curves";

class CurvesTest : public FolderTest {
 protected:
  static Recipe recipe(const std::string& kind, const std::string& file) {
    Recipe r;
    r.task.kind = kind;
    r.data.train = kCurves / file;
    r.data.text_column = 2;
    r.train.steps = 10;
    r.train.lr = 2e-3;
    r.train.warmup = 3;
    r.train.schedule = "linear";
    r.train.clip_norm = 1;
    r.train.weight_decay = 0.1;
    r.train.betas = {0.9, 0.99};
    r.train.eps = 1e-8;
    r.eval.every = 0;
    r.checkpoint.every = 100;
    return r;
  }
  void expect_curve(const std::string& name, const Recipe& r, const fs::path& init) const {
    train(r, {.output = folder_ / "run", .init = init});
    const auto expected = read_json(kCurves / "expected.json");
    const auto losses = expected.at("losses").at(name).get<std::vector<double>>();
    const std::vector<std::string> lines = log_lines(folder_ / "run");
    ASSERT_GE(lines.size(), losses.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double loss = Config::parse(lines[i], "log.jsonl").required_number("loss");
      EXPECT_NEAR(loss, losses[i], 1e-4 * std::max(1.0, losses[i])) << "step " << i + 1;
    }
  }
  // A model of a fixture with other files in its folder.
  fs::path copy(const fs::path& model) const {
    fs::copy(model, folder_ / "model");
    return folder_ / "model";
  }
};

TEST_F(CurvesTest, ClassificationOfPairs) {
  Recipe r = recipe("classification", "single.tsv");
  r.data.label_column = 1;
  r.data.pair_column = 3;
  expect_curve("single-label", r, kFixtures / "encoders" / "bert-classify");
}

TEST_F(CurvesTest, ClassificationWithSeveralLabels) {
  Recipe r = recipe("classification", "multi.tsv");
  r.task.problem = "multi-label";
  expect_curve("multi-label", r, kFixtures / "encoders" / "bert-classify");
}

TEST_F(CurvesTest, Regression) {
  Recipe r = recipe("classification", "regression.tsv");
  r.task.problem = "regression";
  const fs::path model = copy(kFixtures / "encoders" / "bert-classify");
  std::vector<NamedTensor> tensors;
  for (auto& [name, tensor] : read_tensors(model / "model.safetensors")) {
    const bool of_head = name.starts_with("classifier.");
    tensors.push_back({name, of_head ? slice(tensor, 0, 0, 1).contiguous() : tensor.clone()});
  }
  save_safetensors(model / "model.safetensors", tensors);
  auto config = read_json(model / "config.json");
  config["id2label"] = {{"0", "LABEL_0"}};
  config["label2id"] = {{"LABEL_0", 0}};
  write_file(model / "config.json", config.dump());
  expect_curve("regression", r, model);
}

TEST_F(CurvesTest, Tagging) {
  expect_curve("tagging", recipe("tagging", "words.conll"), kFixtures / "encoders" / "bert-tag");
}

TEST_F(CurvesTest, Answers) {
  expect_curve("answers", recipe("answers", "squad.json"), kFixtures / "encoders" / "bert-qa");
}

TEST_F(CurvesTest, MaskedLm) {
  Recipe r = recipe("masked-lm", "lines.txt");
  r.task.context = 32;
  r.task.mask_probability = 0.4;
  r.data.documents = "line";
  expect_curve("masked-lm", r, kFixtures / "encoders" / "bert-mlm");
}

TEST_F(CurvesTest, CausalLm) {
  Recipe r = recipe("causal-lm", "lines.txt");
  r.task.context = 16;
  r.data.documents = "line";
  const fs::path model = copy(kFixtures / "decoders" / "gpt2");
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy(kFixtures / "bart" / file, model / file);
  expect_curve("causal-lm", r, model);
  fs::remove_all(folder_ / "run");
  r.task.cross_documents = false;
  expect_curve("documents", r, model);
}

}  // namespace
}  // namespace heed
