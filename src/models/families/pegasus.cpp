// The Pegasus family (Zhang et al. 2020, "PEGASUS: pre-training with extracted gap-sentences for abstractive
// summarization"): mBART's layers with sinusoidal positions, which are in the file and are not trained. The
// rest is in bart_common.h.
#include "models/families.h"
#include "models/families/bart_common.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

BartConfig parse_pegasus(const Config& json) {
  BartConfig c = BartConfig::parse(json, {.pad = 0, .eos = 1, .start = 0});
  c.max_positions = computed_positions(json);
  c.layers.norm_first = true;
  return c;
}

void fill_positions(const Tensor& table) {
  table.copy_from(sinusoidal_table(table.size(0), table.size(1), SinusoidLayout::halves));
}

TensorTable pegasus_table(const BartConfig& c, const HasTensor&) {
  TensorTable table;
  table.prefix = "model.";
  add_shared_embedding(table, c);
  add_bart_layers(table, c.layers);
  for (const char* stack : {"model.encoder.", "model.decoder."}) {
    const std::string name = stack;
    TensorRow positions{name + "embed_positions.weight", {c.max_positions, c.layers.d_model}};
    positions.trained = positions.required = false;
    positions.fill = fill_positions;
    table.rows.push_back(positions);
    add_norm(table, name + "layer_norm", c.layers.d_model);
  }
  add_logits_bias(table, c.vocab_size);
  return table;
}

std::unique_ptr<Model> build_pegasus(const BartConfig& c, ModelFiles files) {
  return build_bart_model(
      c, std::move(files), [](const Weights& weights, const std::string& stack, InputEmbeddings& embeddings) {
        embeddings.positions = AdditivePositions(weights[stack + "embed_positions.weight"]);
      });
}

}  // namespace

Family pegasus_family() { return family<parse_pegasus, pegasus_table, build_pegasus>({"pegasus"}); }

}  // namespace heed
