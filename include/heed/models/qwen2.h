// Qwen2 (Yang et al. 2024, "Qwen2 technical report") as Hugging Face's Qwen2ForCausalLM runs it: LLaMA with
// biases on queries, keys and values, and windows in the later layers where they are asked for.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_qwen2(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_qwen2(const Config& config, Generator& generator);

}  // namespace heed
