// The texts that a tokenizer is trained on, and their words.
#pragma once

#include <string>
#include <vector>

#include "core/json_field.h"
#include "heed/text/training.h"
#include "text/bpe_trainer.h"

namespace heed {

/// Where errors of the training of a tokenizer are.
inline constexpr const char* kTrained = "tokenizer training";

/// Returns a source of the same texts as valid UTF-8, which counts them in `report`. Both must outlive it.
SentenceSource counted(const SentenceSource& texts, TokenizerTrainingReport& report);

/// Calls `use` for each text. Throws Error where there is none.
void read_texts(const SentenceSource& texts, TokenizerTrainingReport& report,
                FunctionRef<void(const std::string&)> use);

/// Returns the words that a normalizer (or null) and a pre-tokenizer of tokenizer.json make of the texts,
/// sorted.
std::vector<CountedWord> count_words(const SentenceSource& texts, const nlohmann::ordered_json& document,
                                     TokenizerTrainingReport& report);

}  // namespace heed
