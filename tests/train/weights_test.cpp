// Weights of labels and of examples in the loss, and learning rates by layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/ops/loss.h"
#include "tasks_fixture.h"
#include "train/tasks/labeled_task.h"

namespace heed {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

// torch 2.15: F.cross_entropy(x, y, weight=w), ignore_index -100, and its gradient.
TEST(WeightedSum, IsPyTorchsWeightedCrossEntropy) {
  const Tensor x = Tensor::from(
      std::vector<float>{0.5F, -1, 2, 1.5F, 0.25F, -0.5F, -0.75F, 1, 0, 0.1F, 0.2F, 0.3F}, {4, 3});
  Tensor logits = x;
  logits.set_requires_grad();
  const Tensor labels = Tensor::from(std::vector<std::int64_t>{2, 0, -100, 1}, {4});
  const Tensor losses = cross_entropy(logits, labels, {.reduction = Reduction::none});
  const SummedLoss loss = weighted_sum(losses, labels, {2, 0.5, 1.25}, {});
  EXPECT_DOUBLE_EQ(*loss.weight, 3.75);
  const Tensor mean = loss.sum * (1 / *loss.weight);
  EXPECT_NEAR(mean.item(), 0.415070503950119, 1e-6);
  mean.backward();
  const std::vector<float> expected{
      0.0584301315F, 0.0130375242F,  -0.0714676604F, -0.15823257F, 0.10746818F, 0.0507643782F, 0, 0, 0,
      0.0400812812F, -0.0890366733F, 0.0489553884F};
  const std::vector<float> gradient = logits.grad().to_vector<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(gradient[i], expected[i], 1e-6) << i;
}

TEST(ClassWeights, BalancedOnesAreThoseOfScikitLearn) {
  const std::map<std::string, std::int64_t> counts{{"a", 6}, {"b", 2}};
  EXPECT_THAT(class_weights({.balanced = true}, {"a", "b", "c"}, counts),
              ElementsAre(DoubleNear(8.0 / 12, 1e-12), 2, 1));
  EXPECT_THAT(class_weights({.labels = {{"b", 3}}}, {"a", "b"}, counts), ElementsAre(1, 3));
  EXPECT_THAT(error_of([&] {
                class_weights({.labels = {{"d", 3}}}, {"a", "b"}, counts);
              }),
              HasSubstr("task.class_weights: expected one of the labels of training (a, b), got \"d\""));
}

class WeightsTest : public TasksTest {
 protected:
  // The losses of the first steps, all rows in one batch.
  std::vector<double> losses_of(Recipe r) {
    r.train.batch_tokens = 4096;
    r.eval.every = 0;
    r.eval.metric = "loss";
    std::vector<double> losses;
    TrainOptions options{.output = folder_ / "run"};
    options.on_progress = [&](const ProgressEvent& e) { losses.push_back(e.loss); };
    train(r, options);
    std::filesystem::remove_all(folder_ / "run");
    return losses;
  }
  Recipe table(const std::string& rows) {
    Recipe r = classification(3);
    r.data.format = "tsv";
    write_file(folder_ / "rows.tsv", rows);
    r.data.train = r.data.dev = folder_ / "rows.tsv";
    r.train.lr = 1e-3;
    r.train.warmup = 0;
    return r;
  }
};

TEST_F(WeightsTest, AnExampleOfWeightTwoIsTwoExamples) {
  Recipe by_label = table("x\tone\ny\ttwo\nx\tone two\n");
  train(by_label, {.output = folder_ / "first"});  // for its tokenizer
  by_label.tokenizer = {.from = folder_ / "first"};
  by_label.task.class_weights.labels = {{"y", 2}};
  const std::vector<double> expected = losses_of(by_label);
  Recipe weighted = table("x\tone\t1\ny\ttwo\t2\nx\tone two\t1\ny\ttwo one\t0\n");
  weighted.tokenizer = by_label.tokenizer;
  weighted.data.weight_column = 3;
  const std::vector<double> got = losses_of(weighted);
  Recipe repeated = table("x\tone\ny\ttwo\ny\ttwo\nx\tone two\n");
  repeated.tokenizer = by_label.tokenizer;
  const std::vector<double> twice = losses_of(repeated);
  ASSERT_EQ(expected.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
    EXPECT_NEAR(twice[i], expected[i], 1e-5) << i;
  }
  EXPECT_GT(got[0], 0.3);
  write_file(folder_ / "rows.tsv", "x\tone\t1\ny\ttwo\tmany\n");
  EXPECT_THAT(error_of([&] { losses_of(weighted); }),
              HasSubstr("rows.tsv:2: expected a weight of at least 0, got \"many\""));
}

TEST_F(WeightsTest, WeightsOfOneChangeNothingInAnyProblem) {
  for (Recipe recipe : {regression(3), several_labels(3), classification(3)}) {
    recipe.data.format = "jsonl";
    std::string lines, plain;
    for (const char* line : {R"({"text": "one", "label": "1")", R"({"text": "two", "label": "2")",
                             R"({"text": "three one", "label": "1")"}) {
      lines += std::string(line) + R"(, "importance": 1})"
                                   "\n";
    }
    write_file(folder_ / "rows.jsonl", lines);
    recipe.data.train = recipe.data.dev = folder_ / "rows.jsonl";
    const std::vector<double> expected = losses_of(recipe);
    recipe.data.weight_key = "importance";
    const std::vector<double> got = losses_of(recipe);
    ASSERT_EQ(got.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << recipe.task.problem << i;
  }
}

TEST_F(WeightsTest, WordsAndImagesHaveWeightsOfTheirLabels) {
  for (Recipe recipe : {tagging(3), images(3), changed_images(3)}) {
    SCOPED_TRACE(recipe.task.kind);
    recipe.train.label_smoothing = 0;
    const std::vector<double> plain = losses_of(recipe);
    recipe.task.class_weights.labels = {{recipe.task.kind == "tagging" ? "O" : "red", 1}};
    const std::vector<double> same = losses_of(recipe);
    recipe.task.class_weights = {.balanced = true};
    const std::vector<double> balanced = losses_of(recipe);
    ASSERT_EQ(plain.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(same[i], plain[i], 1e-5);
    if (recipe.task.kind == "tagging") {
      EXPECT_NE(balanced[0], plain[0]);
    }
  }
}

TEST_F(WeightsTest, LayersLearnAtTheirOwnRates) {
  Recipe recipe = classification(2);
  const std::vector<double> one_rate = losses_of(recipe);
  recipe.train.layer_decay = 0.5;
  const std::vector<double> own_rates = losses_of(recipe);
  EXPECT_EQ(one_rate[0], own_rates[0]);
  EXPECT_NE(one_rate[1], own_rates[1]);
}

TEST_F(WeightsTest, ARateForNewModelsIsToldOfTrainedOnes) {
  Recipe recipe = classification(1);
  std::string said;
  TrainOptions options{.output = folder_ / "first"};
  options.on_message = [&](const std::string& message) { said += message + "\n"; };
  train(recipe, options);
  EXPECT_THAT(said, testing::Not(HasSubstr("warning: train.lr")));
  options.init = options.output;
  options.output = folder_ / "second";
  train(recipe, options);
  EXPECT_THAT(said, HasSubstr("warning: train.lr is 0.003, and the run starts from a trained model"));
  said.clear();
  apply_override(recipe, "train.lr=0.003");
  options.output = folder_ / "third";
  train(recipe, options);
  EXPECT_THAT(said, testing::Not(HasSubstr("warning: train.lr")));
}

TEST_F(WeightsTest, WeightsAreReadFromARecipe) {
  write_file(folder_ / "r.toml",
             "[task]\nkind = \"classification\"\nclass_weights = { good = 2, bad = 0.5 }\n");
  Recipe r = load_recipe(folder_ / "r.toml");
  EXPECT_EQ(r.task.class_weights.labels, (std::map<std::string, double>{{"bad", 0.5}, {"good", 2}}));
  EXPECT_EQ(recipe_values(r).at("task.class_weights"), "{ \"bad\" = 0.5, \"good\" = 2 }");
  apply_override(r, "task.class_weights=balanced");
  EXPECT_TRUE(r.task.class_weights.balanced && r.task.class_weights.labels.empty());
  EXPECT_THAT(error_of([&] { apply_override(r, "task.class_weights=even"); }),
              HasSubstr("expected \"balanced\", or a table of labels and weights of at least 0, got"));
  r.data.train = "x";
  r.train.steps = 1;
  r.eval.every = 0;
  r.train.label_smoothing = 0.1;
  EXPECT_THAT(error_of([&] { validate_recipe(r); }), HasSubstr("task.class_weights, train.label_smoothing"));
  r.task.problem = "multi-label";
  EXPECT_THAT(error_of([&] { validate_recipe(r); }), HasSubstr("task.class_weights: expected task.problem"));
}

}  // namespace
}  // namespace heed
