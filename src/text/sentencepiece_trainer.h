// Shared by train_sentencepiece and the tokenizers that train their own models.
#pragma once

#include <cstdint>
#include <string>

#include "heed/text/sentencepiece.h"

namespace heed {

/// As train_sentencepiece, for a vocabulary with `ids_outside` ids that belong to no piece of the model. The
/// model has options.vocab_size - ids_outside pieces; errors give the size of the whole vocabulary.
std::string train_sentencepiece_model(const SentencePieceOptions& options, std::int64_t ids_outside,
                                      const SentenceSource& sentences, SentencePieceReport* report);

}  // namespace heed
