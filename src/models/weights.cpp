// Access to the tensors of a model.
#include "models/weights.h"

#include <algorithm>
#include <span>

#include "core/strings.h"
#include "tensor/quantized_matrix.h"

namespace heed {

std::string name_list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text = joined(std::span(names).first(std::min(names.size(), kShown)));
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

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

void Weights::replace(const std::string& row, const Tensor& tensor) {
  (*this)[row].replace(tensor);
  for (Parameter& p : parameters_) {
    if (p.name == row) p.tensor = tensor;
  }
}

namespace {

// The codes along each row in words of 32 bits, the first in the lowest.
Tensor packed_words(const CodeMatrix& m) {
  const std::int64_t each = 32 / m.bits, columns = (m.k + each - 1) / each;
  Tensor words = Tensor::zeros({m.n, columns}, DType::i32);
  auto* to = words.data<std::int32_t>();
  for (std::int64_t i = 0; i < m.n; ++i) {
    for (std::int64_t l = 0; l < m.k; ++l) {
      const std::uint32_t code = m.codes[static_cast<std::size_t>(i * m.k + l)];
      std::int32_t& word = to[i * columns + l / each];
      word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | code << (l % each * m.bits));
    }
  }
  return words;
}

void add_packed(const std::string& name, const CodeMatrix& m, std::vector<NamedTensor>& named) {
  named.push_back({name + "_packed", packed_words(m)});
  named.push_back({name + "_scale", Tensor::from(m.scales, {m.n, m.k / m.group}).to(m.scale_type)});
  named.push_back({name + "_shape", Tensor::from(std::vector<std::int64_t>{m.n, m.k}, {2})});
}

}  // namespace

std::vector<NamedTensor> Weights::stored(DType dtype) const {
  std::vector<NamedTensor> named;
  for (const TensorRow& row : rows_) {
    const Tensor& tensor = (*this)[row.name].tensor();
    const auto codes = std::dynamic_pointer_cast<const CodeMatrix>(quantized_of(tensor));
    if (codes != nullptr) {
      add_packed(row.name, *codes, named);
    } else {
      named.push_back({row.name, tensor.to_lazy(dtype)});
    }
  }
  return named;
}

}  // namespace heed
