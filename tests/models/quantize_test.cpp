// Models whose linear maps were quantized: what they compute, and what is written.
#include "heed/models/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "heed/autograd.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path decoder_folder(const char* name) { return fs::path(HEED_FIXTURES) / "decoders" / name; }

// The same random LLaMA each time.
std::unique_ptr<Model> random_llama() {
  const Config config = Config::load(decoder_folder("llama") / "config.json")
                            .with(R"({"hidden_size": 64, "intermediate_size": 96, "head_dim": 16})");
  Generator generator(3);
  return make_model(config, generator);
}

std::vector<float> logits_of(const Model& model) {
  const NoGradients guard;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8, 9, 3, 2, 1}, {1, 8});
  return model.forward({{"input_ids", ids}}).at("logits").to_vector<float>();
}

std::vector<float> results_of(const Model& model) {
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr) return logits_of(model);
  const NoGradients guard;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{5, 6, 7, 8, 9, 3, 2, 1}, {1, 8});
  return model.forward({{"input_ids", ids}, {"decoder_input_ids", ids}}).at("logits").to_vector<float>();
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(a[i]), 2);
  }
  return std::sqrt(sum / all);
}

TEST(Quantize, WritesWhatItComputes) {
  const auto plain = random_llama();
  for (const QuantizeMethod method : {QuantizeMethod::nearest, QuantizeMethod::gptq, QuantizeMethod::awq}) {
    for (const int bits : {4, 8}) {
      const auto model = random_llama();
      const QuantizeReport report =
          model->quantize({.bits = bits, .group = 32, .method = method}, [&] { logits_of(*model); });
      ASSERT_FALSE(report.maps.empty());
      for (const QuantizedMap& map : report.maps) {
        EXPECT_LT(map.weight_error, bits == 8 ? 0.02 : 0.3) << map.name;
        EXPECT_EQ(map.output_error.has_value(), method != QuantizeMethod::nearest);
      }
      const std::vector<float> logits = logits_of(*model);
      const double moved = distance(logits_of(*plain), logits);
      EXPECT_GT(moved, 0);
      EXPECT_LT(moved, bits == 8 ? 0.02 : 0.5);
      const TemporaryFolder folder;
      model->save(folder.path());
      EXPECT_EQ(logits_of(*load_model(folder.path())), logits);
    }
  }
}

// The tensors and settings that compressed-tensors reads.
TEST(Quantize, WritesCompressedTensors) {
  const auto model = random_llama();
  const QuantizeReport report = model->quantize({.bits = 4, .group = 32, .scale_type = DType::bf16});
  const TemporaryFolder folder;
  model->save(folder.path(), DType::bf16);
  const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
  const std::string& name = report.maps.front().name;
  EXPECT_FALSE(file.contains(name));
  EXPECT_EQ(file.info(name + "_packed").dtype, "I32");
  EXPECT_EQ(file.info(name + "_scale").dtype, "BF16");
  const auto shape = file.get(name + "_shape").to_vector<std::int64_t>();
  EXPECT_EQ(file.info(name + "_packed").shape, (std::vector<std::int64_t>{shape[0], shape[1] / 8}));
  EXPECT_EQ(file.info(name + "_scale").shape, (std::vector<std::int64_t>{shape[0], shape[1] / 32}));
  const nlohmann::json config = nlohmann::json::parse(read_file(folder / "config.json"));
  const auto& quantization = config.at("quantization_config");
  EXPECT_EQ(quantization.at("quant_method"), "compressed-tensors");
  EXPECT_EQ(quantization.at("config_groups").at("group_0").at("targets").size(), report.maps.size());

  // Read again and saved, it is plain.
  const TemporaryFolder again;
  load_model(folder.path())->save(again.path());
  EXPECT_FALSE(nlohmann::json::parse(read_file(again / "config.json")).contains("quantization_config"));
  EXPECT_TRUE(SafetensorsFile::open(again / "model.safetensors").contains(name));
}

// Where some inputs are much larger than others.
TEST(Quantize, AwqLosesLessThanRounding) {
  for (const char* name : {"llama", "gemma2", "phi3", "olmo2"}) {
    const Config config = Config::load(decoder_folder(name) / "config.json")
                              .with(R"({"hidden_size": 64, "intermediate_size": 96, "head_dim": 16,
                                        "num_attention_heads": 4, "num_key_value_heads": 2})");
    const auto made = [&] {
      Generator generator(3);
      auto model = make_model(config, generator);
      for (const Parameter& p : model->parameters()) {
        if (p.decays || p.name.find("norm") == std::string::npos) continue;
        Tensor norm = p.tensor;
        for (std::int64_t i = 0; i < norm.numel(); i += 7) norm.data<float>()[i] = 20;
      }
      return model;
    };
    const std::vector<float> plain = logits_of(*made());
    const auto lost = [&](QuantizeMethod method) {
      const auto model = made();
      model->quantize({.bits = 4, .group = 32, .method = method}, [&] { logits_of(*model); });
      return distance(plain, logits_of(*model));
    };
    EXPECT_LT(lost(QuantizeMethod::awq), lost(QuantizeMethod::nearest)) << name;
  }
  EXPECT_ERROR(load_model(decoder_folder("mixtral"))->quantize({.group = 32, .method = QuantizeMethod::awq}),
               "expected a model in which awq can scale the inputs of maps");
}

// An output map that shares its numbers with tables gets its own; the tables stay as they are.
TEST(Quantize, SeparatesATiedOutputMap) {
  for (const char* name : {"decoders/qwen3-tied", "bart", "marian"}) {
    const bool decoder = std::string(name).starts_with("decoders");
    const Config config =
        Config::load(fs::path(HEED_FIXTURES) / name / "config.json")
            .with(decoder ? R"({"hidden_size": 64, "head_dim": 16, "intermediate_size": 96})"
                          : R"({"d_model": 64})");
    Generator generator(3);
    const TemporaryFolder plain, folder;
    make_model(config, generator)->save(plain.path());
    WeightOptions separate;
    separate.separate_output = true;
    const auto model = load_model(plain.path(), separate);
    const std::vector<float> before = results_of(*model);
    EXPECT_EQ(before, results_of(*load_model(plain.path()))) << name;
    const QuantizeReport report = model->quantize({.bits = 4, .group = 32, .output_bits = 8});
    EXPECT_EQ(report.maps.front().name, "lm_head.weight");
    EXPECT_EQ(report.maps.front().bits, 8);
    EXPECT_EQ(report.maps.back().bits, 4);
    const std::vector<float> quantized = results_of(*model);
    EXPECT_LT(distance(before, quantized), 0.5) << name;
    model->save(folder.path());
    EXPECT_EQ(results_of(*load_model(folder.path())), quantized) << name;

    const nlohmann::json written = nlohmann::json::parse(read_file(folder / "config.json"));
    EXPECT_EQ(written.at("tie_word_embeddings"), false);
    const auto& groups = written.at("quantization_config").at("config_groups");
    EXPECT_EQ(groups.at("group_0").at("weights").at("num_bits"), 4);
    EXPECT_EQ(groups.at("group_1").at("weights").at("num_bits"), 8);
    EXPECT_EQ(groups.at("group_1").at("targets"), nlohmann::json{"lm_head"});
    const SafetensorsFile file = SafetensorsFile::open(folder / "model.safetensors");
    EXPECT_TRUE(file.contains("lm_head.weight_packed"));
    for (const char* table : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"})
      EXPECT_EQ(file.contains(table), !decoder) << table;
  }
}

TEST(Quantize, RefusesWhatDoesNotFit) {
  const auto llama = random_llama();
  EXPECT_ERROR(llama->quantize({.bits = 3}), "expected 4 or 8 bits, got 3");
  EXPECT_ERROR(llama->quantize({.output_bits = 5}), "expected 4 or 8 bits, got 5");
  EXPECT_ERROR(load_model(decoder_folder("qwen3-tied"))->quantize({.group = 32, .output_bits = 8}),
               "expected a model with an output map of its own");
  EXPECT_ERROR(llama->quantize({.group = 48}), "a multiple of 32 numbers, got 48");
  EXPECT_ERROR(llama->quantize({.group = 4096}), "whole groups of 4096 numbers, got none");
  EXPECT_ERROR(load_model(decoder_folder("gpt2"))->quantize({.group = 32}), "stored as [out, in]");
}

}  // namespace
}  // namespace heed
