// The length of texts that end by themselves.
#pragma once

#include <cstdint>

#include "heed/generate/search.h"
#include "heed/models/model.h"

namespace heed::generate {

inline constexpr std::int64_t kUnlimitedLength = 512;

/// Without a maximum length in the options, sets it to the number of the model's positions, or to 512 tokens
/// for a model without a limit.
inline void allow_whole_length(const EncoderDecoderModel& model, GenerationOptions& options,
                               SearchHooks& hooks) {
  if (options.max_new_tokens || options.max_length) return;
  hooks.longest = model.max_positions();
  options.max_length = hooks.longest.value_or(kUnlimitedLength);
}

/// The same for a decoder: the number of tokens of the texts it was trained on, or 512 new ones if its config
/// does not have that.
inline void allow_whole_length(const DecoderModel& model, GenerationOptions& options) {
  if (options.max_new_tokens || options.max_length) return;
  const auto trained = model.trained_positions();
  (trained ? options.max_length : options.max_new_tokens) = trained.value_or(kUnlimitedLength);
}

}  // namespace heed::generate
