// GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners") as Hugging Face's
// GPT2LMHeadModel runs it: learned positions, pre-norm layers, a fused QKV projection, weights stored as [in,
// out].
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_gpt2(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_gpt2(const Config& config, Generator& generator);

}  // namespace heed
