// Steering vectors: directions that are added to the residual stream of a model while it computes (Turner et
// al. 2023, "Activation addition"; Zou et al. 2023, "Representation engineering"), and their files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/nn/tap.h"
#include "heed/tensor.h"

namespace HEED_API heed {

class Model;

/// A direction for the stream after one layer.
struct SteeringVector {
  std::string stack;  ///< empty: the stack that predicts, or the only one of an encoder
  std::int64_t layer = 0;
  Tensor vector = {};       ///< f32 [D]
  std::string tensor = {};  ///< its name in the file, for messages
};

/// Reads a file of vectors, in the order of their layers: safetensors with tensors of D numbers named
/// `STACK.layers.N.out` or `direction.N`, or a control vector of llama.cpp (GGUF with tensors `direction.N`,
/// which repeng writes as well). N counts layers from 0 in both. Throws Error naming file and tensor for any
/// other tensor, and for numbers that are not finite.
std::vector<SteeringVector> load_steering(const std::filesystem::path& file);

/// Writes vectors: a file ending in .gguf is a control vector of llama.cpp, for a model of the architecture
/// `hint` (its model_type), any other a safetensors file with `metadata`. A control vector has no layer 0,
/// because llama.cpp does not steer it; that layer is left out. Throws Error for vectors of several stacks in
/// a control vector, and if nothing is left to write.
void save_steering(const std::filesystem::path& file, const std::vector<SteeringVector>& vectors,
                   const std::string& hint, const std::map<std::string, std::string>& metadata);

/// Vectors to load, and the factor on them.
struct SteeringSource {
  std::filesystem::path file;
  double strength = 1.0;
  TapRange layers = {};  ///< the layers of the file that are used
};

/// Calls Model::steer() with the vectors of each file times its strength. Throws Error naming file and tensor
/// for a layer or a width that the model does not have, and if no layer of the file is within `layers`.
void steer_model(Model& model, const std::vector<SteeringSource>& sources);

}  // namespace heed
