// The M2M100 family (Fan et al. 2021, "Beyond English-centric multilingual machine translation") and NLLB:
// mBART's layers with computed positions that skip padding. The rest is in bart_common.h.
#include "heed/ops/shape.h"
#include "models/families.h"
#include "models/families/bart_common.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

BartConfig parse_m2m100(const Config& json) {
  BartConfig c = BartConfig::parse(
      json, {.vocab_size = 128112, .activation = "relu", .attention_dropout = 0.1, .scale_embedding = true});
  c.max_positions = computed_positions(json);
  c.layers.norm_first = true;
  return c;
}

TensorTable m2m100_table(const BartConfig& c, const HasTensor&) {
  TensorTable table;
  table.prefix = "model.";
  add_shared_embedding(table, c);
  add_bart_layers(table, c.layers);
  for (const char* stack : {"model.encoder.", "model.decoder."}) {
    const std::string name = stack;
    add_norm(table, name + "layer_norm", c.layers.d_model);
    for (const char* computed : {"embed_positions.weight", "embed_positions.weights"})
      table.ignored_names.push_back(name + computed);
  }
  return table;
}

// Zeros for padding, then the positions from the padding id + 1 on.
Tensor position_rows(const BartConfig& c) {
  const Tensor table = Tensor::zeros({c.max_positions + 1, c.layers.d_model});
  slice(table, 0, 1, c.max_positions + 1)
      .copy_from(sinusoidal_table_to_10000(c.pad + 1, c.max_positions, c.layers.d_model));
  return table;
}

std::unique_ptr<Model> build_m2m100(const BartConfig& c, ModelFiles files) {
  const AdditivePositions positions(position_rows(c), 1);
  return build_bart_model(c, std::move(files),
                          [&](const Weights&, const std::string&, InputEmbeddings& embeddings) {
                            embeddings.positions = positions;
                            embeddings.unpositioned = c.pad;
                          });
}

}  // namespace

Family m2m100_family() { return family<parse_m2m100, m2m100_table, build_m2m100>({"m2m_100"}); }

}  // namespace heed
