// Vectors and rerankers are trained as sentence-transformers does (tests/fixtures/train/comparison).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/nn/linear.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/tasks/embed.h"
#include "heed/train/checkpoint.h"
#include "reference/json.h"
#include "reference/tensors.h"
#include "run_folder.h"
#include "train/tasks/comparison_losses.h"
#include "train/tasks/embedding.h"
#include "train/tasks/reranking.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const fs::path kCases = fs::path(HEED_FIXTURES) / "train" / "comparison";

class ComparisonTest : public FolderTest {
 protected:
  static Recipe recipe(const std::string& kind, const std::string& file, std::int64_t steps) {
    Recipe r;
    r.task.kind = kind;
    r.data.train = kCases / file;
    r.train.batch_tokens = 4096;
    r.train.steps = steps;
    r.train.lr = 1e-3;
    r.train.schedule = "constant";
    r.train.warmup = 0;
    r.train.betas = {0.9, 0.999};
    r.train.eps = 1e-8;
    r.eval.every = 0;
    r.checkpoint.every = 100;
    return with_defaults(r);
  }
  static Recipe vectors(const std::string& file, const std::string& loss, std::int64_t steps) {
    Recipe r = recipe("embedding", file, steps);
    r.task.loss = loss;
    return r;
  }
  double loss_of_step(std::size_t step) const {
    return Config::parse(log_lines(folder_ / "run").at(step), "log.jsonl").required_number("loss");
  }
  // Six steps, and the gradient of the first, as the case says.
  template <class Task>
  void expect_case(const std::string& name, const Recipe& r, const fs::path& model) {
    SCOPED_TRACE(name);
    const auto& expected = expected_.at("cases").at(name);
    const auto& tolerances = expected.at("tolerances");
    fs::remove_all(folder_ / "run");
    train(r, {.output = folder_ / "run", .init = model});
    const auto losses = expected.at("training_losses").get<std::vector<double>>();
    for (std::size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(loss_of_step(step), losses[step],
                  std::max(tolerances.at("training_losses").at(step).get<double>(), 1e-6 * losses[step]))
          << step;
    }
    const TrainOptions options{.output = folder_ / "spilled", .init = model};
    fs::create_directories(options.output);
    Task task(r, options, {});
    Generator generator;
    Context context{.training = true, .generator = &generator};
    const SummedLoss loss = task.next_loss(context);
    loss.sum.backward();
    const auto tokens = static_cast<double>(loss.tokens);
    EXPECT_NEAR(loss.sum.item() / tokens, expected.at("loss").get<double>(),
                std::max(tolerances.at("loss").get<double>(), 1e-6 * losses[0]));
    const TensorMap gradients = read_tensors(kCases / "gradients.safetensors");
    const auto tolerance = tolerances.at("grad").get<double>();
    int compared = 0;
    for (const Parameter& p : task.parameters()) {
      const auto norm = expected.at("gradient_norms").find(p.name);
      if (norm == expected.at("gradient_norms").end()) continue;
      ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
      const Tensor gradient = p.tensor.grad() * (1 / tokens);
      EXPECT_NEAR(std::sqrt(sum_of_squares(gradient)), norm->get<double>(),
                  tolerance * std::sqrt(static_cast<double>(gradient.numel())))
          << p.name;
      const auto whole = gradients.find(name + "/" + p.name);
      if (whole == gradients.end()) continue;
      ++compared;
      const std::vector<float> got = gradient.to_vector<float>(), want = whole->second.to_vector<float>();
      for (std::size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], tolerance) << p.name << " " << i;
    }
    EXPECT_GE(compared, 20);
  }
  void expect_vectors(const std::string& name, const Recipe& r) {
    expect_case<EmbeddingTask>(name, r, kCases / "encoder");
  }
  nlohmann::json expected_ = read_json(kCases / "expected.json");
};

TEST_F(ComparisonTest, VectorsFollowSentenceTransformers) {
  expect_vectors("mnrl", vectors("mnrl.jsonl", "multiple-negatives", 6));
  expect_vectors("mnrl-hard", vectors("mnrl-hard.jsonl", "multiple-negatives", 6));
  Recipe r = vectors("mnrl.jsonl", "multiple-negatives", 6);
  r.task.symmetric = true;
  expect_vectors("mnrl-symmetric", r);
  r.task.symmetric = false;
  r.task.matryoshka = {48, 24, 12};
  expect_vectors("matryoshka", r);
  expect_vectors("cosent", vectors("cosent.jsonl", "cosent", 6));
  expect_vectors("cosine-similarity", vectors("cosent.jsonl", "cosine", 6));
}

// Mini-batches of two to four texts: the same up to rounding.
TEST_F(ComparisonTest, CachedGradientsAreThoseOfTheWholeBatch) {
  Recipe r = vectors("mnrl.jsonl", "multiple-negatives", 6);
  r.train.batch_tokens = 40;
  expect_vectors("mnrl-cached", r);
}

TEST(CachedLoss, HasTheGradientAndTheDropoutOfOneComputation) {
  const auto numbers = [](std::int64_t rows, float factor) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * 6; ++i)
      values.push_back(std::sin(factor * static_cast<float>(i + 1)));
    return Tensor::from(values, {rows, 6});
  };
  const Tensor inputs[] = {numbers(3, 0.7f), numbers(2, 1.3f), numbers(4, 2.1f)};
  const auto run = [&](bool cached) {
    Tensor weight = numbers(6, 0.3f).set_requires_grad();
    Generator generator(7);
    Context context{.training = true, .generator = &generator};
    const auto vectors = [&](std::size_t i) {
      return apply_dropout(matmul(inputs[i], apply_dropout(weight, 0.3, context)), 0.5, context);
    };
    const auto loss = [](const Tensor& v) {
      return multiple_negatives_loss(slice(v, 0, 0, 4), slice(v, 0, 4, 9), {});
    };
    const Tensor sum = cached ? cached_loss(3, vectors, loss, &generator)
                              : loss(concat({vectors(0), vectors(1), vectors(2)}, 0));
    sum.backward();
    return std::tuple(sum.item(), weight.grad(), generator.position());
  };
  const auto [whole, expected, end] = run(false);
  const auto [sum, gradient, position] = run(true);
  EXPECT_EQ(sum, whole);
  EXPECT_EQ(position, end);
  EXPECT_LE(relative_error(gradient, expected), 1e-6);
}

TEST(CosentLoss, OfEqualLabelsIsZero) {
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(cosent_loss(x, x, std::vector<float>{0.5f, 0.5f}, 20).item(), 0);
}

TEST_F(ComparisonTest, WhatIsSavedMakesTheSameVectors) {
  Recipe r = vectors("mnrl.jsonl", "multiple-negatives", 3);
  r.task.query_prompt = "question: ";
  r.data.dev = kCases / "mnrl.jsonl";
  r.eval.every = 3;
  const TrainResult result = train(r, {.output = folder_ / "run", .init = kCases / "encoder"});
  EXPECT_GT(result.evaluation->metric("mrr@10").value(), 30);
  EXPECT_EQ(result.evaluation->metric("recall@10").value(), 100);
  WeightOptions weights;
  weights.head = false;
  const auto model = load_model(folder_ / "run", weights);
  const EmbeddingRecipe saved = load_embedding_recipe(folder_ / "run", *model),
                        given = load_embedding_recipe(kCases / "encoder", *model);
  EXPECT_TRUE(saved.from_files);
  EXPECT_EQ(saved.poolings, given.poolings);
  EXPECT_EQ(saved.max_length, 40);
  EXPECT_EQ(saved.prompts.at("query"), "question: ");
  EXPECT_EQ(saved.prompt, "");
  EXPECT_EQ(saved.similarity, "cosine");
  const auto tokenizer = load_tokenizer(folder_ / "run");
  const std::vector<std::string> texts{"the train is late again today", "no trains"};
  EXPECT_EQ(embed(*model, *tokenizer, texts, saved).to_vector<float>(),
            embed(*model, *tokenizer, texts, given).to_vector<float>());

  average_models({folder_ / "run", folder_ / "run"}, folder_ / "mean");
  EXPECT_EQ(load_embedding_recipe(folder_ / "mean", *model).poolings, given.poolings);

  // Its scores are those of the vectors that it makes.
  r.data.test = r.data.dev;
  const Evaluation again = evaluate(r, {.init = folder_ / "run"});
  EXPECT_EQ(again.metric("mrr@10"), result.evaluation->metric("mrr@10"));
  EXPECT_EQ(again.loss, result.evaluation->loss);
  // Rows of one positive are no negatives of each other: they are in batches of their own, as in training.
  const std::string row =
      read_file(kCases / "mnrl.jsonl").substr(0, read_file(kCases / "mnrl.jsonl").find('\n') + 1);
  write_file(folder_ / "twice.jsonl", row + row);
  r.data.test = folder_ / "twice.jsonl";
  EXPECT_EQ(evaluate(r, {.init = folder_ / "run"}).loss, 0);
  r.data.test = r.data.dev;
  // A corpus of other texts makes the search harder, never easier; the positives among them count once.
  write_file(folder_ / "corpus.txt", "no trains\nthe train is late again today\nrain\n");
  r.data.corpus = folder_ / "corpus.txt";
  EXPECT_LE(evaluate(r, {.init = folder_ / "run"}).metric("mrr@10").value(), again.metric("mrr@10").value());
}

// Five steps, and a sixth that goes on from their checkpoint.
TEST_F(ComparisonTest, LayersBehindThePoolingFollowPyTorch) {
  const fs::path dense = kCases / "dense", model = folder_ / "model";
  fs::copy(kCases / "encoder", model, fs::copy_options::recursive);
  fs::copy(dense, model, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const nlohmann::json expected = read_json(dense / "expected.json");
  const auto losses = expected.at("training_losses").get<std::vector<double>>();
  const TensorMap tensors = read_tensors(dense / "gradients.safetensors");
  Recipe r = vectors("mnrl.jsonl", "multiple-negatives", 5);
  train(r, {.output = folder_ / "run", .init = model});
  const SavedWeights saved(folder_ / "run");
  for (const char* name :
       {"2_Dense/linear.weight", "2_Dense/linear.bias", "3_LayerNorm/norm.weight", "3_LayerNorm/norm.bias"}) {
    const std::vector<float> got = saved.get(name).to_vector<float>(),
                             want = tensors.at("after/" + std::string(name)).to_vector<float>();
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << name << " " << i;
  }
  r.train.steps = 6;
  train(r, {.output = folder_ / "run", .resume = true});
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(loss_of_step(step), losses[step], 1e-5 * losses[step]) << step;

  const TrainOptions options{.output = folder_ / "spilled", .init = model};
  fs::create_directories(options.output);
  EmbeddingTask task(r, options, {});
  Context context{.training = true};
  const SummedLoss loss = task.next_loss(context);
  loss.sum.backward();
  const auto norms = expected.at("gradient_norms").get<std::map<std::string, double>>();
  std::size_t compared = 0;
  for (const Parameter& p : task.parameters()) {
    const auto norm = norms.find(p.name);
    if (norm == norms.end()) continue;
    ++compared;
    const Tensor gradient = p.tensor.grad() * (1 / static_cast<double>(loss.tokens));
    // Those of keys' biases are 0 but for rounding.
    EXPECT_NEAR(std::sqrt(sum_of_squares(gradient)), norm->second, std::max(1e-4 * norm->second, 1e-6))
        << p.name;
    if (!tensors.contains(p.name)) continue;
    const std::vector<float> got = gradient.to_vector<float>(), want = tensors.at(p.name).to_vector<float>();
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * norm->second) << p.name << " " << i;
  }
  EXPECT_EQ(compared, norms.size());

  // The mean of models is that of these layers, too; the model that is written is the one that is scored.
  average_models({folder_ / "run", model}, folder_ / "mean");
  const auto weight = [](const fs::path& of) {
    return SavedWeights(of).get("2_Dense/linear.weight").to_vector<float>();
  };
  const std::vector<float> mean = weight(folder_ / "mean"), one = weight(folder_ / "run"),
                           other = weight(model);
  for (std::size_t i = 0; i < mean.size(); ++i) ASSERT_NEAR(mean[i], (one[i] + other[i]) / 2, 1e-6);
  r.data.dev = kCases / "mnrl.jsonl";
  r.eval.every = 6;
  const TrainResult result = train(r, {.output = folder_ / "again", .init = model});
  r.data.test = r.data.dev;
  EXPECT_EQ(evaluate(r, {.init = folder_ / "again"}).loss, result.evaluation->loss);
  r.task.freeze = "2_Dense/*";
  train(r, {.output = folder_ / "frozen", .init = model});
  EXPECT_EQ(weight(folder_ / "frozen"), other);
}

// With dropout, in mini-batches.
TEST_F(ComparisonTest, AResumedRunHasTheSameBits) {
  const fs::path model = folder_ / "model";
  fs::copy(kCases / "encoder", model, fs::copy_options::recursive);
  std::string config = read_file(model / "config.json");
  for (const char* key : {"\"attention_probs_dropout_prob\": 0.0", "\"hidden_dropout_prob\": 0.0"}) {
    const std::size_t at = config.find(key);
    ASSERT_NE(at, std::string::npos);
    config.replace(at + std::string(key).size() - 3, 3, "0.2");
  }
  write_file(model / "config.json", config);
  Recipe r = vectors("mnrl-hard.jsonl", "multiple-negatives", 8);
  r.train.batch_tokens = 60;
  r.train.batch_rows = 4;
  r.checkpoint.every = 4;
  train_twice(r, folder_ / "straight", folder_ / "broken", model);
  EXPECT_TRUE(weights(folder_ / "straight") == weights(folder_ / "broken"));
  EXPECT_TRUE(fs::exists(folder_ / "broken" / "1_Pooling" / "config.json"));
}

TEST_F(ComparisonTest, NewVectorsLearnPairs) {
  std::string rows;
  for (const char* thing : {"film", "book", "song", "play", "game", "show", "meal", "trip"})
    rows += fmt::format("a {0} is asked for\tthis is one {0}\n", thing);
  write_file(folder_ / "rows.tsv", rows);
  Recipe r = recipe("embedding", "mnrl.jsonl", 60);
  r.data.format = "tsv";
  r.data.train = r.data.dev = folder_ / "rows.tsv";
  r.model.settings = {{"hidden_size", "32"},
                      {"num_hidden_layers", "1"},
                      {"num_attention_heads", "2"},
                      {"intermediate_size", "64"},
                      {"max_position_embeddings", "64"},
                      {"hidden_dropout_prob", "0"},
                      {"attention_probs_dropout_prob", "0"}};
  r.tokenizer.vocab_size = 200;
  r.eval.every = 60;
  r.eval.metric = "mrr@10";
  EXPECT_EQ(train(r, {.output = folder_ / "run"}).evaluation->metric("recall@1").value(), 100);
}

TEST_F(ComparisonTest, AnAdapterIsTrained) {
  Recipe r = vectors("mnrl.jsonl", "multiple-negatives", 3);
  r.lora.rank = 4;
  r.lora.targets = {.names = {"query", "value"}};
  train(r, {.output = folder_ / "run", .init = kCases / "encoder"});
  EXPECT_TRUE(fs::exists(folder_ / "run" / "adapter_config.json"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "modules.json"));
  EXPECT_LT(loss_of_step(2), loss_of_step(0));
}

TEST_F(ComparisonTest, RefusesRowsThatTheLossCannotCompare) {
  const auto refused = [&](const std::string& rows, const std::string& loss) {
    write_file(folder_ / "rows.jsonl", rows);
    Recipe r = vectors("mnrl.jsonl", loss, 1);
    r.data.train = folder_ / "rows.jsonl";
    return refusal_of(r, kCases / "encoder");
  };
  const std::string pair = "{\"anchor\": \"a\", \"positive\": \"b\"}\n",
                    scored = "{\"text1\": \"a\", \"text2\": \"b\", \"score\": 1}\n";
  EXPECT_THAT(refused(pair + scored, "multiple-negatives"),
              HasSubstr("rows.jsonl:2: expected a positive without a score for task.loss = "
                        "\"multiple-negatives\", got a score"));
  EXPECT_THAT(
      refused(scored + pair, "cosent"),
      HasSubstr("rows.jsonl:2: expected two texts and a score for task.loss = \"cosent\", got no score"));
  Recipe r = vectors("mnrl.jsonl", "cosine", 1);
  r.task.symmetric = true;
  EXPECT_THAT(refusal_of(r, kCases / "encoder"),
              HasSubstr("task.symmetric: expected task.loss = \"multiple-negatives\" beside it, got cosine"));
  r = vectors("mnrl.jsonl", "multiple-negatives", 1);
  r.task.matryoshka = {64};
  EXPECT_THAT(refusal_of(r, kCases / "encoder"),
              HasSubstr("task.matryoshka: expected at most 48, the size of the model's vectors, got 64"));
  r.task.loss = "bce";
  EXPECT_THAT(
      refusal_of(r, kCases / "encoder"),
      HasSubstr("task.loss: expected multiple-negatives, cosent or cosine for the task embedding, got bce"));
}

TEST_F(ComparisonTest, RerankersFollowSentenceTransformers) {
  const std::pair<const char*, const char*> cases[] = {
      {"cross-bce", "bce"}, {"cross-list-net", "list-net"}, {"cross-lambda", "lambda"}};
  for (const auto& [name, loss] : cases) {
    Recipe r =
        recipe("reranking", loss == std::string("bce") ? "cross-bce.jsonl" : "cross-list-net.jsonl", 6);
    r.task.loss = loss;
    expect_case<RerankingTask>(name, r, kCases / "reranker");
  }
}

TEST_F(ComparisonTest, ARerankerRanksWhatItLearned) {
  Recipe r = recipe("reranking", "mnrl-hard.jsonl", 60);  // a positive and a negative for each query
  r.task.loss = "list-net";
  r.train.lr = 3e-3;
  r.data.dev = r.data.train;
  r.eval.every = 60;
  r.checkpoint.every = 4;
  r.eval.metric = "ndcg@10";
  const TrainResult result = train(r, {.output = folder_ / "run", .init = kCases / "encoder"});
  EXPECT_EQ(result.evaluation->metric("mrr@10").value(), 100);
  EXPECT_EQ(result.evaluation->metric("ndcg@10").value(), 100);
  const auto model = load_as<EncoderModel>(folder_ / "run");
  EXPECT_EQ(model->labels(), std::vector<std::string>{"LABEL_0"});
  EXPECT_EQ(model->score_activation(), Activation::sigmoid);
  r.train.steps = 8;
  r.eval.every = 8;
  train_twice(r, folder_ / "straight", folder_ / "broken", kCases / "encoder");
  EXPECT_TRUE(weights(folder_ / "straight") == weights(folder_ / "broken"));
}

// Lists of equal labels are no lists to learn an order from; held-out pairs of one query are ranked together.
TEST_F(ComparisonTest, CountsTheRowsOfRerankers) {
  const std::string
      list = "{\"query\": \"rain\", \"documents\": [\"sun\", \"wet weather\"], \"labels\": [0, 1]}\n",
      equal = "{\"query\": \"snow\", \"documents\": [\"sun\", \"a cat\"], \"labels\": [1, 1]}\n";
  write_file(folder_ / "rows.jsonl", list + equal + list);
  Recipe r = recipe("reranking", "cross-bce.jsonl", 2);
  r.task.loss = "lambda";
  r.data.dev = r.data.train;
  r.data.train = folder_ / "rows.jsonl";
  r.eval.every = 2;
  const TrainOptions options{.output = folder_ / "run", .init = kCases / "reranker"};
  EXPECT_GT(train(r, options).evaluation->metric("mrr@10").value(), 0);
  fs::create_directories(folder_ / "spilled");
  const TrainOptions again{.output = folder_ / "spilled", .init = kCases / "reranker"};
  const DataSummary data = RerankingTask(r, again, {}).data();
  for (const SetSummary& set : data.sets) {
    const bool training = set.name == "training";
    EXPECT_EQ(set.examples, training ? 3 : set.name == "development" ? 6 : 0);
    EXPECT_EQ(set.left_out, training ? 1 : 0);
    EXPECT_EQ(set.repeated, training ? 1 : 0);
  }
}

TEST_F(ComparisonTest, RefusesListsThatTheLossCannotRank) {
  const auto refused = [&](const std::string& rows, const std::string& loss) {
    write_file(folder_ / "rows.jsonl", rows);
    Recipe r = recipe("reranking", "cross-bce.jsonl", 1);
    r.task.loss = loss;
    r.data.train = folder_ / "rows.jsonl";
    return refusal_of(r, kCases / "reranker");
  };
  EXPECT_THAT(refused("{\"query\": \"a\", \"document\": \"b\", \"label\": 2}\n", "bce"),
              HasSubstr("rows.jsonl:1: expected labels from 0 to 1 for task.loss = \"bce\", got others"));
  EXPECT_THAT(
      refused("\n{\"query\": \"a\", \"document\": \"b\", \"label\": 1}\n", "list-net"),
      HasSubstr("rows.jsonl:2: expected a list of documents to rank for task.loss = \"list-net\", got one"));
}

}  // namespace
}  // namespace heed
