// RoBERTa (Liu et al. 2019): BERT's layers, with positions counted over the ids that are not padding, and
// heads of its own. XLM-RoBERTa and CamemBERT are the same model over other vocabularies.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"
#include "heed/random.h"

namespace heed {

/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<EncoderModel> make_roberta(const Config& config, Generator& generator);
/// The model of a directory in Hugging Face layout, its weights held as `dtype`; config.json's
/// `architectures` chooses the head. Throws Error for settings and tensors that are not known or missing.
std::unique_ptr<EncoderModel> load_roberta(const std::filesystem::path& directory, DType dtype = DType::f32);

}  // namespace heed
