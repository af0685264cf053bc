// Gradient checkpointing: of every kind of stack, the loss and all gradients have the bits that they have
// without it, dropout and mixtures of experts included.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heed/models/registry.h"
#include "heed/random.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// The model of a fixture's config, with dropout wherever it has some.
std::unique_ptr<Model> model_of(const std::string& name) {
  std::ifstream file(fs::path(HEED_FIXTURES) / name / "config.json");
  auto config = nlohmann::json::parse(file);
  for (auto& [key, value] : config.items()) {
    const bool refused = name.starts_with("decoders/transformer") && key == "attention_probs_dropout_prob";
    const bool drops = key.find("drop") != key.npos && key.find("layer") == key.npos && !refused;
    if (drops && value.is_number()) value = 0.1;
  }
  Generator generator(3);
  return make_model(Config::parse(config.dump(), "config.json"), generator);
}

Tensor ids_of(const Shape& shape, std::int64_t first) {
  Tensor ids = Tensor::empty(shape, DType::i64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) ids.data<std::int64_t>()[i] = 5 + (first + i * i) % 40;
  return ids;
}

Tensor loss_of(const Model& model, Context& context) {
  const Tensor ids = ids_of({2, 9}, 1), labels = ids_of({2, 9}, 2);
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model))
    return decoder->loss({.ids = ids}, labels, {}, context);
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) {
    const Tensor mask = Tensor::full({2, 9}, 1, DType::i64);
    mask.data<std::int64_t>()[17] = 0;
    return encoder->loss({ids, mask}, labels, {}, context);
  }
  return dynamic_cast<const EncoderDecoderModel&>(model).loss({ids, Tensor::full({2, 9}, 1, DType::i64)},
                                                              ids_of({2, 6}, 3), {}, context);
}

class CheckpointingTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, CheckpointingTest,
                         testing::Values("decoders/gpt2", "decoders/llama", "decoders/gpt-neox",
                                         "decoders/bloom", "decoders/mixtral", "decoders/gemma3",
                                         "decoders/transformer-fixed", "decoders/transformer-linear",
                                         "encoders/bert-mlm", "encoders/albert-mlm",
                                         "encoders/deberta-v3-mlm", "encoders/deberta-v2-convolution",
                                         "encoders/mpnet-mlm", "encoders/modernbert-mlm", "marian", "bart",
                                         "t5", "t5-v1.1"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST_P(CheckpointingTest, GradientsHaveTheSameBits) {
  const std::unique_ptr<Model> model = model_of(GetParam());
  const auto run = [&](bool checkpointing, bool training) {
    Generator generator(7);
    Context context{.training = training, .generator = &generator, .gradient_checkpointing = checkpointing};
    // Two losses, so that gradients are added to others.
    std::vector<std::vector<float>> numbers;
    for (int i = 0; i < 2; ++i) {
      const Tensor loss = loss_of(*model, context);
      loss.backward();
      numbers.push_back({static_cast<float>(loss.item())});
    }
    for (const Parameter& p : model->parameters()) {
      numbers.push_back(p.tensor.grad().defined() ? p.tensor.grad().to_vector<float>()
                                                  : std::vector<float>());
      p.tensor.zero_grad();
    }
    return numbers;
  };
  for (const bool training : {true, false}) {
    const auto all = run(false, training), some = run(true, training);
    EXPECT_EQ(all[0], some[0]);
    for (std::size_t i = 0; i < model->parameters().size(); ++i)
      EXPECT_TRUE(all[i + 2] == some[i + 2]) << model->parameters()[i].name;
  }
}

}  // namespace
}  // namespace heed
