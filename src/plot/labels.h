// Labels of tokens: made visible, measured and shortened. Also the titles of maps that all renderers use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heed/plot/picture.h"

namespace heed::plot {

/// Returns `text` with each byte that belongs to no whole character as `\xe2`.
std::string escape_bytes(std::string_view text);

/// Returns the token in a visible and harmless form: control characters become their pictures (U+2400…),
/// those of U+0080 to U+009F and bytes that belong to no character `\xe2`, a line feed `↵`, characters that
/// control the writing direction are removed, a blank token becomes one `␣` per character, SentencePiece's
/// mark of a space becomes `·`, and an empty token `∅`.
std::string visible(std::string_view token);

/// Returns `label` if it takes at most `width` columns, otherwise its beginning and `…`.
std::string shorten(const std::string& label, int width);
/// Returns a label or a cell's text of a table as it is shown, in at most 16 columns.
std::string cell_label(const std::string& text);
/// Returns the words of the label in at most `lines` lines (at least 1) of at most `width` columns; what does
/// not fit is cut as `shorten` does.
std::vector<std::string> wrap(const std::string& label, int width, std::size_t lines);

/// Splits the label into clusters that share a place on the screen: a character and its combining marks.
std::vector<std::string> clusters(const std::string& label);

/// Returns `label` with spaces added before or after it to fill `width` columns.
std::string pad_left(const std::string& label, int width);
std::string pad_right(const std::string& label, int width);

/// Replaces `<`, `>`, `&` and quotes by entities, for text and attributes of XML and HTML. Control
/// characters, which XML does not allow, become their pictures.
std::string escape_markup(std::string_view text);

/// Returns `cross-attention`, `encoder self-attention`, …; a kind of any other name is returned unchanged.
std::string kind_title(const std::string& kind);

/// Returns `layer 3, head 1`, `layer 3, mean of heads`, `rollout to layer 3`, …
std::string head_title(const AttentionMap& map);
/// The same in few characters: `3.1`, `3 mean`, `3 max`, `to 3`.
std::string short_title(const AttentionMap& map);

/// Returns `weights`, `value-weighted norms`, `gradient × attention`, …
std::string measure_title(const std::string& measure);

/// Throws Error unless there are maps, and all their sizes agree with the weights and the tokens.
void check_picture(const AttentionPicture& picture);

/// Returns the tokens of a map's kind.
const AttentionTokens& tokens_of(const AttentionPicture& picture, const AttentionMap& map);

/// What the colors of a measure are relative to: measures have different units.
struct MeasureScale {
  std::string measure;
  float largest = 0;      ///< magnitude of a finite number of its maps; 1 if all are 0
  bool negative = false;  ///< whether some are below 0
};
/// Returns the scales of a picture's measures, in the order of the maps.
std::vector<MeasureScale> measure_scales(const AttentionPicture& picture);
/// Returns the largest of the measure's scale.
float largest_of(const std::vector<MeasureScale>& scales, const std::string& measure);

}  // namespace heed::plot
