// Two forms of the same scores.
#include "serve/generation/token_scores.h"

#include <algorithm>

#include "core/pause_point.h"
#include "generate/processors.h"
#include "heed/autograd.h"
#include "heed/nn/stack.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "server/messages.h"

namespace heed::serve {
using server::ApiError;
using server::ErrorCode;

namespace {

constexpr std::int64_t kScoresAtOnce = 1 << 20;

ReadOut read_out_of(const DecoderModel& model) {
  const std::optional<ReadOut> read_out = model.read_out();
  if (!read_out || model.stack_named("decoder") == nullptr)
    throw ApiError(ErrorCode::not_supported,
                   "request: logprobs: expected none of the prompt, as this model does not tell them",
                   "logprobs");
  return *read_out;
}

Json score_json(const TokenScore& score) {
  Json bytes = Json::array();
  for (const char c : score.bytes) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", score.text}, {"logprob", score.log_probability}, {"bytes", std::move(bytes)}};
}

Json top_json(const ScoredToken& token) {
  if (token.is_first) return nullptr;
  Json top = {{token.token.text, token.token.log_probability}};
  for (const TokenScore& other : token.top) {
    if (!top.contains(other.text)) top[other.text] = other.log_probability;
  }
  return top;
}

}  // namespace

Json chat_logprobs(const std::vector<ScoredToken>& tokens) {
  Json content = Json::array();
  for (const ScoredToken& token : tokens) {
    pause_point();
    Json one = score_json(token.token);
    one["top_logprobs"] = Json::array();
    for (const TokenScore& other : token.top) one["top_logprobs"].push_back(score_json(other));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

Json completion_logprobs(const std::vector<ScoredToken>& tokens) {
  Json columns = {{"tokens", Json::array()},
                  {"token_logprobs", Json::array()},
                  {"top_logprobs", Json::array()},
                  {"text_offset", Json::array()}};
  for (const ScoredToken& token : tokens) {
    pause_point();
    columns["tokens"].push_back(token.token.text);
    columns["token_logprobs"].push_back(token.is_first ? Json() : Json(token.token.log_probability));
    columns["top_logprobs"].push_back(top_json(token));
    columns["text_offset"].push_back(token.offset);
  }
  return columns;
}

PromptScores::PromptScores(const DecoderModel& model, std::vector<std::int64_t> prompt, std::int64_t top)
    : read_out_(read_out_of(model)),
      at_once_(std::max<std::int64_t>(1, kScoresAtOnce / model.vocab_size())),
      prompt_(std::move(prompt)),
      top_(top) {
  const std::size_t layers = model.stack_named("decoder")->layers.size();
  taps_.listen("decoder.layers." + std::to_string(layers - 1) + ".out",
               [this](const std::string&, Tensor& stream) { have_stream(stream); });
}

// `stream` [1, T, D] is of the tokens from first_position() on, each of which predicts the next.
void PromptScores::have_stream(const Tensor& stream) {
  const NoGradients guard;
  const std::int64_t first = taps_.first_position(), all = std::ssize(prompt_);
  const std::int64_t count = std::min(stream.size(1), all - 1 - first);
  for (std::int64_t begin = 0; begin < count; begin += at_once_) {
    pause_point();
    const std::int64_t end = std::min(count, begin + at_once_);
    const Tensor some = slice(stream, 1, begin, end).contiguous();
    const Tensor log_probs = log_softmax(read_out_.logits(some), 2).contiguous();
    const std::int64_t vocabulary = log_probs.size(2);
    for (std::int64_t i = begin; i < end; ++i) {
      pause_point();
      const std::span row(log_probs.data<float>() + (i - begin) * vocabulary,
                          static_cast<std::size_t>(vocabulary));
      const std::int64_t token = prompt_[static_cast<std::size_t>(first + i + 1)];
      tokens_.push_back(
          {0, 0, token, row[static_cast<std::size_t>(token)], generate::best_tokens(row, top_)});
    }
  }
}

}  // namespace heed::serve
