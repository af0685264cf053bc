// BERT (Devlin et al. 2019): post-norm layers over the sum of word, position and segment embeddings, bare
// with its pooler, or with a head for masked language modelling, sequence classification, token
// classification or question answering.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace heed {

/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<EncoderModel> make_bert(const Config& config, Generator& generator);
/// The model of a directory in Hugging Face layout, its weights held as `dtype`; config.json's
/// `architectures` selects the head. Throws Error for unsupported settings, and unknown or missing tensors.
std::unique_ptr<EncoderModel> load_bert(const std::filesystem::path& directory, DType dtype = DType::f32);

}  // namespace heed
