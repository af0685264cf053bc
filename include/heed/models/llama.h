// LLaMA (Touvron et al. 2023, "LLaMA: open and efficient foundation language models") as Hugging Face's
// LlamaForCausalLM runs it: RMS norms, rotary positions with every scaling, gated feed-forward,
// grouped-query attention.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_llama(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_llama(const Config& config, Generator& generator);

}  // namespace heed
