// JSON text as a document whose objects keep their members in order.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace heed {

/// How numbers that are not 64-bit integers become doubles.
enum class JsonNumbers {
  nearest,  ///< the nearest double; one that overflows or underflows is an error
  /// As the tokenizers library reads them: the digits as an integer, times or divided by a power of ten.
  /// Scores that differ in their last bit make another choice among equals.
  two_roundings,
};

struct JsonRules {
  JsonNumbers numbers = JsonNumbers::nearest;
  bool repeated_keys = false;  ///< whether an object may have a key twice; both members are then kept
};

/// Parses JSON (see JsonReader). Throws Error, starting with `where`, if the text is malformed or nested too
/// deeply, or if it breaks the rules.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& where,
                                  const JsonRules& rules = {});

}  // namespace heed
