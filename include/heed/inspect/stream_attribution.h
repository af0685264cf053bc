// A logit, and the score of a query and a key, as sums over the parts that add to the residual stream. Inputs
// are those of Model::forward(), one row. Threads: several may run a model at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

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

}  // namespace heed
