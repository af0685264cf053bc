// What is particular to encoders: their heads, bodies without a head, losses by the kind of label, and what
// does not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/family_fixtures.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
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

ModelInput batch_of(const TensorMap& inputs) {
  const auto get = [&](const char* name) { return inputs.contains(name) ? inputs.at(name) : Tensor(); };
  return {inputs.at("input_ids"), get("attention_mask"), get("token_type_ids")};
}

TEST(Encoders, HaveTheHeadOfTheirArchitecture) {
  const std::map<std::string, EncoderHead> heads{{"mlm", EncoderHead::masked_lm},
                                                 {"classify", EncoderHead::sequence},
                                                 {"tag", EncoderHead::token},
                                                 {"qa", EncoderHead::span},
                                                 {"bert", EncoderHead::none},
                                                 {"roberta", EncoderHead::none},
                                                 {"cross-encoder", EncoderHead::sequence},
                                                 {"new-head", EncoderHead::masked_lm},
                                                 {"convolution", EncoderHead::masked_lm},
                                                 {"transformer-encoder", EncoderHead::masked_lm}};
  for (const FamilyFixture& f :
       family_fixtures([](const FamilyFixture& one) { return one.is_in("encoders"); })) {
    SCOPED_TRACE(f.folder);
    const std::string name = fs::path(f.folder).filename();
    const auto head =
        std::find_if(heads.begin(), heads.end(), [&](const auto& h) { return name.ends_with(h.first); });
    ASSERT_NE(head, heads.end());
    const auto model = load(f.path());
    EXPECT_EQ(model->head(), head->second);
    if (head->second != EncoderHead::none) continue;
    const NoGradients guard;
    Context context;
    EXPECT_ERROR(
        model->predict(model->encode(batch_of(read_tensors(f.path() / "inputs.safetensors")), context), {},
                       context),
        "predict: expected a model with a head");
  }
}

struct BertTest : testing::Test {
  fs::path directory = kEncoders / "bert-mlm";
  TensorMap inputs = read_tensors(directory / "inputs.safetensors");
  TensorMap expected = read_tensors(directory / "expected.safetensors");
  TemporaryFolder folder;
  Context context;

  // The model of `directory` with another config.json.
  std::unique_ptr<EncoderModel> load_with(const nlohmann::json& changes, const fs::path& from) {
    nlohmann::json config = read_json(from / "config.json");
    config.update(changes);
    spill(folder / "config.json", config.dump());
    fs::copy_file(from / "model.safetensors", folder / "model.safetensors",
                  fs::copy_options::overwrite_existing);
    return load(folder);
  }
  std::string load_error(const nlohmann::json& changes) {
    return error_of([&] { load_with(changes, directory); });
  }
};

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
  EXPECT_ERROR(load_model(folder), "expected the head of MPNetForMaskedLM");
  WeightOptions body_alone;
  body_alone.head = false;
  const auto model = load_model(folder, body_alone);
  inputs = read_tensors(from / "inputs.safetensors");
  inputs.erase("labels");
  EXPECT_LE(relative_error(model->forward(inputs, {}, context).at("last_hidden_state"),
                           read_tensors(from / "expected.safetensors").at("hidden_states.2")),
            1e-5);
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
  EXPECT_ERROR(loss({{"problem_type", "single_label_classification"}}),
               "labels: expected integers [3], got f32[3, 3]");
}

// transformers stores a bias that nothing adds, and misses it where it is not there.
TEST(EncoderConfig, UntiedHeadsSaveBothBiases) {
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
    const TemporaryFolder folder;
    make_model(Config::parse(known.dump(), "config.json"), generator)->save(folder);
    const auto saved = read_tensors(folder / "model.safetensors");
    std::string used = bias;
    used.insert(used.rfind("bias"), "decoder.");
    EXPECT_TRUE(saved.contains(bias)) << bias;
    EXPECT_TRUE(saved.contains(used)) << used;
    EXPECT_NO_THROW(load(folder));
  }
}

TEST_F(BertTest, RefusesWhatItCannotRun) {
  using testing::HasSubstr;
  EXPECT_THAT(load_error({{"architectures", {"BertForSequenceClassification"}}}),
              HasSubstr("the head of BertForSequenceClassification"));
  EXPECT_THAT(load_error({{"architectures", {"BertForTokenClassification"}}}),
              HasSubstr("the head of BertForTokenClassification"));
  EXPECT_THAT(load_error({{"architectures", {"BertLMHeadModel"}}}), HasSubstr("ForMaskedLM"));
  EXPECT_THAT(load_error({{"position_embedding_type", "relative_key"}}), HasSubstr("absolute"));
  EXPECT_THAT(load_error({{"is_decoder", true}}), HasSubstr("is_decoder"));
  EXPECT_THAT(load_error({{"num_attention_heads", 5}}), HasSubstr("divides"));
  EXPECT_THAT(load_error({{"pad_token_id", 700}}), HasSubstr("pad_token_id"));
  EXPECT_THAT(load_error({{"hidden_size", 40}}), HasSubstr("word_embeddings"));
  const nlohmann::json reranker = {{"architectures", {"BertForSequenceClassification"}},
                                   {"id2label", {{"0", "relevant"}}},
                                   {"sentence_transformers", {{"activation_fn", "torch.nn.Softplus"}}}};
  EXPECT_THAT(load_error(reranker), HasSubstr("sentence_transformers: expected Identity or Sigmoid"));
}

TEST_F(BertTest, RefusesConvolutionsThatNoModelHas) {
  const auto load_error = [&](const nlohmann::json& changes) -> std::string {
    return error_of([&] { load_with(changes, kEncoders / "deberta-v2-convolution"); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(load_error({{"conv_kernel_size", 4}}), HasSubstr("an odd number of tokens"));
  EXPECT_THAT(load_error({{"conv_kernel_size", 99999999}}), HasSubstr("an odd number of tokens"));
  EXPECT_THAT(load_error({{"conv_kernel_size", 5}}), HasSubstr("conv.weight"));
  EXPECT_THAT(load_error({{"conv_groups", 2}}), HasSubstr("conv_groups"));
}

TEST_F(BertTest, RefusesInputsThatDoNotFit) {
  const auto model = load(directory);
  const auto refuses = [&](const char* name, const Tensor& tensor, const char* message) {
    TensorMap bad = inputs;
    bad[name] = tensor;
    EXPECT_ERROR(model->forward(bad, {}, context), message) << name << " " << tensor.str();
  };
  refuses("token_type_ids", Tensor::full({3, 17}, 2, DType::i64), "token_type_ids: expected ids in [0, 2)");
  refuses("labels", Tensor::full({3, 17}, 700, DType::i64), "target");
  refuses("labels", Tensor::full({3}, 1, DType::i64), "labels: expected");
  refuses("start_positions", Tensor::full({3}, 1, DType::i64), "inputs this model takes");
  TensorMap empty{{"input_ids", Tensor::zeros({0, 4}, DType::i64)}};
  EXPECT_ERROR(model->forward(empty, {}, context), "expected at least one row and one token");
}

}  // namespace
}  // namespace heed
