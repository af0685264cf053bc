// The small files of a model in a GGUF file: config.json and the like, made of its metadata.
#pragma once

#include <cstdint>

#include "heed/files/model_files.h"

namespace heed::io {

/// Makes config.json, generation_config.json and, for a file that says how vectors are pooled, modules.json
/// and 1_Pooling/config.json of a GGUF file. Metadata of the architecture that nothing here understands
/// become keys of config.json, which reports what it does not use. The maker throws Error naming the file and
/// the key for metadata that are missing, of another type, or that change the computation in a way that heed
/// does not follow.
ModelFiles::Maker gguf_config_maker();

/// What a file has for rotary dimension i of `dim` in place of LLaMA 3's scaling, by its formula: by how much
/// the frequency is divided.
double gguf_llama3_factor(double theta, std::int64_t i, std::int64_t dim, double factor, double low,
                          double high, double original);

}  // namespace heed::io
