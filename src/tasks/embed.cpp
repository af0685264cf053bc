// Pools the hidden states of any kind of model.
#include "heed/tasks/embed.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/kind.h"
#include "heed/ops/activation.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/text/tokenizer.h"
#include "heed/text/unicode.h"
#include "ops/reduce.h"
#include "tasks/file_input.h"
#include "tasks/scores.h"
#include "tasks/text_vectors.h"

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

// The encoder of a model, or its tower for texts; null for other models.
const EncoderModel* text_encoder(const Model& model) {
  const auto* dual = as<DualEncoderModel>(model);
  return dual != nullptr ? &dual->text() : as<EncoderModel>(model);
}

// The same for images.
const EncoderModel& image_encoder(const Model& model) {
  const auto* dual = as<DualEncoderModel>(model);
  const auto* encoder = dual != nullptr ? &dual->image() : as<EncoderModel>(model);
  if (encoder == nullptr) throw Error("embed: expected a model of images, got " + model.family());
  return *encoder;
}

// Returns the last hidden state [B, T, D] of any kind of model.
Tensor last_hidden(const Model& model, const ModelInput& batch, Context& context) {
  if (const auto* encoder = text_encoder(model)) return encoder->encode(batch, context);
  if (const auto* decoder = as<DecoderModel>(model))
    return decoder->encode({.ids = batch.ids, .read = batch.read}, context);
  const auto* both = as<EncoderDecoderModel>(model);
  if (both == nullptr) throw Error("embed: expected a model of texts, got " + model.family());
  return both->encode({.ids = batch.ids, .mask = batch.mask, .read = batch.read, .skips_padding = true},
                      context);
}

std::int64_t pad_id(const Model& model) {
  if (const auto* encoder = text_encoder(model)) return encoder->pad_id();
  if (const auto* both = as<EncoderDecoderModel>(model)) return both->pad_id();
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

// The rows padded to `length`, with padding that no mask hides.
ModelInput padded_to(std::int64_t length, const ModelInput& batch, std::int64_t pad) {
  const std::int64_t rows = batch.ids.size(0), missing = length - batch.ids.size(1);
  if (missing <= 0) return {.ids = batch.ids};
  const Tensor padding = Tensor::full({rows, missing}, static_cast<double>(pad), DType::i64);
  return {.ids = concat({batch.ids, padding}, 1)};
}

// The texts of a batch as the model reads them.
ModelInput text_batch(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> encodings,
                      std::span<const std::size_t> chosen) {
  const auto* encoder = text_encoder(model);
  // A model that reads its padding was trained with the tokenizer's.
  const bool reads_padding = encoder != nullptr && encoder->padded_length();
  const std::int64_t pad = reads_padding ? tokenizer.pad_id().value_or(pad_id(model)) : pad_id(model);
  const ModelInput batch =
      padded_batch(encodings, chosen, pad, encoder != nullptr && encoder->type_vocab_size() > 1);
  return reads_padding ? padded_to(*encoder->padded_length(), batch, pad) : batch;
}

std::vector<std::int64_t> lengths_of(std::span<const Encoding> encodings,
                                     std::span<const std::size_t> chosen) {
  std::vector<std::int64_t> lengths;
  for (const std::size_t index : chosen) lengths.push_back(encodings[index].size());
  return lengths;
}

// The one token of each row that the pooling reads, of those from `first` up to its length; empty where it
// reads several.
std::vector<std::int64_t> pooled_token(std::span<const std::int64_t> lengths, std::int64_t first,
                                       const std::vector<Pooling>& poolings) {
  std::vector<std::int64_t> tokens;
  if (poolings != std::vector{Pooling::cls} && poolings != std::vector{Pooling::last}) return tokens;
  for (const std::int64_t length : lengths) {
    const std::int64_t last = std::max<std::int64_t>(length - 1, 0);
    tokens.push_back(poolings.front() == Pooling::cls ? std::min(first, last) : last);
  }
  return tokens;
}

using HiddenHandler =
    std::function<void(std::span<const std::size_t> chosen, const ModelInput& batch, const Tensor& hidden)>;
// The tokens of a batch that are read (ModelInput::read).
using ReadTokens = std::function<std::vector<std::int64_t>(std::span<const std::size_t> chosen)>;

// Calls `handle` with every batch that contains a token, and its last hidden state [B, T, D], or that of the
// tokens that are read.
void for_each_hidden(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> encodings,
                     const TaskOptions& options, Taps* taps, const ReadTokens& read,
                     const HiddenHandler& handle) {
  Context context{.taps = taps, .stop = options.stop};
  std::vector<std::int64_t> lengths;
  for (const Encoding& encoding : encodings) lengths.push_back(encoding.size());
  for (const auto& chosen : text_batches(model, lengths, options.batch_tokens)) {
    if (lengths[chosen.front()] == 0) continue;  // the longest is empty, so all are
    ModelInput batch = text_batch(model, tokenizer, encodings, chosen);
    if (read) batch.read = read(chosen);
    handle(chosen, batch, last_hidden(model, batch, context).contiguous());
  }
}

void require_numbers(const Tensor& vectors) {
  if (!all_finite(vectors)) tasks::throw_not_finite();
}

// Vectors [count, D] of inputs, filled row by row; zeros where there is none.
class Vectors {
 public:
  explicit Vectors(std::size_t count) : count_(static_cast<std::int64_t>(count)) {}
  // The rows of a batch [B, D], whose indices count from `first`.
  void set_rows(std::span<const std::size_t> chosen, const Tensor& rows, std::size_t first = 0) {
    if (!all_.defined()) all_ = Tensor::zeros({count_, rows.size(1)});
    for (std::size_t b = 0; b < chosen.size(); ++b) {
      const auto from = static_cast<std::int64_t>(b), to = static_cast<std::int64_t>(first + chosen[b]);
      slice(all_, 0, to, to + 1).copy_from(slice(rows, 0, from, from + 1));
    }
  }
  Tensor finish(const EmbeddingRecipe& recipe) const {
    if (!all_.defined()) return Tensor::zeros({count_, 0});
    const Tensor vectors = after_steps(all_, recipe.steps).contiguous();
    require_numbers(vectors);
    return vectors;
  }

 private:
  std::int64_t count_;
  Tensor all_;
};

// Row b of hidden [B, T, D], its tokens from `first` to `end`.
Tensor tokens_of(const Tensor& hidden, std::size_t b, std::int64_t first, std::int64_t end) {
  const auto row = static_cast<std::int64_t>(b);
  return slice(reshape(slice(hidden, 0, row, row + 1), {hidden.size(1), hidden.size(2)}), 0, first, end);
}

// The pooled tokens of each row of hidden [B, T, D], from `first` up to its length: [B, D times the
// poolings], zeros where there are none. Or hidden [B, 1, D], of the one token that is `read` of each.
Tensor pool_rows(const Tensor& hidden, std::span<const std::int64_t> lengths, std::int64_t first,
                 const std::vector<Pooling>& poolings, bool read = false) {
  const std::int64_t width = hidden.size(2) * std::ssize(poolings);
  std::vector<Tensor> rows;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (first >= lengths[b]) {
      rows.push_back(Tensor::zeros({1, width}, hidden.dtype()));
      continue;
    }
    const Tensor tokens = read ? tokens_of(hidden, b, 0, 1) : tokens_of(hidden, b, first, lengths[b]);
    std::vector<Tensor> parts;
    for (const Pooling pooling : poolings) parts.push_back(pool(tokens, first, pooling));
    rows.push_back(reshape(parts.size() == 1 ? parts.front() : concat(parts, 0), {1, width}));
  }
  return concat(rows, 0);
}

// The vectors of a batch of texts before the steps of the recipe, from its last hidden state.
Tensor before_steps(const Model& model, std::span<const Encoding> encodings,
                    std::span<const std::size_t> chosen, const ModelInput& batch, const Tensor& hidden,
                    std::int64_t skipped, const EmbeddingRecipe& recipe) {
  if (recipe.poolings.empty()) return text_encoder(model)->vectors(hidden, batch);
  return pool_rows(hidden, lengths_of(encodings, chosen), skipped, recipe.poolings, !batch.read.empty());
}

void require_pooling(const Model& model, const EmbeddingRecipe& recipe) {
  if (recipe.poolings.empty() && text_encoder(model) == nullptr)
    throw Error("embed: expected a pooling, as " + model.family() + " makes no vectors itself, got none");
}

// encode_texts(); one warning of a length that the model was not trained on is enough: `warned`.
std::vector<Encoding> encode_some(const Model& model, const Tokenizer& tokenizer,
                                  std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                  const TaskOptions& options, bool left, bool& warned) {
  const std::int64_t longest =
      std::min(longest_input(model, tokenizer), recipe.max_length.value_or(longest_input(model, tokenizer)));
  const std::int64_t trained =
      trained_length(model, tokenizer).value_or(std::numeric_limits<std::int64_t>::max());
  std::vector<Encoding> encodings;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string text = recipe.prompt + texts[i];
    encodings.push_back(
        encode_cut(tokenizer, {recipe.lower_case ? lower_case(text) : text}, longest, options, i, left));
    const std::int64_t length = encodings.back().size();
    if (warned || length <= trained) continue;
    options.warn(i, std::to_string(length) + " tokens, more than the " + std::to_string(trained) +
                        " the model was trained on");
    warned = true;
  }
  return encodings;
}

// Sets the vectors of texts, from row `first` on.
void set_vectors(Vectors& vectors, std::size_t first, const Model& model, const Tokenizer& tokenizer,
                 std::span<const Encoding> encodings, const EmbeddingRecipe& recipe,
                 const TaskOptions& options, Taps* taps) {
  const std::int64_t skipped = prompt_tokens(tokenizer, recipe);
  const auto read = [&](std::span<const std::size_t> chosen) {
    return pooled_token(lengths_of(encodings, chosen), skipped, recipe.poolings);
  };
  for_each_hidden(model, tokenizer, encodings, options, taps, read,
                  [&](std::span<const std::size_t> chosen, const ModelInput& batch, const Tensor& hidden) {
                    vectors.set_rows(chosen,
                                     before_steps(model, encodings, chosen, batch, hidden, skipped, recipe),
                                     first);
                  });
}

constexpr std::size_t kTextsAtOnce = 1024;  // whose tokens are in memory

}  // namespace

std::vector<std::vector<std::size_t>> text_batches(const Model& model, std::span<const std::int64_t> lengths,
                                                   std::int64_t batch_tokens) {
  const auto* decoder = as<DecoderModel>(model);
  const bool alone = decoder != nullptr && !decoder->rows_are_independent();
  return pack_by_length(lengths, alone ? 1 : batch_tokens);
}

Tensor text_vectors(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> encodings,
                    std::span<const std::size_t> chosen, const EmbeddingRecipe& recipe, Context& context) {
  require_pooling(model, recipe);
  const ModelInput batch = text_batch(model, tokenizer, encodings, chosen);
  const Tensor hidden = last_hidden(model, batch, context).contiguous();
  const Tensor rows =
      before_steps(model, encodings, chosen, batch, hidden, prompt_tokens(tokenizer, recipe), recipe);
  return after_steps(rows, recipe.steps).contiguous();
}

std::vector<Encoding> encode_texts(const Model& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                   const TaskOptions& options, bool left) {
  bool warned = false;
  return encode_some(model, tokenizer, texts, recipe, options, left, warned);
}

Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const std::string> texts,
             const EmbeddingRecipe& recipe, const TaskOptions& options) {
  const NoGradients guard;
  require_pooling(model, recipe);
  Vectors vectors(texts.size());
  bool warned = false;
  for (std::size_t first = 0; first < texts.size(); first += kTextsAtOnce) {
    TaskOptions some = options;
    some.first_index += first;
    const auto encodings =
        encode_some(model, tokenizer, texts.subspan(first, std::min(kTextsAtOnce, texts.size() - first)),
                    recipe, some, false, warned);
    set_vectors(vectors, first, model, tokenizer, encodings, recipe, some, nullptr);
  }
  return vectors.finish(recipe);
}

Tensor embed(const Model& model, const Tokenizer& tokenizer, std::span<const Encoding> encodings,
             const EmbeddingRecipe& recipe, const TaskOptions& options, Taps* taps) {
  const NoGradients guard;
  require_pooling(model, recipe);
  Vectors vectors(encodings.size());
  set_vectors(vectors, 0, model, tokenizer, encodings, recipe, options, taps);
  return vectors.finish(recipe);
}

Tensor embed_images(const Model& model, const ImageProcessor& processor, std::span<const std::string> files,
                    const EmbeddingRecipe& recipe, const TaskOptions& options) {
  const NoGradients guard;
  const EncoderModel& encoder = image_encoder(model);
  Context context{.stop = options.stop};
  Vectors vectors(files.size());
  tasks::for_each_image_batch({encoder.input(), encoder.trained_positions().value_or(1)}, processor, files,
                              options, "embed", [&](std::span<const std::size_t> chosen, ModelInput images) {
                                if (recipe.poolings == std::vector{Pooling::cls})
                                  images.read.assign(chosen.size(), 0);
                                const Tensor hidden = encoder.encode(images, context).contiguous();
                                if (recipe.poolings.empty())
                                  return vectors.set_rows(chosen, encoder.vectors(hidden, images));
                                const std::vector<std::int64_t> lengths(chosen.size(), hidden.size(1));
                                vectors.set_rows(chosen, pool_rows(hidden, lengths, 0, recipe.poolings));
                              });
  return vectors.finish(recipe);
}

std::vector<TokenEmbeddings> embed_tokens(const Model& model, const Tokenizer& tokenizer,
                                          std::span<const std::string> texts, const EmbeddingRecipe& recipe,
                                          const TaskOptions& options) {
  return embed_tokens(model, tokenizer, encode_texts(model, tokenizer, texts, recipe, options), options);
}

std::vector<TokenEmbeddings> embed_tokens(const Model& model, const Tokenizer& tokenizer,
                                          std::span<const Encoding> encodings, const TaskOptions& options) {
  const NoGradients guard;
  std::vector<TokenEmbeddings> results;
  for (const Encoding& encoding : encodings) results.push_back({encoding.tokens, Tensor::zeros({0, 0})});
  for_each_hidden(model, tokenizer, encodings, options, nullptr, {},
                  [&](std::span<const std::size_t> chosen, const ModelInput&, const Tensor& hidden) {
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
