// What a GGUF file says of a model besides its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "files/gguf_output.h"

namespace heed {

struct GgufModel {
  std::string architecture;  // general.architecture
  GgufValues values;         // of the architecture
  std::int64_t heads = 0, kv_heads = 0;
  /// Tensors that the model computes from its config: factors of rotary frequencies.
  std::vector<std::pair<std::string, std::vector<float>>> factors = {};
};

}  // namespace heed
