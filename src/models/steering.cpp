// Steering vectors: reading and writing their files, and adding them to the layers of a model.
#include "models/steering.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <set>
#include <tuple>

#include "core/strings.h"
#include "files/gguf_file.h"
#include "files/gguf_output.h"
#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/models/steering.h"
#include "heed/nn/attention.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/shape.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDirection = "direction.";
constexpr const char* kArchitecture = "controlvector";

std::optional<std::int64_t> layer_number(std::string_view digits) {
  std::int64_t layer = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (result.ec != std::errc() || result.ptr != digits.data() + digits.size() || layer < 0) return {};
  return layer;
}

// STACK.layers.N.out or direction.N
std::optional<SteeringVector> place_named(const std::string& name) {
  constexpr std::string_view kLayers = ".layers.", kOut = ".out";
  if (name.starts_with(kDirection)) {
    const auto layer = layer_number(std::string_view(name).substr(std::strlen(kDirection)));
    return layer ? std::optional(SteeringVector{"", *layer, {}, name}) : std::nullopt;
  }
  const std::size_t layers = name.find(kLayers);
  if (layers == std::string::npos || !name.ends_with(kOut)) return {};
  const std::size_t digits = layers + kLayers.size();
  if (digits + kOut.size() > name.size()) return {};
  const auto layer = layer_number(std::string_view(name).substr(digits, name.size() - kOut.size() - digits));
  return layer ? std::optional(SteeringVector{name.substr(0, layers), *layer, {}, name}) : std::nullopt;
}

SteeringVector vector_of(const fs::path& file, const std::string& name, const Tensor& stored) {
  std::optional<SteeringVector> vector = place_named(name);
  if (!vector) {
    throw Error(file.string() + ": " + name +
                ": expected steering vectors, tensors named decoder.layers.N.out or direction.N, got another "
                "name (heed steer makes such files)");
  }
  // A vector, perhaps with axes of one row.
  if (!is_floating(stored.dtype()) || stored.rank() == 0 || stored.numel() == 0 ||
      stored.size(-1) != stored.numel())
    throw Error(file.string() + ": " + name + ": expected a vector of floating numbers, got " + stored.str());
  vector->vector = reshape(stored.to(DType::f32).contiguous(), {stored.numel()});
  const std::vector<float> numbers = vector->vector.to_vector<float>();
  if (!std::all_of(numbers.begin(), numbers.end(), [](float number) { return std::isfinite(number); }))
    throw Error(file.string() + ": " + name + ": expected finite numbers, got others");
  return *vector;
}

Tensor tensor_of(const GgufTensor& tensor) {
  const Shape shape{std::span<const std::int64_t>(tensor.shape)};
  return tensor_of_blocks({.type = tensor.layout.type,
                           .rows = shape.numel() / tensor.shape.back(),
                           .columns = tensor.shape.back(),
                           .data = tensor.data,
                           .owner = tensor.file,
                           .release = MappedFile::forget},
                          shape);
}

// The width of the stream: of a norm, or else of what attention adds.
std::optional<std::int64_t> width_of(const Layer& layer) {
  for (const ResidualStep& step : layer.steps) {
    for (const Sublayer& sublayer : step.sublayers) {
      for (const std::optional<Norm>& norm : {sublayer.norm_before, sublayer.norm_after, step.norm_sum}) {
        if (norm && norm->weight.defined()) return norm->weight.numel();
      }
      if (const auto* self = sublayer.part.as<SelfAttention>()) {
        const Linear& out = self->attention.out;
        return out.weight.size(out.layout == WeightLayout::out_in ? 0 : 1);
      }
    }
  }
  return {};
}

std::vector<SteeringVector> vectors_of_gguf(const fs::path& path) {
  const GgufFile file = GgufFile::open(path);
  const std::string architecture = file.string("general.architecture").value_or("");
  if (architecture != kArchitecture)
    file.fail("general.architecture", kArchitecture, architecture.empty() ? "none" : architecture);
  std::vector<SteeringVector> vectors;
  for (const GgufTensor& tensor : file.tensors())
    vectors.push_back(vector_of(path, tensor.name, tensor_of(tensor)));
  return vectors;
}

std::vector<SteeringVector> vectors_of_safetensors(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<SteeringVector> vectors;
  for (const TensorInfo& info : file.tensors())
    vectors.push_back(vector_of(path, info.name, file.get(info.name)));
  return vectors;
}

void save_gguf_vectors(const fs::path& path, const std::vector<SteeringVector>& vectors,
                       const std::string& hint) {
  std::vector<GgufOutputTensor> tensors;
  std::set<std::string> stacks;
  for (const SteeringVector& vector : vectors) {
    stacks.insert(vector.stack);
    if (vector.layer == 0) continue;
    tensors.push_back({.name = kDirection + std::to_string(vector.layer),
                       .type = BlockType::f32,
                       .shape = {vector.vector.numel()},
                       .data = [numbers = vector.vector.to(DType::f32).to_vector<float>()] {
                         std::vector<std::byte> bytes(numbers.size() * sizeof(float));
                         std::memcpy(bytes.data(), numbers.data(), bytes.size());
                         return bytes;
                       }});
  }
  if (stacks.size() > 1)
    throw Error(path.string() + ": expected vectors of one stack for a control vector, got those of " +
                *stacks.begin() + " and " + *stacks.rbegin() + " (write .safetensors)");
  if (tensors.empty())
    throw Error(path.string() +
                ": expected layers from 1 on for a control vector, got layer 0 alone (write .safetensors)");
  GgufValues values;
  values.text("general.architecture", kArchitecture);
  values.text("controlvector.model_hint", hint);
  values.integer("controlvector.layer_count", std::ssize(tensors));
  write_gguf(path, values, tensors);
}

std::string predicting_stack(const Model& model) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  return encoder != nullptr ? encoder->stack_name() : "decoder";
}

[[noreturn]] void refuse_to_steer(const Model& model) {
  throw Error("expected a model whose layers are sublayers, got " + model.family() +
              ", which cannot be steered");
}

// Those that the model adds vectors to.
std::vector<const Stack*> stacks_of(const Model& model) {
  std::vector<const Stack*> stacks;
  for (const std::string& name : std::set<std::string>{"encoder", "decoder", predicting_stack(model)}) {
    if (const Stack* stack = model.stack_named(name)) stacks.push_back(stack);
  }
  if (stacks.empty()) refuse_to_steer(model);
  return stacks;
}

// The index of the stack of that name. Throws Error for a stack, a layer or a width that is not there.
std::size_t check_steering(const std::vector<const Stack*>& stacks, const std::string& name,
                           std::int64_t layer, const Tensor& vector) {
  const auto found =
      std::find_if(stacks.begin(), stacks.end(), [&](const Stack* stack) { return stack->name == name; });
  if (found == stacks.end())
    throw Error("expected a layer of the stack " + joined(stacks, " or ", &Stack::name) + ", got one of " +
                name);
  const std::vector<Layer>& layers = (*found)->layers;
  if (layer < 0 || layer >= std::ssize(layers))
    throw Error("expected a layer below " + std::to_string(layers.size()) + ", which the model has, got " +
                std::to_string(layer));
  const std::optional<std::int64_t> width = width_of(layers[static_cast<std::size_t>(layer)]);
  if (vector.rank() != 1 || vector.size(0) != width.value_or(vector.size(0)))
    throw Error("expected a vector of " + std::to_string(width.value_or(1)) +
                " numbers, as many as the model's stream has, got " + vector.str());
  return static_cast<std::size_t>(found - stacks.begin());
}

// Calls add(stack, layer, vector) with the vectors of a source, times its strength; what that throws gets the
// names of the file and the tensor.
void each_vector(const Model& model, const SteeringSource& source,
                 const std::function<void(const std::string&, std::int64_t, const Tensor&)>& add) {
  std::int64_t taken = 0;
  const std::vector<SteeringVector> vectors = load_steering(source.file);
  for (const SteeringVector& vector : vectors) {
    if (vector.layer < source.layers.begin || (source.layers.end && vector.layer >= *source.layers.end))
      continue;
    ++taken;
    try {
      add(vector.stack.empty() ? predicting_stack(model) : vector.stack, vector.layer,
          vector.vector * source.strength);
    } catch (const Error& error) {
      throw Error(source.file.string() + ": " + vector.tensor + ": " + error.what());
    }
  }
  if (taken > 0) return;
  throw Error(source.file.string() + ": expected vectors of layers from " +
              std::to_string(source.layers.begin) +
              (source.layers.end ? " to " + std::to_string(*source.layers.end - 1) : " on") +
              ", got those of layers " + std::to_string(vectors.front().layer) + " to " +
              std::to_string(vectors.back().layer));
}

}  // namespace

std::vector<SteeringVector> load_steering(const fs::path& file) {
  std::vector<SteeringVector> vectors = is_gguf(file) ? vectors_of_gguf(file) : vectors_of_safetensors(file);
  if (vectors.empty()) throw Error(file.string() + ": expected steering vectors, got no tensors");
  std::sort(vectors.begin(), vectors.end(), [](const SteeringVector& a, const SteeringVector& b) {
    return std::tie(a.stack, a.layer) < std::tie(b.stack, b.layer);
  });
  return vectors;
}

void save_steering(const fs::path& file, const std::vector<SteeringVector>& vectors, const std::string& hint,
                   const std::map<std::string, std::string>& metadata) {
  if (file.extension() == ".gguf") return save_gguf_vectors(file, vectors, hint);
  std::vector<NamedTensor> tensors;
  for (const SteeringVector& vector : vectors)
    tensors.push_back({vector.stack + ".layers." + std::to_string(vector.layer) + ".out", vector.vector});
  save_safetensors(file, tensors, metadata);
}

void steer_model(Model& model, const std::vector<SteeringSource>& sources) {
  for (const SteeringSource& source : sources) {
    each_vector(model, source, [&](const std::string& stack, std::int64_t layer, const Tensor& vector) {
      model.steer(stack, layer, vector);
    });
  }
}

TensorMap steering_by_taps(const Model& model, const SteeringSource& source) {
  TensorMap vectors;
  each_vector(model, source, [&](const std::string& stack, std::int64_t layer, const Tensor& vector) {
    check_steering(stacks_of(model), stack, layer, vector);
    Tensor& sum = vectors[stack + ".layers." + std::to_string(layer) + ".out"];
    sum = sum.defined() ? sum + vector : vector;
  });
  return vectors;
}

void Model::steer(const std::string&, std::int64_t, const Tensor&) { refuse_to_steer(*this); }

void steer_stack(const std::vector<Stack*>& stacks, const std::string& name, std::int64_t layer,
                 const Tensor& vector) {
  const std::size_t at = check_steering({stacks.begin(), stacks.end()}, name, layer, vector);
  Layer& steered = stacks[at]->layers[static_cast<std::size_t>(layer)];
  steered.steering = steered.steering.defined() ? steered.steering + vector : vector;
}

}  // namespace heed
