// How far two words are apart, for messages that name the word that was probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// The least number of edits that turn one word into the other: a letter inserted, removed or replaced, or
/// two neighbours swapped (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The one of `candidates` that `word` was probably meant to be: the nearest by edit distance, where it is
/// near, or the only one that begins with it; empty for none.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace heed
