// Vectors of texts with listeners of the model's values.
#pragma once

#include "heed/nn/tap.h"
#include "heed/tasks/embed.h"

namespace heed::tasks {

/// embed() with `taps` (may be null) in every pass over a batch.
Tensor embed_tapped(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> texts,
                    const EmbeddingRecipe& recipe, const TaskOptions& options, Taps* taps);

}  // namespace heed::tasks
