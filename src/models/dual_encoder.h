// A model of two encoders whose vectors are compared: CLIP and SigLIP.
#pragma once

#include <memory>

#include "heed/models/model.h"
#include "models/weight_builder.h"

namespace heed {

struct Tower {
  std::unique_ptr<EncoderModel> model;
  const char* stack;  // the name of its Stack
  std::int64_t layers = 0;
};

struct DualEncoderParts {
  Tower text, image;
  Tensor logit_scale;  // one number, of which exp is taken
  Tensor logit_bias;   // one number, or undefined
  PairLoss loss = PairLoss::softmax;
};

std::unique_ptr<Model> assemble_dual_encoder(ModelFiles files, DualEncoderParts parts);

}  // namespace heed
