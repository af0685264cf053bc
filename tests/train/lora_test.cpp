// Training of adapters: every kind of task from a model of its own, resumed runs, dropout, and recipes that
// do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/tasks/classify.h"
#include "heed/train/checkpoint.h"
#include "heed/train/train.h"
#include "reference/error.h"
#include "run_folder.h"

namespace heed {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAdapter = "adapter_model.safetensors";

class LoraTraining : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string labeled, text, tagged;
    for (const char* thing : {"film", "book", "song", "play", "game", "show", "meal", "trip"}) {
      labeled += std::string("good a fine ") + thing + "\nbad a poor " + thing + "\n";
      text += std::string("a fine ") + thing + "\n\na poor " + thing + "\n\n";
      tagged += std::string("a\tO\nfine\tO\n") + thing + "\tB-THING\n\n";
    }
    write_file(folder_ / "labeled.txt", labeled);
    write_file(folder_ / "text.txt", text);
    write_file(folder_ / "words.conll", tagged);
  }
  Recipe recipe(const std::string& kind, std::int64_t steps) const {
    Recipe r;
    r.task.kind = kind;
    r.train.steps = steps;
    r.eval.every = steps;
    r.train.warmup = 2;
    r.train.lr = 1e-2;
    r.train.batch_tokens = 256;
    r.checkpoint.every = 4;
    r.eval.bleu = false;
    if (kind == "reverse") {
      r.task.pairs = 100;
      r.tokenizer.vocab_size = 36;
      r.model.d_model = 32;
      r.model.encoder_layers = r.model.decoder_layers = 1;
      r.model.heads = 2;
      r.model.ffn = 64;
      return r;
    }
    r.tokenizer.vocab_size = 150;
    r.task.context = 16;
    r.data.train = r.data.dev = folder_ / (kind == "classification" ? "labeled.txt"
                                           : kind == "tagging"      ? "words.conll"
                                                                    : "text.txt");
    if (kind == "classification") r.data.format = "labelled";
    if (kind == "classification" || kind == "tagging") r.eval.metric = kind == "tagging" ? "f1" : "accuracy";
    if (kind == "masked-lm") r.data.documents = "paragraph";
    if (kind == "causal-lm") {
      r.tokenizer.type = "character";
      r.model.settings = {{"n_embd", "32"}, {"n_layer", "1"}, {"n_head", "2"}, {"n_positions", "32"}};
    } else {
      r.model.settings = {{"hidden_size", "32"},        {"num_hidden_layers", "1"},
                          {"num_attention_heads", "2"}, {"intermediate_size", "64"},
                          {"hidden_dropout_prob", "0"}, {"max_position_embeddings", "32"}};
    }
    return r;
  }
  Recipe adapted(const std::string& kind, std::int64_t steps, const ModuleTargets& targets) const {
    Recipe r = recipe(kind, steps);
    r.model = {};
    r.lora = {.rank = 4, .dropout = 0.1, .targets = targets};
    return r;
  }
  // A trained model of a kind of task.
  std::filesystem::path base(const std::string& kind) const {
    if (!std::filesystem::exists(folder_ / kind)) train(recipe(kind, 4), {.output = folder_ / kind});
    return folder_ / kind;
  }
  // A run that is stopped twice ends with the bytes of an unbroken one, and leaves its base as it was.
  void expect_resumes(const Recipe& r, const std::filesystem::path& init) const {
    SCOPED_TRACE(r.task.kind);
    const std::string before = weights(init);
    const std::filesystem::path straight = folder_ / "straight", broken = folder_ / "broken";
    train_twice(r, straight, broken, init);
    EXPECT_EQ(read_file(straight / kAdapter), read_file(broken / kAdapter));
    EXPECT_EQ(weights(init), before);
    EXPECT_FALSE(std::filesystem::exists(straight / "model.safetensors"));
    EXPECT_NO_THROW(load_model(init, DType::f32, {{straight}}));
    std::filesystem::remove_all(straight);
    std::filesystem::remove_all(broken);
  }
};

TEST_F(LoraTraining, StoppedAndResumedEqualsUnbroken) {
  const ModuleTargets bert{.names = {"query", "value"}};
  expect_resumes(adapted("classification", 9, bert), base("masked-lm"));
  expect_resumes(adapted("tagging", 9, {.names = {"query", "word_embeddings"}}), base("masked-lm"));
  expect_resumes(adapted("masked-lm", 9, {.expression = "all-linear"}), base("masked-lm"));
  expect_resumes(adapted("causal-lm", 9, {.names = {"c_attn"}}), base("causal-lm"));
  expect_resumes(adapted("reverse", 9, {.names = {"q_proj", "v_proj"}}), base("reverse"));
}

TEST_F(LoraTraining, GradientCheckpointingKeepsTheBits) {
  Recipe r = adapted("classification", 5, {.names = {"query", "value"}});
  EXPECT_GT(r.lora.dropout, 0);
  train(r, {.output = folder_ / "kept", .init = base("masked-lm")});
  r.train.gradient_checkpointing = true;
  train(r, {.output = folder_ / "again", .init = base("masked-lm")});
  EXPECT_EQ(read_file(folder_ / "kept" / kAdapter), read_file(folder_ / "again" / kAdapter));
}

TEST_F(LoraTraining, LearnsLabelsThatTheBaseDoesNotHave) {
  Recipe r = adapted("classification", 60, {.names = {"query", "key", "value", "dense"}});
  r.lora.dropout = 0;
  r.checkpoint.average = 2;
  r.checkpoint.average_of = "last";
  const TrainResult result = train(r, {.output = folder_ / "run", .init = base("masked-lm")});
  EXPECT_EQ(result.evaluation->metric("accuracy").value(), 100.0);
  const auto model = load_model(base("masked-lm"), DType::f32, {{folder_ / "run"}});
  const auto& classifier = dynamic_cast<const EncoderModel&>(*model);
  EXPECT_EQ(classifier.labels(), (std::vector<std::string>{"bad", "good"}));
  const std::vector<TextPair> texts{{"a fine film"}, {"a poor film"}};
  const auto labels = classify(classifier, *load_tokenizer(folder_ / "run"), texts, 1);
  EXPECT_EQ(labels.at(0).at(0).index, 1u);
  EXPECT_EQ(labels.at(1).at(0).index, 0u);
}

TEST_F(LoraTraining, OnlyTheAdapterAndTheHeadHaveAnOptimizerState) {
  const Recipe r = adapted("classification", 4, {.names = {"query"}});
  train(r, {.output = folder_ / "run", .init = base("masked-lm")});
  const TensorFiles state = TensorFiles::open(checkpoint_path(folder_ / "run", 4) / "optimizer.safetensors");
  const std::string query = "base_model.model.bert.encoder.layer.0.attention.self.query.lora_";
  std::vector<std::string> moments;
  for (const std::string& name : state.names()) {
    if (name.starts_with("m.")) moments.push_back(name.substr(2));
  }
  EXPECT_THAT(moments, testing::UnorderedElementsAre(query + "A.weight", query + "B.weight",
                                                     "base_model.model.bert.pooler.dense.weight",
                                                     "base_model.model.bert.pooler.dense.bias",
                                                     "base_model.model.classifier.weight",
                                                     "base_model.model.classifier.bias"));
}

TEST_F(LoraTraining, RefusesWhatDoesNotFit) {
  Recipe r = adapted("causal-lm", 4, {.names = {"c_attn"}});
  EXPECT_THAT(refusal_of(r, {}), HasSubstr("give --init MODEL"));
  r.lora.targets.names = {"c_atn"};
  EXPECT_THAT(refusal_of(r, base("causal-lm")), HasSubstr("did you mean c_attn?"));
  r.lora.targets = {};
  EXPECT_THAT(refusal_of(r, base("causal-lm")), HasSubstr("lora.targets: not set"));
  r = adapted("causal-lm", 4, {.names = {"c_attn"}});
  r.task.freeze = "*.ln_1.*";
  EXPECT_THAT(refusal_of(r, base("causal-lm")), HasSubstr("task.freeze: expected none beside [lora]"));
  r.task.freeze = "";
  r.lora.rank = 0;
  EXPECT_THAT(refusal_of(r, base("causal-lm")), HasSubstr("lora.rank: not set"));
  r.lora.rank = 2;
  train(r, {.output = folder_ / "adapter", .init = base("causal-lm")});
  EXPECT_THAT(refusal_of(r, folder_ / "adapter"), HasSubstr("expected a model, got a LoRA adapter"));
  EXPECT_ERROR(average_models({folder_ / "adapter"}, folder_ / "mean"),
               "expected a model to average, got an adapter");
}

}  // namespace
}  // namespace heed
