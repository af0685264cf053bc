// ViT and DeiT (Touvron et al. 2021, "Training data-efficient image transformers"): their config, and the
// model built from parts.
#include "models/config_fields.h"
#include "models/families.h"
#include "models/families/vit_common.h"

namespace heed {
namespace {

struct VitModelConfig {
  VitConfig body;
  std::string prefix;
  std::int64_t pooled = 0;
  Activation pooler_activation = Activation::tanh;

  static VitModelConfig parse(const Config& json);
};

VitModelConfig VitModelConfig::parse(const Config& json) {
  VitModelConfig c;
  const bool deit = json.required_string("model_type") == "deit";
  const std::string name = deit ? "DeiT" : "ViT", classifier = name + "ForImageClassification";
  const std::vector<std::string> architectures = json.strings("architectures");
  if (!architectures.empty() && !architectures.front().ends_with("Model") &&
      architectures.front() != classifier)
    json.fail("architectures", name + "Model or " + classifier);
  c.prefix = deit ? "deit." : "vit.";
  c.body = VitConfig::parse(json);
  c.body.encoder.d_ff = json.positive_integer("intermediate_size", 3072);
  c.body.distillation = deit;
  c.body.count_tokens();
  c.pooled = json.positive_integer("pooler_output_size", c.body.encoder.d_model);
  c.pooler_activation = activation_setting(json, "pooler_act", json.string("pooler_act", "tanh"));
  json.ignore({"encoder_stride"});
  return c;
}

std::unique_ptr<Model> build_vit(const VitModelConfig& c, WeightBuilder& w) {
  const EncoderConfig& e = c.body.encoder;
  const EncoderHeads heads{.prefix = c.prefix, .sequence = {.output = "classifier"}};
  EncoderParts parts = take_vit_body(c.body, heads, {}, w);
  if (const std::string pooler = "pooler.dense"; e.head == EncoderHead::none && w.has(pooler + ".weight")) {
    parts.pooler = w.linear(pooler, c.pooled, e.d_model);
    parts.pooler_activation = c.pooler_activation;
  }
  parts.head = take_head(e, heads, w);
  return assemble_encoder(e, w.finish(), std::move(parts));
}

}  // namespace

Family vit_family() { return family<&VitModelConfig::parse, build_vit>({"vit", "deit"}, {"ViT", "DeiT"}); }

}  // namespace heed
