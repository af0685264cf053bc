// T5 (Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text
// transformer") as Hugging Face's T5ForConditionalGeneration runs it, original and 1.1, and mT5 (Xue et al.
// 2021): RMS norms before the sublayers, no biases, unscaled scores with a relative position bias that all
// layers of a stack share. A T5EncoderModel is the encoder alone.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`: an EncoderDecoderModel, or
/// an EncoderModel where `architectures` says so.
std::unique_ptr<Model> load_t5(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<Model> make_t5(const Config& config, Generator& generator);

}  // namespace heed
