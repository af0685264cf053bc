// The list of model families, and functions that load a model by directory.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/io/json.h"
#include "heed/models/adapter.h"
#include "heed/models/find_model.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace HEED_API heed {

/// The config.json of a model's directory. Throws Error when there is none, or it is not a JSON object.
Config load_model_config(const std::filesystem::path& directory);
Config load_model_config(const ModelFiles& files);

/// How a model stores its weights and multiplies by them.
struct WeightOptions {
  WeightOptions(DType dtype_in_memory = DType::f32,
                Activations of_products = Activations::f32)  // NOLINT: implicit by design
      : dtype(dtype_in_memory), activations(of_products) {}
  DType dtype;              ///< f32 or bf16; quantized weights stay as they are
  Activations activations;  ///< Model::use_activations()
  /// An output map that is tied to the token table becomes a separate weight, for
  /// QuantizeOptions::output_bits.
  bool separate_output = false;
  /// False: an encoder is loaded without the head that config.json names, for text vectors. The files may
  /// lack the head, as those of sentence-transformers do. No effect on other models.
  bool head = true;
};

/// Loads the model of a directory in Hugging Face layout: the family is config.json's model_type. With
/// `adapters` (Model::add_adapter), the model has the head that they were trained with: from the first
/// adapter directory with a config.json, else from the task_type. Throws Error if the directory or a tensor
/// is missing or invalid, if the family is unknown, or if int8 activations are requested for a model without
/// integer weights.
std::unique_ptr<Model> load_model(const std::filesystem::path& directory, const WeightOptions& options = {},
                                  const std::vector<AdapterSource>& adapters = {});
std::unique_ptr<Model> load_model(const ModelFiles& files, const WeightOptions& options = {},
                                  const std::vector<AdapterSource>& adapters = {});

/// The same for a located model, with its adapters and steering vectors (steer_model()).
std::unique_ptr<Model> load_model(const LocatedModel& located, const WeightOptions& options = {});

/// A new model with random weights (f32), with the family and sizes of a config.json. Throws Error for an
/// invalid config.
std::unique_ptr<Model> make_model(const Config& config, Generator& generator);

/// The class name of transformers for a model of this config with a head, e.g. BertForMaskedLM for
/// "ForMaskedLM". Throws Error if the family has no such heads.
std::string class_with_head(const Config& config, const std::string& head);

/// Loads an encoder with another config than that of its directory, for another head or other labels. Tensors
/// of the head that the files lack, or have in another shape, are initialized from `new_head`.
std::unique_ptr<EncoderModel> load_encoder(const std::filesystem::path& directory, const Config& config,
                                           Generator& new_head);

/// load_model() and make_model() that throw Error when the model is not a `Kind`: DecoderModel, EncoderModel
/// or EncoderDecoderModel.
template <class Kind>
std::unique_ptr<Kind> load_as(const std::filesystem::path& directory, DType dtype = DType::f32);
template <class Kind>
std::unique_ptr<Kind> make_as(const Config& config, Generator& generator);

}  // namespace heed
