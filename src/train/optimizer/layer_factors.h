// Learning rates that fall from the head of a model to its embeddings.
#pragma once

#include <vector>

#include "heed/models/model.h"

namespace heed {

/// What the learning rate of each parameter is multiplied by: decay^(layers above it), 1 for the head (Clark
/// et al. 2020, "ELECTRA", appendix B); empty if decay is 1. Throws Error unless the parameters have one
/// stack of layers.
std::vector<double> layer_factors(const std::vector<Parameter>& parameters, double decay);

}  // namespace heed
