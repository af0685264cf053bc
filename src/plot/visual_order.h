// The order in which a line of text is drawn.
#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Returns valid UTF-8 text in normal form C, its characters in the order in which a line shows them from
/// left to right (Unicode's bidirectional algorithm), Arabic letters in their joined forms: what a program
/// draws that places one character after the other.
std::string visual_order(std::string_view text);

}  // namespace heed
