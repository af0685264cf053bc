// Taps as users name them: NAME[heads=0:4,queries=3,keys=:8].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/nn/tap.h"

namespace heed::inspect {

struct TapRequest {
  std::string pattern;
  std::string brackets;  ///< `[...]` as it was given, or empty
  TapSelection selection;
};

/// The parts of a list; commas in brackets separate nothing.
std::vector<std::string> split_taps(const std::string& list);
/// `3`, `2:5`, `2:` or `:5`: positions from 0, without the last; nullopt for another text.
std::optional<TapRange> tap_range(const std::string& text);
/// Parses a name or pattern with a selection in brackets. Throws Error `expected …, got TEXT`.
TapRequest parse_tap(const std::string& text);

}  // namespace heed::inspect
