// Attention maps as plain data (tokens and weights, no tensors), and renderers for them: a heat map in the
// terminal, an SVG figure, an interactive HTML page, JSON, and a NumPy array. The renderers return the
// document and write no files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace heed {

/// The weights of one head, or the mean of a layer's heads.
struct AttentionMap {
  std::string name;  // of the tap, e.g. `decoder.layers.2.cross_attn`
  std::string kind;  // `cross`, `encoder`, `decoder`, or `self` for a model with one stack
  std::int64_t layer = 0;
  std::int64_t head = kMeanOfHeads;
  std::int64_t queries = 0, keys = 0;
  std::vector<float> weights;  // [queries, keys], row-major; NaN for a missing weight

  static constexpr std::int64_t kMeanOfHeads = -1;
};

/// The tokens of the rows (queries) and columns (keys) of a kind's maps. For `cross` these are target and
/// source tokens; for the other kinds, both are the same.
struct AttentionTokens {
  std::vector<std::string> queries, keys;
};

/// The maps of one input. Maps of the same kind share their tokens.
struct AttentionPicture {
  std::string title;
  std::map<std::string, AttentionTokens, std::less<>> tokens;  // by kind
  std::vector<AttentionMap> maps;
};

/// Settings of the terminal. Without colour, weights are shown by the characters ` .:-=+*#%@`.
struct TerminalStyle {
  int width = 100;  // columns
  bool colour = false;
};

// Each renderer throws Error if there is no map, if a map's kind has no tokens, or if sizes differ. Shades
// are relative to the largest weight of the picture, which the legend gives.

/// Returns heat maps, one below the other, with one row per query. Columns beyond `style.width` continue in
/// blocks below. Throws Error if the width is under 40.
std::string attention_terminal(const AttentionPicture& picture, const TerminalStyle& style = {});

/// Returns one self-contained figure: a grid of maps per kind, with one row per layer and one column per
/// head. The tooltip of a cell shows its tokens and weight. Throws Error if there are more than 100,000
/// cells, which viewers cannot handle well.
std::string attention_svg(const AttentionPicture& picture);

/// Returns one self-contained page that needs no network: an overview of all maps, one enlarged map, and
/// lines from token to token. Weights have a precision of 1/255 of each map's largest weight.
std::string attention_html(const AttentionPicture& picture);

/// Returns `{"title", "tokens": {kind: {"queries", "keys"}}, "maps": [{"name", "kind", "layer", "head",
/// "queries", "keys", "weights": [[…]]}]}`. `head` is null for a mean of heads; a weight is null if it is not
/// finite.
std::string attention_json(const AttentionPicture& picture);

/// Returns an array [maps, queries, keys] of float32 in NumPy's format 1.0. Throws Error if the maps have
/// different sizes.
std::string attention_npy(const AttentionPicture& picture);

}  // namespace heed
