// How well a decoder predicts a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "heed/models/model.h"

namespace heed {

struct TextLoss {
  double nats = 0;             ///< sum over all predicted tokens of -log p(token | those before)
  std::int64_t predicted = 0;  ///< how many: all but the first
  double loss() const;         ///< nats per predicted token
  double perplexity() const;   ///< exp(loss())
};

/// Predicts every token but the first of one text, in windows that feed at most `window` tokens, each
/// beginning `stride` tokens after the one before: what two windows share is context in the second and counts
/// in the first only. With the stride as long as the window nothing is shared, which is quicker, and worse at
/// the beginning of each window. Throws Error for fewer than two tokens, ids outside the vocabulary, and
/// unless 1 <= stride <= window and the window is no longer than the model's positions. `progress` is told
/// how many tokens are done.
TextLoss text_loss(const DecoderModel& model, std::span<const std::int64_t> ids, std::int64_t window,
                   std::int64_t stride, const std::function<void(std::int64_t)>& progress = {});

}  // namespace heed
