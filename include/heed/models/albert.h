// ALBERT (Lan et al. 2020): BERT with layers that share their tensors and embeddings narrower than these.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace heed {

/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<EncoderModel> make_albert(const Config& config, Generator& generator);
/// The model of a directory in Hugging Face layout, its weights held as `dtype`; config.json's
/// `architectures` chooses the head. Throws Error for settings and tensors that are not known or missing.
std::unique_ptr<EncoderModel> load_albert(const std::filesystem::path& directory, DType dtype = DType::f32);

}  // namespace heed
