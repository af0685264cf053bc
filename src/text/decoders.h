// Decoders: how a tokenizer file joins tokens to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/json_field.h"

namespace heed {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Turns tokens into parts of the text, which are then joined as they are.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// The decoder that a `decoder` object describes. Throws Error naming file and field where the kind is
/// unknown or its settings are wrong. `depth` counts nested sequences.
std::unique_ptr<const TokenDecoder> parse_decoder(const JsonField& field, int depth = 0);

}  // namespace heed
