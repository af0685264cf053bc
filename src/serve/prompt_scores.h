// The log-probabilities of a prompt's tokens, as the pass that reads the prompt computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "heed/generate/generation.h"
#include "heed/models/model.h"

namespace heed::serve {

/// Threads: one at a time.
class PromptScores {
 public:
  /// With `top` alternatives of each token. `model` must outlive this. Throws ApiError for a model whose
  /// layers cannot be listened to.
  PromptScores(const DecoderModel& model, std::vector<std::int64_t> prompt, std::int64_t top);
  PromptScores(const PromptScores&) = delete;
  PromptScores& operator=(const PromptScores&) = delete;

  /// Listeners of the pass.
  Taps& taps() { return taps_; }
  /// The tokens of the prompt that have been predicted: after the pass, all but the first.
  const std::vector<GeneratedToken>& tokens() const { return tokens_; }

 private:
  void have_stream(const Tensor& stream);

  const ReadOut read_out_;
  const std::int64_t at_once_;  // positions
  const std::vector<std::int64_t> prompt_;
  const std::int64_t top_;
  Taps taps_;
  std::vector<GeneratedToken> tokens_;
};

}  // namespace heed::serve
