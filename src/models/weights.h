// The tensors of a model by name: of each, what the family says of it (TensorRow), and the weight itself. A
// row is one tensor of a file as it is: nothing is transformed on the way in or out. Where a family's file
// differs from the plain form, the part that uses the tensor has an option for it: WeightLayout::in_out (a
// transposed matrix), FusedQkv and FeedForward::fused_gate (several matrices in one), Norm::offset (1 + w). A
// quantized weight is a tensor over its blocks (tensor/block_matrix.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/nn/weight.h"
#include "heed/tensor.h"

namespace heed {

/// Initialization of a tensor in a new model.
enum class Init {
  zeros,
  ones,
  xavier,     ///< uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio 2010)
  embedding,  ///< normal with standard deviation 1 / sqrt(D)
  uniform,    ///< uniform in +-TensorRow::range
};

/// Names for a message: the first eight, and how many more.
std::string name_list(const std::vector<std::string>& names);

/// What an adapter of a tensor is added to.
enum class AdapterTarget {
  none,           ///< it takes no adapter: it is no linear map, or not only one
  linear,         ///< a linear map [out, in]
  linear_in_out,  ///< a linear map [in, out]
  output,         ///< the output map [vocabulary, in]
  token_table,    ///< lookups of rows [vocabulary, D] by token, in one place
};

struct TensorRow {
  std::string name;  ///< in the file, and name of the parameter
  Shape shape;
  Init init = Init::xavier;
  bool trained = true;                    ///< false for tensors that are stored but not trained
  bool required = true;                   ///< false: initialized by `init` if the file lacks it
  std::vector<std::string> tied = {};     ///< other names in the model that share this tensor
  std::vector<std::string> aliases = {};  ///< alternative names in files
  bool head = false;                      ///< of a model's head, which a file of the body lacks
  double init_std =
      0;  ///< standard deviation of a normal initialization, instead of `init`; 0: as `init` says
  std::function<void(Tensor)> fill = {};  ///< fills the tensor of a new model, instead of `init`
  double range = 0;                       ///< of Init::uniform
  AdapterTarget target = AdapterTarget::none;
  /// Of an embedding table: this row of a new model is zeros (it stays so, as lookups of it give no
  /// gradient).
  std::optional<std::int64_t> padding = {};
};

/// Threads: several may read one object at once.
class Weights {
 public:
  /// The weight of a row, or the one that a tied name shares.
  const Weight& operator[](const std::string& name) const;
  bool contains(const std::string& name) const { return weights_.contains(name); }
  /// The row of a tensor by any name that files may have for it, or null.
  const TensorRow* find_row(const std::string& name) const;
  /// In the order in which they are saved.
  const std::vector<TensorRow>& rows() const { return rows_; }
  /// Tensors that files may contain but that are not read.
  const std::set<std::string>& ignored_names() const { return ignored_names_; }
  /// Whether any weight has adapters of either kind.
  bool is_adapted() const;
  /// Rows that an adapter holds whole.
  void set_replaced(const std::string& row) { replaced_rows_.insert(row); }
  bool is_replaced(const std::string& row) const { return replaced_rows_.contains(row); }
  /// Rows of a head that the files lack, which were initialized.
  const std::set<std::string>& new_rows() const { return new_rows_; }
  /// The trained tensors, in the order of the rows.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Puts other numbers in the place of a weight's. The row must be one that was taken.
  void replace(const std::string& row, const Tensor& tensor);
  /// All stored tensors as `dtype`, for save_safetensors, which converts them one by one; what quantize()
  /// made (tensor/code_matrix.h) as the tensors of compressed-tensors.
  std::vector<NamedTensor> stored(DType dtype) const;

 private:
  friend class WeightBuilder;
  void add(const TensorRow& row, Tensor tensor);

  std::vector<TensorRow> rows_;
  std::map<std::string, Weight> weights_;
  std::vector<Parameter> parameters_;
  std::string prefix_;  // of names, which files of the model without its head omit
  std::set<std::string> ignored_names_, new_rows_, replaced_rows_;
};

}  // namespace heed
