// Every kind of work with the functions of `tasks`.
#include "serve/scheduler/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/pause_point.h"
#include "heed/autograd.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/tasks/batches.h"
#include "heed/tasks/embed.h"
#include "tasks/scores.h"

namespace heed::serve {
namespace {

// A single batch: the caller limits its size.
TaskOptions one_batch() {
  TaskOptions options;
  options.batch_tokens = std::numeric_limits<std::int64_t>::max() / 2;
  return options;
}

std::vector<EncoderResult> rows_of(const Tensor& vectors) {
  std::vector<EncoderResult> results;
  const std::vector<float> numbers = vectors.to_vector<float>();
  const auto width = static_cast<std::size_t>(vectors.size(1));
  for (std::int64_t row = 0; row < vectors.size(0); ++row) {
    const float* begin = numbers.data() + static_cast<std::size_t>(row) * width;
    results.push_back({{begin, begin + width}, {}, vectors.size(1)});
  }
  return results;
}

std::vector<EncoderResult> token_vectors(const ServedModel& model, std::span<const Encoding> texts) {
  std::vector<EncoderResult> results;
  for (const TokenEmbeddings& text : embed_tokens(model.model(), model.tokenizer(), texts, one_batch()))
    results.push_back({text.vectors.to_vector<float>(), {}, text.vectors.size(1)});
  return results;
}

// The largest of each column of logits [T, V], where it is above 0.
EncoderResult word_weights(const Tensor& logits) {
  const std::vector<float> numbers = logits.to_vector<float>();
  const auto width = static_cast<std::size_t>(logits.size(1));
  std::vector<float> largest(width, 0.0f);
  for (std::size_t at = 0; at < numbers.size(); ++at)
    largest[at % width] = std::max(largest[at % width], numbers[at]);
  EncoderResult result;
  for (std::size_t i = 0; i < width; ++i) {
    if (!(largest[i] > 0.0f)) continue;
    result.indices.push_back(static_cast<std::int64_t>(i));
    result.numbers.push_back(static_cast<float>(std::log1p(static_cast<double>(largest[i]))));
  }
  return result;
}

Tensor checked(Tensor logits) {
  if (!all_finite(logits)) tasks::throw_not_finite();
  return logits;
}

std::vector<EncoderResult> with_head(const ServedModel& model, EncoderWork work,
                                     std::span<const Encoding> texts) {
  const NoGradients guard;
  const EncoderModel& encoder = *model.encoder();
  std::vector<EncoderResult> results(texts.size());
  encode_batches(encoder, texts, one_batch(), [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    Context context;
    if (work == EncoderWork::logits) {
      const Tensor mask = padded_batch(texts, chosen, encoder.pad_id(), false).mask;
      std::vector<EncoderResult> rows = rows_of(checked(encoder.predict(hidden, mask, context)).contiguous());
      for (std::size_t b = 0; b < chosen.size(); ++b) results[chosen[b]] = std::move(rows[b]);
      return;
    }
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      pause_point();
      const auto row = static_cast<std::int64_t>(b);
      const Tensor tokens = reshape(slice(hidden, 0, row, row + 1), {hidden.size(1), hidden.size(2)});
      const Tensor logits =
          checked(encoder.predict(slice(tokens, 0, 0, texts[chosen[b]].size()), {}, context)).contiguous();
      results[chosen[b]] = work == EncoderWork::sparse
                               ? word_weights(logits)
                               : EncoderResult{logits.to_vector<float>(), {}, logits.size(1)};
    }
  });
  return results;
}

}  // namespace

std::vector<EncoderResult> run_batch(const ServedModel& model, EncoderWork work,
                                     const EmbeddingRecipe* recipe, std::span<const Encoding> texts,
                                     Taps* taps) {
  switch (work) {
    case EncoderWork::vectors:
      return rows_of(embed(model.model(), model.tokenizer(), texts, *recipe, one_batch(), taps));
    case EncoderWork::tokens: return token_vectors(model, texts);
    case EncoderWork::sparse:
    case EncoderWork::logits:
    case EncoderWork::token_logits: return with_head(model, work, texts);
  }
  HEED_ASSERT(false, "unknown work");
}

}  // namespace heed::serve
