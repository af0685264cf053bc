// Attention maps as plain data (tokens and weights, no tensors), and renderers for them: a heat map in the
// terminal, SVG and PNG figures, an interactive HTML page, JSON, and a NumPy array. The renderers return the
// document and write no files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

/// A measure of one head, or of all heads of a layer.
struct AttentionMap {
  std::string name;  // of the tap, e.g. `decoder.layers.2.cross_attn`
  std::string kind;  // `cross`, `encoder`, `decoder`, or `self` for a model with one stack
  std::int64_t layer = 0;
  std::int64_t head = kMeanOfHeads;
  std::int64_t queries = 0, keys = 0;
  std::vector<float> weights;       // [queries, keys], row-major; NaN for a missing weight
  std::string measure = "weights";  // `weights`, `norms`, `rollout` or `gradient`
  std::string word = {};            // over an image: what attends

  /// kAlignmentHeads is the mean over heads of several layers that follow the time of speech.
  static constexpr std::int64_t kMeanOfHeads = -1, kMaxOfHeads = -2, kAlignmentHeads = -3;
};

/// The tokens of the rows (queries) and columns (keys) of a kind's maps. For `cross` these are target and
/// source tokens; for the other kinds, both are the same.
struct AttentionTokens {
  std::vector<std::string> queries, keys;
  /// For a part of the input: its first position, and one past its last. {0, 0}: all positions.
  std::array<std::int64_t, 2> query_range = {}, key_range = {};
};

/// Further data of one head, for the page.
struct HeadFacts {
  std::string kind;
  std::int64_t layer = 0, head = 0;
  std::vector<float> value_norms;  // [keys], ||f(x)||: with them, the page shows value-weighted norms
  std::vector<float> ablation;     // per entry of AttentionPicture::scored: change without this head
};

/// Queries [heads, T, dims] and keys [kv_heads, S, dims] of a layer.
struct LayerVectors {
  std::string kind;
  std::int64_t layer = 0, heads = 0, kv_heads = 0, dims = 0;
  std::vector<float> q, k;
};

/// A candidate for the next token, and its probability.
struct Candidate {
  std::string token;
  float probability = 0;
};

/// The number of layers with a kind of attention, and of heads in each.
struct AttentionSize {
  std::int64_t layers = 0, heads = 0;
};

/// Facts about the model, for the page.
struct PictureModel {
  std::string name = {};
  /// Its task: `causal_lm`, `masked_lm`, `sequence`, `token`, `span`, `ctc`, `encoder_decoder`, `towers` or
  /// `none`; empty: unknown.
  std::string task = {};
  std::vector<Candidate> answer = {};  ///< to the whole text, the most probable first: labels, or a span
  std::optional<std::int64_t> answer_position = {};  ///< of the answer's first token in an encoder's text
  /// The sizes of the whole model by kind; the page may show a part. For a kind that is missing here, the
  /// page shows everything.
  std::map<std::string, AttentionSize> sizes = {};
};

/// An image, or the spectrogram of a sound. Its parts are keys, in row-major order, after `first` others.
struct InputImage {
  std::int64_t width = 0, height = 0;  // in pixels; 0: no image
  std::vector<std::uint8_t> rgb;       // [height, width, 3]
  std::int64_t rows = 0, columns = 0, first = 0;
  bool upward = false;  // row 0 is at the bottom, as low frequencies are
};

/// A word of a recording, and when it was spoken, if known.
struct SpokenWord {
  std::string text;
  double start = 0, end = 0;                 // in seconds from the beginning of the recording
  std::array<std::int64_t, 2> queries = {};  // of cross-attention: its first token, and that after its last
  bool timed = true;                         // whether start and end are known
};

/// The part of a recording that the columns of `image` show, from left to right. Later keys are padding.
struct RecordedSound {
  double start = 0, seconds = 0;  // 0 seconds: no sound
  std::vector<SpokenWord> words = {};
};

/// The maps of one input. Maps of the same kind share their tokens. Members after `maps` are for the page and
/// may be empty.
struct AttentionPicture {
  std::string title;
  std::map<std::string, AttentionTokens, std::less<>> tokens = {};  // by kind
  std::vector<AttentionMap> maps = {};
  std::vector<HeadFacts> facts = {};
  std::vector<LayerVectors> vectors = {};
  /// By kind and query: the most probable next tokens.
  std::map<std::string, std::vector<std::vector<Candidate>>, std::less<>> candidates = {};
  std::optional<std::int64_t> mask_position = {};  // of the first mask in an encoder's text
  std::vector<std::string> scored = {};            // whose logits ablation changes
  PictureModel model = {};
  InputImage image = {};
  RecordedSound sound = {};
  std::vector<std::string> beside = {};  // kinds that over_image() keeps as they are, beside the image
  bool over_image = false;  // of over_image(): queries and keys are the rows and columns of `image`
  /// Whether a kind's maps are drawn over the image.
  bool is_over_image(const std::string& kind) const;
  bool along_time = false;  // of along_time(): queries are the words of `sound`, keys the columns of `image`
};

/// The same picture with each map of the parts of `image` as rows and columns over it: what `query` attends
/// to or, without one, the mean over all queries. Figures then draw the image, pale, under the colors of
/// the weights; the terminal draws its colors, bright for large weights. Maps of other keys are left out.
/// Throws Error if none is left, or for a query that does not exist.
AttentionPicture over_image(const AttentionPicture& picture, std::optional<std::int64_t> query);

/// Queries that are shown as one, such as the tokens of a word.
struct QueryGroup {
  std::string label;
  std::int64_t first = 0, end = 0;  // the first query, and that after the last
};

/// The same with one map per word, the mean over its tokens; for the cross-attention of a captioning model.
/// Throws Error for queries that do not exist.
AttentionPicture words_over_image(const AttentionPicture& picture, const std::vector<QueryGroup>& words);

/// The same picture with the maps of cross-attention along the time of `sound`: the weights of a word are the
/// mean of those of its tokens; keys that are padding are cut off. Figures and the terminal draw them below
/// the spectrogram, with the beginning and end of each word. Other maps are left out. Throws Error if no map
/// is left, or if there are no words.
AttentionPicture along_time(const AttentionPicture& picture);

/// The colors of weights; each runs from nearly white to dark in equal steps of lightness. Negative values,
/// as in gradients, are orange (blue in `red`).
enum class Palette : std::uint8_t { blue, red, gray };

/// Settings of the figures.
struct FigureStyle {
  double width = 0;  // in pixels, 96 to the inch; 0: as the maps need
  Palette palette = Palette::blue;
};

/// Settings of the terminal. Without color, weights are shown by the characters ` .:-=+*#%@`.
struct TerminalStyle {
  int width = 100;  // columns
  bool color = false;
  bool light = false;  // a light terminal: large weights are dark, not bright
};

// Each renderer throws Error if there is no map, if a map's kind has no tokens, or if sizes differ. Shades
// are relative to the largest number of the map's measure in the picture, which its legend gives.

/// Returns heat maps, one below the other, with one row per query. Columns beyond `style.width` continue in
/// blocks below. Throws Error if the width is under 40.
std::string attention_terminal(const AttentionPicture& picture, const TerminalStyle& style = {});

/// Returns one self-contained figure: a grid of maps per kind and measure, with one row per layer and one
/// column per head. The tooltip of a cell shows its tokens and weight. Throws Error if there are more than
/// 100,000 cells, which viewers cannot handle well.
std::string attention_svg(const AttentionPicture& picture, const FigureStyle& style = {});

/// The same figure as one page of PDF, without tooltips; its text can be searched. Also throws Error if the
/// system has no font.
std::string attention_pdf(const AttentionPicture& picture, const FigureStyle& style = {});

/// Returns that figure as pixels, with text in the system's fonts; each cell is a square of whole pixels, at
/// least one. `style.width` limits the width. Throws Error if the figure does not fit in it, has more than
/// 100,000,000 pixels, or if the system has no font.
std::string attention_png(const AttentionPicture& picture, const FigureStyle& style = {});

/// Returns a PNG file of pixels [height, width, 3]. It records the resolution if `per_inch` is given.
std::string encode_png(std::int64_t width, std::int64_t height, const std::vector<std::uint8_t>& rgb,
                       double per_inch = 0);

/// Returns one self-contained page that needs no network: all maps, one of them as a matrix or as lines from
/// token to token, queries and keys by dimension, candidates, and facts about the model. Numbers are stored,
/// compressed, as fractions of each map's maximum, with 16 bits, or with 8, 7 or 6 if the page would become
/// too large; the page shows the number of bits. Throws Error if there are more numbers than 45 MB can hold.
std::string attention_html(const AttentionPicture& picture);

/// Returns the picture as JSON for training_html(); its numbers have 8 bits.
std::string attention_frame(const AttentionPicture& picture);
/// The pictures of one step of training, each from attention_frame(), as JSON; `loss` is shown beside the
/// step.
std::string training_frame(std::int64_t step, std::optional<double> loss,
                           const std::vector<std::string>& pictures);
/// The page of attention_html() for several steps of training, with a slider over them and a button for each
/// text. `frames` are from training_frame(), in the order of their steps, all of the same texts. Throws Error
/// for other JSON, and for none.
std::string training_html(const std::vector<std::string>& frames);

/// Returns `{"title", "tokens": {kind: {"queries", "keys"}}, "maps": [{"name", "kind", "layer", "head",
/// "queries", "keys", "measure", "weights": [[…]]}]}`, and for ablated heads `"scored": […], "ablation":
/// [{"kind", "layer", "head", "change": […]}]`. `head` is null for a mean of heads, "max" for their maximum
/// and "alignment" for the mean of the alignment heads, whose `layer` is null; a weight is null if it is not
/// finite. For a part of the input, the tokens have `"range": {"queries": [first, end], "keys": [first,
/// end]}`. A recording has `"sound": {"start", "seconds", "words": [{"text", "start", "end", "queries":
/// [first, end]}]}`, in seconds, with the tokens of each word.
std::string attention_json(const AttentionPicture& picture);

/// Returns an array [maps, queries, keys] of float32 in NumPy's format 1.0. Throws Error if the maps have
/// different sizes.
std::string attention_npy(const AttentionPicture& picture);

}  // namespace heed
