// How far two words are apart, for messages that name the word that was probably meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace heed {

/// The least number of edits that turn one word into the other: a letter inserted, removed or replaced, or
/// two neighbours swapped (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace heed
