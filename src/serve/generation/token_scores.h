// The log-probabilities of an answer's tokens, and the two forms in which OpenAI's routes show them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "heed/generate/generation.h"
#include "heed/models/model.h"

namespace heed::serve {

/// A token with its log-probability.
struct TokenScore {
  std::string text;   ///< as it is shown
  std::string bytes;  ///< its own
  double log_probability = 0;
};

/// A token of a text, with the likeliest ones in its place.
struct ScoredToken {
  TokenScore token;
  std::vector<TokenScore> top = {};
  std::int64_t offset = 0;  ///< characters of the text before it
  bool is_first = false;    ///< of a prompt: nothing predicts it, and it has no score
};

/// Of chats: {"content": [{token, logprob, bytes, top_logprobs}, ...]}.
Json chat_logprobs(const std::vector<ScoredToken>& tokens);
/// Of completions, by columns; each token is among its likeliest.
Json completion_logprobs(const std::vector<ScoredToken>& tokens);

/// The log-probabilities of a prompt's tokens, as the pass that reads the prompt computes them.
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
