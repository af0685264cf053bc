// Tokens as labels: made visible, measured, cut to length; and the words with which all pictures name a map.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heed/inspect/picture.h"

namespace heed::inspect {

/// The token with nothing in it that could harm or hide: control characters become their pictures (U+2400…),
/// characters that steer the writing direction go, a blank token becomes `␣` for each character, an empty one
/// `∅`.
std::string visible(std::string_view token);

/// `label` if it takes at most `width` columns, else its beginning and `…`.
std::string shorten(const std::string& label, int width);

/// The label in pieces that stand in one place of the screen: a character with the marks that combine with
/// it.
std::vector<std::string> clusters(const std::string& label);

/// `label` with as many spaces before or after it as `width` columns need.
std::string pad_left(const std::string& label, int width);
std::string pad_right(const std::string& label, int width);

/// `<`, `>`, `&` and quotes as entities, for text and attributes of XML and HTML. Control characters become
/// their pictures, as XML cannot hold them.
std::string escape_markup(std::string_view text);

/// `cross-attention`, `encoder self-attention`, …; a kind of another name stands for itself.
std::string kind_title(const std::string& kind);

/// `layer 3, head 1` or `layer 3, mean of heads`.
std::string map_title(const AttentionMap& map);

/// Throws Error unless there are maps and all their sizes agree with the weights and the tokens.
void check_picture(const AttentionPicture& picture);

/// The tokens of a map's kind.
const AttentionTokens& tokens_of(const AttentionPicture& picture, const AttentionMap& map);

/// The largest finite weight, or 1 where none is above 0.
float largest_weight(const AttentionPicture& picture);

}  // namespace heed::inspect
