// What train_sentencepiece and the tokenizers that train their own models share.
#pragma once

#include <cstdint>
#include <string>

#include "heed/text/sentencepiece.h"

namespace heed {

/// As train_sentencepiece, for a vocabulary of which `ids_outside` ids belong to no piece of the model: it
/// has options.vocab_size - ids_outside pieces, and errors speak of the whole vocabulary's size.
std::string train_sentencepiece_model(const SentencePieceOptions& options, std::int64_t ids_outside,
                                      const SentenceSource& sentences, SentencePieceReport* report);

}  // namespace heed
