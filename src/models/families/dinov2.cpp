// DINOv2 (Oquab et al. 2024), without and with registers: its config, and the model built from parts.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/vit_common.h"

namespace heed {
namespace {

constexpr std::int64_t kMostRatio = 1024;  // of the feed-forward network's units to those of the model

struct Dinov2Config {
  VitConfig body;
  std::string prefix;
  bool gated = false;

  static Dinov2Config parse(const Config& json);
};

Dinov2Config Dinov2Config::parse(const Config& json) {
  Dinov2Config c;
  const std::string type = json.required_string("model_type");
  const bool registers = type == "dinov2_with_registers";
  c.prefix = type + ".";
  c.body = VitConfig::parse(json, {.patch = registers ? 16 : 14, .norm_eps = 1e-6});
  EncoderConfig& e = c.body.encoder;
  const double ratio = positive_number(json, "mlp_ratio", 4);
  if (ratio > static_cast<double>(kMostRatio))
    json.fail("mlp_ratio", "at most " + std::to_string(kMostRatio));
  e.d_ff = static_cast<std::int64_t>(static_cast<double>(e.d_model) * ratio);
  if (e.d_ff < 1) json.fail("mlp_ratio", "a ratio that gives the feed-forward network at least one unit");
  c.gated = json.boolean("use_swiglu_ffn", false);
  if (c.gated) e.d_ff = (e.d_ff * 2 / 3 + 7) / 8 * 8;  // as many weights as without a gate, a multiple of 8
  c.body.layer_scale = json.number("layerscale_value", 1.0);
  c.body.mask_token = registers || json.boolean("use_mask_token", true);
  if (registers) c.body.registers = json.positive_integer("num_register_tokens", 4);
  if (c.body.registers > kMostPositions)
    json.fail("num_register_tokens", "at most " + std::to_string(kMostPositions));
  c.body.count_tokens();
  e.sequence_input = SequenceInput::first_and_mean;
  e.skipped = 1 + c.body.registers;
  // Stochastic depth, which only training has, and what other heads read.
  json.ignore({"drop_path_rate", "apply_layernorm", "out_features", "out_indices", "reshape_hidden_states",
               "stage_names"});
  return c;
}

std::unique_ptr<Model> build_dinov2(const Dinov2Config& c, WeightBuilder& w) {
  const EncoderConfig& e = c.body.encoder;
  const EncoderHeads heads{.prefix = c.prefix, .sequence = {.output = "classifier"}};
  EncoderParts parts = take_vit_body(c.body, heads,
                                     {.norm = "norm1",
                                      .feed_forward_norm = "norm2",
                                      .up = c.gated ? "mlp.weights_in" : "mlp.fc1",
                                      .down = c.gated ? "mlp.weights_out" : "mlp.fc2",
                                      .scale = "layer_scale1",
                                      .feed_forward_scale = "layer_scale2",
                                      .gated = c.gated},
                                     w);
  parts.pooled = SequenceInput::first_token;
  parts.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

Family dinov2_family() {
  return family<&Dinov2Config::parse, build_dinov2>({"dinov2", "dinov2_with_registers"});
}

}  // namespace heed
