// A batch of texts through a model: vectors, vectors of tokens, weights of words (SPLADE), or logits of
// labels.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "serve/served_model.h"

namespace heed::serve {

enum class EncoderWork : std::uint8_t {
  vectors,  ///< [D]: embed() by a recipe
  tokens,   ///< [T, D]: embed_tokens()
  sparse,   ///< max over the tokens of log(1 + relu(logit)), for every entry of the vocabulary; those above 0
  logits,   ///< [labels] of a sequence head
};

/// Of one text. The result does not depend on the other texts of the batch.
struct EncoderResult {
  std::vector<float> numbers;
  std::vector<std::int64_t> indices = {};  ///< of `sparse`: the entry of each number
  std::int64_t width = 0;                  ///< D
};

/// `recipe`: of vectors; `taps`, which may be null, too. The model has the head that the work needs.
std::vector<EncoderResult> run_batch(const ServedModel& model, EncoderWork work,
                                     const EmbeddingRecipe* recipe, std::span<const Encoding> texts,
                                     Taps* taps = nullptr);

}  // namespace heed::serve
