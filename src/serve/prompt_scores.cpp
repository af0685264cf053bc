// Logits of the residual stream, some positions at a time.
#include "serve/prompt_scores.h"

#include <algorithm>

#include "generate/processors.h"
#include "heed/autograd.h"
#include "heed/nn/stack.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"
#include "serve/api_error.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kScoresAtOnce = 1 << 22;

ReadOut read_out_of(const DecoderModel& model) {
  const std::optional<ReadOut> read_out = model.read_out();
  if (!read_out || model.stack_named("decoder") == nullptr)
    throw ApiError(Problem::not_supported,
                   "request: logprobs: expected none of the prompt, as this model does not tell them",
                   "logprobs");
  return *read_out;
}

}  // namespace

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
    const std::int64_t end = std::min(count, begin + at_once_);
    const Tensor some = slice(stream, 1, begin, end).contiguous();
    const Tensor log_probs = log_softmax(read_out_.logits(some), 2).contiguous();
    const std::int64_t vocabulary = log_probs.size(2);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::span row(log_probs.data<float>() + (i - begin) * vocabulary,
                          static_cast<std::size_t>(vocabulary));
      const std::int64_t token = prompt_[static_cast<std::size_t>(first + i + 1)];
      tokens_.push_back(
          {0, 0, token, row[static_cast<std::size_t>(token)], generate::best_tokens(row, top_)});
    }
  }
}

}  // namespace heed::serve
