// The mean loss of a text, in windows that overlap.
#include "heed/generate/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/autograd.h"
#include "heed/error.h"

namespace heed {
namespace {

void check(const DecoderModel& model, std::span<const std::int64_t> ids, std::int64_t window,
           std::int64_t stride) {
  if (ids.size() < 2)
    throw Error(fmt::format("text: expected at least two tokens to predict, got {}", ids.size()));
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= model.vocab_size())
      throw Error(
          fmt::format("text: expected tokens below {}, got {} (the tokenizer may be of another model)",
                      model.vocab_size(), id));
  }
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

}  // namespace heed
