// Loss and perplexity of a text under a decoder.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/models/model.h"

namespace HEED_API heed {

struct TextLoss {
  double nats = 0;             ///< sum over all predicted tokens of -log p(token | those before)
  std::int64_t predicted = 0;  ///< number of predicted tokens: all but the first
  double loss() const;         ///< nats per predicted token
  double perplexity() const;   ///< exp(loss())
};

/// Predicts every token of a text except the first, in windows of at most `window` tokens that each begin
/// `stride` tokens after the previous one. Tokens in the overlap of two windows are predicted in the first
/// and are context in the second. With stride = window there is no overlap, which is faster, but predictions
/// at the beginning of a window have little context. Throws Error if there are fewer than two tokens or ids
/// outside the vocabulary, and unless 1 <= stride <= window and the window fits the model's positions.
/// `progress` receives the number of processed tokens. With a `cache_dtype` other than f32, tokens attend to
/// keys and values stored in it, as in generation.
TextLoss text_loss(const DecoderModel& model, std::span<const std::int64_t> ids, std::int64_t window,
                   std::int64_t stride, const std::function<void(std::int64_t)>& progress = {},
                   CacheDType cache_dtype = CacheDType::f32);

/// What a decoder gives to one token of a continuation.
struct TokenLikelihood {
  double log_probability = 0;  ///< log p(token | those before), in nats
  bool greedy = false;         ///< whether no token is likelier
};

/// Of each token of `continuation` behind `context`, which has at least one token. Throws Error for ids
/// outside the vocabulary and for more tokens than the model has positions; Canceled once `stop` is true.
std::vector<TokenLikelihood> token_likelihoods(const DecoderModel& model,
                                               std::span<const std::int64_t> context,
                                               std::span<const std::int64_t> continuation,
                                               const std::atomic<bool>* stop = nullptr);

}  // namespace heed
