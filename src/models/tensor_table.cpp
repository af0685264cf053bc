// Loading, initialising and saving by a family's table.
#include "heed/models/tensor_table.h"

#include <cmath>
#include <set>

namespace heed {
namespace {

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

// The name under which the files hold a row, or "".
std::string stored_name(const TensorFiles& files, const TensorRow& row) {
  if (files.contains(row.name)) return row.name;
  for (const std::string& other : row.tied) {
    if (files.contains(other)) return other;
  }
  return "";
}

void check_complete(const TensorFiles& files, const TensorTable& table) {
  std::vector<std::string> missing, unused;
  std::set<std::string> known(table.computed.begin(), table.computed.end());
  for (const TensorRow& row : table.rows) {
    known.insert(row.name);
    known.insert(row.tied.begin(), row.tied.end());
    if (row.required && stored_name(files, row).empty()) missing.push_back(row.name);
  }
  for (const std::string& name : files.names()) {
    if (!known.contains(name)) unused.push_back(name);
  }
  const std::string where = files.path().string();
  if (!missing.empty()) {
    throw Error(where + ": expected the tensors config.json describes, got none named " + list(missing));
  }
  if (!unused.empty()) {
    throw Error(where + ": expected only the tensors config.json describes, got also " + list(unused) +
                " (config and weights may belong to different models)");
  }
}

Tensor initial_tensor(const TensorRow& row, RandomStream stream) {
  if (row.init == Init::zeros) return Tensor::zeros(row.shape);
  if (row.init == Init::ones) return Tensor::full(row.shape, 1.0);
  Tensor tensor = Tensor::empty(row.shape);
  float* values = tensor.data<float>();
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  if (row.init == Init::embedding) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = deviation * stream.normal(i);
  } else {
    const float limit = std::sqrt(6.0f / static_cast<float>(row.shape[0] + row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = limit * (2.0f * stream.uniform(i) - 1.0f);
  }
  return tensor;
}

/// Matrices take the dtype asked for; biases and norms stay wide where that is narrow, as they cost little.
DType kept_dtype(const TensorRow& row, DType dtype) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  return narrow && !(row.trained && row.shape.rank() > 1) ? DType::f32 : dtype;
}

}  // namespace

Weights Weights::load(const TensorFiles& files, const TensorTable& table, DType dtype) {
  check_complete(files, table);
  Weights weights;
  for (const TensorRow& row : table.rows) {
    const std::string name = stored_name(files, row);
    if (name.empty()) {
      weights.add(row, initial_tensor(row, {}).to(kept_dtype(row, dtype)));
      continue;
    }
    const Tensor stored = files.get(name);
    if (stored.shape() != row.shape || !is_floating(stored.dtype())) {
      throw Error(files.path_of(name).string() + ": " + name + ": expected floating numbers " +
                  row.shape.str() + " (from config.json), got " + stored.str());
    }
    weights.add(row, stored.to(kept_dtype(row, dtype)));
  }
  return weights;
}

Weights Weights::initialise(const TensorTable& table, Generator& generator) {
  Weights weights;
  for (const TensorRow& row : table.rows) weights.add(row, initial_tensor(row, generator.next()));
  return weights;
}

const Tensor& Weights::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  HEED_ASSERT(found != tensors_.end(), name.c_str());
  return found->second;
}

Tensor Weights::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? Tensor() : found->second;
}

void Weights::add(const TensorRow& row, Tensor tensor) {
  if (row.trained) {
    tensor.set_requires_grad();
    // Biases and the gains of norms have one axis; everything that multiplies has two.
    parameters_.push_back({row.name, tensor, row.shape.rank() > 1});
  }
  rows_.push_back(row);
  tensors_.emplace(row.name, std::move(tensor));
}

std::vector<NamedTensor> Weights::stored(DType dtype) const {
  std::vector<NamedTensor> named;
  for (const TensorRow& row : rows_) named.push_back({row.name, (*this)[row.name].detach().to(dtype)});
  return named;
}

}  // namespace heed
