// DINOv2 (Oquab et al. 2024), without and with registers: its config, and the model built from parts.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/towers.h"

namespace heed {
namespace {

constexpr std::int64_t kMostRatio = 1024;  // of the feed-forward network's units to those of the model

struct Dinov2Config {
  ImageTower tower;
  std::string prefix;

  static Dinov2Config parse(const Config& json) {
    return {dinov2_tower(json), json.required_string("model_type") + "."};
  }
};

std::unique_ptr<Model> build_dinov2(const Dinov2Config& c, WeightBuilder& w) {
  const EncoderConfig& e = c.tower.body.encoder;
  const EncoderHeads heads{.prefix = c.prefix, .sequence = {.output = "classifier"}};
  EncoderParts parts = take_vit_body(c.tower.body, begin_body(e, heads, w), c.tower.names, w);
  parts.pool = pool_first_token();
  parts.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

ImageTower dinov2_tower(const Config& json) {
  const bool registers = json.required_string("model_type") == "dinov2_with_registers";
  VitConfig body = VitConfig::parse(json, {.patch = registers ? 16 : 14, .norm_eps = 1e-6});
  body.encoder.dropout = probability(json, "hidden_dropout_prob", 0.0);
  body.bias.query = body.bias.key = body.bias.value = json.boolean("qkv_bias", true);
  EncoderConfig& e = body.encoder;
  const double ratio = positive_number(json, "mlp_ratio", 4);
  if (ratio > static_cast<double>(kMostRatio))
    json.fail("mlp_ratio", "at most " + std::to_string(kMostRatio));
  e.d_ff = static_cast<std::int64_t>(static_cast<double>(e.d_model) * ratio);
  if (e.d_ff < 1) json.fail("mlp_ratio", "a ratio that gives the feed-forward network at least one unit");
  const bool gated = json.boolean("use_swiglu_ffn", false);
  if (gated) e.d_ff = (e.d_ff * 2 / 3 + 7) / 8 * 8;  // as many weights as without a gate, a multiple of 8
  body.layer_scale = json.number("layerscale_value", 1.0);
  body.mask_token = registers || json.boolean("use_mask_token", true);
  if (registers) body.registers = register_count(json, 4);
  body.resize = registers ? GridResize::smooth_cubic : GridResize::cubic;
  const std::int64_t patches = body.grid().numel(), side = side_of(patches);
  if (side * side != patches) json.fail("image_size", "sizes whose number of patches is a square number");
  body.count_tokens();
  e.sequence_input = SequenceInput::first_and_mean;
  e.skipped = 1 + body.registers;
  // Stochastic depth, which only training has, and what other heads read.
  json.ignore({"drop_path_rate", "apply_layernorm", "out_features", "out_indices", "reshape_hidden_states",
               "stage_names"});
  return {.body = std::move(body),
          .names = {.norm = "norm1",
                    .feed_forward_norm = "norm2",
                    .up = gated ? "mlp.weights_in" : "mlp.fc1",
                    .down = gated ? "mlp.weights_out" : "mlp.fc2",
                    .fused_gate = gated,
                    .scale = "layer_scale1",
                    .feed_forward_scale = "layer_scale2"}};
}

Family dinov2_family() {
  return family<&Dinov2Config::parse, build_dinov2>({"dinov2", "dinov2_with_registers"},
                                                    {"Dinov2", "Dinov2WithRegisters"});
}

}  // namespace heed
