// Recurrent encoder-decoders against the same models written with PyTorch's LSTM and GRU
// (tests/fixtures/recurrent, see case.json there): outputs, attention, every gradient, training, decoding,
// saving; and what the family refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "kernels/optimizer.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

const fs::path kRecurrent = fs::path(HEED_FIXTURES) / "recurrent";
const char* const kCases[] = {
    "none-lstm", "none-gru",    "additive-gru",      "additive-lstm", "general-lstm-feeding",
    "dot-gru",   "concat-lstm", "concat-gru-feeding"};

// AdamW over all parameters, with the settings of a training.json.
class Optimizer {
 public:
  Optimizer(const Model& model, const nlohmann::json& settings) : parameters_(model.parameters()) {
    for (const Parameter& p : parameters_)
      moments_.emplace_back(Tensor::zeros(p.tensor.shape()), Tensor::zeros(p.tensor.shape()));
    options_.lr = settings.at("learning_rate");
    options_.beta1 = settings.at("betas").at(0);
    options_.beta2 = settings.at("betas").at(1);
    options_.eps = settings.at("eps");
    options_.weight_decay = settings.at("weight_decay");
  }
  void step() {
    options_.step += 1;
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      const Tensor& p = parameters_[i].tensor;
      kernels::adamw(p.data<float>(), p.grad().data<float>(), moments_[i].first.data<float>(),
                     moments_[i].second.data<float>(), p.numel(), options_);
      p.zero_grad();
    }
  }

 private:
  const std::vector<Parameter>& parameters_;
  std::vector<std::pair<Tensor, Tensor>> moments_;
  kernels::AdamW options_{.step = 0};
};

struct RecurrentFamily : testing::TestWithParam<const char*> {
  fs::path fixture = kRecurrent / GetParam();
  std::unique_ptr<EncoderDecoderModel> model = load_encoder_decoder(fixture);
  TensorMap inputs = read_tensors(fixture / "inputs.safetensors");
  TensorMap expected = read_tensors(fixture / "expected.safetensors");
  SourceBatch source{inputs.at("input_ids"), inputs.at("attention_mask")};
  Context context;
  fs::path folder = fs::temp_directory_path() / ("heed_recurrent_test_" + std::to_string(::getpid()));
  std::string name = GetParam();
  bool attends = !name.starts_with("none");
  void TearDown() override { fs::remove_all(folder); }

  Tensor logits(const EncoderDecoderModel& of) { return of.forward(inputs, {}, context).at("logits"); }
  std::string weights_tap() const {
    const bool second = expected.contains("decoder_hidden_states.2");
    return std::string("decoder.layers.") + (second ? "1" : "0") + ".cross_attn.weights";
  }
  void expect_gradients(double tolerance) const {
    std::ptrdiff_t compared = 0;
    for (const Parameter& parameter : model->parameters()) {
      ASSERT_TRUE(expected.contains("grad." + parameter.name)) << parameter.name;
      ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
      // Moving a query moves all scores of its row by almost the same, which softmax ignores: what is left is
      // a difference of larger numbers.
      const bool cancels = tolerance > 1e-6 && parameter.name == "decoder.attention.query.weight";
      EXPECT_LE(relative_error(parameter.tensor.grad(), expected.at("grad." + parameter.name)),
                cancels ? 1e-4 : tolerance)
          << parameter.name;
      ++compared;
    }
    const auto is_gradient = [](const auto& entry) { return entry.first.starts_with("grad."); };
    EXPECT_EQ(compared, std::count_if(expected.begin(), expected.end(), is_gradient));
  }
};

TEST_P(RecurrentFamily, OutputsAndAttentionEqualPyTorch) {
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  for (const auto& [output, tensor] : expected) {
    if (output.starts_with("grad.")) continue;
    ASSERT_TRUE(outputs.contains(output)) << output;
    EXPECT_LE(relative_error(outputs.at(output), tensor), 1e-5) << output;
  }
  for (const auto& [output, tensor] : outputs) EXPECT_TRUE(expected.contains(output)) << output;
  EXPECT_EQ(model->has_cross_attention(), attends);
  EXPECT_FALSE(model->has_self_attention());
}

TEST_P(RecurrentFamily, EveryGradientEqualsPyTorch) {
  model->forward(inputs, {}, context).at("loss").backward();
  expect_gradients(1e-5);
}

TEST_P(RecurrentFamily, EveryGradientEqualsPyTorchInDouble) {
  model = load_encoder_decoder(fixture, DType::f64);
  const TensorMap outputs = model->forward(inputs, {}, context);
  EXPECT_LE(relative_error(outputs.at("logits"), expected.at("logits")), 1e-6);
  outputs.at("loss").backward();
  expect_gradients(1e-6);
}

TEST_P(RecurrentFamily, TheFusedLossHasTheSameGradients) {
  const Tensor loss = model->loss(source, inputs.at("labels"), {}, context);
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  expect_gradients(1e-5);
}

TEST_P(RecurrentFamily, InferenceGivesTheSameNumbers) {
  const NoGradients guard;
  EXPECT_LE(relative_error(logits(*model), expected.at("logits")), 1e-5);
  EXPECT_LE(relative_error(model->encode(source, context), expected.at("encoder_last_hidden_state")), 1e-5);
  inputs.erase("decoder_input_ids");
  EXPECT_LE(relative_error(logits(*model), expected.at("logits")), 1e-5);  // from the labels
}

TEST_P(RecurrentFamily, TenStepsOfAdamWFollowPyTorch) {
  std::ifstream file(fixture / "training.json");
  const auto training = nlohmann::json::parse(file);
  Optimizer optimizer(*model, training.at("settings"));
  for (std::size_t step = 0; step < 10; ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = training.at("losses").at(step);
    EXPECT_NEAR(loss.item(), want, 1e-4 * want) << "step " << step;
    loss.backward();
    optimizer.step();
  }
  const double last = model->forward(inputs, {}, context).at("loss").item();
  EXPECT_NEAR(last, training.at("loss_after_last_step").get<double>(), 1e-4 * last);
}

TEST_P(RecurrentFamily, LearnsABatchByHeart) {
  Optimizer optimizer(*model,
                      {{"learning_rate", 0.02}, {"betas", {0.9, 0.98}}, {"eps", 1e-8}, {"weight_decay", 0}});
  std::vector<double> losses;
  for (int step = 0; step < 400; ++step) {
    const Tensor loss = model->loss(source, inputs.at("labels"), {}, context);
    losses.push_back(loss.item());
    loss.backward();
    optimizer.step();
  }
  EXPECT_GT(losses.front(), 3.0);
  EXPECT_LT(losses.back(), 0.1);
}

TEST_P(RecurrentFamily, DropoutIsForTrainingAndDrawsTheSameFromASeed) {
  const auto loss = [&](std::uint64_t seed) {
    Generator generator(seed);
    Context training{true, &generator};
    return model->loss(source, inputs.at("labels"), {}, training).item();
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
  EXPECT_NE(loss(1), model->loss(source, inputs.at("labels"), {}, context).item());
}

TEST_P(RecurrentFamily, StepsEqualTheFullPass) {
  const NoGradients guard;
  const Tensor full = logits(*model), ids = inputs.at("decoder_input_ids");  // [B, T, V], [B, T]
  const auto decoding = model->decode(source, context);
  decoding->reorder(std::vector<std::int64_t>{0, 0, 1, 1});
  const Tensor twice = Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1}, {4});
  const Tensor rows = gather(ids, 0, twice), wanted = gather(full, 0, twice);
  std::int64_t at = 0, count = 1;
  for (; at < ids.size(1); count = count % 3 + 1) {  // several tokens at once must work too
    count = std::min(count, ids.size(1) - at);
    const Tensor got = decoding->step(slice(rows, 1, at, at + count), context);
    at += count;
    const Tensor want = reshape(slice(wanted, 1, at - 1, at), got.shape());
    EXPECT_LE(relative_error(got, want.contiguous()), 1e-5) << "after " << at;
  }
  EXPECT_EQ(decoding->length(), ids.size(1));
  EXPECT_THROW(decoding->reorder(std::vector<std::int64_t>{4}), Error);
  EXPECT_THROW(decoding->step(ids, context), Error);
}

TEST_P(RecurrentFamily, ReorderedRowsContinueWhatTheyTookOver) {
  const NoGradients guard;
  const std::int64_t start = model->decoder_start_id();
  const auto decoding = model->decode(source, context);
  decoding->reorder(std::vector<std::int64_t>{0, 0, 1, 1});
  const auto ids = [](std::vector<std::int64_t> values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size()), 1});
  };
  decoding->step(ids({start, start, start, start}), context);
  decoding->step(ids({5, 6, 7, 8}), context);
  decoding->reorder(std::vector<std::int64_t>{1, 0, 3, 3});
  const Tensor swapped = decoding->step(ids({9, 9, 9, 10}), context);
  decoding->reorder(std::vector<std::int64_t>{2, 0});  // across sources, fewer rows
  const Tensor fewer = decoding->step(ids({11, 12}), context);
  const auto full = [&](std::int64_t at, std::vector<std::int64_t> tokens) {
    const auto length = static_cast<std::int64_t>(tokens.size());
    const TensorMap single{{"input_ids", slice(source.ids, 0, at, at + 1)},
                           {"attention_mask", slice(source.mask, 0, at, at + 1)},
                           {"decoder_input_ids", Tensor::from(tokens, {1, length})}};
    const Tensor all = model->forward(single, {}, context).at("logits");
    return reshape(slice(all, 1, length - 1, length), {1, all.size(2)}).contiguous();
  };
  const auto row = [](const Tensor& all, std::int64_t r) { return slice(all, 0, r, r + 1).contiguous(); };
  EXPECT_LE(relative_error(row(swapped, 0), full(0, {start, 6, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 1), full(0, {start, 5, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 2), full(1, {start, 8, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 3), full(1, {start, 8, 10})), 1e-5);
  EXPECT_LE(relative_error(row(fewer, 0), full(1, {start, 8, 9, 11})), 1e-5);
  EXPECT_LE(relative_error(row(fewer, 1), full(0, {start, 6, 9, 12})), 1e-5);
}

TEST_P(RecurrentFamily, ListeningChangesNothingAndReplacingDoes) {
  const NoGradients guard;
  const Tensor silent = logits(*model);
  Taps taps;
  int heard = 0;
  taps.listen("*", [&](const std::string&, Tensor&) { ++heard; });
  Context listening{false, nullptr, &taps};
  EXPECT_EQ(model->forward(inputs, {}, listening).at("logits").to_vector<float>(), silent.to_vector<float>());
  EXPECT_GE(heard, attends ? 5 : 4);
  const auto replaced = [&](const std::string& tap) {
    Taps ablation;
    ablation.listen(tap, [](const std::string&, Tensor& value) { value = Tensor::zeros(value.shape()); });
    Context ablating{false, nullptr, &ablation};
    const Tensor result = model->forward(inputs, {}, ablating).at("logits");
    ablation.require_all_fired();
    return result;
  };
  EXPECT_GT(relative_error(replaced("encoder.layers.0.out"), silent), 1e-3);
  EXPECT_GT(relative_error(replaced("decoder.embed"), silent), 1e-3);
  if (attends) {
    EXPECT_GT(relative_error(replaced(weights_tap()), silent), 1e-3);
  }
  EXPECT_GT(relative_error(replaced("decoder.layers.0.out"), silent), 1e-3);
}

TEST_P(RecurrentFamily, SavedDirectoryLoadsWithTheSameNumbers) {
  fs::create_directories(folder);
  model->save(folder);
  const NoGradients guard;
  EXPECT_EQ(logits(*load_encoder_decoder(folder)).to_vector<float>(), logits(*model).to_vector<float>());
}

TEST_P(RecurrentFamily, RefusesWhatDoesNotFit) {
  const auto refuses = [&](const char* input, const Tensor& value) {
    TensorMap bad = inputs;
    bad[input] = value;
    EXPECT_THROW(model->forward(bad, {}, context), Error) << input << " " << value.str();
  };
  const Shape shape = source.ids.shape();
  refuses("input_ids", Tensor::full(shape, static_cast<double>(model->vocab_size()), DType::i64));
  refuses("decoder_input_ids", Tensor::full({2, 3}, 1e9, DType::i64));
  refuses("decoder_input_ids", Tensor::full({3, 3}, 5, DType::i64));
  refuses("attention_mask", Tensor::full({2, shape[1] - 1}, 1, DType::i64));
  refuses("token_type_ids", source.ids);
  refuses("input_ids", Tensor::zeros({2, 0}, DType::i64));
  Tensor left = source.mask.clone();
  left.data<std::int64_t>()[0] = 0;
  refuses("attention_mask", left);
}

TEST_P(RecurrentFamily, NothingToSeeIsNotNaN) {
  inputs["attention_mask"] = Tensor::zeros(source.ids.shape(), DType::i64);
  for (const float value : logits(*model).to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
  inputs.erase("labels");
  for (const char* input : {"input_ids", "attention_mask", "decoder_input_ids"})
    inputs[input] = slice(inputs.at(input), 0, 0, 0);
  EXPECT_EQ(logits(*model).size(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Cases, RecurrentFamily, testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(RecurrentConfig, RefusesWhatMakesNoModelByName) {
  struct {
    const char *fixture, *key, *value, *message;
  } cases[] = {
      {"none-lstm", "cell", R"("rnn")", "one of lstm, gru"},
      {"none-lstm", "attention", R"("self")", "one of none, additive, dot, general, concat"},
      {"none-lstm", "input_feeding", "true", "false without attention"},
      {"additive-gru", "input_feeding", "true", "which feeds its context"},
      {"additive-gru", "hidden_size", "9", "an even number"},
      {"additive-gru", "decoder_layers", "2", "at most encoder_layers"},
      {"dot-gru", "embedding_size", "8", "tie_word_embeddings"},
      {"dot-gru", "encoder_layers", "0", "at least 1"},
      {"dot-gru", "dropout", "1.5", "a probability in [0, 1)"},
      {"dot-gru", "initializer_range", "0", "a number above 0"},
      {"dot-gru", "vocab_size", "null", "an integer"},
      {"dot-gru", "pad_token_id", "36", "an id in [0, 36)"},
      {"dot-gru", "new_setting", "true", "only known settings"},
  };
  for (const auto& c : cases) {
    std::ifstream file(kRecurrent / c.fixture / "config.json");
    auto json = nlohmann::ordered_json::parse(file);
    json[c.key] = nlohmann::json::parse(c.value);
    const std::string what = std::string(c.fixture) + " " + c.key + " " + c.value;
    try {
      Generator generator(1);
      make_model(Config::parse(json.dump(), "DIR/config.json"), generator);
      ADD_FAILURE() << what;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(c.message)) << what;
      EXPECT_THAT(error.what(), testing::StartsWith(std::string("DIR/config.json: ") + c.key)) << what;
    }
  }
}

TEST(RecurrentConfig, ANewModelHasItsInitializerRange) {
  const char* config = R"({"model_type": "heed_recurrent", "vocab_size": 11, "hidden_size": 4,
    "initializer_range": 0.5})";
  Generator generator(1);
  const auto model = make_encoder_decoder(Config::parse(config, "config.json"), generator);
  float largest = 0;
  for (const Parameter& p : model->parameters()) {
    for (const float value : p.tensor.to_vector<float>()) largest = std::max(largest, std::abs(value));
  }
  EXPECT_LE(largest, 0.5f);
  EXPECT_GT(largest, 0.45f);
}

}  // namespace
}  // namespace heed
