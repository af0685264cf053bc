// The walk in which a family builds its model: each tensor is named once, where a part uses it, and the same
// walk loads a model, initializes a new one, and gives the order in which it is saved. The order of the walk
// is that of the file and of the random streams, so that one seed gives one model: take tensors in statements
// or in braces, whose parts C++ evaluates in turn, not as arguments of one call.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heed/files/model_files.h"
#include "heed/io/json.h"
#include "heed/models/adapter.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/random.h"
#include "models/adapters.h"
#include "models/gguf_model.h"
#include "models/quantize.h"
#include "models/weights.h"

namespace heed {

/// Where the tensors of a model come from.
struct WeightSource {
  Config config;
  std::optional<ModelFiles> files = {};  ///< none: a new model
  DType dtype = DType::f32;              ///< of the weights in memory
  std::vector<AdapterSource> adapters = {};
  /// Of a new model; or of a head that the files lack or have in another shape.
  Generator* generator = nullptr;
  bool separate_output = false;  ///< a tied output map becomes a weight of its own
  /// Standard deviation of new matrices where neither config nor row says one; 0: by TensorRow::init.
  double initializer_range = 0;
};

/// The output map of a model that predicts tokens.
struct OutputMap {
  std::string name;
  bool tied = false;      ///< to the token table
  bool headless = false;  ///< the model was saved without it
};

/// What a model's directory contains, written back as it was.
struct ModelContents {
  Config config;
  std::string generation;  // text of generation_config.json; empty where there is none
  Weights weights;
  std::optional<TrainedAdapter> trained = {};                // saved instead of the model
  std::string quantization = "null";                         // quantization_config of what is saved, as JSON
  std::vector<std::string> unused = {};                      // tensors of the files
  bool untied = false;                                       // the output map was tied, and is no longer
  std::vector<std::vector<ScaledGroup>> scaled_layers = {};  // of awq; empty: the family has none
  std::function<GgufModel()> gguf = {};  // throws for what a GGUF file does not keep; null: all of it

  /// Writes config.json, model.safetensors and, if the model `generates`, generation_config.json; of a
  /// trained adapter, that and config.json.
  void save(const std::filesystem::path& directory, DType dtype, bool generates) const;
};

class WeightBuilder {
 public:
  /// Only lists the rows: their tensors have no memory.
  WeightBuilder() = default;
  /// Throws Error for a directory without a model's files; for a new model, also for unknown keys of its
  /// config.
  explicit WeightBuilder(const WeightSource& source);

  /// The tensor of a row. From files it is read when it is first needed, as the source's dtype (biases and
  /// norms as f32 if that is bf16 or f16). If files have other numbers under a tied name, it is not tied and
  /// becomes a row of its own, as in transformers 5. What the files lack is reported by finish(); until then
  /// such tensors, and all after them, have a shape but no memory.
  const Weight& take(TensorRow row);
  /// take() of a row that is used as plain numbers, not as the weight of a map: a vector, a table of
  /// positions.
  Tensor tensor(TensorRow row) { return take(std::move(row)).tensor(); }
  /// The tensor under a tied name, or of a row taken before.
  const Weight& operator[](const std::string& name) const { return weights_[name]; }

  /// NAME.weight [out, in] and, with `bias`, NAME.bias [out].
  Linear linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias = true);
  /// A tensor [dim] of zeros.
  Tensor bias(const std::string& name, std::int64_t dim);
  /// NAME.weight [dim] and, with `bias`, NAME.bias [dim].
  Norm layer_norm(const std::string& name, std::int64_t dim, double eps, bool bias = true);
  /// NAME.weight [dim], to which the norm adds `offset`.
  Norm rms_norm(const std::string& name, std::int64_t dim, double eps, double offset = 0);
  /// The token table NAME [count, dim], whose row `padding` is zeros in a new model (PyTorch's padding_idx).
  const Weight& embedding(const std::string& name, std::int64_t count, std::int64_t dim,
                          std::optional<std::int64_t> padding = {}, const OutputMap& output = {});
  /// [vocabulary, dim]: the token table if tied to it; undefined for a headless model, which ignores it.
  Weight output(const OutputMap& output, std::int64_t vocabulary, std::int64_t dim);

  /// Whether the files have a row of this name. A new model has all.
  bool has(const std::string& name) const;
  /// A tensor that files may contain and that is not read.
  void ignore(const std::string& name);
  /// Names begin with `prefix`, which files of the model without its head omit.
  void set_prefix(const std::string& prefix) { weights_.prefix_ = prefix; }
  /// Names are those of a model without head; files of one with a head have `prefix` before them.
  void set_body_prefix(const std::string& prefix) { body_prefix_ = prefix; }
  /// The rows from here on are of the head that `architecture` asks for.
  void begin_head(const std::string& architecture) { architecture_ = architecture; }

  const std::vector<TensorRow>& rows() const { return weights_.rows(); }
  /// Ends the walk. Throws Error that names tensors that the files lack or that have another shape, and a
  /// bias that is not zero where the walk took its weight alone. Other tensors that the walk did not take are
  /// listed in the result. So what is computed from sizes of a config alone, such as a table of positions,
  /// comes after it.
  ModelContents finish();

 private:
  bool failed() const { return !missing_.empty() || error_ != nullptr; }
  std::string held_name(const std::string& name) const;
  std::string stored_name(const TensorRow& row) const;
  std::vector<std::string> other_names(const std::string& name) const;
  void read(const TensorRow& row);
  void read_row(const TensorRow& row, const std::string& name);
  std::vector<TensorRow> separate_untied(TensorRow& row, const std::string& held) const;
  void separate(const std::string& output);
  void check_complete() const;
  std::vector<std::string> unused_tensors() const;

  Weights weights_;
  std::string body_prefix_;
  std::optional<std::string> architecture_;  // of the head, once it has begun
  double init_std_ = 0;

  std::optional<WeightSource> source_;
  std::optional<TensorFiles> files_;  // none for a new model
  bool untied_ = false;               // the output map was tied, and is no longer
  std::string generation_;            // text of generation_config.json
  std::set<std::string> names_;       // that the walk took
  std::vector<std::string> missing_;
  std::string missing_head_;
  std::exception_ptr error_;  // of the first tensor that does not fit
};

}  // namespace heed
