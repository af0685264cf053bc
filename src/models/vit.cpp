// ViT: its config, its table of tensors, and the model built from parts.
#include "heed/models/vit.h"

#include <algorithm>

#include "heed/nn/block.h"
#include "heed/nn/convolution.h"
#include "heed/nn/positions.h"
#include "heed/ops/embedding.h"
#include "heed/ops/shape.h"
#include "models/config_fields.h"
#include "models/labels.h"
#include "models/model_files.h"
#include "models/named_tensors.h"
#include "models/rows.h"

namespace heed {
namespace {

constexpr std::int64_t kMostPixels = 65536;  // of a side

// The height and the width under `key`, which may be one number for both.
Shape height_and_width(const Config& json, const char* key, std::int64_t otherwise) {
  const std::vector<std::int64_t> sizes = json.integers(key);
  if (sizes.size() > 2) json.fail(key, "one number or two");
  const Shape shape{sizes.empty() ? otherwise : sizes.front(), sizes.empty() ? otherwise : sizes.back()};
  if (std::min(shape[0], shape[1]) < 1 || std::max(shape[0], shape[1]) > kMostPixels)
    json.fail(key, "1 to " + std::to_string(kMostPixels));
  return shape;
}

struct VitConfig {
  bool classifies = false;
  std::vector<std::string> labels;
  std::optional<LabelProblem> problem;
  std::int64_t width = 0, layers = 0, heads = 0, inner = 0, channels = 0, pooled = 0;
  Shape image, patch;
  Activation activation = Activation::gelu, pooler_activation = Activation::tanh;
  double norm_eps = 1e-12, dropout = 0.0, attention_dropout = 0.0;
  bool bias = true;  // of queries, keys and values

  static VitConfig parse(const Config& json);
  std::int64_t tokens() const { return image[0] / patch[0] * (image[1] / patch[1]) + 1; }
  // A bare model's tensors have no prefix, those under a head have one.
  std::string prefix() const { return classifies ? "vit." : ""; }
};

VitConfig VitConfig::parse(const Config& json) {
  VitConfig c;
  const std::vector<std::string> architectures = json.strings("architectures");
  const std::string architecture = architectures.empty() ? "ViTModel" : architectures.front();
  c.classifies = architecture == "ViTForImageClassification";
  if (!c.classifies && architecture != "ViTModel")
    json.fail("architectures", "ViTModel or ViTForImageClassification");
  c.labels = label_names(json);
  c.problem = label_problem(json);
  c.width = json.positive_integer("hidden_size", 768);
  c.layers = layer_count(json, "num_hidden_layers", 12);
  c.heads = json.positive_integer("num_attention_heads", 12);
  c.inner = json.positive_integer("intermediate_size", 3072);
  c.channels = json.positive_integer("num_channels", 3);
  c.pooled = json.positive_integer("pooler_output_size", c.width);
  c.image = height_and_width(json, "image_size", 224);
  c.patch = height_and_width(json, "patch_size", 16);
  if (c.image[0] < c.patch[0] || c.image[1] < c.patch[1])
    json.fail("patch_size", "at most the sizes of image_size");
  c.activation = activation_setting(json, "hidden_act", json.string("hidden_act", "gelu"));
  c.pooler_activation = activation_setting(json, "pooler_act", json.string("pooler_act", "tanh"));
  c.norm_eps = norm_epsilon(json, "layer_norm_eps", 1e-12);
  c.dropout = probability(json, "hidden_dropout_prob", 0.0);
  c.attention_dropout = probability(json, "attention_probs_dropout_prob", 0.0);
  c.bias = json.boolean("qkv_bias", true);
  check_heads(json, "num_attention_heads", c.width, c.heads);
  json.ignore({"encoder_stride", "initializer_range"});
  ignore_common_keys(json);
  return c;
}

std::string vit_layer(const VitConfig& c, std::int64_t layer) {
  return c.prefix() + "encoder.layer." + std::to_string(layer) + ".";
}

TensorTable vit_table(const VitConfig& c, bool pooler) {
  const std::string embeddings = c.prefix() + "embeddings.",
                    patches = embeddings + "patch_embeddings.projection";
  TensorTable table;
  table.rows.push_back({embeddings + "cls_token", {1, 1, c.width}, Init::embedding});
  table.rows.push_back({embeddings + "position_embeddings", {1, c.tokens(), c.width}, Init::embedding});
  table.rows.push_back({patches + ".weight", {c.width, c.channels, c.patch[0], c.patch[1]}, Init::embedding});
  table.rows.push_back({patches + ".bias", {c.width}, Init::zeros});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = vit_layer(c, i);
    for (const char* part : {"query", "key", "value"})
      add_linear(table, layer + "attention.attention." + part, c.width, c.width, c.bias);
    add_linear(table, layer + "attention.output.dense", c.width, c.width);
    add_linear(table, layer + "intermediate.dense", c.inner, c.width);
    add_linear(table, layer + "output.dense", c.width, c.inner);
    add_norm(table, layer + "layernorm_before", c.width);
    add_norm(table, layer + "layernorm_after", c.width);
  }
  add_norm(table, c.prefix() + "layernorm", c.width);
  if (c.classifies) {
    add_linear(table, "classifier", static_cast<std::int64_t>(c.labels.size()), c.width);
    table.prefix = "vit.";
    return table;
  }
  if (pooler) add_linear(table, "pooler.dense", c.pooled, c.width);
  for (TensorRow& row : table.rows) row.aliases.push_back("vit." + row.name);
  table.computed = {"classifier.weight", "classifier.bias"};
  return table;
}

class Vit final : public Model {
 public:
  explicit Vit(ModelFiles files);

  std::string family() const override { return "vit"; }
  const std::vector<Parameter>& parameters() const override { return files_.weights.parameters(); }
  void save(const std::filesystem::path& directory, DType dtype) const override {
    files_.save(directory, dtype);
  }
  std::vector<std::string> unknown_settings() const override { return files_.config.unused(); }
  std::optional<std::int64_t> max_positions() const override { return config_.tokens(); }
  std::int64_t vocab_size() const override { return 0; }
  TensorMap forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const override;

 private:
  Tensor embed(const Tensor& pixels, Context& context) const;

  ModelFiles files_;
  VitConfig config_ = VitConfig::parse(files_.config);
  PatchEmbedding patches_;
  Encoder encoder_;
  std::optional<Linear> pooler_, classifier_;
};

Vit::Vit(ModelFiles files) : files_(std::move(files)) {
  const VitConfig& c = config_;
  const Weights& weights = files_.weights;
  const auto linear = [&](const std::string& name) { return linear_part(weights, name); };
  const auto norm = [&](const std::string& name) {
    return norm_part(weights, name, NormKind::layer, c.norm_eps);
  };
  const std::string patches = c.prefix() + "embeddings.patch_embeddings.projection";
  patches_ = {weights[patches + ".weight"], weights[patches + ".bias"]};
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string file = vit_layer(c, i), self = file + "attention.attention.";
    const std::string name = "encoder.layers." + std::to_string(i);
    encoder_.layers.push_back(
        {name,
         {name + ".self_attn", linear(self + "query"), linear(self + "key"), linear(self + "value"),
          linear(file + "attention.output.dense"), c.heads, c.heads, c.attention_dropout},
         {norm(file + "layernorm_before"), NormPlace::pre, c.dropout},
         {linear(file + "intermediate.dense"), linear(file + "output.dense"), c.activation, 0.0},
         {norm(file + "layernorm_after"), NormPlace::pre, c.dropout}});
  }
  encoder_.final_norm = norm(c.prefix() + "layernorm");
  if (weights.find("pooler.dense.weight").defined()) pooler_ = linear("pooler.dense");
  if (c.classifies) classifier_ = linear("classifier");
}

// Pixels [B, C, H, W] to tokens [B, N + 1, D], the learned first one before those of the patches.
Tensor Vit::embed(const Tensor& pixels, Context& context) const {
  const std::string name = config_.prefix() + "embeddings.";
  const Tensor first = reshape(files_.weights[name + "cls_token"], {1, config_.width});
  const Tensor places =
      reshape(files_.weights[name + "position_embeddings"], {config_.tokens(), config_.width});
  const Tensor firsts = embedding(first, Tensor::zeros({pixels.size(0), 1}, DType::i64));
  const Tensor tokens = concat({firsts, patches_(pixels)}, 1);
  return apply_dropout(AdditivePositions(places).embed(tokens, 0), config_.dropout, context);
}

TensorMap Vit::forward(const TensorMap& inputs, const ForwardOptions& options, Context& context) const {
  refuse_unknown_inputs(inputs, {"pixel_values", "labels"});
  const Tensor pixels =
      floats_input(inputs, "pixel_values", {config_.channels, config_.image[0], config_.image[1]});
  TensorMap outputs;
  Taps taps(context.taps);
  const std::size_t layers = encoder_.layers.size();
  if (options.hidden_states) collect_hidden_states(taps, encoder_.name, layers, "hidden_states", outputs);
  if (options.attentions) collect_attentions(taps, encoder_.name, "self_attn", layers, "attentions", outputs);
  Context listening = context;
  listening.taps = &taps;
  const Tensor hidden = encoder_(embed(pixels, listening), {}, listening);
  const Tensor first = reshape(slice(hidden, 1, 0, 1), {hidden.size(0), config_.width});
  if (!config_.classifies) {
    if (inputs.contains("labels"))
      throw Error("forward: labels: expected none, as a ViTModel has no head, got some");
    outputs["last_hidden_state"] = hidden;
    if (pooler_) outputs["pooler_output"] = (*pooler_)(first, config_.pooler_activation);
    return outputs;
  }
  outputs["logits"] = (*classifier_)(first);
  if (inputs.contains("labels"))
    outputs["loss"] = sequence_loss(outputs["logits"], inputs.at("labels"), config_.problem, {});
  return outputs;
}

}  // namespace

std::unique_ptr<Model> load_vit(const std::filesystem::path& directory, DType dtype) {
  return std::make_unique<Vit>(ModelFiles::load(directory, dtype, [&](const Config& json) {
    const TensorFiles files = TensorFiles::open(directory);
    return vit_table(VitConfig::parse(json),
                     files.contains("pooler.dense.weight") || files.contains("vit.pooler.dense.weight"));
  }));
}

std::unique_ptr<Model> make_vit(const Config& config, Generator& generator) {
  return std::make_unique<Vit>(ModelFiles::make(
      config, generator, [](const Config& json) { return vit_table(VitConfig::parse(json), true); }));
}

}  // namespace heed
