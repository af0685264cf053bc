// The encoder-decoder families against the numbers of Hugging Face transformers, and of PyTorch for
// heed_transformer (tests/fixtures/FAMILY, see case.json there for the versions): outputs, attentions, every
// gradient, ten steps of training, decoding with a cache, and saving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "models/fixture_adamw.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

struct EncoderDecoder : testing::TestWithParam<const char*> {
  fs::path fixture = fs::path(HEED_FIXTURES) / GetParam();
  std::unique_ptr<EncoderDecoderModel> model = load_encoder_decoder(fixture);
  TensorMap inputs = read_tensors(fixture / "inputs.safetensors");
  TensorMap expected = read_tensors(fixture / "expected.safetensors");
  SourceBatch source{inputs.at("input_ids"), inputs.at("attention_mask")};
  Context context;
  fs::path folder = fs::temp_directory_path() / ("heed_encoder_decoder_test_" + std::to_string(::getpid()));
  void TearDown() override { fs::remove_all(folder); }

  Tensor logits(const EncoderDecoderModel& of) { return of.forward(inputs, {}, context).at("logits"); }
  void expect_gradients() const {
    std::size_t compared = 0;
    for (const Parameter& parameter : model->parameters()) {
      ASSERT_TRUE(expected.contains("grad." + parameter.name)) << parameter.name;
      ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
      ++compared;
      // The gradient of a key bias is zero but for rounding: softmax ignores what all keys share, if they are
      // not rotated, and linear attention does not.
      const auto want = expected.at("grad." + parameter.name).to_vector<float>();
      const auto is_rounding = [](float value) { return std::abs(value) < 1e-6f; };
      if (parameter.name.ends_with("k_proj.bias") && std::all_of(want.begin(), want.end(), is_rounding)) {
        for (const float value : parameter.tensor.grad().to_vector<float>()) EXPECT_NEAR(value, 0.0, 1e-6);
      } else {
        EXPECT_LE(relative_error(parameter.tensor.grad(), expected.at("grad." + parameter.name)), 1e-5)
            << parameter.name;
      }
    }
    const auto is_gradient = [](const auto& entry) { return entry.first.starts_with("grad."); };
    EXPECT_EQ(compared,
              static_cast<std::size_t>(std::count_if(expected.begin(), expected.end(), is_gradient)));
  }
};

TEST_P(EncoderDecoder, OutputsAndAttentionsEqualHuggingFace) {
  const TensorMap outputs = model->forward(inputs, {.hidden_states = true, .attentions = true}, context);
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (name.starts_with("grad.")) continue;
    ASSERT_TRUE(outputs.contains(name)) << name;
    EXPECT_LE(relative_error(outputs.at(name), tensor), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, fixture.filename() == "pegasus" ? 12 : 15);  // one decoder layer, or two
}

TEST_P(EncoderDecoder, EveryGradientEqualsHuggingFace) {
  model->forward(inputs, {}, context).at("loss").backward();
  expect_gradients();
}

TEST_P(EncoderDecoder, TheFusedLossHasTheSameGradients) {
  const Tensor loss = model->loss(source, inputs.at("labels"), {}, context);
  EXPECT_NEAR(loss.item(), expected.at("loss").item(), 1e-5 * expected.at("loss").item());
  loss.backward();
  expect_gradients();
}

TEST_P(EncoderDecoder, TenStepsOfAdamWFollowPyTorch) {
  if (!fs::exists(fixture / "training.json"))
    GTEST_SKIP() << "its curve is in fixtures/train/family_curves.json";
  std::ifstream file(fixture / "training.json");
  const auto training = nlohmann::json::parse(file);
  FixtureAdamW optimizer(*model, training.at("settings"));
  for (std::size_t step = 0; step < 10; ++step) {
    const Tensor loss = model->forward(inputs, {}, context).at("loss");
    const double want = training.at("losses").at(step);
    EXPECT_NEAR(loss.item(), want, 1e-5 * want) << "step " << step;
    loss.backward();
    optimizer.step();
  }
  const double last = model->forward(inputs, {}, context).at("loss").item();
  EXPECT_NEAR(last, training.at("loss_after_last_step").get<double>(), 1e-5 * last);
}

TEST_P(EncoderDecoder, CachedStepsEqualTheFullPass) {
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
}

TEST_P(EncoderDecoder, ReorderedRowsContinueWhatTheyTookOver) {
  const NoGradients guard;
  const std::int64_t start = model->decoder_start_id();
  const auto decoding = model->decode(source, context);
  decoding->reorder(std::vector<std::int64_t>{0, 0, 1, 1});  // two rows of each source
  auto ids = [](std::vector<std::int64_t> values) {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size()), 1});
  };
  decoding->step(ids({start, start, start, start}), context);
  decoding->step(ids({5, 6, 7, 8}), context);
  decoding->reorder(std::vector<std::int64_t>{1, 0, 3, 3});  // among the beams of each source
  const Tensor swapped = decoding->step(ids({9, 9, 9, 10}), context);
  decoding->reorder(std::vector<std::int64_t>{2, 0});  // across sources, fewer rows
  const Tensor fewer = decoding->step(ids({11, 12}), context);
  auto full = [&](std::int64_t at, std::vector<std::int64_t> tokens) {
    TensorMap single;
    single["input_ids"] = slice(source.ids, 0, at, at + 1);
    single["attention_mask"] = slice(source.mask, 0, at, at + 1);
    const auto length = static_cast<std::int64_t>(tokens.size());
    single["decoder_input_ids"] = Tensor::from(tokens, {1, length});
    const Tensor all = model->forward(single, {}, context).at("logits");
    return slice(all, 1, length - 1, length).contiguous();
  };
  auto row = [](const Tensor& all, std::int64_t r) {
    return reshape(slice(all, 0, r, r + 1), {1, 1, all.size(1)});
  };
  EXPECT_LE(relative_error(row(swapped, 0), full(0, {start, 6, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 1), full(0, {start, 5, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 2), full(1, {start, 8, 9})), 1e-5);
  EXPECT_LE(relative_error(row(swapped, 3), full(1, {start, 8, 10})), 1e-5);
  EXPECT_LE(relative_error(row(fewer, 0), full(1, {start, 8, 9, 11})), 1e-5);
  EXPECT_LE(relative_error(row(fewer, 1), full(0, {start, 6, 9, 12})), 1e-5);
}

TEST_P(EncoderDecoder, ListeningChangesNothingAndReplacingDoes) {
  const NoGradients guard;
  const Tensor silent = logits(*model);
  Taps taps;
  int heard = 0;
  taps.listen("*.weights", [&](const std::string&, Tensor&) { ++heard; });
  Context listening{false, nullptr, &taps};
  EXPECT_EQ(model->forward(inputs, {}, listening).at("logits").to_vector<float>(), silent.to_vector<float>());
  EXPECT_EQ(heard, fixture.filename() == "pegasus" ? 4 : 6);
  taps.require_all_fired();
  Taps ablation;
  ablation.listen("decoder.layers.0.cross_attn.weights",
                  [](const std::string&, Tensor& weights) { weights = Tensor::zeros(weights.shape()); });
  Context ablating{false, nullptr, &ablation};
  EXPECT_GT(relative_error(model->forward(inputs, {}, ablating).at("logits"), silent), 1e-3);
  Taps mistaken;
  mistaken.listen("decoder.layers.7.*", [](const std::string&, Tensor&) {});
  Context unheard{false, nullptr, &mistaken};
  model->forward(inputs, {}, unheard);
  EXPECT_THROW(mistaken.require_all_fired(), Error);
}

TEST_P(EncoderDecoder, SavedDirectoryLoadsWithTheSameNumbers) {
  fs::create_directories(folder);
  model->save(folder);
  const NoGradients guard;
  EXPECT_EQ(logits(*load_encoder_decoder(folder)).to_vector<float>(), logits(*model).to_vector<float>());
}

TEST_P(EncoderDecoder, HubStyleConfigGivesTheSameNumbers) {
  fs::create_directories(folder);
  fs::copy_file(fixture / "config_hub_style.json", folder / "config.json");
  fs::copy_file(fixture / "model.safetensors", folder / "model.safetensors");
  const NoGradients guard;
  EXPECT_EQ(logits(*load_encoder_decoder(folder)).to_vector<float>(), logits(*model).to_vector<float>());
}

// transformers 5 keeps encoder, decoder and output apart when embeddings are not tied, shared or not.
TEST(MarianEmbeddings, UntiedOnesStayApart) {
  auto tables = [&](const char* shared, const char* tied) {
    const std::string config = std::string(R"({"model_type": "marian", "vocab_size": 11, "d_model": 4,
      "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
      "encoder_ffn_dim": 4, "decoder_ffn_dim": 4, "max_position_embeddings": 8, "pad_token_id": 0,
      "share_encoder_decoder_embeddings": )") +
                               shared + R"(, "tie_word_embeddings": )" + tied + "}";
    Generator generator(1);
    const auto model = make_model(Config::parse(config, "config.json"), generator);
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
  EXPECT_EQ(tables("true", "true"), (Names{"model.shared.weight"}));
  EXPECT_EQ(tables("true", "false"), (Names{encoder, decoder, "lm_head.weight"}));
  EXPECT_EQ(tables("false", "true"), (Names{encoder, decoder}));
  EXPECT_EQ(tables("false", "false"), (Names{encoder, decoder, "lm_head.weight"}));
}

// mBART has no start token: its decoder begins with the last label, the language, in training as in
// forward().
TEST(Mbart, TrainingAndForwardStartTheDecoderWithTheLastLabel) {
  std::ifstream file(fs::path(HEED_FIXTURES) / "bart" / "config.json");
  auto json = nlohmann::ordered_json::parse(file);
  json["model_type"] = "mbart";
  Generator generator(1);
  const auto model = make_encoder_decoder(Config::parse(json.dump(), "config.json"), generator);
  const auto ids = [](std::vector<std::int64_t> values) { return Tensor::from(values, {2, 4}); };
  const Tensor labels = ids({7, 8, 9, -100, 5, 6, 4, 3}), source = ids({5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor wanted = ids({9, 7, 8, 9, 3, 5, 6, 4});
  EXPECT_EQ(model->decoder_inputs(labels, -100).to_vector<std::int64_t>(), wanted.to_vector<std::int64_t>());
  Context context;
  TensorMap inputs{{"input_ids", source}, {"labels", labels}, {"decoder_input_ids", wanted}};
  const double explicit_loss = model->forward(inputs, {}, context).at("loss").item();
  inputs.erase("decoder_input_ids");
  EXPECT_EQ(model->forward(inputs, {}, context).at("loss").item(), explicit_loss);
  const Tensor all = Tensor::full({2, 4}, 1, DType::i64);
  EXPECT_NEAR(model->loss({source, all}, labels, {}, context).item(), explicit_loss, 1e-6 * explicit_loss);
}

TEST_P(EncoderDecoder, EncodesWithoutItsDecoder) {
  const Tensor memory = model->encode(source, context);
  EXPECT_LE(relative_error(memory, expected.at("encoder_last_hidden_state")), 1e-5);
}

// Before a tensor is looked at, and before memory is asked for.
TEST(EncoderDecoderConfig, RefusesWhatMakesNoModelByName) {
  struct {
    const char *fixture, *key, *value, *message;
  } cases[] = {
      {"t5", "feed_forward_proj", R"("gated-gelu-new")", "expected ACTIVATION or gated-ACTIVATION"},
      {"t5", "feed_forward_proj", R"("glued")", "glued"},
      {"t5", "relative_attention_num_buckets", "2", "expected at least 4"},
      {"t5", "relative_attention_max_distance", "16", "more than half of relative_attention_num_buckets"},
      {"t5", "num_layers", "1001", "at most 1000 layers"},
      {"t5", "num_decoder_layers", "0", "expected an integer of at least 1"},
      {"t5", "d_kv", "4611686018427387904", "at most 1073741824"},
      {"t5", "d_model", "48.5", "expected an integer"},
      {"t5", "dropout_rate", "1.0", "a probability in [0, 1)"},
      {"t5", "decoder_start_token_id", "653", "an id in [0, 653)"},
      {"t5", "tie_word_embeddings", "1", "expected true or false"},
      {"bart", "encoder_attention_heads", "5", "divides the model dimension 48"},
      {"bart", "decoder_attention_heads", "0", "an integer of at least 1"},
      {"bart", "pad_token_id", "-1", "an id in [0, 421)"},
      {"bart", "activation_function", R"("step")", "step"},
      {"bart", "scale_embedding", R"("yes")", "expected true or false"},
      {"bart", "encoder_layers", "1e3", "expected an integer"},
      {"marian", "max_position_embeddings", "1000000000", "at most 65536"},
      {"marian", "decoder_vocab_size", "540", "as embeddings are shared"},
      {"marian", "vocab_size", "null", "expected an integer"},
      {"bart", "new_setting", "true", "only known settings"},
      {"transformer-seq2seq", "architecture", R"("turtle")", "one of decoder, encoder, encoder-decoder"},
      {"transformer-seq2seq", "attention", R"("strided")", "full, window or linear with an encoder"},
      {"transformer-seq2seq", "pad_token_id", "null", "an id in an encoder-decoder"},
      {"transformer-seq2seq", "norm_placement", R"("none")", "one of pre, post"},
      {"decoders/transformer-linear", "attention", R"("square")",
       "one of full, window, strided, fixed, linear"},
      {"decoders/transformer-linear", "position_embedding_type", R"("rotary")", "another than rotary"},
      {"decoders/transformer-linear", "attention_probs_dropout_prob", "0.1", "0 with attention linear"},
      {"decoders/transformer-linear", "initializer_range", "0", "a number above 0"},
      {"decoders/transformer-strided", "attention_stride", "0", "an integer of at least 1"},
      {"decoders/transformer-strided", "position_embedding_type", R"("alibi")", "another than alibi"},
      {"decoders/transformer-strided", "num_attention_heads", "16", "heads of an even dimension"},
      {"decoders/transformer-fixed", "attention_summary", "5", "at most attention_stride"},
      {"decoders/transformer-window", "attention_stride", "4", "only known settings"},
  };
  for (const auto& c : cases) {
    std::ifstream file(fs::path(HEED_FIXTURES) / c.fixture / "config.json");
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

TEST_P(EncoderDecoder, RefusesWhatDoesNotFit) {
  const auto refuses = [&](const char* name, const Tensor& value) {
    TensorMap bad = inputs;
    bad[name] = value;
    EXPECT_THROW(model->forward(bad, {}, context), Error) << name << " " << value.str();
  };
  const Shape shape = source.ids.shape();
  refuses("input_ids", Tensor::full(shape, static_cast<double>(model->vocab_size()), DType::i64));
  refuses("input_ids", Tensor::full(shape, -1, DType::i64));
  refuses("decoder_input_ids", Tensor::full({2, 3}, 1e9, DType::i64));
  refuses("attention_mask", Tensor::full({2, shape[1] - 1}, 1, DType::i64));
  refuses("token_type_ids", source.ids);
  refuses("input_ids", Tensor::zeros({2, 0}, DType::i64));
  refuses("decoder_input_ids", Tensor::zeros({2, 0}, DType::i64));
  refuses("labels", Tensor::full({2, 3}, 5.5));
  if (const auto positions = model->max_positions()) {
    inputs.erase("attention_mask");
    refuses("input_ids", Tensor::full({2, *positions + 1}, 3, DType::i64));
  }
}

TEST_P(EncoderDecoder, NothingToSeeIsNotNaN) {
  inputs["attention_mask"] = Tensor::zeros(source.ids.shape(), DType::i64);
  for (const float value : logits(*model).to_vector<float>()) ASSERT_TRUE(std::isfinite(value));
  inputs.erase("labels");
  for (const char* name : {"input_ids", "attention_mask", "decoder_input_ids"})
    inputs[name] = slice(inputs.at(name), 0, 0, 0);
  EXPECT_EQ(logits(*model).size(0), 0);
}

TEST_P(EncoderDecoder, LabelsGiveTheDecoderItsInputs) {
  inputs.erase("decoder_input_ids");
  EXPECT_LE(relative_error(logits(*model), expected.at("logits")), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, EncoderDecoder,
                         testing::Values("bart", "marian", "t5", "t5-v1.1", "m2m100", "pegasus",
                                         "transformer-seq2seq", "transformer-seq2seq-window"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
                           return name;
                         });

}  // namespace
}  // namespace heed
