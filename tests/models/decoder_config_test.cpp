// Settings of decoders' configs: what changes the numbers, what does not, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/io/safetensors.h"
#include "heed/models/registry.h"
#include "heed/ops.h"
#include "reference/error.h"
#include "reference/json.h"
#include "reference/temporary_folder.h"
#include "reference/tensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
const fs::path kDecoderFixtures = fs::path(HEED_FIXTURES) / "decoders";

// The logits of a fixture whose config is changed so.
std::vector<float> logits_with(const char* fixture, const nlohmann::json& changes) {
  const fs::path from = kDecoderFixtures / fixture;
  const TemporaryFolder folder;
  fs::copy_file(from / "model.safetensors", folder / "model.safetensors");
  auto config = read_json(from / "config.json");
  config.update(changes);
  spill(folder / "config.json", config.dump());
  const NoGradients guard;
  Context context;
  const TensorMap inputs = read_tensors(from / "inputs.safetensors");
  return load_as<DecoderModel>(folder)->forward(inputs, {}, context).at("logits").to_vector<float>();
}

// As LlamaModel and its like are saved, which give vectors only.
TEST(DecoderConfig, WithoutAnOutputMapThereAreHiddenStatesAlone) {
  for (const auto& [fixture, output] :
       {std::pair("llama", "lm_head.weight"), std::pair("gpt-neox", "embed_out.weight")}) {
    SCOPED_TRACE(fixture);
    const TemporaryFolder folder;
    auto config = read_json(kDecoderFixtures / fixture / "config.json");
    ASSERT_FALSE(config.value("tie_word_embeddings", false));
    config["architectures"] = {"XModel"};
    spill(folder / "config.json", config.dump());
    std::vector<NamedTensor> tensors;
    for (const auto& [name, tensor] : read_tensors(kDecoderFixtures / fixture / "model.safetensors")) {
      if (name != output) tensors.push_back({name, tensor});
    }
    save_safetensors(folder / "model.safetensors", tensors);
    TensorMap inputs = read_tensors(kDecoderFixtures / fixture / "inputs.safetensors");
    const TensorMap expected = read_tensors(kDecoderFixtures / fixture / "expected.safetensors");
    const NoGradients guard;
    Context context;
    const auto model = load_as<DecoderModel>(folder);
    const char* no_output_map = "expected a model that predicts tokens, got XModel";
    EXPECT_ERROR(model->forward(inputs, {}, context), no_output_map);  // there are labels
    inputs.erase("labels");
    const TensorMap outputs = model->forward(inputs, {}, context);
    const std::string last = "hidden_states." + config["num_hidden_layers"].dump();
    EXPECT_LE(relative_error(outputs.at("last_hidden_state"), expected.at(last)), 1e-5);
    EXPECT_FALSE(outputs.contains("logits"));
    EXPECT_ERROR(model->decode(1), no_output_map);
  }
}

TEST(DecoderConfig, OfTwoRotaryScalingsTheOlderKeyCounts) {
  using nlohmann::json;
  const json linear = {{"type", "linear"}, {"factor", 2.0}},
             other = {{"rope_type", "linear"}, {"factor", 3.0}};
  const auto want = logits_with("llama", {{"rope_scaling", linear}, {"rope_parameters", nullptr}});
  EXPECT_EQ(logits_with("llama", {{"rope_scaling", linear}, {"rope_parameters", other}}), want);
  EXPECT_EQ(logits_with("llama", {{"rope_scaling", json::object()}, {"rope_parameters", linear}}), want);
  EXPECT_NE(logits_with("llama", {{"rope_scaling", other}}), want);
}

TEST(DecoderConfig, MptHasTheSlopesOfTransformersWhateverTheirMaximum) {
  EXPECT_EQ(logits_with("mpt", {{"attn_config", {{"alibi_bias_max", 16}}}}),
            logits_with("mpt", nlohmann::json::object()));
}

// 5 of 16 elements turn as three pairs, at other frequencies than 6.
TEST(DecoderConfig, AnOddPartOfAHeadTurns) {
  const auto with_part = [](double part) {
    return logits_with("gpt-neox", {{"rope_parameters", {{"partial_rotary_factor", part}}}});
  };
  EXPECT_NE(with_part(0.32), with_part(0.375));
  EXPECT_EQ(with_part(0.01), with_part(0));  // no element is left to turn
  EXPECT_ERROR(with_part(-0.1), "partial_rotary_factor: expected a number from 0 to 1, got -0.1");
}

// By default, every fourth layer has no rotary positions; layers without them are the ones with a window.
TEST(DecoderConfig, SmolLM3LayersWithoutPositionsFollowFromTheInterval) {
  const auto with = [](nlohmann::json changes) { return logits_with("smollm3", changes); };
  const auto plain = with(nlohmann::json::object());
  EXPECT_EQ(with({{"no_rope_layers", nullptr}}), plain);  // no_rope_layer_interval is 2
  EXPECT_EQ(with({{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 4}}),
            with({{"no_rope_layers", {1, 1, 1}}}));
  const nlohmann::json window = {{"use_sliding_window", true}, {"sliding_window", 3}};
  nlohmann::json by_default = window, by_name = window;
  by_default["layer_types"] = nullptr;
  by_name["layer_types"] = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(with(by_default), with(by_name));
  EXPECT_NE(with(by_default), plain);
}

TEST(DecoderConfig, GemmaLayersFollowFromTheirDefaults) {
  const nlohmann::json none = nlohmann::json::object();
  EXPECT_EQ(logits_with("gemma2", {{"layer_types", nullptr}}), logits_with("gemma2", none));
  EXPECT_EQ(logits_with("gemma3", {{"layer_types", nullptr}}), logits_with("gemma3", none));
  EXPECT_NE(logits_with("gemma3", {{"layer_types", nullptr}, {"sliding_window_pattern", 2}}),
            logits_with("gemma3", none));
  EXPECT_NE(logits_with("gemma2", {{"attn_logit_softcapping", nullptr}}), logits_with("gemma2", none));
  EXPECT_EQ(logits_with("gemma3", {{"attn_logit_softcapping", 2}}), logits_with("gemma3", none));
}

// LongRoPE: the step that takes the longest row past 16 tokens computes the others again, with its
// frequencies.
TEST(DecoderConfig, TokensAreComputedAgainWhenFrequenciesChange) {
  const fs::path directory = kDecoderFixtures / "phi3-longrope";
  const auto model = load_as<DecoderModel>(directory);
  const Tensor ids = read_tensors(directory / "inputs.safetensors").at("input_ids");  // [2, 24]
  const NoGradients guard;
  Context context;
  const auto decoding = model->decode(2);
  decoding->step_ragged(slice(ids, 1, 0, 12).contiguous(), std::vector<std::int64_t>{12, 7}, context);
  decoding->reorder(std::vector<std::int64_t>{1, 0});
  const Tensor more = Tensor::full({2, 5}, 9, DType::i64);
  const Tensor got = decoding->step(more, context);
  const Tensor rows = Tensor::full({2, 17}, 9, DType::i64);
  slice(slice(rows, 0, 0, 1), 1, 0, 7).copy_from(slice(slice(ids, 0, 1, 2), 1, 0, 7));
  slice(slice(rows, 0, 1, 2), 1, 0, 12).copy_from(slice(slice(ids, 0, 0, 1), 1, 0, 12));
  const Tensor want = model->forward({{"input_ids", rows}}, {}, context).at("logits");
  for (const auto& [row, last] : {std::pair(0, 11), std::pair(1, 16)}) {
    const Tensor expected = slice(slice(want, 0, row, row + 1), 1, last, last + 1);
    EXPECT_LE(relative_error(slice(got, 0, row, row + 1), reshape(expected, {1, got.size(1)})), 1e-5) << row;
  }
  EXPECT_EQ(decoding->length(), 17);
}

// The first step past 16 tokens may come when there are just 16.
TEST(DecoderConfig, TokensAreComputedAgainFromTheFullTrainedLength) {
  const fs::path directory = kDecoderFixtures / "phi3-longrope";
  const auto model = load_as<DecoderModel>(directory);
  const Tensor ids = read_tensors(directory / "inputs.safetensors").at("input_ids");  // [2, 24]
  const NoGradients guard;
  Context context;
  const auto decoding = model->decode(2);
  for (const auto& [begin, end] : {std::pair(0, 16), std::pair(16, 17), std::pair(17, 18)}) {
    const Tensor got = decoding->step(slice(ids, 1, begin, end).contiguous(), context);
    const Tensor all =
        model->forward({{"input_ids", slice(ids, 1, 0, end).contiguous()}}, {}, context).at("logits");
    const Tensor want = slice(all, 1, end - 1, end);
    EXPECT_LE(relative_error(got, reshape(want, got.shape())), 1e-5) << end;
  }
}

TEST(DecoderConfig, LongRopeHasAFactorForEachPair) {
  const auto with_factors = [](const char* key, std::vector<double> factors) {
    nlohmann::json rope = {{"type", "su"}, {"short_factor", {1, 1, 1, 1}}, {"long_factor", {1, 2, 3, 4}}};
    rope[key] = factors;
    return logits_with("phi3-longrope", {{"rope_scaling", rope}});
  };
  EXPECT_NE(with_factors("long_factor", {1, 2, 3, 5}), with_factors("long_factor", {1, 2, 3, 4}));
  for (const char* key : {"short_factor", "long_factor"}) {
    for (const std::vector<double>& factors : {std::vector<double>{1, 2, 3}, {1, 2, 3, 0}}) {
      EXPECT_ERROR(with_factors(key, factors),
                   "config.json: rope_scaling." + std::string(key) + ": expected 4 numbers above 0");
    }
  }
}

TEST(DecoderConfig, ImpossibleExpertsAreRefusedByNameAndFile) {
  const auto error_with = [](const char* fixture, const nlohmann::json& changes) -> std::string {
    return error_of([&] { logits_with(fixture, changes); });
  };
  const auto refused = [](const char* text) {
    return testing::HasSubstr(std::string("config.json: ") + text);
  };
  EXPECT_THAT(error_with("mixtral", {{"num_experts_per_tok", 5}}),
              refused("num_experts_per_tok: expected at most the 4 experts there are, got 5"));
  EXPECT_THAT(error_with("mixtral", {{"num_experts_per_tok", 0}}), refused("num_experts_per_tok"));
  EXPECT_THAT(error_with("mixtral", {{"num_local_experts", 0}}), refused("num_local_experts"));
  EXPECT_THAT(error_with("mixtral", {{"num_local_experts", 40000}}),
              refused("num_local_experts: expected at most 65536 experts in all layers"));
  EXPECT_THAT(error_with("mixtral", {{"router_jitter_noise", 0.1}}), refused("router_jitter_noise"));
  EXPECT_THAT(error_with("qwen3-moe", {{"num_local_experts", nullptr}, {"num_experts", 0}}),
              refused("num_experts"));
  EXPECT_THAT(error_with("qwen3-moe", {{"mlp_only_layers", {2}}}),
              refused("mlp_only_layers: expected layers from 0 to 1"));
  EXPECT_THAT(error_with("qwen3-moe", {{"mlp_only_layers", {-1}}}), refused("mlp_only_layers"));
  EXPECT_THAT(error_with("qwen3-moe", {{"decoder_sparse_step", 0}}), refused("decoder_sparse_step"));
  EXPECT_THAT(error_with("qwen3-moe", {{"moe_intermediate_size", 0}}), refused("moe_intermediate_size"));
  // Every other layer has experts, so the first is expected to be dense.
  EXPECT_THAT(error_with("qwen3-moe", {{"decoder_sparse_step", 2}}),
              testing::HasSubstr("model.layers.0.mlp.gate_proj.weight"));
}

// The deviation of the normal distribution that a new model's matrices come from.
TEST(DecoderConfig, TheInitializerRangeOfANewTransformer) {
  auto config = read_json(kDecoderFixtures / "transformer-linear" / "config.json");
  config.update({{"initializer_range", 0.5}, {"hidden_size", 64}});
  Generator generator(1);
  const auto model = make_model(Config::parse(config.dump(), "config.json"), generator);
  for (const Parameter& p : model->parameters()) {
    const double square = mean(p.tensor * p.tensor).item();
    const bool matrix = p.tensor.shape().rank() > 1;
    EXPECT_NEAR(square,
                matrix                            ? 0.25
                : p.name.ends_with("norm.weight") ? 1.0
                                                  : 0.0,
                matrix ? 0.03 : 0.0)
        << p.name;
  }
}

// The term counts no padding, at the ends of rows, and only training has it.
TEST(DecoderConfig, TheLoadBalancingLossIsPartOfTheTrainingLoss) {
  const auto model = load_as<DecoderModel>(kDecoderFixtures / "mixtral");
  const auto loss_of = [&](std::vector<std::int64_t> ids, std::vector<std::int64_t> labels, bool training) {
    const auto time = static_cast<std::int64_t>(ids.size());
    Context context{.training = training};
    return model->loss({.ids = Tensor::from(ids, {1, time})}, Tensor::from(labels, {1, time}), {}, context)
        .item();
  };
  const double plain = loss_of({5, 6, 7, 8}, {6, 7, 8, -100}, false);
  const double balanced = loss_of({5, 6, 7, 8}, {6, 7, 8, -100}, true);
  EXPECT_GT(balanced, plain + 0.05);  // coefficient 0.05; the term is at least about the 2 choices per token
  EXPECT_EQ(loss_of({5, 6, 7, 8, 3, 3}, {6, 7, 8, -100, -100, -100}, true), balanced);
}

}  // namespace
}  // namespace heed
