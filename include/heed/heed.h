// The front door: models opened by one call, and what programs do with tensors. Every other public header is
// included separately; docs/api.md lists them by purpose. scripts/check-api.sh keeps the words behind the
// includes true.
#pragma once

#include "heed/autograd.h"           // NoGradients
#include "heed/error.h"              // Canceled, Error, InternalError
#include "heed/nn/tap.h"             // Taps, replace_by_zeros
#include "heed/open/loaded_model.h"  // load, LoadedModel
#include "heed/ops.h"                // matmul, softmax, scaled_dot_product_attention
#include "heed/random.h"             // Generator
#include "heed/tasks/similarity.h"   // similarity, nearest
#include "heed/tensor.h"             // Tensor, TensorMap
#include "heed/threads.h"            // set_threads, parallel_for
#include "heed/version.h"            // HEED_VERSION, version
