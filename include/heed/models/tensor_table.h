// A model family's table of tensors: one row for each tensor of its checkpoint. The same rows load a file,
// initialise a new model and save it, so that nothing can be forgotten on one side only.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/io/safetensors.h"
#include "heed/models/model.h"
#include "heed/random.h"
#include "heed/tensor.h"

namespace heed {

/// How a tensor of a new model is filled.
enum class Init {
  zeros,
  ones,
  xavier,     ///< uniform in +-sqrt(6 / (in + out)) (Glorot and Bengio 2010)
  embedding,  ///< normal with deviation 1 / sqrt(D)
};

struct TensorRow {
  std::string name;  ///< in the file, and of the parameter
  Shape shape;
  Init init = Init::xavier;
  bool trained = true;                    ///< false for what is stored but not learned
  bool required = true;                   ///< false: filled by `init` when the file has none
  std::vector<std::string> tied = {};     ///< further places of the model that share this tensor
  std::vector<std::string> aliases = {};  ///< other names that files give it
};

struct TensorTable {
  std::vector<TensorRow> rows;
  std::vector<std::string> computed;  ///< names that files may hold but that are worked out, not read
  std::string prefix = "";            ///< what files of the model without its head leave out of names
};

/// The tensors of a model by the names of its table.
class Weights {
 public:
  /// Reads every row from the files and converts it to `dtype`, biases and norms to f32 where that is bf16 or
  /// f16 (data that is of its dtype already is used where it lies in the mapped file). A tied name that the
  /// files hold with other numbers than its row is not tied but becomes a row of its own, as in transformers
  /// 5. Throws Error listing tensors that are missing, unknown to the table, or of another shape.
  static Weights load(const TensorFiles& files, const TensorTable& table, DType dtype);
  /// A new model's tensors, each from its own stream of `generator`.
  static Weights initialise(const TensorTable& table, Generator& generator);

  /// The tensor of a row, or the one that a tied name shares.
  const Tensor& operator[](const std::string& name) const;
  /// The same, or an undefined one where the table has no such row.
  Tensor find(const std::string& name) const;
  /// The trained ones, in the table's order.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// All stored ones converted to `dtype`, for save_safetensors.
  std::vector<NamedTensor> stored(DType dtype) const;

 private:
  void add(const TensorRow& row, Tensor tensor);
  std::vector<TensorRow> rows_;
  std::map<std::string, Tensor> tensors_;
  std::vector<Parameter> parameters_;
};

}  // namespace heed
