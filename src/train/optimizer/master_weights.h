// Weights in f32 where an optimizer with master copies stores them in bf16: what is saved, and the final
// model.
#pragma once

#include <string>
#include <vector>

#include "heed/models/model.h"

namespace heed {

/// While an object of this class exists, the parameters that `masters` names have its numbers.
/// Threads: one at a time.
class MasterWeights {
 public:
  MasterWeights(const std::vector<Parameter>& parameters, const TensorMap& masters);
  ~MasterWeights();
  MasterWeights(const MasterWeights&) = delete;
  MasterWeights& operator=(const MasterWeights&) = delete;

 private:
  struct Kept {
    Tensor parameter, data;
  };
  std::vector<Kept> kept_;
};

/// Returns the name of a parameter whose numbers, those of its master if it has one, are not all finite;
/// empty if there is none.
std::string first_not_finite(const std::vector<Parameter>& parameters, const TensorMap& masters);

/// Makes bf16 parameters f32, with the same numbers.
void widen_weights(const std::vector<Parameter>& parameters);

}  // namespace heed
