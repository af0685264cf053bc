// GPT-NeoX and Pythia (Black et al. 2022, "GPT-NeoX-20B") as Hugging Face's GPTNeoXForCausalLM runs them:
// attention and feed-forward side by side, rotary positions on a part of each head.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_gpt_neox(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_gpt_neox(const Config& config, Generator& generator);

}  // namespace heed
