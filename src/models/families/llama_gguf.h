// The models of llama_common.h as GGUF files describe them: the reverse of io/gguf_config.h.
#pragma once

#include <string>

#include "models/families/llama_common.h"
#include "models/gguf_model.h"

namespace heed {

/// The metadata of a model whose config.json, read from `where`, has the model_type `family`. Throws Error
/// for a family that GGUF files do not have, and for a setting that they do not keep.
GgufModel llama_gguf(const LlamaConfig& config, const std::string& family, const std::string& where);

/// The model_types that can be written, for messages: those that llama_gguf() knows, and others.
std::string gguf_families();

}  // namespace heed
