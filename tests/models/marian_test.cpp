// Marian against the numbers of Hugging Face transformers (tests/fixtures/marian, see its case.json for the
// versions): outputs, attentions, every gradient, ten steps of training, and decoding with a cache.
#include "heed/models/marian.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "kernels/optimizer.h"

namespace heed {
namespace {

const std::filesystem::path kFixture = std::filesystem::path(HEED_FIXTURES) / "marian";

TensorMap read_all(const char* file) {
  const SafetensorsFile tensors = SafetensorsFile::open(kFixture / file);
  TensorMap map;
  for (const TensorInfo& info : tensors.tensors()) map[info.name] = tensors.get(info.name);
  return map;
}

nlohmann::json read_json(const char* file) {
  std::ifstream stream(kFixture / file);
  return nlohmann::json::parse(stream);
}

// Largest difference over the largest expected value.
double relative_difference(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  const auto a = actual.to(DType::f32).to_vector<float>(), b = expected.to_vector<float>();
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    if (!std::isfinite(a[i])) return INFINITY;
  }
  return largest > 0 ? difference / largest : difference;
}

struct MarianTest : testing::Test {
  std::unique_ptr<EncoderDecoderModel> model = load_encoder_decoder(kFixture);
  TensorMap inputs = read_all("inputs.safetensors");
  TensorMap expected = read_all("expected.safetensors");
  Context context;
};

TEST_F(MarianTest, OutputsAndAttentionsEqualHuggingFace) {
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) continue;
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_difference(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 15);
}

TEST_F(MarianTest, EveryGradientEqualsHuggingFace) {
  model->forward(inputs, {}, context).at("loss").backward();
  std::size_t compared = 0;
  for (const Parameter& parameter : model->parameters()) {
    ASSERT_TRUE(expected.contains("grad." + parameter.name)) << parameter.name;
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    const Tensor& want = expected.at("grad." + parameter.name);
    // The gradient of a key bias is zero but for rounding: softmax ignores what all keys share.
    const bool rounding_only = parameter.name.ends_with("k_proj.bias");
    if (rounding_only) {
      for (const float value : parameter.tensor.grad().to_vector<float>()) EXPECT_NEAR(value, 0.0, 1e-6);
    } else {
      EXPECT_LE(relative_difference(parameter.tensor.grad(), want), 1e-4) << parameter.name;
    }
    ++compared;
  }
  const auto gradients = std::count_if(expected.begin(), expected.end(),
                                       [](const auto& entry) { return entry.first.starts_with("grad."); });
  EXPECT_EQ(compared, static_cast<std::size_t>(gradients));
}

TEST_F(MarianTest, TrainingLossEqualsThatOfTheFusedPath) {
  const Tensor loss = model->loss({inputs.at("input_ids"), inputs.at("attention_mask")},
                                  inputs.at("decoder_input_ids"), inputs.at("labels"), {}, context);
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.name.ends_with("k_proj.bias")) continue;
    EXPECT_LE(relative_difference(parameter.tensor.grad(), expected.at("grad." + parameter.name)), 1e-4)
        << parameter.name;
  }
}

TEST_F(MarianTest, TenStepsOfAdamWFollowPyTorch) {
  const auto training = read_json("training.json");
  const auto& settings = training.at("settings");
  std::vector<std::pair<Tensor, Tensor>> moments;
  for (const Parameter& p : model->parameters()) {
    moments.emplace_back(Tensor::zeros(p.tensor.shape()), Tensor::zeros(p.tensor.shape()));
  }
  for (int step = 0; step < 10; ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = training.at("losses").at(static_cast<std::size_t>(step));
    EXPECT_NEAR(loss.item(), want, 1e-5 * want) << "step " << step;
    loss.backward();
    kernels::AdamW options;
    options.lr = settings.at("learning_rate");
    options.beta1 = settings.at("betas").at(0);
    options.beta2 = settings.at("betas").at(1);
    options.eps = settings.at("eps");
    options.weight_decay = settings.at("weight_decay");
    options.step = step + 1;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      const Tensor& p = model->parameters()[i].tensor;
      kernels::adamw(p.data<float>(), p.grad().data<float>(), moments[i].first.data<float>(),
                     moments[i].second.data<float>(), p.numel(), options);
      p.zero_grad();
    }
  }
  const double last = model->forward(inputs, {}, context).at("loss").item();
  EXPECT_NEAR(last, training.at("loss_after_last_step").get<double>(), 1e-5 * last);
}

TEST_F(MarianTest, CachedStepsEqualTheFullPass) {
  const NoGradients guard;
  const Tensor logits = model->forward(inputs, {}, context).at("logits");  // [B, T, V]
  const Tensor ids = inputs.at("decoder_input_ids");
  const auto decoding = model->decode({inputs.at("input_ids"), inputs.at("attention_mask")}, 2, context);
  const Tensor twice = Tensor::from(std::vector<std::int64_t>{0, 0, 1, 1}, {4});
  const Tensor rows = gather(ids, 0, twice), wanted = gather(logits, 0, twice);
  std::int64_t at = 0;
  for (const std::int64_t count : {1, 3, 1, 1, 2, 1, 1, 1, 1}) {  // several tokens at once must work too
    const Tensor got = decoding->step(slice(rows, 1, at, at + count), context);
    at += count;
    const Tensor want = reshape(slice(wanted, 1, at - 1, at), got.shape());
    EXPECT_LE(relative_difference(got, want.contiguous()), 1e-5) << "after " << at;
  }
  EXPECT_EQ(decoding->length(), 12);
}

TEST_F(MarianTest, ReorderedRowsContinueWhatTheyTookOver) {
  const NoGradients guard;
  const std::int64_t start = model->decoder_start_id();
  const auto decoding = model->decode({inputs.at("input_ids"), inputs.at("attention_mask")}, 2, context);
  auto ids = [](std::vector<std::int64_t> values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size()), 1});
  };
  decoding->step(ids({start, start, start, start}), context);
  decoding->step(ids({5, 6, 7, 8}), context);
  decoding->reorder(std::vector<std::int64_t>{1, 0, 3, 3});  // among the beams of each source
  const Tensor swapped = decoding->step(ids({9, 9, 9, 10}), context);
  decoding->reorder(std::vector<std::int64_t>{2, 0});  // across sources, fewer rows
  const Tensor fewer = decoding->step(ids({11, 12}), context);
  auto full = [&](std::int64_t source, std::vector<std::int64_t> tokens) {
    TensorMap single;
    single["input_ids"] = slice(inputs.at("input_ids"), 0, source, source + 1);
    single["attention_mask"] = slice(inputs.at("attention_mask"), 0, source, source + 1);
    const auto length = static_cast<std::int64_t>(tokens.size());
    single["decoder_input_ids"] = Tensor::from(tokens, {1, length});
    const Tensor logits = model->forward(single, {}, context).at("logits");
    return slice(logits, 1, length - 1, length).contiguous();
  };
  auto row = [](const Tensor& logits, std::int64_t r) {
    return reshape(slice(logits, 0, r, r + 1), {1, 1, logits.size(1)});
  };
  EXPECT_LE(relative_difference(row(swapped, 0), full(0, {start, 6, 9})), 1e-5);
  EXPECT_LE(relative_difference(row(swapped, 1), full(0, {start, 5, 9})), 1e-5);
  EXPECT_LE(relative_difference(row(swapped, 2), full(1, {start, 8, 9})), 1e-5);
  EXPECT_LE(relative_difference(row(swapped, 3), full(1, {start, 8, 10})), 1e-5);
  EXPECT_LE(relative_difference(row(fewer, 0), full(1, {start, 8, 9, 11})), 1e-5);
  EXPECT_LE(relative_difference(row(fewer, 1), full(0, {start, 6, 9, 12})), 1e-5);
}

TEST_F(MarianTest, ListeningChangesNothingAndReplacingDoes) {
  const NoGradients guard;
  const Tensor silent = model->forward(inputs, {}, context).at("logits");
  Taps taps;
  int heard = 0;
  taps.listen("*.weights", [&](const std::string&, Tensor&) { ++heard; });
  Context listening{false, nullptr, &taps};
  EXPECT_EQ(model->forward(inputs, {}, listening).at("logits").to_vector<float>(), silent.to_vector<float>());
  EXPECT_EQ(heard, 6);
  taps.require_all_fired();
  Taps ablation;
  ablation.listen("decoder.layers.0.cross_attn.weights",
                  [](const std::string&, Tensor& weights) { weights = Tensor::zeros(weights.shape()); });
  Context ablating{false, nullptr, &ablation};
  EXPECT_GT(relative_difference(model->forward(inputs, {}, ablating).at("logits"), silent), 1e-3);
  Taps mistaken;
  mistaken.listen("decoder.layers.7.*", [](const std::string&, Tensor&) {});
  Context unheard{false, nullptr, &mistaken};
  model->forward(inputs, {}, unheard);
  EXPECT_THROW(mistaken.require_all_fired(), Error);
}

TEST_F(MarianTest, SavedDirectoryLoadsWithTheSameNumbers) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("heed_marian_test_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  model->save(folder);
  const NoGradients guard;
  const auto again = load_encoder_decoder(folder);
  EXPECT_EQ(again->forward(inputs, {}, context).at("logits").to_vector<float>(),
            model->forward(inputs, {}, context).at("logits").to_vector<float>());
  std::filesystem::remove_all(folder);
}

// transformers 5 keeps encoder, decoder and output apart when embeddings are not tied, shared or not.
TEST(MarianEmbeddings, UntiedOnesStayApart) {
  MarianConfig config;
  config.vocab_size = config.decoder_vocab_size = 11;
  config.d_model = 4;
  config.encoder_layers = config.decoder_layers = 1;
  config.encoder_attention_heads = config.decoder_attention_heads = 2;
  config.encoder_ffn_dim = config.decoder_ffn_dim = 4;
  config.max_position_embeddings = 8;
  auto tables = [&](bool shared, bool tied) {
    config.share_encoder_decoder_embeddings = shared;
    config.tie_word_embeddings = tied;
    Generator generator(1);
    const auto model = make_marian(config, generator);
    std::vector<std::string> names;
    for (const Parameter& p : model->parameters()) {
      if (p.name.find("embed") != p.name.npos || p.name == "lm_head.weight" ||
          p.name == "model.shared.weight") {
        names.push_back(p.name);
      }
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const std::string encoder = "model.encoder.embed_tokens.weight",
                    decoder = "model.decoder.embed_tokens.weight";
  EXPECT_EQ(tables(true, true), (Names{"model.shared.weight"}));
  EXPECT_EQ(tables(true, false), (Names{encoder, decoder, "lm_head.weight"}));
  EXPECT_EQ(tables(false, true), (Names{encoder, decoder}));
  EXPECT_EQ(tables(false, false), (Names{encoder, decoder, "lm_head.weight"}));
}

TEST_F(MarianTest, HubStyleConfigGivesTheSameModel) {
  const MarianConfig a = MarianConfig::parse(Config::load(kFixture / "config.json"));
  const MarianConfig b = MarianConfig::parse(Config::load(kFixture / "config_hub_style.json"));
  EXPECT_EQ(a.d_model, b.d_model);
  EXPECT_EQ(a.activation_function, b.activation_function);
  EXPECT_EQ(a.forced_eos_token_id, b.forced_eos_token_id);
}

TEST_F(MarianTest, RefusesWhatDoesNotFit) {
  TensorMap bad = inputs;
  bad["input_ids"] = Tensor::full({2, 16}, 541, DType::i64);
  EXPECT_THROW(model->forward(bad, {}, context), Error);
  bad = inputs;
  bad["attention_mask"] = Tensor::full({2, 15}, 1, DType::i64);
  EXPECT_THROW(model->forward(bad, {}, context), Error);
  bad = inputs;
  bad["token_type_ids"] = inputs.at("input_ids");
  EXPECT_THROW(model->forward(bad, {}, context), Error);
  bad = inputs;
  bad["input_ids"] = Tensor::full({2, 49}, 3, DType::i64);
  bad.erase("attention_mask");
  EXPECT_THROW(model->forward(bad, {}, context), Error);  // only 48 positions
  bad = inputs;
  bad.erase("decoder_input_ids");
  EXPECT_NO_THROW(model->forward(bad, {}, context));  // made from the labels
}

}  // namespace
}  // namespace heed
