// Pools the hidden states of any kind of model.
#include "heed/tasks/embed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "ops/pooling.h"
#include "tasks/scores.h"

namespace heed {
namespace {

// The vector [D] of a text's tokens [T, D], pooled; T >= 1.
Tensor pool(const Tensor& tokens, std::int64_t first, Pooling pooling) {
  const std::int64_t count = tokens.size(0), width = tokens.size(1);
  switch (pooling) {
    case Pooling::cls: return reshape(slice(tokens, 0, 0, 1), {width});
    case Pooling::last: return reshape(slice(tokens, 0, count - 1, count), {width});
    case Pooling::max: return max(tokens, 0);
    default: break;
  }
  std::vector<double> weights(static_cast<std::size_t>(count), 1.0);
  if (pooling == Pooling::weighted_mean)  // by position, those of the prompt included
    std::iota(weights.begin(), weights.end(), static_cast<double>(first + 1));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  return weighted_mean(tokens, weights, pooling == Pooling::mean_sqrt ? std::sqrt(total) : total);
}

Tensor after_steps(Tensor x, const std::vector<EmbeddingStep>& steps) {
  for (const EmbeddingStep& step : steps) {
    if (step.dense && step.dense->weight.size(1) != x.size(1)) {
      throw Error("embed: expected a dense layer over " + std::to_string(x.size(1)) +
                  " numbers, got one over " + std::to_string(step.dense->weight.size(1)));
    }
    if (step.dense) x = (*step.dense)(x, step.activation);
    if (step.norm) x = (*step.norm)(x);
    if (step.normalize) x = normalize_rows(x, 1e-12);  // as torch.nn.functional.normalize: zeros stay zeros
  }
  return x;
}

// Returns the last hidden state [B, T, D] of any kind of model.
Tensor last_hidden(const Model& model, const ModelInput& batch, const std::atomic<bool>* stop) {
  Context context{.stop = stop};
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return encoder->encode(batch, context);
  if (const auto* decoder = dynamic_cast<const DecoderModel*>(&model))
    return decoder->encode({.ids = batch.ids}, context);
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  if (both == nullptr) throw Error("embed: expected a model of texts, got " + model.family());
  return both->encode({batch.ids, batch.mask}, context);
}

std::int64_t pad_id(const Model& model) {
  if (const auto* encoder = dynamic_cast<const EncoderModel*>(&model)) return encoder->pad_id();
  if (const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model)) return both->pad_id();
  return 0;
}

// Returns the number of the prompt's tokens that pooling excludes: all tokens of the prompt alone, except the
// end token.
std::int64_t prompt_tokens(const Tokenizer& tokenizer, const EmbeddingRecipe& recipe) {
  if (recipe.pool_prompt || recipe.prompt.empty()) return 0;
  const Encoding prompt = tokenizer.encode(recipe.prompt);
  const bool ends = !prompt.ids.empty() &&
                    (prompt.ids.back() == tokenizer.sep_id() || prompt.ids.back() == tokenizer.eos_id());
  return prompt.size() - (ends ? 1 : 0);
}

// Returns the encodings of the texts with the prompt, as the model expects them.
std::vector<Encoding> encode_texts(const Model& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                   const TaskOptions& options) {
  const std::int64_t longest =
      std::min(longest_input(model, tokenizer), recipe.max_length.value_or(longest_input(model, tokenizer)));
  const std::int64_t trained =
      trained_length(model, tokenizer).value_or(std::numeric_limits<std::int64_t>::max());
  bool warned = false;  // one warning is enough
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = recipe.prompt + texts[i];
    encodings.push_back(
        encode_cut(tokenizer, {recipe.lower_case ? lower_case(text) : text}, longest, options, i));
    const std::int64_t length = encodings.back().size();
    if (warned || length <= trained) continue;
    options.warn(i, std::to_string(length) + " tokens, more than the " + std::to_string(trained) +
                        " the model was trained on");
    warned = true;
  }
  return encodings;
}

// Calls `handle` with the last hidden state [B, T, D] of every batch that contains a token.
void for_each_hidden(const Model& model, std::span<const Encoding> encodings, const TaskOptions& options,
                     const BatchHandler& handle) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  const auto* decoder = dynamic_cast<const DecoderModel*>(&model);
  const bool type_ids = encoder != nullptr && encoder->type_vocab_size() > 1;
  const bool alone = decoder != nullptr && !decoder->rows_are_independent();
  std::vector<std::int64_t> lengths;
  for (const Encoding& encoding : encodings) lengths.push_back(encoding.size());
  for (const auto& chosen : pack_by_length(lengths, alone ? 1 : options.batch_tokens)) {
    if (lengths[chosen.front()] == 0) continue;  // the longest is empty, so all are
    const ModelInput batch = padded_batch(encodings, chosen, pad_id(model), type_ids);
    handle(chosen, last_hidden(model, batch, options.stop).contiguous());
  }
}

void require_numbers(const Tensor& vectors) {
  if (!all_finite(vectors)) tasks::throw_not_finite();
}

}  // namespace

Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
             const EmbeddingRecipe& recipe, const TaskOptions& options) {
  const NoGradients guard;
  const std::int64_t skipped = prompt_tokens(tokenizer, recipe);
  const std::vector<Encoding> encodings = encode_texts(model, tokenizer, texts, recipe, options);
  Tensor pooled;  // [texts, poolings * D]
  for_each_hidden(model, encodings, options, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    const std::int64_t width = hidden.size(2), parts = static_cast<std::int64_t>(recipe.poolings.size());
    if (!pooled.defined()) pooled = Tensor::zeros({static_cast<std::int64_t>(texts.size()), parts * width});
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      const std::int64_t length = encodings[chosen[b]].size();
      const std::int64_t row = static_cast<std::int64_t>(b), first = std::min(skipped, length);
      if (first == length) continue;
      const Tensor tokens =
          slice(reshape(slice(hidden, 0, row, row + 1), {hidden.size(1), width}), 0, first, length);
      const auto text = static_cast<std::int64_t>(chosen[b]);
      for (std::int64_t p = 0; p < parts; ++p) {
        const Tensor vector = pool(tokens, first, recipe.poolings[static_cast<std::size_t>(p)]);
        slice(slice(pooled, 0, text, text + 1), 1, p * width, (p + 1) * width)
            .copy_from(reshape(vector, {1, width}));
      }
    }
  });
  if (!pooled.defined()) return Tensor::zeros({static_cast<std::int64_t>(texts.size()), 0});
  const Tensor vectors = after_steps(pooled, recipe.steps).contiguous();
  require_numbers(vectors);
  return vectors;
}

std::vector<TokenEmbeddings> embed_tokens(const Model& model, const Tokenizer& tokenizer,
                                          std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                          const TaskOptions& options) {
  const NoGradients guard;
  const std::vector<Encoding> encodings = encode_texts(model, tokenizer, texts, recipe, options);
  std::vector<TokenEmbeddings> results;
  for (const Encoding& encoding : encodings) results.push_back({encoding.tokens, Tensor::zeros({0, 0})});
  for_each_hidden(model, encodings, options, [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
    const std::int64_t time = hidden.size(1), width = hidden.size(2);
    const Tensor rows = reshape(hidden, {hidden.size(0) * time, width});
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      const std::int64_t begin = static_cast<std::int64_t>(b) * time;
      Tensor& vectors = results[chosen[b]].vectors;
      vectors = slice(rows, 0, begin, begin + encodings[chosen[b]].size()).clone();
      require_numbers(vectors);
    }
  });
  return results;
}

}  // namespace heed
