// What is particular to encoder-decoders: which embeddings are tied, and how a decoder begins.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/models/registry.h"
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

}  // namespace
}  // namespace heed
