// Edit distance of words, for messages that suggest the word that was probably meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// Returns the minimum number of edits between two words: inserting, removing or replacing a letter, or
/// swapping two neighbors (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate that `word` was probably meant to be: the nearest by edit distance if it is near, or
/// the only one that begins with `word`. Returns an empty string if there is none.
std::string nearest_word(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace heed
