// What is particular to encoder-decoders: which embeddings are tied, and how a decoder begins.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/json.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

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
  auto json = read_json<nlohmann::ordered_json>(fs::path(HEED_FIXTURES) / "bart" / "config.json");
  json["model_type"] = "mbart";
  Generator generator(1);
  const auto model = make_as<EncoderDecoderModel>(Config::parse(json.dump(), "config.json"), generator);
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

// Decoding goes on after forgotten tokens as if they had never been.
TEST(EncoderDecoder, ForwardTakesWhatTheEncoderHasComputed) {
  const auto model = load_as<EncoderDecoderModel>(fs::path(HEED_FIXTURES) / "bart");
  const Tensor source = Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8, 9, 10}, {2, 3}),
               target = Tensor::from(std::vector<std::int64_t>{2, 4, 2, 8}, {2, 2});
  Context context;
  const TensorMap whole = model->forward({{"input_ids", source}, {"decoder_input_ids", target}}, {}, context);
  const TensorMap inputs{{"encoder_outputs", model->encode({.ids = source}, context)},
                         {"decoder_input_ids", target}};
  EXPECT_EQ(model->forward(inputs, {}, context).at("logits").to_vector<float>(),
            whole.at("logits").to_vector<float>());
  EXPECT_ERROR(model->forward({{"encoder_outputs", source}, {"decoder_input_ids", target}}, {}, context),
               "encoder_outputs: expected [B, S, D], got");
}

TEST(Decoding, ForgetsItsLastTokens) {
  const auto ids = [](std::vector<std::int64_t> values) {
    return Tensor::from(values, {1, static_cast<std::int64_t>(values.size())});
  };
  Context context;
  for (const char* name : {"gpt2", "llama", "mistral", "phi3-longrope", "transformer-linear"}) {
    SCOPED_TRACE(name);
    const auto model = load_model(fs::path(HEED_FIXTURES) / "decoders" / name);
    const auto decoding = dynamic_cast<const DecoderModel&>(*model).decode(1);
    decoding->step(ids({5, 6, 7}), context);
    decoding->step(ids({8}), context);
    const std::int64_t kept = name == std::string("transformer-linear") ? 0 : 2;  // it keeps sums
    decoding->truncate(kept);
    EXPECT_EQ(decoding->length(), kept);
    const Tensor got = decoding->step(kept == 0 ? ids({5, 6, 9}) : ids({9}), context);
    const auto fresh = dynamic_cast<const DecoderModel&>(*model).decode(1);
    const std::vector<float> wanted = fresh->step(ids({5, 6, 9}), context).to_vector<float>();
    const std::vector<float> values = got.to_vector<float>();
    for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(values[i], wanted[i], 1e-4);
    EXPECT_ERROR(decoding->truncate(4), "expected to keep at most 3 tokens, got 4");
  }
  const auto linear = load_model(fs::path(HEED_FIXTURES) / "decoders/transformer-linear");
  const auto sums = dynamic_cast<const DecoderModel&>(*linear).decode(1);
  sums->step(ids({5, 6, 7}), context);
  EXPECT_ERROR(sums->truncate(1), "linear attention: expected to forget all tokens or none, got all after 1");
  const auto recurrent = load_model(fs::path(HEED_FIXTURES) / "recurrent/dot-gru");
  const auto state =
      dynamic_cast<const EncoderDecoderModel&>(*recurrent).decode({.ids = ids({5, 6, 7})}, context);
  state->step(ids({1}), context);
  state->truncate(1);
  EXPECT_ERROR(state->truncate(0), "expected a model that can forget its last tokens, got one that cannot");
}

}  // namespace
}  // namespace heed
