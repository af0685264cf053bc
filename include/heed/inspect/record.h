// Records the attention of one forward pass: weights, norms of the values, gradients, queries and keys. Also
// measures that are alternatives to the weights, and the change of the logits without a head.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/nn/tap.h"

namespace HEED_API heed {

class DualEncoderModel;
class Model;
struct HeadAblationOptions;

/// One kind of attention of a model.
struct AttentionKind {
  std::string name;   ///< `cross`, `encoder`, `decoder`; in a model of two towers `image`, `text`, `pooling`
  std::string stack;  ///< of its taps: `encoder`, `decoder`, `image_encoder` or `text_encoder`
  std::string part;   ///< of its taps: `self_attn`, `cross_attn`, or `pool` after the layers
  bool is_self() const { return part == "self_attn"; }
};

/// Returns the kinds that a model has, cross-attention first. Throws Error if there is none, and for a model
/// of two towers.
std::vector<AttentionKind> attention_kinds(const Model& model);
/// The kinds of a model of two towers: images, texts, and the pooling of images if there is one (SigLIP).
std::vector<AttentionKind> attention_kinds(const DualEncoderModel& model);

/// One number of the logits: token `token` at `position` in `logits` [1, T, V]; label `token` in logits [1,
/// L]; the only one for a text and an image (`logits_per_text` [1, 1]).
struct LogitChoice {
  std::int64_t position = 0, token = 0;
};

/// The values to record. Empty lists mean all.
struct RecordOptions {
  std::vector<AttentionKind> kinds;
  std::vector<std::int64_t> layers = {};
  std::vector<std::int64_t> heads = {};  ///< of the weights, in increasing order
  bool value_norms = false;              ///< for the value-weighted norms
  bool vectors = false;                  ///< queries and keys
  bool values = false;
  std::optional<LogitChoice> gradient = std::nullopt;  ///< of this logit
  /// Listeners that are called first: they may replace values.
  Taps* taps = nullptr;
  const std::atomic<bool>* stop = nullptr;  ///< cancels the pass once true: it throws Canceled
  TapRange queries = {}, keys = {};         ///< ranges for all values with queries or keys
};

/// The attention of one layer, all f32. Tensors that were not requested or do not exist are undefined.
struct RecordedLayer {
  std::string name;  ///< of the part: `decoder.layers.2.cross_attn`
  std::string kind;
  std::int64_t layer = 0;
  Tensor weights;  ///< [H, T, S], of the chosen heads
  /// [H, S]: ||f(x)||, f(x) = v W_O with the head's rows of the output projection; in recurrent models W_c v
  /// with the columns of W_c for the context.
  Tensor value_norms;
  Tensor gradient;  ///< [H, T, S]: of the logit, with respect to the weights
  Tensor q, k, v;   ///< [H, T, d], [K, S, d], [K, S, d]
  /// Positions of the whole input; T and S may be a part of them.
  std::int64_t all_queries = 0, all_keys = 0;
};

struct AttentionRecord {
  std::vector<RecordedLayer> layers;  ///< by kind, in the order of the options, and layer
  Tensor logits;                      ///< of the model, if it computes any
  TensorMap outputs;                  ///< all outputs of the model, without gradient history
};

/// Runs `inputs` (one row) through the model. Gradients of the weights are those of the sum over values that
/// follows the softmax. Layers that do not exist are not recorded; attention of recurrent models has no
/// queries and keys. Throws Error if the logit, or a position, does not exist.
/// Threads: with a gradient, no other may use the model.
AttentionRecord record_attention(const Model& model, const TensorMap& inputs, const RecordOptions& options);

/// ||alpha_ij f(x_j)||, f(x) = v W_O of one head: the length of the vector that query i receives from key j
/// through this head. [H, T, S]. Kobayashi et al. 2020, "Attention is not only a weight", equation 5. Throws
/// Error for a layer without value norms.
Tensor value_weighted_norms(const RecordedLayer& layer);

/// Weight times the gradient of the recorded logit, with its sign; [H, T, S]. Throws Error for a layer
/// without gradients.
Tensor gradient_times_attention(const RecordedLayer& layer);

/// Attention rollout, [T, T] for each layer: the product of A = (mean over heads + I) / 2, with rows divided
/// by their sums, over the layers from the first to this one. `weights` are the self-attention weights [H, T,
/// T] of each layer from the first on. Abnar and Zuidema 2020, "Quantifying attention flow in transformers".
std::vector<Tensor> attention_rollout(std::span<const Tensor> weights);

/// The change of the logits without one head.
struct HeadAblation {
  std::string kind;
  std::int64_t layer = 0, head = 0;
  std::vector<float> change;  ///< per choice: the logit without the head minus the logit with it
};

/// Runs the model once per head of `record` with the head's output (before the output projection) replaced.
/// `record` is of the model with `options.ablation.removed` replaced, as replace_components() does it. The
/// options are those of heed/inspect/ablation.h.
std::vector<HeadAblation> ablate_heads(const Model& model, const TensorMap& inputs,
                                       const AttentionRecord& record, std::span<const LogitChoice> choices,
                                       const HeadAblationOptions& options);

}  // namespace heed
