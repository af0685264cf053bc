// Loading, initialising and saving by a family's table.
#include "heed/models/tensor_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "tensor/impl.h"

namespace heed {
namespace {

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

// The name under which the files hold what the table calls `name`, or "".
std::string held_name(const TensorFiles& files, const TensorTable& table, const std::string& name) {
  if (files.contains(name)) return name;
  if (table.prefix.empty() || !name.starts_with(table.prefix)) return "";
  const std::string bare = name.substr(table.prefix.size());
  return files.contains(bare) ? bare : "";
}

// The name under which the files hold a row, or "".
std::string stored_name(const TensorFiles& files, const TensorTable& table, const TensorRow& row) {
  std::string held = held_name(files, table, row.name);
  for (const auto* names : {&row.tied, &row.aliases}) {
    for (const std::string& other : *names) {
      if (held.empty()) held = held_name(files, table, other);
    }
  }
  return held;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto left = a.impl()->buffer->read(), right = b.impl()->buffer->read();  // whole files' tensors
  return std::memcmp(left->data(), right->data(), left->bytes()) == 0;
}

// Rows as these files have them: tied names with numbers of their own are rows of their own.
std::vector<TensorRow> rows_of(const TensorFiles& files, const TensorTable& table) {
  std::vector<TensorRow> rows;
  for (TensorRow row : table.rows) {
    const std::string held = stored_name(files, table, row);
    std::vector<TensorRow> apart;
    std::erase_if(row.tied, [&](const std::string& name) {
      const std::string other = held_name(files, table, name);
      if (other.empty() || other == held || same_bytes(files.get(held), files.get(other))) return false;
      apart.push_back({name, row.shape, row.init, row.trained});
      return true;
    });
    rows.push_back(std::move(row));
    rows.insert(rows.end(), apart.begin(), apart.end());
  }
  return rows;
}

void check_head(const TensorFiles& files, const TensorTable& table) {
  for (const TensorRow& row : table.rows) {
    if (!row.head || !row.required || !stored_name(files, table, row).empty()) continue;
    throw Error(files.path().string() + ": expected the head of " + table.architecture +
                " (config.json: architectures), got no tensor " + row.name +
                " (train the head first, or name an architecture the file holds)");
  }
}

void check_complete(const TensorFiles& files, const TensorTable& table, bool new_head) {
  if (!new_head) check_head(files, table);
  std::vector<std::string> missing, unused;
  std::set<std::string> known(table.ignored_names.begin(), table.ignored_names.end());
  for (const TensorRow& row : table.rows) {
    known.insert(row.name);
    known.insert(row.tied.begin(), row.tied.end());
    known.insert(row.aliases.begin(), row.aliases.end());
    if (row.required && !(row.head && new_head) && stored_name(files, table, row).empty())
      missing.push_back(row.name);
  }
  for (const std::string& name : files.names()) {
    if (!known.contains(name) && (table.prefix.empty() || !known.contains(table.prefix + name)))
      unused.push_back(name);
  }
  const std::string where = files.path().string();
  if (!missing.empty()) {
    throw Error(where + ": tensors that config.json describes not found: " + list(missing));
  }
  if (!unused.empty()) {
    throw Error(where + ": expected only the tensors config.json describes, got also " + list(unused) +
                " (config and weights may belong to different models)");
  }
}

Tensor random_tensor(const TensorRow& row, RandomStream stream) {
  Tensor tensor = Tensor::empty(row.shape);
  float* values = tensor.data<float>();
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  if (row.deviation > 0 || row.init == Init::embedding) {
    const float deviation = row.deviation > 0 ? static_cast<float>(row.deviation)
                                              : 1.0f / std::sqrt(static_cast<float>(row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = deviation * stream.normal(i);
  } else {
    const float limit = row.init == Init::uniform
                            ? static_cast<float>(row.range)
                            : std::sqrt(6.0f / static_cast<float>(row.shape[0] + row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = limit * (2.0f * stream.uniform(i) - 1.0f);
  }
  return tensor;
}

Tensor initial_tensor(const TensorRow& row, RandomStream stream) {
  if (row.init == Init::zeros && !row.fill) return Tensor::zeros(row.shape);
  if (row.init == Init::ones && !row.fill) return Tensor::full(row.shape, 1.0);
  Tensor tensor = row.fill ? Tensor::empty(row.shape) : random_tensor(row, stream);
  if (row.fill) row.fill(tensor);
  if (row.padding) std::fill_n(tensor.data<float>() + *row.padding * row.shape[1], row.shape[1], 0.0f);
  return tensor;
}

/// Matrices take the dtype asked for; biases and norms stay wide where that is narrow, as they cost little.
DType kept_dtype(const TensorRow& row, DType dtype) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  return narrow && !(row.trained && row.shape.rank() > 1) ? DType::f32 : dtype;
}

}  // namespace

void set_deviation(TensorTable& table, double deviation) {
  for (TensorRow& row : table.rows) {
    const bool matrix = row.init == Init::xavier || row.init == Init::embedding;
    if (matrix && row.deviation == 0) row.deviation = deviation;
  }
}

Weights Weights::load(const TensorFiles& files, const TensorTable& table, DType dtype, Generator* new_head) {
  check_complete(files, table, new_head != nullptr);
  Weights weights(table);
  for (const TensorRow& row : rows_of(files, table)) {
    const std::string name = stored_name(files, table, row);
    const bool anew =
        new_head != nullptr && row.head && (name.empty() || files.get(name).shape() != row.shape);
    if (name.empty() || anew) {
      if (anew) weights.new_rows_.insert(row.name);
      const RandomStream stream = anew ? new_head->next() : RandomStream{};
      weights.add(row, initial_tensor(row, stream).to(kept_dtype(row, dtype)));
      continue;
    }
    const Tensor stored = files.get(name);
    if (stored.shape() != row.shape || !is_floating(stored.dtype())) {
      throw Error(files.path_of(name).string() + ": " + name + ": expected floating numbers " +
                  row.shape.str() + " (from config.json), got " + stored.str());
    }
    weights.add(row, stored.to_lazy(kept_dtype(row, dtype)));
  }
  return weights;
}

Weights Weights::initialise(const TensorTable& table, Generator& generator) {
  Weights weights(table);
  for (const TensorRow& row : table.rows) weights.add(row, initial_tensor(row, generator.next()));
  return weights;
}

Weights::Weights(const TensorTable& table)
    : prefix_(table.prefix), ignored_names_(table.ignored_names.begin(), table.ignored_names.end()) {}

const Weight& Weights::operator[](const std::string& name) const {
  const auto found = weights_.find(name);
  HEED_ASSERT(found != weights_.end(), name.c_str());
  return found->second;
}

Weight Weights::find(const std::string& name) const {
  const auto found = weights_.find(name);
  return found == weights_.end() ? Weight() : found->second;
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
