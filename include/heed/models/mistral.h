// Mistral (Jiang et al. 2023, "Mistral 7B") as Hugging Face's MistralForCausalLM runs it: LLaMA with grouped
// heads and a window of the newest keys.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_mistral(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_mistral(const Config& config, Generator& generator);

}  // namespace heed
