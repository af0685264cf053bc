// The length of texts that end by themselves.
#pragma once

#include <cstdint>

#include "heed/generate/search.h"
#include "heed/models/model.h"

namespace heed::generate {

/// Without a maximum length in the options, sets it to the number of the model's positions, or to 512 tokens
/// for a model without a limit.
inline void allow_whole_length(const EncoderDecoderModel& model, GenerationOptions& options,
                               SearchHooks& hooks) {
  constexpr std::int64_t kUnlimitedLength = 512;
  if (options.max_new_tokens || options.max_length) return;
  hooks.longest = model.max_positions();
  options.max_length = hooks.longest.value_or(kUnlimitedLength);
}

}  // namespace heed::generate
