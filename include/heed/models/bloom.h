// BLOOM (Le Scao et al. 2022, "BLOOM") as Hugging Face's BloomForCausalLM runs it: a norm after the
// embedding, ALiBi instead of positions, query, key and value of each head together.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_bloom(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_bloom(const Config& config, Generator& generator);

}  // namespace heed
