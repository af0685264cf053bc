// MPT (MosaicML 2023) as Hugging Face's MptForCausalLM runs it: ALiBi instead of positions, no biases at all.
#pragma once

#include <filesystem>
#include <memory>

#include "heed/io/json.h"
#include "heed/models/model.h"

namespace heed {

/// The model of a directory in Hugging Face layout, its weights held as `dtype`.
std::unique_ptr<DecoderModel> load_mpt(const std::filesystem::path& directory, DType dtype = DType::f32);
/// A new model with random weights (f32) of the sizes a config.json describes.
std::unique_ptr<DecoderModel> make_mpt(const Config& config, Generator& generator);

}  // namespace heed
