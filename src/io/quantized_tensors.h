// Weights that a checkpoint in Hugging Face layout holds as several tensors: GPTQ, AWQ, compressed-tensors,
// FP8 and bitsandbytes, as `quantization_config` of config.json says. Each is found by the names of its
// tensors and stands under the name that the weight has in the model's plain checkpoint.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "tensor/quantized_matrix.h"

namespace heed::io {

struct QuantizedTensor {
  std::string name;                ///< of the weight
  std::vector<std::string> parts;  ///< names of the tensors that hold it
  std::string format;              ///< "GPTQ", "AWQ", ..., for lists of tensors
  std::shared_ptr<const QuantizedMatrix> matrix;
};

/// The quantized weights among the tensors of `files`. Throws Error for a method or a setting that heed does
/// not read, naming config.json and key, and for tensors whose types or shapes do not fit each other, naming
/// file and tensor.
std::vector<QuantizedTensor> quantized_tensors(const TensorFiles& files, const Config& quantization);

}  // namespace heed::io
