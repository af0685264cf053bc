// Model::save_gguf.
#pragma once

#include <filesystem>

#include "heed/models/quantize.h"
#include "models/weight_builder.h"

namespace heed {

/// Model::save_gguf of a model with these files.
QuantizeReport save_gguf(const ModelFiles& model, const std::filesystem::path& file, GgufType type,
                         const std::filesystem::path& tokenizer);

}  // namespace heed
