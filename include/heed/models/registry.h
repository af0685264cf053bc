// The one list of model families, and the way from a directory or a name to a model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace heed {

/// Loads the model of a directory in Hugging Face layout: the family is config.json's model_type. `dtype` f32
/// or bf16 is that of the weights in memory. Throws Error when the directory, the family or a tensor is not
/// as expected.
std::unique_ptr<Model> load_model(const std::filesystem::path& directory, DType dtype = DType::f32);

/// A new model with random weights (f32) of the family and the sizes a config.json describes. Throws Error
/// where load_model would.
std::unique_ptr<Model> make_model(const Config& config, Generator& generator);

/// load_model for what must translate: throws Error when the model is not an encoder-decoder.
std::unique_ptr<EncoderDecoderModel> load_encoder_decoder(const std::filesystem::path& directory,
                                                          DType dtype = DType::f32);

/// load_model for what must continue text: throws Error when the model is not a decoder.
std::unique_ptr<DecoderModel> load_decoder(const std::filesystem::path& directory, DType dtype = DType::f32);

/// The model_type values this version knows.
std::vector<std::string> model_families();

/// The directory a name stands for: a directory itself; else NAME under each of `folders` (in order); else
/// the newest snapshot of the repository NAME ("owner/name") in the Hugging Face cache `hub`. Throws Error
/// saying where it looked.
std::filesystem::path find_model(const std::string& name, const std::vector<std::filesystem::path>& folders,
                                 const std::filesystem::path& hub);

}  // namespace heed
