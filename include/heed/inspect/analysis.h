// Analysis of what a model computes, through its taps: the logit lens, direct logit attribution, attribution
// of attention scores, measures of attention heads, activation patching and its estimate by gradients. Inputs
// are those of Model::forward(), one row each. Threads: each function runs the model on its own; several may
// run at once within NoGradients.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/metric.h"
#include "heed/models/model.h"

namespace HEED_API heed {

struct TokenProbability {
  std::int64_t id = 0;
  double probability = 0;
};

/// What the residual stream predicts at one depth: of every position, the most probable tokens.
struct LensLayer {
  std::string name;  ///< `embed`, or the number of the layer whose output it is
  std::vector<std::vector<TokenProbability>> positions;
};

/// The logit lens (nostalgebraist 2020): softmax of the model's final norm and output projection, applied to
/// the input of the first layer and to the output of each. The last one is what the model predicts. Of a
/// masked language model, its whole head: what it would put in each place. Throws Error for models that
/// predict no tokens.
std::vector<LensLayer> logit_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k);

/// The same of a classifier: the labels that its head reads after each layer, from the output of that layer
/// in the place of the last one's; one position. Probabilities are the softmax over the labels. Throws Error
/// for models without a head of labels.
std::vector<LensLayer> label_lens(const Model& model, const TensorMap& inputs, std::int64_t top_k);

/// A part that adds to the residual stream.
struct StreamPart {
  /// A sublayer: `self_attn`, `cross_attn`, `feed_forward`, `convolution`; with `_norm` behind it, the bias
  /// of the norm of the sum that it ends (post-norm); `steering`, the layer's vector. Of no layer: `token`,
  /// `type` and `position`, the embeddings, `embed_bias`, that of their norm or projection, or `embed`, where
  /// they are not known apart; and `bias`, that of the map that the stream is read by, and of its norm.
  std::string name;
  std::int64_t layer = -1;  ///< -1: of no layer
  std::int64_t head = -1;   ///< -1: not of a head (of an attention: its bias)
};

/// What one part adds to a logit; `embed` are all embeddings together.
struct LogitPart : StreamPart {
  double logit = 0;
};

/// The logit of one token as a sum over all parts that add to the residual stream (Elhage et al. 2021, "A
/// mathematical framework for transformer circuits"): each is divided by the final norm's deviation of the
/// whole stream and projected on the token's row of the output map. In a post-norm model, each later norm of
/// the sum acts on a part in the same way.
struct LogitAttribution {
  std::vector<LogitPart> parts;
  double logit = 0;  ///< of the model, before its cap; the sum of the parts
};

/// Throws Error for models that predict no next token, or by a map that is not linear.
LogitAttribution attribute_logit(const Model& model, const TensorMap& inputs, std::int64_t position,
                                 std::int64_t token);

struct ScoreOptions {
  std::string stack = "decoder", part = "self_attn";  ///< or `encoder`, `cross_attn`
  std::int64_t layer = 0, head = 0;
  std::int64_t query = 0;
  std::optional<std::int64_t> key = {};  ///< by default, that with the largest weight
  /// Listeners that are called first. They may change what heads put out, and add vectors [D] to the stream
  /// after layers: those of `added`, by the names of the layers' taps (`decoder.layers.3.out`).
  Taps* taps = nullptr;
  TensorMap added = {};
  const std::atomic<bool>* stop = nullptr;  ///< cancels the pass once true: it throws Canceled
};

/// The score of a query and a key, before the softmax, as a sum over pairs of what adds to the two streams
/// (Elhage et al. 2021): with the parts x_i of the stream at the query's position, and y_j at the key's,
///
///   score = scale * sum_ij (R_t Q x_i) . (R_s K y_j) + position_bias
///
/// where Q and K are the head's maps, and R the rotation of rotary positions. Each norm before the attention,
/// or of queries and keys, divides every part by its deviation of the whole; a cap of the scores (Gemma 2)
/// and a clip of the queries and keys (MPT) scale every part as they scaled the sum. The parts of a key in
/// cross-attention are those of the encoder's output.
struct ScoreAttribution {
  std::int64_t key = 0;
  double score = 0, weight = 0;  ///< the sum of all terms, and its softmax over the keys
  std::vector<StreamPart> query_parts = {}, key_parts = {};  ///< in the order of the layers; last: `bias`
  std::vector<std::vector<double>> pairs = {};               ///< [query_parts, key_parts]
  double position_bias = 0;  ///< relative bias, ALiBi, or DeBERTa's terms of positions; else 0
};

/// One forward pass; without a key, one more before. Throws Error for a layer, head, query or key that the
/// model does not have, for a key that the query cannot attend to, and for an attention without scores
/// (linear and recurrent models).
ScoreAttribution attribute_score(const Model& model, const TensorMap& inputs, const ScoreOptions& options);

/// One head, measured over the queries of all texts, images or sounds. A share is a sum of weights, from 0
/// to 1. Of cross-attention, whose keys are other tokens than its queries, previous, duplicate, induction and
/// distance are 0; of images and sounds, which have no tokens, previous, duplicate, induction and separator.
struct HeadMeasures {
  std::int64_t layer = 0, head = 0;
  double previous = 0;   ///< share of the token before the query's
  double duplicate = 0;  ///< share of other positions with the query's token, over queries that have one
  /// Share of the tokens that follow earlier occurrences of the query's token, over queries that have one
  /// (Olsson et al. 2022, "In-context learning and induction heads").
  double induction = 0;
  double entropy = 0;  ///< of a row of weights, in nats
  /// Mean of |query - key|; of images and sounds the distance of patches in their grid, weighted by the
  /// weights on patches, over the queries that are patches (Dosovitskiy et al. 2021, "An image is worth
  /// 16x16 words").
  double distance = 0;
  double first = 0;      ///< share of the first token, over later queries (of cross-attention, over all)
  double separator = 0;  ///< share of the separator tokens
  /// Length of what the head adds to the residual stream, over that of the stream before the attention. A
  /// norm or multiplier between attention and stream counts.
  double size = 0;
  bool dead = false;  ///< size below 1e-3
  /// The nearest other head of the layer, and half the mean L1 distance of their rows of weights.
  std::int64_t nearest = -1;
  double nearest_distance = 1;
  bool redundant = false;  ///< nearest_distance below 0.05
};

struct HeadsOptions {
  std::string stack = "decoder", part = "self_attn";  ///< or `encoder`, `cross_attn`
  std::set<std::int64_t> separators = {};
  Taps* taps = nullptr;  ///< further listeners: replacements that all measures are with
};

/// Throws Error for a model without such an attention, or without a text of at least two tokens.
std::vector<HeadMeasures> measure_heads(const Model& model, std::span<const TensorMap> texts,
                                        const HeadsOptions& options);

/// What is patched: the residual stream before a layer, what attention or feed-forward adds to it, at one
/// position; or one head's output, at all positions.
enum class PatchSite : std::uint8_t { residual, attention, feed_forward, heads };

struct PatchOptions {
  PatchSite site = PatchSite::residual;
  /// The stack whose layers are patched, and which of their attentions: `encoder`, `cross_attn`.
  std::string stack = "decoder", part = "self_attn";
  /// Of `kl`, against the clean run. Others have a token.
  LogitMetric metric = {.kind = MetricKind::logit_difference};
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Activation patching (Meng et al. 2022; Wang et al. 2023): the corrupted run, with one value of the clean
/// run in its place. Exchange the two inputs for the other direction.
struct PatchResult {
  double clean = 0, corrupted = 0;   ///< the metric of the two runs
  std::vector<std::int64_t> layers;  ///< their numbers: all that have such a value
  /// [layers, positions or heads]: the metric of the patched run.
  std::vector<std::vector<double>> patched;
  /// (patched - corrupted) / (clean - corrupted): 0 changes nothing, 1 restores the clean run.
  double effect(std::size_t row, std::size_t column) const;
};

/// Throws Error unless both inputs have the same shapes, and for a metric that cannot be measured, or is the
/// same of both runs.
PatchResult patch_activations(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options);

/// Attribution patching (Nanda 2023): what patch_activations() would find, if the metric m were linear in the
/// value x, for all values at once. With the gradient of the corrupted run,
///
///   patched - corrupted  ~  sum (x_clean - x_corrupted) * dm / dx
///
/// over the numbers of the position or head. Two passes and one backward. Threads: no other may use the
/// model.
PatchResult attribute_patches(const Model& model, const TensorMap& clean, const TensorMap& corrupted,
                              const PatchOptions& options);

/// How far estimates of effects are from those found by patching.
struct PatchAgreement {
  double correlation = 0;  ///< Pearson's; 0 where one of both is constant
  double largest = 0;      ///< the largest difference of two effects
};
PatchAgreement agreement_of(const PatchResult& estimated, const PatchResult& patched);

}  // namespace heed
