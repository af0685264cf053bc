// What a GGUF file says of a model besides its tensors, and how a model is written to one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "files/gguf_output.h"
#include "heed/error.h"
#include "heed/models/quantize.h"

namespace heed {

struct ModelContents;

struct GgufModel {
  std::string architecture;  // general.architecture
  GgufValues values;         // of the architecture
  std::int64_t heads = 0, kv_heads = 0;
  /// Tensors that the model computes from its config: factors of rotary frequencies.
  std::vector<std::pair<std::string, std::vector<float>>> factors = {};

  std::string key(const char* name) const { return architecture + "." + name; }
  /// Throws Error for a setting of the config.json `where` that the file would lose.
  void keep(bool kept, const std::string& where, const char* setting, const std::string& expected) const {
    if (!kept)
      throw Error(where + ": " + setting + ": expected " + expected + ", as a GGUF file of " + architecture +
                  " keeps no other (write a directory instead)");
  }
};

/// Model::save_gguf of a model with these files.
QuantizeReport save_gguf(const ModelContents& model, const std::filesystem::path& file, GgufType type,
                         const std::filesystem::path& tokenizer);

}  // namespace heed
