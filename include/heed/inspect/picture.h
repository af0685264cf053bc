// Attention as pictures: plain data (tokens and weights, no tensors), and what can be made of it: a heat map
// in the terminal, an SVG figure, an interactive HTML page, JSON, and a NumPy array. All renderers return the
// document; none touches a file.
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
  std::vector<float> weights;  // [queries, keys], row-major; NaN where there is none

  static constexpr std::int64_t kMeanOfHeads = -1;
};

/// What the rows and columns of a kind's maps stand for: for `cross` the target and the source tokens, for
/// the others twice the same.
struct AttentionTokens {
  std::vector<std::string> queries, keys;
};

/// Maps of one input. Maps of a kind share their tokens.
struct AttentionPicture {
  std::string title;
  std::map<std::string, AttentionTokens, std::less<>> tokens;  // by kind
  std::vector<AttentionMap> maps;
};

/// How a terminal wants it. Without colour, shades are the characters ` .:-=+*#%@`.
struct TerminalStyle {
  int width = 100;  // columns
  bool colour = false;
};

// Each throws Error when there is no map, a map's kind has no tokens, or sizes disagree. Shades are relative
// to the largest weight of the picture, which the legend names.

/// One heat map after the other, a row for each query; columns that do not fit in `style.width` go on in
/// further blocks below. Throws Error for a width under 40.
std::string attention_terminal(const AttentionPicture& picture, const TerminalStyle& style = {});

/// One self-contained figure: a grid of maps for each kind, layers downwards, heads to the right; a cell's
/// tooltip gives its tokens and weight. Throws Error past 100,000 cells, which no viewer handles well.
std::string attention_svg(const AttentionPicture& picture);

/// One self-contained page that needs no network: all maps at a glance, one of them enlarged, and lines from
/// token to token. Weights are kept to 1/255 of each map's largest.
std::string attention_html(const AttentionPicture& picture);

/// `{"title", "tokens": {kind: {"queries", "keys"}}, "maps": [{"name", "kind", "layer", "head", "queries",
/// "keys", "weights": [[…]]}]}`; `head` is null for a mean of heads, a weight is null where it is not finite.
std::string attention_json(const AttentionPicture& picture);

/// An array [maps, queries, keys] of float32 in NumPy's format 1.0.
/// Throws Error when the maps are not all of one size.
std::string attention_npy(const AttentionPicture& picture);

}  // namespace heed
