// The BART and mBART families: learned positions, and a norm of the embeddings. The rest is in bart_common.h.
#include "models/families.h"
#include "models/families/bart_common.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

constexpr std::int64_t kPositionOffset = 2;  // the first rows of the positions' tables are never used

BartConfig parse_bart(const Config& json) {
  BartConfig c = BartConfig::parse(json);
  c.layers.norm_first = c.starts_with_last_label = json.required_string("model_type") == "mbart";
  return c;
}

TensorTable bart_table(const BartConfig& c, const HasTensor&) {
  const std::int64_t d_model = c.layers.d_model;
  TensorTable table;
  table.prefix = "model.";
  add_shared_embedding(table, c);
  for (const char* stack : {"model.encoder.", "model.decoder."}) {
    const std::string name = stack;
    table.rows.push_back(
        {name + "embed_positions.weight", {c.max_positions + kPositionOffset, d_model}, Init::embedding});
    add_norm(table, name + "layernorm_embedding", d_model);
    if (c.layers.norm_first) add_norm(table, name + "layer_norm", d_model);
  }
  add_bart_layers(table, c.layers);
  add_logits_bias(table, c.vocab_size);
  return table;
}

std::unique_ptr<Model> build_bart(const BartConfig& c, ModelFiles files) {
  return build_bart_model(
      c, std::move(files), [](const Weights& weights, const std::string& stack, InputEmbeddings& embeddings) {
        embeddings.positions = AdditivePositions(weights[stack + "embed_positions.weight"], kPositionOffset);
        embeddings.norm = norm_part(weights, stack + "layernorm_embedding", NormKind::layer, 1e-5);
      });
}

}  // namespace

Family bart_family() { return family<parse_bart, bart_table, build_bart>({"bart", "mbart"}); }

}  // namespace heed
