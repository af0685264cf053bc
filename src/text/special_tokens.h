// The special tokens of vocabularies that are trained.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heed/text/training.h"
#include "text/tokenizer_config.h"

namespace heed {

/// The tokens with a role, as pairs of the key in tokenizer_config.json and the token.
using Roles = std::vector<std::pair<SpecialRole, const char*>>;

/// The special tokens of a vocabulary: its first ids and its last ones, and those before and after a text.
struct SpecialTokens {
  std::vector<std::string> first, last;
  Roles roles;
  const char *begin = nullptr, *end = nullptr;

  std::int64_t size() const { return static_cast<std::int64_t>(first.size() + last.size()); }
};

/// The special tokens of a new vocabulary, by training.special_tokens, else by its type.
SpecialTokens special_tokens_of(const TokenizerTraining& training);

}  // namespace heed
