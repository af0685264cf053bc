// The vectors of one batch of texts with their gradients: what embed() computes without, for training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heed/tasks/embed.h"

namespace heed {

struct Context;
struct Encoding;

/// pack_by_length() for embed(): texts are alone where the model's rows depend on each other.
std::vector<std::vector<std::size_t>> text_batches(const Model& model, std::span<const std::int64_t> lengths,
                                                   std::int64_t batch_tokens);

/// Gives the layers behind the pooling weights of their own, and returns these to be trained, under the names
/// that save_embedding_recipe() gives their files: `2_Dense/linear.weight`.
std::vector<Parameter> step_parameters(EmbeddingRecipe& recipe);

/// Returns the vectors [chosen, D] of the chosen texts as one batch. At least one of them must have tokens.
Tensor text_vectors(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> encodings,
                    std::span<const std::size_t> chosen, const EmbeddingRecipe& recipe, Context& context);

}  // namespace heed
