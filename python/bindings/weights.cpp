// The linear maps of a decoder by what they do in a layer, whatever the family's file calls them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <array>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "heed/autograd.h"
#include "heed/models/model.h"
#include "heed/nn/attention.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/stack.h"
#include "heed/open/loaded_model.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"

namespace heed::python {
namespace nb = nanobind;
using namespace nb::literals;

namespace {

struct Map {
  Tensor weight = {};  // [out, in], or [groups, out, in] of rows in groups; undefined: there is none
  Tensor bias = {};    // [out], [groups, out], or undefined
};

// With the products of adapters.
Map map_of(const Linear& linear) {
  Tensor weight = linear.weight.dequantized();
  if (linear.layout == WeightLayout::in_out) weight = transpose(weight, 0, 1);
  for (const LoraAdapter& adapter : linear.weight.adapters())
    weight = weight + adapter.scale * matmul(adapter.b, adapter.a);
  return {weight.contiguous(), linear.bias};
}

// The rows first + group * stride, ..., of each group.
Map groups_of(const Map& all, std::int64_t first, std::int64_t stride, std::int64_t groups,
              std::int64_t rows) {
  const std::int64_t in = all.weight.size(1);
  Map part{all.weight.as_strided({groups, rows, in}, {stride * in, in, 1}, first * in)};
  if (all.bias.defined()) part.bias = all.bias.as_strided({groups, rows}, {stride, 1}, first);
  return part;
}

Map map_named(const MultiHeadAttention& attention, const std::string& name) {
  if (name == "out") return map_of(attention.out);
  const std::array<std::pair<const char*, const Linear*>, 3> kinds{
      {{"q", &attention.q}, {"k", &attention.k}, {"v", &attention.v}}};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    if (name != kinds[kind].first) continue;
    const std::int64_t heads = kind == 0 ? attention.heads : attention.kv_heads;
    if (const auto& fused = attention.fused)
      return groups_of(map_of(fused->projection), fused->first[kind], fused->stride, heads, fused->head_dim);
    const Map all = map_of(*kinds[kind].second);
    const std::int64_t rows = all.weight.size(0) / heads;
    return groups_of(all, 0, rows, heads, rows);
  }
  return {};
}

Map map_named(const FeedForward& network, const std::string& name) {
  if (name == "down") return map_of(network.down);
  if (name == "gate" && network.gate) return map_of(*network.gate);
  if (name == "up" && !network.fused_gate) return map_of(network.up);
  if ((name != "up" && name != "gate") || !network.fused_gate) return {};
  const Map both = map_of(network.up);
  const std::int64_t rows = both.weight.size(0) / 2, first = (name == "gate") == network.gate_last ? rows : 0;
  Map half{slice(both.weight, 0, first, first + rows)};
  if (both.bias.defined()) half.bias = slice(both.bias, 0, first, first + rows);
  return half;
}

bool rotates(const Layer& layer) {
  for (const ResidualStep& step : layer.steps) {
    for (const Sublayer& sublayer : step.sublayers) {
      const auto* self = sublayer.part.as<SelfAttention>();
      const auto* linear = sublayer.part.as<LinearSelfAttention>();
      if ((self != nullptr && self->attention.rotary) || (linear != nullptr && linear->attention.rotary))
        return true;
    }
  }
  return false;
}

Map map_named(const Layer& layer, const std::string& name) {
  for (const ResidualStep& step : layer.steps) {
    for (const Sublayer& sublayer : step.sublayers) {
      Map found;
      if (const auto* self = sublayer.part.as<SelfAttention>()) found = map_named(self->attention, name);
      if (const auto* network = sublayer.part.as<FeedForward>()) found = map_named(*network, name);
      if (found.weight.defined()) return found;
    }
  }
  return {};
}

// The caller's own.
nb::object arrays_of(const Map& map) {
  if (!map.weight.defined()) return nb::none();
  nb::object bias = nb::none();
  if (map.bias.defined()) bias = array_of(map.bias.detach().to(DType::f32).clone(), true);
  return nb::make_tuple(array_of(map.weight.detach(), true), bias);
}

}  // namespace

void bind_weights(nb::class_<LoadedModel>& model) {
  // The number of layers, and whether they rotate queries and keys; (0, False) without such a stack.
  model.def(
      "layers",
      [](const LoadedModel& self, const std::string& name) {
        const Stack* stack = self.model().stack_named(name);
        const std::size_t count = stack == nullptr ? 0 : stack->layers.size();
        return nb::make_tuple(count, count > 0 && rotates(stack->layers.front()));
      },
      "stack"_a);
  // Of the maps q, k, v [heads, d, D] and out of the self-attention, up, gate and down of the feed-forward
  // network: (weight, bias or None), float32; None where the layer has none.
  model.def(
      "layer_map",
      [](const LoadedModel& self, std::size_t layer, const std::string& name) {
        const NoGradients guard;
        const Stack* stack = self.model().stack_named("decoder");
        if (stack == nullptr || layer >= stack->layers.size()) throw nb::index_error("layer");
        return arrays_of(map_named(stack->layers[layer], name));
      },
      "layer"_a, "name"_a);
  // (weight [V, D], bias or None) of the map to logits.
  model.def("output_map", [](const LoadedModel& self) {
    const std::optional<ReadOut> read_out = self.model().read_out();
    return read_out ? arrays_of(map_of(read_out->output)) : nb::none();
  });
  model.def("token_vectors",
            [](const LoadedModel& self) { return array_of(self.model().token_vectors("decoder"), true); });
}

}  // namespace heed::python
