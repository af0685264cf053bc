// Searches for any number of rows: sorts them by length, splits them into batches, and searches each batch
// with its own decoding.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "generate/strategies.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/ops/shape.h"
#include "heed/threads.h"

namespace heed {
namespace {

using Sequences = std::vector<std::vector<std::int64_t>>;

/// The inputs of a search, one row per result.
struct SearchInputs {
  const Sequences& prompts;
  std::vector<std::int64_t> lengths;                        ///< per row, in units of `batch_tokens`
  std::span<const std::vector<std::int64_t>> sources = {};  ///< see SearchHooks; empty: those of the hooks
  std::optional<std::int64_t> longest = {};                 ///< see SearchHooks; the smaller one counts
  bool together = true;                                     ///< whether rows may share a batch
};

/// Starts decoding the rows `chosen`.
using Start = FunctionRef<std::unique_ptr<Decoding>(std::span<const std::size_t> chosen, Context& context)>;

/// Returns the indices of the rows, longest first, so that the largest batch is first and rows of a batch
/// have similar lengths.
std::vector<std::size_t> longest_first(const std::vector<std::int64_t>& lengths) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
  return order;
}

/// Returns hooks for a batch that call `hooks` with the original row indices. `hooks` and `chosen` must
/// outlive them.
SearchHooks hooks_of_batch(const SearchHooks& hooks, const SearchInputs& rows,
                           std::span<const std::size_t> chosen) {
  SearchHooks batch{.capture = hooks.capture, .longest = hooks.longest, .stop = hooks.stop};
  if (rows.longest) batch.longest = std::min(*rows.longest, hooks.longest.value_or(*rows.longest));
  const auto sources = hooks.sources.empty() ? rows.sources : std::span(hooks.sources);
  for (const std::size_t row : chosen) {
    batch.sample_ids.push_back(hooks.sample_ids.empty() ? row : hooks.sample_ids[row]);
    if (!sources.empty()) batch.sources.push_back(sources[row]);
  }
  if (hooks.process) {
    batch.process = [&hooks, chosen](std::size_t i, std::span<const std::int64_t> ids,
                                     std::span<float> scores) { hooks.process(chosen[i], ids, scores); };
  }
  if (hooks.is_finished) {
    batch.is_finished = [&hooks, chosen](std::size_t i, std::span<const std::int64_t> ids) {
      return hooks.is_finished(chosen[i], ids);
    };
  }
  if (hooks.on_token) {
    batch.on_token = [&hooks, chosen](std::size_t i, std::size_t sequence_index, std::int64_t id) {
      return hooks.on_token(chosen[i], sequence_index, id);
    };
  }
  return batch;
}

/// Searches in batches of at most `batch_tokens`, counted once per beam. Returns results in the order of the
/// rows.
std::vector<std::vector<Hypothesis>> search_in_batches(const SearchInputs& rows,
                                                       const GenerationOptions& options,
                                                       std::int64_t batch_tokens, const SearchHooks& hooks,
                                                       Start start) {
  if (batch_tokens < 1)
    throw Error(fmt::format("search: expected batch_tokens of at least 1, got {}", batch_tokens));
  const NoGradients no_gradients;
  const std::vector<std::size_t> order = longest_first(rows.lengths);
  std::vector<std::vector<Hypothesis>> results(order.size());
  for (std::size_t first = 0; first < order.size();) {
    const std::int64_t longest = std::max<std::int64_t>(rows.lengths[order[first]], 1);
    const std::int64_t fitting = rows.together ? batch_tokens / longest / options.num_beams : 1;
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(fitting, 1));
    const auto chosen =
        std::span<const std::size_t>(order).subspan(first, std::min(count, order.size() - first));
    Sequences prompts;
    for (const std::size_t row : chosen) prompts.push_back(rows.prompts[row]);
    Context context{.taps = hooks.taps, .stop = hooks.stop};
    const auto decoding = start(chosen, context);
    auto found = search(*decoding, prompts, options, hooks_of_batch(hooks, rows, chosen), context);
    for (std::size_t i = 0; i < chosen.size(); ++i) results[chosen[i]] = std::move(found[i]);
    first += chosen.size();
  }
  return results;
}

std::vector<std::int64_t> lengths_of(std::span<const std::vector<std::int64_t>> sequences) {
  std::vector<std::int64_t> lengths;
  for (const auto& sequence : sequences) lengths.push_back(static_cast<std::int64_t>(sequence.size()));
  return lengths;
}

/// Removes the attention to padding, which is 0.
void drop_padding(Hypothesis& hypothesis, std::int64_t source_length) {
  for (auto& entry : hypothesis.captured) {
    if (entry.first.find("cross_attn") == std::string::npos) continue;
    entry.second = slice(entry.second, 2, 0, source_length).contiguous();
  }
}

}  // namespace

namespace generate {

GenerationOptions with_special_tokens(GenerationOptions options, const EncoderDecoderModel& model,
                                      std::int64_t prompt_length) {
  if (options.eos_token_id.empty()) options.eos_token_id = {model.eos_id()};
  if (!options.decoder_start_token_id) options.decoder_start_token_id = model.decoder_start_id();
  generate::longest_sequence(prompt_length, options, generate::most_tokens(options, model));
  return options;
}

void check_ids(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      throw Error(fmt::format("search: expected tokens below {}, got {} in {}", vocab_size, id, where));
  }
}

void check_source(std::span<const std::int64_t> source, std::size_t index, const EncoderDecoderModel& model) {
  const std::int64_t length = std::ssize(source);
  if (length == 0) throw Error(fmt::format("search: source {} has no tokens (expected at least one)", index));
  if (const auto positions = model.max_positions(); positions && length > *positions) {
    throw Error(
        fmt::format("search: expected sources of at most {} tokens, got {} in source {} (cut or split it)",
                    *positions, length, index));
  }
}

void check_features(const Tensor& features, const EncoderDecoderModel& model) {
  const InputSpec input = model.input();
  if (features.rank() == input.row.rank() + 1 && features.numel() > 0 && is_floating(features.dtype()))
    return;
  throw Error(std::string("search: expected ") + input.name + ", floating numbers of at least one row, got " +
              features.str());
}

ModelInput padded_sources(std::span<const std::vector<std::int64_t>> sources, std::int64_t pad_id) {
  const std::int64_t count = std::ssize(sources);
  std::int64_t longest = 0;
  for (const auto& source : sources) longest = std::max(longest, std::ssize(source));
  ModelInput batch{Tensor::full({count, longest}, static_cast<double>(pad_id), DType::i64),
                   Tensor::zeros({count, longest}, DType::i64)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& source = sources[static_cast<std::size_t>(i)];
    std::copy(source.begin(), source.end(), batch.ids.data<std::int64_t>() + i * longest);
    std::fill_n(batch.mask.data<std::int64_t>() + i * longest, source.size(), 1);
  }
  return batch;
}

}  // namespace generate

void check_prompt(const DecoderModel& model, std::span<const std::int64_t> prompt,
                  const GenerationOptions& options) {
  if (prompt.empty()) throw Error("search: expected a prompt with at least one token, got an empty one");
  generate::check_ids(prompt, model.vocab_size(), "the prompt");
  generate::longest_sequence(static_cast<std::int64_t>(prompt.size()), options,
                             generate::most_tokens(options, model));
}

std::vector<std::vector<Hypothesis>> search_prompts(const DecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> prompts,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchHooks& hooks) {
  check_generation_options(options, model.vocab_size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {  // rejects invalid prompts before generating
    if (prompts[i].empty())
      throw Error(fmt::format("search: prompt {} has no tokens (expected at least one)", i));
    check_prompt(model, prompts[i], options);
  }
  const Sequences own(prompts.begin(), prompts.end());
  const SearchInputs rows{.prompts = own,
                          .lengths = lengths_of(prompts),
                          .longest = generate::most_tokens(options, model),
                          .together = model.rows_are_independent()};
  return search_in_batches(rows, options, batch_tokens, hooks,
                           [&](std::span<const std::size_t> chosen, Context&) {
                             return model.decode(static_cast<std::int64_t>(chosen.size()));
                           });
}

std::vector<std::vector<Hypothesis>> search_sources(const EncoderDecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> sources,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchHooks& hooks) {
  const GenerationOptions completed = generate::with_special_tokens(options, model, 1);
  check_generation_options(completed, model.vocab_size());
  for (std::size_t i = 0; i < sources.size(); ++i) generate::check_source(sources[i], i, model);
  const Sequences prompts(sources.size(), {*completed.decoder_start_token_id});
  const SearchInputs rows{.prompts = prompts,
                          .lengths = lengths_of(sources),
                          .sources = sources,
                          .longest = generate::most_tokens(options, model)};
  auto results = search_in_batches(
      rows, completed, batch_tokens, hooks, [&](std::span<const std::size_t> chosen, Context& context) {
        Sequences batch;
        for (const std::size_t row : chosen) batch.push_back(sources[row]);
        return model.decode(generate::padded_sources(batch, model.pad_id()), context);
      });
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (Hypothesis& hypothesis : results[i]) drop_padding(hypothesis, rows.lengths[i]);
  }
  return results;
}

std::vector<std::vector<Hypothesis>> search_features(const EncoderDecoderModel& model, const Tensor& features,
                                                     const std::vector<std::int64_t>& decoder_prompt,
                                                     const GenerationOptions& options,
                                                     std::int64_t batch_tokens, const SearchHooks& hooks) {
  generate::check_features(features, model);
  const auto prompt_length = std::max<std::int64_t>(1, static_cast<std::int64_t>(decoder_prompt.size()));
  const GenerationOptions completed = generate::with_special_tokens(options, model, prompt_length);
  check_generation_options(completed, model.vocab_size());
  std::vector<std::int64_t> prompt = decoder_prompt;
  if (prompt.empty()) prompt = {*completed.decoder_start_token_id};
  generate::check_ids(prompt, model.vocab_size(), "the decoder's prompt");
  const auto count = static_cast<std::size_t>(features.size(0));
  const Sequences prompts(count, prompt), no_sources(count);
  const SearchInputs rows{.prompts = prompts,
                          .lengths = std::vector<std::int64_t>(count, features.size(-1)),
                          .sources = no_sources,
                          .longest = generate::most_tokens(options, model)};
  return search_in_batches(
      rows, completed, batch_tokens, hooks, [&](std::span<const std::size_t> chosen, Context& context) {
        const auto first = static_cast<std::int64_t>(chosen.front());  // equal lengths: rows keep their order
        const Tensor batch = slice(features, 0, first, first + static_cast<std::int64_t>(chosen.size()));
        return model.decode({.values = batch.to(DType::f32).contiguous()}, context);
      });
}

}  // namespace heed
