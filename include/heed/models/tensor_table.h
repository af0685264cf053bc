// A model family's table of tensors: one row per tensor of its checkpoint. The same rows load a file,
// initialize a new model and save it, so that loading and saving cannot disagree. A row is one tensor of the
// file as it is: nothing is transformed on the way in or out. Where a family's file differs from the plain
// form, the part that uses the tensor has an option for it: WeightLayout::in_out (a transposed matrix),
// FusedQkv and FeedForward::fused_gate (several matrices in one), Norm::offset (1 + w). A weight stored as
// several tensors, such as quantised numbers and scales, has no place here yet.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/nn/weight.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace HEED_API heed {

/// Initialization of a tensor in a new model.
enum class Init {
  zeros,
  ones,
  xavier,     ///< uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio 2010)
  embedding,  ///< normal with standard deviation 1 / sqrt(D)
  uniform,    ///< uniform in +-TensorRow::range
};

/// How a linear map of the model uses a tensor.
enum class MapKind {
  none,        ///< no linear map does, or not it alone
  linear,      ///< [out, in]
  transposed,  ///< [in, out]
  output,      ///< [vocabulary, in]: the output map
  table,       ///< none; the rows [vocabulary, D] are looked up by token, in one place
};

struct TensorRow {
  std::string name;  ///< in the file, and name of the parameter
  Shape shape;
  Init init = Init::xavier;
  bool trained = true;                    ///< false for tensors that are stored but not trained
  bool required = true;                   ///< false: initialized by `init` if the file lacks it
  std::vector<std::string> tied = {};     ///< other names in the model that share this tensor
  std::vector<std::string> aliases = {};  ///< alternative names in files
  /// Of a model's head, which a file of the body lacks.
  bool head = false;
  /// Standard deviation of a normal initialization, in the place of xavier or embedding; 0: as `init` says.
  double deviation = 0;
  /// Fills the tensor of a new model, in the place of `init`.
  std::function<void(Tensor)> fill = {};
  double range = 0.0;           ///< of Init::uniform
  MapKind map = MapKind::none;  ///< adapters change linear maps and token tables only
  /// Of an embedding table: this row of a new model is zeros (it stays so, as lookups of it give no
  /// gradient).
  std::optional<std::int64_t> padding = {};
};

struct TensorTable {
  std::vector<TensorRow> rows;
  std::vector<std::string> ignored_names;  ///< tensors that files may contain but that are not read
  std::string prefix = "";                 ///< prefix of names that files of the model without its head omit
  std::string architecture = "";           ///< that asks for the head
};

/// Sets the standard deviation of all matrices without one of their own (`initializer_range`).
void set_deviation(TensorTable& table, double deviation);

/// The tensors of a model by the names of its table.
/// Threads: several may read one object at once.
class Weights {
 public:
  /// Reads every row from the files and converts it to `dtype`, or biases and norms to f32 if that is bf16 or
  /// f16. Data that already have the dtype stay in the mapped file. If files have different numbers under a
  /// tied name, it is not tied and becomes a row of its own, as in transformers 5. Throws Error listing
  /// tensors that are missing, unknown to the table, or of another shape. With `new_head`, tensors of the
  /// head that the files lack or have in another shape are initialized from it.
  static Weights load(const TensorFiles& files, const TensorTable& table, DType dtype,
                      Generator* new_head = nullptr);
  /// The tensors of a new model, each from its own random stream of `generator`.
  static Weights initialise(const TensorTable& table, Generator& generator);

  /// The weight of a row, or the one that a tied name shares; it converts to its tensor.
  const Weight& operator[](const std::string& name) const;
  /// The same, or an undefined weight if the table has no such row.
  Weight find(const std::string& name) const;
  /// The row of a tensor by any name that files may have for it, or null.
  const TensorRow* find_row(const std::string& name) const;
  const std::vector<TensorRow>& rows() const { return rows_; }
  /// Tensors that files may contain but that are not read.
  const std::set<std::string>& ignored_names() const { return ignored_names_; }
  /// Whether any weight has adapters of either kind.
  bool is_adapted() const;
  /// Rows that an adapter holds whole.
  void set_replaced(const std::string& row) { replaced_rows_.insert(row); }
  bool is_replaced(const std::string& row) const { return replaced_rows_.contains(row); }
  /// Rows of the head that `new_head` initialized.
  const std::set<std::string>& new_rows() const { return new_rows_; }
  /// The trained tensors, in the table's order.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// All stored tensors as `dtype`, for save_safetensors, which converts them one by one.
  std::vector<NamedTensor> stored(DType dtype) const;

 private:
  explicit Weights(const TensorTable& table);
  void add(const TensorRow& row, Tensor tensor);
  std::vector<TensorRow> rows_;
  std::map<std::string, Weight> weights_;
  std::vector<Parameter> parameters_;
  std::string prefix_;
  std::set<std::string> ignored_names_, new_rows_, replaced_rows_;
};

}  // namespace heed
