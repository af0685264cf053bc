// Encoders against the numbers of Hugging Face transformers, and of PyTorch for heed_transformer
// (tests/fixtures/encoders, see the case.json of each for the versions): outputs, hidden states, attentions
// and every gradient of every head, a training curve, other layouts of the same files, and what does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/fixture_adamw.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kEncoders = fs::path(HEED_FIXTURES) / "encoders";

std::unique_ptr<EncoderModel> load(const fs::path& directory, DType dtype = DType::f32) {
  std::unique_ptr<Model> model = load_model(directory, dtype);
  auto* encoder = dynamic_cast<EncoderModel*>(model.get());
  if (encoder == nullptr) throw Error("expected an encoder");
  (void)model.release();
  return std::unique_ptr<EncoderModel>(encoder);
}

EncoderBatch batch_of(const TensorMap& inputs) {
  const auto get = [&](const char* name) { return inputs.contains(name) ? inputs.at(name) : Tensor(); };
  return {inputs.at("input_ids"), get("attention_mask"), get("token_type_ids")};
}

// The labels as EncoderModel::loss takes them.
Tensor labels_of(const TensorMap& inputs) {
  if (inputs.contains("labels")) return inputs.at("labels");
  return stack({inputs.at("start_positions"), inputs.at("end_positions")}, 1);
}

// Fewest numbers besides gradients, and gradients, that a case must hold.
struct EncoderCase {
  const char* name;
  EncoderHead head;
  int outputs;
  int gradients;
};
const EncoderCase kEncoderCases[] = {
    {"bert", EncoderHead::none, 7, 0},
    {"bert-mlm", EncoderHead::masked_lm, 7, 42},
    {"bert-classify", EncoderHead::sequence, 7, 41},
    {"bert-tag", EncoderHead::token, 7, 39},
    {"bert-qa", EncoderHead::span, 8, 39},
    {"distilbert-mlm", EncoderHead::masked_lm, 7, 41},
    {"distilbert-classify", EncoderHead::sequence, 7, 40},
    {"distilbert-qa", EncoderHead::span, 8, 38},
    {"roberta-mlm", EncoderHead::masked_lm, 7, 42},
    {"roberta-classify", EncoderHead::sequence, 7, 41},
    {"camembert-tag", EncoderHead::token, 7, 39},
    {"xlm-roberta", EncoderHead::none, 7, 0},
    {"xlm-roberta-cross-encoder", EncoderHead::sequence, 7, 41},
    {"mpnet-mlm", EncoderHead::masked_lm, 7, 42},
    {"modernbert-mlm", EncoderHead::masked_lm, 11, 29},
    {"modernbert-classify", EncoderHead::sequence, 11, 30},
    {"deberta-v3-mlm", EncoderHead::masked_lm, 7, 43},
    {"deberta-v3-classify", EncoderHead::sequence, 7, 42},
    {"deberta-v3-mlm-new-head", EncoderHead::masked_lm, 7, 43},
    {"deberta-v2-convolution", EncoderHead::masked_lm, 7, 47},
    {"albert-mlm", EncoderHead::masked_lm, 11, 76},
    {"albert-classify", EncoderHead::sequence, 11, 43},
    {"transformer-encoder", EncoderHead::masked_lm, 7, 35},
};

class EncoderTest : public testing::TestWithParam<EncoderCase> {
 protected:
  fs::path directory = kEncoders / GetParam().name;
  std::unique_ptr<EncoderModel> model = load(directory);
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  Context context;

  // The gradient of a key bias is zero but for rounding: softmax ignores what all keys share.
  static bool is_rounding(const std::string& name) {
    return name.ends_with("key.bias") || name.ends_with("k_lin.bias") || name.ends_with("attn.k.bias");
  }

  // Every gradient of the file against the model's; differences of small ones count against a hundredth of
  // the largest.
  void expect_gradients() {
    double largest = 0;
    int wanted = 0, compared = 0;
    for (const auto& [name, tensor] : expected) {
      if (!name.starts_with("grad.")) continue;
      ++wanted;
      largest = std::max(largest, max(abs(reshape(tensor, {tensor.numel()})), 0).item());
    }
    for (const Parameter& p : model->parameters()) {
      const auto want = expected.find("grad." + p.name);
      if (want == expected.end()) continue;
      ++compared;
      ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
      if (is_rounding(p.name)) {
        EXPECT_LE(max(abs(p.tensor.grad()), 0).item(), 1e-6 * std::max(1.0, largest)) << p.name;
        continue;
      }
      const double own = max(abs(reshape(want->second, {p.tensor.numel()})), 0).item();
      const double share = own / std::max(own, 0.01 * largest);
      EXPECT_LE(share * relative_error(p.tensor.grad(), want->second), 2e-5) << p.name;
    }
    EXPECT_EQ(compared, GetParam().gradients);
    EXPECT_EQ(compared, wanted);
  }
};
INSTANTIATE_TEST_SUITE_P(All, EncoderTest, testing::ValuesIn(kEncoderCases), [](const auto& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(EncoderTest, OutputsAndGradientsEqualHuggingFace) {
  EXPECT_EQ(model->head(), GetParam().head);
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) continue;
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, GetParam().outputs);
  if (GetParam().gradients == 0) return;
  outputs.at("loss").backward();
  expect_gradients();
}

TEST_P(EncoderTest, TrainingLossEqualsThatOfTheForwardPass) {
  if (GetParam().gradients == 0) {
    EXPECT_THROW(model->predict(model->encode(batch_of(inputs), context), {}, context), Error);
    return;
  }
  const Tensor loss = model->loss(batch_of(inputs), labels_of(inputs), {}, context);
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  expect_gradients();
}

TEST_P(EncoderTest, SavedDirectoryLoadsWithTheSameNumbers) {
  const fs::path folder =
      fs::temp_directory_path() / ("heed_encoder_test_" + std::to_string(::getpid()) + "_" + GetParam().name);
  fs::create_directories(folder);
  model->save(folder);
  const NoGradients guard;
  const TensorMap before = model->forward(inputs, {}, context),
                  after = load(folder)->forward(inputs, {}, context);
  for (const auto& [name, tensor] : before)
    EXPECT_EQ(after.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
  const nlohmann::json was = nlohmann::json::parse(read_file(directory / "config.json")),
                       is = nlohmann::json::parse(read_file(folder / "config.json"));
  EXPECT_EQ(was, is);
  fs::remove_all(folder);
}

TEST_P(EncoderTest, WeightsHeldInBf16StayClose) {
  const NoGradients guard;
  const TensorMap outputs = load(directory, DType::bf16)->forward(inputs, {}, context);
  for (const auto& [name, tensor] : outputs)
    EXPECT_LE(relative_error(tensor, expected.at(name)), 0.1) << name;
}

struct BertTest : testing::Test {
  fs::path directory = kEncoders / "bert-mlm";
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  fs::path folder = fs::temp_directory_path() / ("heed_bert_test_" + std::to_string(::getpid()));
  Context context;

  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  // The model of `directory` with another config.json.
  std::unique_ptr<EncoderModel> load_with(const nlohmann::json& changes, const fs::path& from) {
    nlohmann::json config = nlohmann::json::parse(read_file(from / "config.json"));
    config.update(changes);
    std::ofstream(folder / "config.json") << config;
    fs::copy_file(from / "model.safetensors", folder / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    return load(folder);
  }
  std::string error_of(const nlohmann::json& changes) {
    try {
      load_with(changes, directory);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(BertTest, FirstCheckpointsLayoutGivesTheSameNumbers) {
  const NoGradients guard;
  const auto model = load(directory / "hub_layout");
  EXPECT_LE(relative_error(model->forward(inputs, {}, context).at("logits"), expected.at("logits")), 1e-5);
}

TEST_F(BertTest, ConfigOfEarlierVersionsGivesTheSameModel) {
  const NoGradients guard;
  for (const char* name :
       {"bert-mlm", "roberta-mlm", "xlm-roberta-cross-encoder", "mpnet-mlm", "modernbert-mlm",
        "modernbert-classify", "deberta-v3-mlm", "deberta-v3-classify", "deberta-v3-mlm-new-head"}) {
    const fs::path from = kEncoders / name;
    const auto model = load_with(nlohmann::json::parse(read_file(from / "config_hub_style.json")), from);
    const TensorMap outputs = model->forward(read_tensors(from / "inputs.safetensors"), {}, context);
    EXPECT_LE(relative_error(outputs.at("logits"), read_tensors(from / "expected.safetensors").at("logits")),
              1e-5);
  }
}

// A bare model takes the body of a file with a head, and has a pooler only where the file has one.
TEST_F(BertTest, BareModelReadsTheBodyBelowAHead) {
  const NoGradients guard;
  inputs.erase("labels");
  for (const char* from : {"", "hub_layout"}) {
    const auto model = load_with({{"architectures", {"BertModel"}}}, directory / from);
    const TensorMap outputs = model->forward(inputs, {}, context);
    EXPECT_LE(relative_error(outputs.at("last_hidden_state"), expected.at("hidden_states.2")), 1e-5);
    EXPECT_EQ(outputs.contains("pooler_output"), *from != '\0');
  }
}

// sentence-transformers saves a body alone beside a config that names a head.
TEST_F(BertTest, VectorsNeedNoHead) {
  const NoGradients guard;
  const fs::path from = kEncoders / "mpnet-mlm";
  std::vector<NamedTensor> body;
  for (const auto& [name, tensor] : read_tensors(from / "model.safetensors")) {
    if (name.starts_with("mpnet.")) body.push_back({name.substr(6), tensor});
  }
  fs::copy_file(from / "config.json", folder / "config.json");
  save_safetensors(folder / "model.safetensors", body);
  EXPECT_THROW(load_model(folder), Error);
  const auto model = load_model_body(folder);
  inputs = read_tensors(from / "inputs.safetensors");
  inputs.erase("labels");
  EXPECT_LE(relative_error(model->forward(inputs, {}, context).at("last_hidden_state"),
                           read_tensors(from / "expected.safetensors").at("hidden_states.2")),
            1e-5);
}

TEST_F(BertTest, TenStepsOfAdamWFollowPyTorch) {
  const auto model = load(directory);
  const auto training = nlohmann::json::parse(read_file(directory / "training.json"));
  FixtureAdamW optimizer(*model, training.at("settings"));
  for (std::size_t step = 0; step < 10; ++step) {
    const Tensor loss = model->loss(batch_of(inputs), inputs.at("labels"), {}, context);
    const double want = training.at("losses").at(step);
    EXPECT_NEAR(loss.item(), want, 1e-5 * want) << "step " << step;
    loss.backward();
    optimizer.step();
  }
}

TEST_F(BertTest, SequenceLossesFollowTheProblemType) {
  const fs::path from = kEncoders / "bert-classify";
  const TensorMap all = read_tensors(from / "inputs.safetensors");
  const Tensor logits = read_tensors(from / "expected.safetensors").at("logits");  // [3, 3]
  const std::vector<float> x = logits.to_vector<float>(), y{1, 0, 1, 0, 0, 0, 1, 1, 0};
  double binary = 0, square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(x[i])));
    binary -= (y[i] > 0 ? std::log(p) : std::log(1 - p)) / 9;
    square += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2) / 9;
  }
  TensorMap given = all;
  given["labels"] = Tensor::from(y, {3, 3});
  const auto loss = [&](const nlohmann::json& changes) {
    return load_with(changes, from)->forward(given, {}, context).at("loss").item();
  };
  EXPECT_NEAR(loss(nlohmann::json::object()), binary, 1e-5);  // by the labels' type
  EXPECT_NEAR(loss({{"problem_type", "multi_label_classification"}}), binary, 1e-5);
  EXPECT_NEAR(loss({{"problem_type", "regression"}}), square, 1e-4);
  EXPECT_THROW(loss({{"problem_type", "single_label_classification"}}), Error);
}

// transformers stores a bias that nothing adds, and misses it where it is not there.
TEST(EncoderConfig, UntiedHeadsSaveBothBiases) {
  const auto folder = fs::temp_directory_path() / ("heed_encoder_test_" + std::to_string(::getpid()));
  for (const auto& [family, bias] :
       {std::pair("bert", "cls.predictions.bias"), std::pair("roberta", "lm_head.bias"),
        std::pair("albert", "predictions.bias")}) {
    const nlohmann::json config = {{"model_type", family},
                                   {"architectures", {"XForMaskedLM"}},
                                   {"vocab_size", 20},
                                   {"hidden_size", 8},
                                   {"num_hidden_layers", 1},
                                   {"num_attention_heads", 2},
                                   {"intermediate_size", 8},
                                   {"embedding_size", 8},
                                   {"max_position_embeddings", 12},
                                   {"tie_word_embeddings", false}};
    auto known = config;
    if (std::string(family) != "albert") known.erase("embedding_size");
    Generator generator(1);
    fs::create_directories(folder);
    make_model(Config::parse(known.dump(), "config.json"), generator)->save(folder);
    const auto saved = read_tensors(folder / "model.safetensors");
    std::string used = bias;
    used.insert(used.rfind("bias"), "decoder.");
    EXPECT_TRUE(saved.contains(bias)) << bias;
    EXPECT_TRUE(saved.contains(used)) << used;
    EXPECT_NO_THROW(load(folder));
    fs::remove_all(folder);
  }
}

TEST_F(BertTest, RefusesWhatItCannotRun) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of({{"architectures", {"BertForSequenceClassification"}}}),
              HasSubstr("the head of BertForSequenceClassification"));
  EXPECT_THAT(error_of({{"architectures", {"BertForTokenClassification"}}}),
              HasSubstr("the head of BertForTokenClassification"));
  EXPECT_THAT(error_of({{"architectures", {"BertLMHeadModel"}}}), HasSubstr("ForMaskedLM"));
  EXPECT_THAT(error_of({{"position_embedding_type", "relative_key"}}), HasSubstr("absolute"));
  EXPECT_THAT(error_of({{"is_decoder", true}}), HasSubstr("is_decoder"));
  EXPECT_THAT(error_of({{"num_attention_heads", 5}}), HasSubstr("divides"));
  EXPECT_THAT(error_of({{"pad_token_id", 700}}), HasSubstr("pad_token_id"));
  EXPECT_THAT(error_of({{"hidden_size", 40}}), HasSubstr("word_embeddings"));
  const nlohmann::json reranker = {{"architectures", {"BertForSequenceClassification"}},
                                   {"id2label", {{"0", "relevant"}}},
                                   {"sentence_transformers", {{"activation_fn", "torch.nn.Softplus"}}}};
  EXPECT_THAT(error_of(reranker), HasSubstr("sentence_transformers: expected Identity or Sigmoid"));
}

TEST_F(BertTest, RefusesConvolutionsThatNoModelHas) {
  const auto error_of = [&](const nlohmann::json& changes) -> std::string {
    try {
      load_with(changes, kEncoders / "deberta-v2-convolution");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  using testing::HasSubstr;
  EXPECT_THAT(error_of({{"conv_kernel_size", 4}}), HasSubstr("an odd number of tokens"));
  EXPECT_THAT(error_of({{"conv_kernel_size", 99999999}}), HasSubstr("an odd number of tokens"));
  EXPECT_THAT(error_of({{"conv_kernel_size", 5}}), HasSubstr("conv.weight"));
  EXPECT_THAT(error_of({{"conv_groups", 2}}), HasSubstr("conv_groups"));
}

TEST_F(BertTest, RefusesInputsThatDoNotFit) {
  const auto model = load(directory);
  const auto refuses = [&](const char* name, const Tensor& tensor) {
    TensorMap bad = inputs;
    bad[name] = tensor;
    EXPECT_THROW(model->forward(bad, {}, context), Error) << name << " " << tensor.str();
  };
  refuses("input_ids", Tensor::full({3, 17}, 700, DType::i64));
  refuses("input_ids", Tensor::full({3, 17}, -1, DType::i64));
  refuses("token_type_ids", Tensor::full({3, 17}, 2, DType::i64));
  refuses("attention_mask", Tensor::full({3, 16}, 1, DType::i64));
  refuses("labels", Tensor::full({3, 17}, 700, DType::i64));
  refuses("labels", Tensor::full({3}, 1, DType::i64));
  refuses("start_positions", Tensor::full({3}, 1, DType::i64));
  for (const Shape& shape : {Shape{1, 41}, Shape{0, 4}, Shape{1, 0}}) {
    TensorMap bad{{"input_ids", Tensor::full(shape, 3, DType::i64)}};
    EXPECT_THROW(model->forward(bad, {}, context), Error) << shape.str();
  }
}

}  // namespace
}  // namespace heed
