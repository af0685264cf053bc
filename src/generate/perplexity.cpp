// The mean loss of a text, in windows that overlap.
#include "heed/generate/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"
#include "heed/ops/softmax.h"

namespace heed {
namespace {

void check_ids(const DecoderModel& model, std::span<const std::int64_t> ids) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= model.vocab_size())
      throw Error(
          fmt::format("text: expected tokens below {}, got {} (the tokenizer may be of another model)",
                      model.vocab_size(), id));
  }
}

void check(const DecoderModel& model, std::span<const std::int64_t> ids, std::int64_t window,
           std::int64_t stride) {
  if (ids.size() < 2)
    throw Error(fmt::format("text: expected at least two tokens to predict, got {}", ids.size()));
  check_ids(model, ids);
  if (window < 1 || stride < 1 || stride > window) {
    throw Error(fmt::format(
        "text: expected a window of at least 1 token and a stride within it, got {} and {}", window, stride));
  }
  if (const auto positions = model.max_positions(); positions && window > *positions)
    throw Error(fmt::format("text: expected a window of at most {} tokens, the model's positions, got {}",
                            *positions, window));
}

}  // namespace

double TextLoss::loss() const { return nats / static_cast<double>(predicted); }
double TextLoss::perplexity() const { return std::exp(loss()); }

TextLoss text_loss(const DecoderModel& model, std::span<const std::int64_t> ids, std::int64_t window,
                   std::int64_t stride, const std::function<void(std::int64_t)>& progress,
                   CacheDType cache_dtype) {
  check(model, ids, window, stride);
  const NoGradients guard;
  const CrossEntropyOptions options{.reduction = Reduction::sum};
  const std::int64_t last = static_cast<std::int64_t>(ids.size()) - 1;  // predicted, but never fed
  TextLoss result;
  for (std::int64_t begin = 0; result.predicted < last; begin += stride) {
    const std::int64_t length = std::min(window, last - begin);
    const auto fed = ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
    std::vector<std::int64_t> labels(fed.begin() + 1, fed.end());
    labels.push_back(ids[static_cast<std::size_t>(begin + length)]);
    const std::int64_t known = result.predicted - begin;  // predicted in earlier windows
    std::fill_n(labels.begin(), known, options.ignore_index);
    Context context{.cache_dtype = cache_dtype};
    result.nats += model
                       .loss({.ids = Tensor::from(fed, {1, length})}, Tensor::from(labels, {1, length}),
                             options, context)
                       .item();
    if (std::isnan(result.nats))
      throw Error("text: expected a loss that is a number, got NaN (the model's weights are at fault)");
    result.predicted = begin + length;
    if (progress) progress(result.predicted);
  }
  return result;
}

std::vector<TokenLikelihood> token_likelihoods(const DecoderModel& model,
                                               std::span<const std::int64_t> context,
                                               std::span<const std::int64_t> continuation,
                                               const std::atomic<bool>* stop) {
  if (context.empty()) throw Error("text: expected at least one token before the continuation, got none");
  if (continuation.empty()) return {};
  std::vector<std::int64_t> fed(context.begin(), context.end());
  fed.insert(fed.end(), continuation.begin(), continuation.end());
  check_ids(model, fed);
  fed.pop_back();  // predicted alone
  const auto length = static_cast<std::int64_t>(fed.size());
  if (const auto positions = model.max_positions(); positions && length > *positions)
    throw Error(
        fmt::format("text: expected at most {} tokens, the model's positions, got {}", *positions, length));
  const NoGradients guard;
  Context pass{.stop = stop};
  std::optional<ReadOut> read_out = model.read_out();
  if (!read_out) throw Error("text: expected a model with an output map, got " + model.family());
  read_out->norm.reset();  // encode() ends with it
  const Tensor hidden = model.encode({.ids = Tensor::from(fed, {1, length})}, pass);
  const auto first = static_cast<std::int64_t>(context.size()) - 1, vocab = model.vocab_size();
  constexpr std::int64_t kRows = 64;  // logits in memory at once
  std::vector<TokenLikelihood> all;
  for (std::int64_t begin = first; begin < length; begin += kRows) {
    const std::int64_t end = std::min(begin + kRows, length);
    const Tensor scores =
        log_softmax(read_out->logits(slice(hidden, 1, begin, end)), -1).to(DType::f32).contiguous();
    for (std::int64_t row = 0; row < end - begin; ++row) {
      const float* log_p = scores.data<float>() + row * vocab;
      const auto id = continuation[static_cast<std::size_t>(begin + row - first)];
      all.push_back({log_p[id], log_p[id] >= *std::max_element(log_p, log_p + vocab)});
    }
  }
  return all;
}

}  // namespace heed
