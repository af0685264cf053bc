// Decoders: join tokens to text, as a tokenizer file describes.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"

namespace heed {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  /// Converts tokens to parts of the text, which the caller concatenates.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

/// Parses a `decoder` object. Throws Error naming file and field if the kind is unknown or its settings are
/// invalid. `depth` counts nested sequences.
std::unique_ptr<const TokenDecoder> parse_decoder(const JsonField& field, int depth = 0);

/// Replaces each `from`, from the left, by `to`. An empty `from` is nowhere.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace heed
