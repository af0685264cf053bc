// Truncates, packs and pads texts.
#include "heed/tasks/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/model.h"
#include "heed/nn/context.h"
#include "heed/text/tokenizer.h"

namespace heed {

std::int64_t longest_input(const Model& model, const Tokenizer& tokenizer) {
  constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();
  return std::min(model.max_positions().value_or(unlimited),
                  tokenizer.model_max_length().value_or(unlimited));
}

Encoding encode_cut(const Tokenizer& tokenizer, const TextPair& text, std::int64_t longest,
                    const TaskOptions& options, std::size_t index, bool left) {
  Context{.stop = options.stop}.check_stop();
  Truncation truncation;
  truncation.max_length = longest;
  truncation.left = left;
  bool shortened = false;
  Encoding encoding = tokenizer.encode_truncated(text.first, text.second, truncation, true, &shortened);
  if (shortened) {
    options.warn(index,
                 "more than the " + std::to_string(longest) + " tokens the model takes: the rest is ignored");
  }
  return encoding;
}

std::vector<std::vector<std::size_t>> pack_by_length(std::span<const std::int64_t> lengths,
                                                     std::int64_t batch_tokens) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<std::size_t>> batches;
  std::int64_t longest = 0;
  for (const std::size_t index : order) {
    const bool fits =
        !batches.empty() && longest * static_cast<std::int64_t>(batches.back().size() + 1) <= batch_tokens;
    if (!fits) {
      batches.emplace_back();
      longest = lengths[index];
    }
    batches.back().push_back(index);
  }
  return batches;
}

ModelInput padded_batch(std::span<const Encoding> encodings, std::span<const std::size_t> chosen,
                        std::int64_t pad_id, bool type_ids) {
  std::int64_t longest = 0;
  for (const std::size_t index : chosen) longest = std::max(longest, encodings[index].size());
  const Shape shape{static_cast<std::int64_t>(chosen.size()), longest};
  ModelInput batch{
      Tensor::full(shape, static_cast<double>(pad_id), DType::i64), Tensor::zeros(shape, DType::i64), {}};
  batch.skips_padding = true;
  if (type_ids) batch.type_ids = Tensor::zeros(shape, DType::i64);
  for (std::size_t row = 0; row < chosen.size(); ++row) {
    const Encoding& encoding = encodings[chosen[row]];
    const std::int64_t start = static_cast<std::int64_t>(row) * longest;
    std::copy(encoding.ids.begin(), encoding.ids.end(), batch.ids.data<std::int64_t>() + start);
    std::fill_n(batch.mask.data<std::int64_t>() + start, encoding.size(), 1);
    if (type_ids) {
      std::copy(encoding.type_ids.begin(), encoding.type_ids.end(),
                batch.type_ids.data<std::int64_t>() + start);
    }
  }
  return batch;
}

void encode_batches(const EncoderModel& model, std::span<const Encoding> encodings,
                    const TaskOptions& options, const BatchHandler& handle) {
  const NoGradients guard;
  std::vector<std::int64_t> lengths;
  for (const Encoding& encoding : encodings) lengths.push_back(encoding.size());
  for (const std::vector<std::size_t>& chosen : pack_by_length(lengths, options.batch_tokens)) {
    Context context{.stop = options.stop};
    const ModelInput batch = padded_batch(encodings, chosen, model.pad_id(), model.type_vocab_size() > 1);
    handle(chosen, model.encode_for_head(batch, context));
  }
}

}  // namespace heed
