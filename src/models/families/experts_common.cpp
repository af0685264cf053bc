// Settings, rows and parts of mixtures of experts.
#include "models/families/experts_common.h"

#include "models/config_fields.h"
#include "models/tensor_rows.h"

namespace heed {
namespace {

constexpr std::int64_t kMostExperts = 65536;  // of all layers: each has rows before a file is looked at

std::string expert_file(const std::string& layer, const ExpertsConfig& c, std::int64_t e) {
  return layer + c.block + ".experts." + std::to_string(e) + ".";
}

}  // namespace

ExpertsConfig ExpertsConfig::parse(const Config& json, std::int64_t layers, std::int64_t count_default,
                                   std::int64_t chosen_default) {
  ExpertsConfig c;
  const char* count = common_or_own(json, "num_local_experts", "num_experts");  // transformers 5, and before
  c.count = json.positive_integer(count, count_default);
  if (c.count > kMostExperts / layers)
    json.fail(count, "at most " + std::to_string(kMostExperts) + " experts in all layers");
  c.chosen = json.positive_integer("num_experts_per_tok", chosen_default);
  if (c.chosen > c.count)
    json.fail("num_experts_per_tok", "at most the " + std::to_string(c.count) + " experts there are");
  const double coefficient = json.number("router_aux_loss_coef", 0.001);
  if (json.boolean("output_router_logits", false)) c.loss_coefficient = coefficient;
  c.layers.assign(static_cast<std::size_t>(layers), true);
  return c;
}

void add_experts(TensorTable& table, const std::string& layer, std::int64_t d_model, const ExpertsConfig& c) {
  add_linear(table, layer + c.block + ".gate", c.count, d_model, false);
  for (std::int64_t e = 0; e < c.count; ++e) {
    const std::string expert = expert_file(layer, c, e);
    add_linear(table, expert + c.gate, c.d_ff, d_model, false);
    add_linear(table, expert + c.up, c.d_ff, d_model, false);
    add_linear(table, expert + c.down, d_model, c.d_ff, false);
  }
}

Experts experts_part(const Weights& weights, const std::string& layer, Activation activation,
                     const ExpertsConfig& c) {
  Experts part{.router = linear_part(weights, layer + c.block + ".gate"),
               .experts = {},
               .chosen = c.chosen,
               .normalise = c.normalise};
  for (std::int64_t e = 0; e < c.count; ++e) {
    const std::string expert = expert_file(layer, c, e);
    part.experts.push_back({.up = linear_part(weights, expert + c.up),
                            .down = linear_part(weights, expert + c.down),
                            .activation = activation,
                            .gate = linear_part(weights, expert + c.gate)});
  }
  return part;
}

}  // namespace heed
