// A batch of texts without its padding: the rows of tokens lie one after another, [1, N, D], so that nothing
// is computed for padding. Only positions and attention know the rows (Pass::lengths, which has more of them
// than the tensors); everything else takes a token by itself. So many rows are computed at a time that what a
// layer makes of them stays in the caches.
#pragma once

#include "heed/models/input.h"
#include "heed/nn/context.h"
#include "heed/nn/stack.h"
#include "heed/tensor.h"
#include "models/embeddings.h"

namespace heed {

/// The stack's output [B, T, D] for the embeddings of an input, or [B, 1, D] of the tokens ModelInput::read,
/// computed without padding: the bits of each token are those of the padded batch and of the text alone, and
/// padding is 0. Undefined where the batch must be computed as it is: it is small and no row ends with
/// padding; what is computed at padding is read (as transformers' values are); `mask` (i64 [B, T], or
/// undefined) hides others; gradients are recorded, or a listener sees values; a layer has a part that is
/// neither softmax attention without a sparse pattern nor a feed-forward network.
Tensor encode_packed(const InputEmbeddings& embeddings, const Stack& stack, const ModelInput& input,
                     const Tensor& mask, bool causal, bool reads_padding, Context& context);

}  // namespace heed
