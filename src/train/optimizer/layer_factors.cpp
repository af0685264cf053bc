// Counts the layers above each parameter, by the names.
#include "train/optimizer/layer_factors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

// The stack and the number of the layer that a parameter is of: {"model.layers", 3} of
// model.layers.3.mlp.weight.
std::optional<std::pair<std::string, std::int64_t>> layer_of(const std::string& name) {
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    std::int64_t number = 0;
    const char* begin = name.data() + dot + 1;
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), number);
    if (error == std::errc() && *end == '.') return std::pair(name.substr(0, dot), number);
  }
  return std::nullopt;
}

}  // namespace

std::vector<double> layer_factors(const std::vector<Parameter>& parameters, double decay) {
  if (decay == 1) return {};
  std::set<std::string> stacks;
  std::int64_t layers = 0;
  for (const Parameter& p : parameters) {
    const auto layer = layer_of(p.name);
    if (!layer) continue;
    stacks.insert(layer->first);
    layers = std::max(layers, layer->second + 1);
  }
  if (stacks.size() != 1)
    throw Error(
        fmt::format("recipe: train.layer_decay: expected a model with one stack of layers, got {} (set "
                    "it to 1)",
                    stacks.empty() ? "none" : fmt::format("{}", fmt::join(stacks, ", "))));
  std::vector<double> factors;
  std::int64_t above = layers + 1;  // of the embeddings, which stand before the layers
  for (const Parameter& p : parameters) {
    if (const auto layer = layer_of(p.name)) {
      above = layers - layer->second;
    } else if (above <= layers) {
      above = 0;  // what stands behind a layer is the head
    }
    factors.push_back(std::pow(decay, above));
  }
  return factors;
}

}  // namespace heed
