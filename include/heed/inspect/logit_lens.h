// The logit lens: what the residual stream predicts after each layer. Inputs are those of Model::forward(),
// one row. Threads: several may run a model at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

struct TokenProbability {
  std::int64_t id = 0;
  double probability = 0;
};

/// What the residual stream predicts at one depth: of every position, the most probable tokens.
struct LensLayer {
  std::string name;  ///< `embed`, or the number of the layer whose output it is
  std::vector<std::vector<TokenProbability>> positions;
};

/// The logit lens (nostalgebraist 2020): softmax of the model's final norm and output projection, applied to
/// the input of the first layer and to the output of each. The last one is what the model predicts. Of a
/// masked language model, its whole head: what it would put in each place. Throws Error for models that
/// predict no tokens.
std::vector<LensLayer> logit_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k);

/// The same of a classifier: the labels that its head reads after each layer, from the output of that layer
/// in the place of the last one's; one position. Probabilities are the softmax over the labels. Throws Error
/// for models without a head of labels.
std::vector<LensLayer> label_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k);

}  // namespace heed
