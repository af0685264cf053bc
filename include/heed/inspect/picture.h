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
  std::vector<float> weights;  // [queries, keys], row-major; NaN where there is no weight

  static constexpr std::int64_t kMeanOfHeads = -1;
};

/// Tokens of the rows (queries) and columns (keys) of a kind's maps: for `cross`, target and source tokens;
/// for the others, both are the same.
struct AttentionTokens {
  std::vector<std::string> queries, keys;
};

/// Maps of one input. Maps of a kind share their tokens.
struct AttentionPicture {
  std::string title;
  std::map<std::string, AttentionTokens, std::less<>> tokens;  // by kind
  std::vector<AttentionMap> maps;
};

/// Settings of the terminal. Without colour, shades are the characters ` .:-=+*#%@`.
struct TerminalStyle {
  int width = 100;  // columns
  bool colour = false;
};

// Each renderer throws Error when there is no map, a map's kind has no tokens, or sizes differ. Shades are
// relative to the largest weight of the picture, which is in the legend.

/// Heat maps, one below the other, with a row per query; columns beyond `style.width` continue in further
/// blocks below. Throws Error for a width under 40.
std::string attention_terminal(const AttentionPicture& picture, const TerminalStyle& style = {});

/// One self-contained figure: a grid of maps per kind, with a row per layer and a column per head; the
/// tooltip of a cell shows its tokens and weight. Throws Error for more than 100,000 cells, which viewers
/// cannot handle well.
std::string attention_svg(const AttentionPicture& picture);

/// One self-contained page that needs no network: an overview of all maps, one map enlarged, and lines from
/// token to token. Weights have a precision of 1/255 of each map's largest weight.
std::string attention_html(const AttentionPicture& picture);

/// `{"title", "tokens": {kind: {"queries", "keys"}}, "maps": [{"name", "kind", "layer", "head", "queries",
/// "keys", "weights": [[…]]}]}`; `head` is null for a mean of heads, a weight is null where it is not finite.
std::string attention_json(const AttentionPicture& picture);

/// An array [maps, queries, keys] of float32 in NumPy's format 1.0.
/// Throws Error when the maps have different sizes.
std::string attention_npy(const AttentionPicture& picture);

}  // namespace heed
