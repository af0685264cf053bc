// Access to the tensors of a model.
#include "models/weights.h"

#include <algorithm>

namespace heed {

const Weight& Weights::operator[](const std::string& name) const {
  const auto found = weights_.find(name);
  HEED_ASSERT(found != weights_.end(), name.c_str());
  return found->second;
}

const TensorRow* Weights::find_row(const std::string& name) const {
  const auto found = std::find_if(rows_.begin(), rows_.end(), [&](const TensorRow& row) {
    return row.name == name || row.name == prefix_ + name || prefix_ + row.name == name ||
           std::find(row.aliases.begin(), row.aliases.end(), name) != row.aliases.end();
  });
  return found == rows_.end() ? nullptr : &*found;
}

bool Weights::is_adapted() const {
  return std::any_of(weights_.begin(), weights_.end(), [](const auto& named) {
    return !named.second.adapters().empty() || !named.second.row_adapters().empty();
  });
}

void Weights::add(const TensorRow& row, Tensor tensor) {
  if (row.trained) {
    tensor.set_requires_grad();
    // Biases and the gains of norms have one axis; everything that multiplies has two.
    parameters_.push_back({row.name, tensor, row.shape.rank() > 1});
  }
  rows_.push_back(row);
  const Weight weight(std::move(tensor));
  for (const std::string& name : row.tied) weights_.emplace(name, weight);
  weights_.emplace(row.name, weight);
}

std::vector<NamedTensor> Weights::stored(DType dtype) const {
  std::vector<NamedTensor> named;
  for (const TensorRow& row : rows_) named.push_back({row.name, (*this)[row.name].tensor().to_lazy(dtype)});
  return named;
}

}  // namespace heed
