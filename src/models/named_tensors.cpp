// Checks of named inputs, and listeners for named outputs.
#include "models/named_tensors.h"

#include <algorithm>

#include "core/strings.h"
#include "heed/error.h"

namespace heed {

const Tensor& required_input(const TensorMap& inputs, const char* name) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) throw Error(std::string("forward: input ") + name + " not found");
  return found->second;
}

Tensor ids_input(const Tensor& tensor, const char* name) {
  const bool integer = tensor.dtype() == DType::i64 || tensor.dtype() == DType::i32;
  if (tensor.rank() != 2 || !integer || tensor.size(1) == 0) {
    throw Error(std::string("forward: ") + name +
                ": expected integers [batch, length] of at least one token, got " + tensor.str());
  }
  return tensor.to(DType::i64).contiguous();
}

Tensor optional_ids(const TensorMap& inputs, const char* name, const Shape* expected) {
  const auto found = inputs.find(name);
  if (found == inputs.end()) return {};
  Tensor ids = ids_input(found->second, name);
  if (expected != nullptr && ids.shape() != *expected) {
    throw Error(std::string("forward: ") + name + ": expected shape " + expected->str() + ", got " +
                ids.shape().str());
  }
  return ids;
}

bool has_rows(const Shape& shape, const Shape& row) {
  if (shape.rank() != row.rank() + 1) return false;
  return std::equal(row.begin(), row.end(), shape.begin() + 1, [](std::int64_t wanted, std::int64_t size) {
    return wanted == size || (wanted == -1 && size > 0);
  });
}

std::string row_text(const Shape& row) {
  if (row == Shape{-1}) return "any number of samples";
  std::string text;
  for (const std::int64_t size : row)
    text += (text.empty() ? "[" : ", ") + (size == -1 ? "any" : std::to_string(size));
  return text + "]";
}

Tensor floats_input(const TensorMap& inputs, const char* name, const Shape& row) {
  const Tensor& tensor = required_input(inputs, name);
  if (!has_rows(tensor.shape(), row) || tensor.size(0) == 0 || !is_floating(tensor.dtype())) {
    throw Error(std::string("forward: ") + name + ": expected floating numbers, rows of " + row_text(row) +
                " in a batch of at least one, got " + tensor.str());
  }
  return tensor.to(DType::f32).contiguous();
}

void check_ids(const Tensor& ids, const char* name, std::int64_t count) {
  for (std::int64_t i = 0; ids.defined() && i < ids.numel(); ++i) {
    const std::int64_t id = ids.data<std::int64_t>()[i];
    if (id >= 0 && id < count) continue;
    throw Error(std::string("forward: ") + name + ": expected ids in [0, " + std::to_string(count) +
                "), got " + std::to_string(id) + " at [" + std::to_string(i / ids.size(1)) + ", " +
                std::to_string(i % ids.size(1)) + "]");
  }
}

void refuse_unknown_inputs(const TensorMap& inputs, const std::set<std::string>& known) {
  for (const auto& [name, tensor] : inputs) {
    if (known.contains(name)) continue;
    throw Error("forward: expected inputs this model takes (" + joined(known) + "), got " + name + " " +
                tensor.str());
  }
}

ModelInput token_inputs(const TensorMap& inputs, std::int64_t vocab, std::set<std::string> others) {
  others.insert({"input_ids", "attention_mask"});
  refuse_unknown_inputs(inputs, others);
  ModelInput tokens{.ids = ids_input(required_input(inputs, "input_ids"), "input_ids")};
  check_ids(tokens.ids, "input_ids", vocab);
  tokens.mask = optional_ids(inputs, "attention_mask", &tokens.ids.shape());
  return tokens;
}

std::set<std::string> value_names(const InputSpec& spec) {
  std::set<std::string> names{spec.name};
  if (spec.kind == InputKind::waveform) names.insert("attention_mask");
  if (spec.kind == InputKind::patches) names.insert({"pixel_attention_mask", "spatial_shapes"});
  return names;
}

ModelInput values_input(const TensorMap& inputs, const InputSpec& spec, std::set<std::string> others) {
  others.merge(value_names(spec));
  refuse_unknown_inputs(inputs, others);
  ModelInput given{.values = floats_input(inputs, spec.name, spec.row)};
  if (spec.kind == InputKind::waveform)
    given.mask = optional_ids(inputs, "attention_mask", &given.values.shape());
  if (spec.kind != InputKind::patches) return given;
  const Shape patches{given.values.size(0), given.values.size(1)}, sizes{given.values.size(0), 2};
  given.mask = optional_ids(inputs, "pixel_attention_mask", &patches);
  required_input(inputs, "spatial_shapes");
  given.grids = optional_ids(inputs, "spatial_shapes", &sizes);
  return given;
}

AttentionOptions masked_keys(const Tensor& mask) {
  AttentionOptions options;
  if (mask.defined()) options.key_mask = mask.to(DType::boolean);
  return options;
}

Collector::Collector(const Context& user, const ForwardOptions& options)
    : context(user), options_(options), taps_(user.taps) {}

void Collector::put(const std::string& tap, const std::string& name) {
  context.taps = &taps_;
  taps_.listen(tap, [this, name](const std::string&, Tensor& value) { outputs[name] = value; });
}

void Collector::listen(const Stack& stack, const std::string& prefix) {
  listen(stack.name, stack.layers.size(), prefix);
}

void Collector::listen(const std::string& stack, std::size_t layers, const std::string& prefix) {
  if (options_.hidden_states) put(stack + ".embed", prefix + "hidden_states.0");
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string number = std::to_string(i), layer = stack + ".layers." + number;
    if (options_.hidden_states) put(layer + ".out", prefix + "hidden_states." + std::to_string(i + 1));
    if (!options_.attentions) continue;
    put(layer + ".self_attn.weights", prefix + "attentions." + number);
    put(layer + ".cross_attn.weights", "cross_attentions." + number);
  }
}

void Collector::replace_last(const Stack& stack, const std::string& prefix, const Tensor& hidden) {
  if (options_.hidden_states)
    outputs[prefix + "hidden_states." + std::to_string(stack.layers.size())] = hidden;
}

}  // namespace heed
