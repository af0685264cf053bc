#include "heed/generate/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/strategies.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed {

namespace generate {

bool SearchState::is_end(std::int64_t source, std::span<const std::int64_t> ids) const {
  const auto& ends = options.eos_token_id;
  if (std::find(ends.begin(), ends.end(), ids.back()) != ends.end()) return true;
  const auto prompt = static_cast<std::size_t>(prompt_length(source));
  return watch.ends && watch.ends(static_cast<std::size_t>(source), ids.subspan(prompt));
}

RandomStream SearchState::random(std::int64_t source, std::int64_t length, std::int64_t copy) const {
  // One block of Philox turns the three numbers into a stream of its own.
  const auto words = philox4x32(options.seed, identities[static_cast<std::size_t>(source)],
                                static_cast<std::uint64_t>(length) << 32 | static_cast<std::uint64_t>(copy));
  return {options.seed, static_cast<std::uint64_t>(words[0]) << 32 | words[1]};
}

void SearchState::reorder(const std::vector<std::int64_t>& rows) const {
  bool same = static_cast<std::int64_t>(rows.size()) == decoding.rows();
  for (std::size_t i = 0; same && i < rows.size(); ++i) same = rows[i] == static_cast<std::int64_t>(i);
  if (!same) decoding.reorder(rows);
}

Tensor SearchState::begin() const {
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  const Tensor ids = Tensor::zeros({sources(), longest}, DType::i64);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::copy(prompts[i].begin(), prompts[i].end(),
              ids.data<std::int64_t>() + static_cast<std::int64_t>(i) * longest);
    lengths.push_back(static_cast<std::int64_t>(prompts[i].size()));
  }
  Tensor logits = trace.step(decoding, ids, lengths);
  check_generation_options(options, logits.size(1));
  for (const auto& prompt : prompts) {
    for (const std::int64_t id : prompt) {
      if (id >= 0 && id < logits.size(1)) continue;
      throw Error(fmt::format("search: expected a prompt of tokens below {}, got {}", logits.size(1), id));
    }
  }
  return logits;
}

Tensor SearchState::feed(const std::vector<std::int64_t>& tokens) const {
  return trace.step(decoding, Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size()), 1}), {});
}

float gumbel(const RandomStream& random, std::uint64_t index) {
  const double u = (static_cast<double>(random.word(index)) + 0.5) * 0x1.0p-32;  // inside (0, 1)
  return static_cast<float>(-std::log(-std::log(u)));
}

void require_number(float score) {
  if (std::isnan(score)) {
    throw Error(
        "search: expected the model's scores to be numbers, got NaN (its weights or dtype are at fault, "
        "or the numbers it was given)");
  }
}

}  // namespace generate

namespace {

void check_inputs(const Decoding& decoding, std::span<const std::vector<std::int64_t>> prompts,
                  const SearchOptions& watch) {
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw Error("search: expected prompts with at least one token, got an empty one");
  }
  const auto count = static_cast<std::int64_t>(prompts.size());
  if (count != decoding.rows() || decoding.length() != 0) {
    throw Error(
        fmt::format("search: expected a fresh decoding of {} rows, got one of {} rows after {} tokens", count,
                    decoding.rows(), decoding.length()));
  }
  for (const std::size_t given : {watch.identities.size(), watch.sources.size()}) {
    if (given != 0 && given != prompts.size())
      throw Error(fmt::format("search: expected {} identities and sources, got {}", count, given));
  }
}

/// The longest sequence after a prompt. Throws Error where that leaves no new token.
std::int64_t longest_sequence(std::int64_t prompt_length, const GenerationOptions& options,
                              std::optional<std::int64_t> longest) {
  std::int64_t max_length = resolved_max_length(options, prompt_length);
  if (longest) max_length = std::min(max_length, *longest);
  if (max_length <= prompt_length) {
    throw Error(fmt::format(
        "search: expected room for a new token, got at most {} tokens in all for a prompt of {} tokens "
        "(raise max_length, use max_new_tokens, or shorten the prompt)",
        max_length, prompt_length));
  }
  return max_length;
}

/// Prompt, longest sequence and source of each row, as its processors know them.
std::vector<generate::Processors> processors_for(std::span<const std::vector<std::int64_t>> prompts,
                                                 const GenerationOptions& options,
                                                 const SearchOptions& watch) {
  std::vector<generate::Processors> processors;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts[i].size());
    const auto& source = watch.sources.empty() ? prompts[i] : watch.sources[i];
    processors.emplace_back(options, length, longest_sequence(length, options, watch.longest), source);
  }
  return processors;
}

/// The indices of the sources, longest first: the largest batch comes first, and lines of a batch are alike.
std::vector<std::size_t> by_length(std::span<const std::vector<std::int64_t>> sources) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

/// Hands what happens to row i of a batch on under the row's own index. `watch` and `rows` must outlive it.
void watch_rows(SearchOptions& of_batch, const SearchOptions& watch, std::span<const std::size_t> rows) {
  of_batch.stop = watch.stop;
  if (watch.ends) {
    of_batch.ends = [&watch, rows](std::size_t i, std::span<const std::int64_t> ids) {
      return watch.ends(rows[i], ids);
    };
  }
  if (watch.on_token) {
    of_batch.on_token = [&watch, rows](std::size_t i, std::size_t copy, std::int64_t id) {
      return watch.on_token(rows[i], copy, id);
    };
  }
}

SourceBatch pad(std::span<const std::vector<std::int64_t>> sources, std::span<const std::size_t> rows,
                std::int64_t pad_id) {
  const auto count = static_cast<std::int64_t>(rows.size());
  const auto longest = static_cast<std::int64_t>(sources[rows.front()].size());
  SourceBatch batch{Tensor::full({count, longest}, static_cast<double>(pad_id), DType::i64),
                    Tensor::zeros({count, longest}, DType::i64)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& source = sources[rows[static_cast<std::size_t>(i)]];
    std::copy(source.begin(), source.end(), batch.ids.data<std::int64_t>() + i * longest);
    std::fill_n(batch.mask.data<std::int64_t>() + i * longest, source.size(), 1);
  }
  return batch;
}

/// The longest sequence that the positions allow. The last token is never fed, so it needs no position; but
/// unless somebody says how long a sequence may be, it keeps to those of training.
std::optional<std::int64_t> most_tokens(const GenerationOptions& options, const Model& model) {
  if (!options.max_new_tokens && !options.max_length) return model.trained_positions();
  const auto positions = model.max_positions();
  return positions ? std::optional(*positions + 1) : std::nullopt;
}

/// The options with everything filled in that the model knows, for prompts of that many tokens.
GenerationOptions complete(GenerationOptions options, const EncoderDecoderModel& model,
                           std::int64_t prompt_length) {
  if (options.eos_token_id.empty()) options.eos_token_id = {model.eos_id()};
  if (!options.decoder_start_token_id) options.decoder_start_token_id = model.decoder_start_id();
  if (const auto positions = model.max_positions()) {
    const std::int64_t longest =
        std::min(resolved_max_length(options, prompt_length), most_tokens(options, model).value());
    if (longest <= prompt_length) {
      throw Error(fmt::format(
          "search: expected room for a new token, got at most {} tokens in all for a decoder prompt of {} "
          "tokens (raise max_length, use max_new_tokens, or shorten the prompt)",
          longest, prompt_length));
    }
    options.max_new_tokens = longest - prompt_length;
  }
  return options;
}

void check_ids(std::span<const std::int64_t> ids, std::int64_t vocab_size, const std::string& where) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= vocab_size)
      throw Error(fmt::format("search: expected tokens below {}, got {} in {}", vocab_size, id, where));
  }
}

void check_sources(std::span<const std::vector<std::int64_t>> sources, const EncoderDecoderModel& model) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto length = static_cast<std::int64_t>(sources[i].size());
    if (length == 0)
      throw Error(fmt::format("search: expected sources with at least one token, got none in source {}", i));
    if (const auto positions = model.max_positions(); positions && length > *positions) {
      throw Error(
          fmt::format("search: expected sources of at most {} tokens, got {} in source {} (cut or split it)",
                      *positions, length, i));
    }
  }
}

/// Attention to padding, which is 0, leaves with the padding.
void drop_padding(Hypothesis& hypothesis, std::int64_t source_length) {
  for (auto& entry : hypothesis.captured) {
    if (entry.first.find("cross_attn") == std::string::npos) continue;
    entry.second = slice(entry.second, 2, 0, source_length).contiguous();
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> search(Decoding& decoding,
                                            std::span<const std::vector<std::int64_t>> prompts,
                                            const GenerationOptions& options, const SearchOptions& watch,
                                            Context& context) {
  check_generation_options(options);
  check_inputs(decoding, prompts, watch);
  const NoGradients no_gradients;
  std::vector<std::uint64_t> identities = watch.identities;
  if (identities.empty()) {
    identities.resize(prompts.size());
    std::iota(identities.begin(), identities.end(), std::uint64_t{0});
  }
  const std::vector<generate::Processors> processors = processors_for(prompts, options, watch);
  Context watched = context;
  if (watch.stop != nullptr) watched.stop = watch.stop;
  generate::Trace trace(watch.capture, watched);
  const generate::SearchState state{decoding, prompts, options, processors, identities, watch, trace};
  auto found = options.num_beams == 1 ? generate::search_rows(state) : generate::search_beams(state);
  if (!found.empty()) trace.require_all_fired();
  return found;
}

std::vector<std::vector<Hypothesis>> search(Decoding& decoding, const Tensor& prompt,
                                            const GenerationOptions& options, const SearchOptions& watch,
                                            Context& context) {
  if (prompt.rank() != 2 || prompt.dtype() != DType::i64 || prompt.size(1) == 0) {
    throw Error("search: expected a prompt i64[rows, tokens] with at least one token, got " + prompt.str());
  }
  const std::vector<std::int64_t> ids = prompt.to_vector<std::int64_t>();
  std::vector<std::vector<std::int64_t>> prompts;
  for (std::int64_t i = 0; i < prompt.numel(); i += prompt.size(1))
    prompts.emplace_back(ids.begin() + i, ids.begin() + i + prompt.size(1));
  return search(decoding, prompts, options, watch, context);
}

void check_prompt(const DecoderModel& model, std::span<const std::int64_t> prompt,
                  const GenerationOptions& options) {
  if (prompt.empty()) throw Error("search: expected a prompt with at least one token, got an empty one");
  check_ids(prompt, model.vocab_size(), "the prompt");
  longest_sequence(static_cast<std::int64_t>(prompt.size()), options, most_tokens(options, model));
}

std::vector<std::vector<Hypothesis>> search_prompts(const DecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> prompts,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchOptions& watch) {
  check_generation_options(options, model.vocab_size());
  if (batch_tokens < 1)
    throw Error(fmt::format("search: expected batch_tokens of at least 1, got {}", batch_tokens));
  for (std::size_t i = 0; i < prompts.size(); ++i) {  // refuses before anything is made
    if (prompts[i].empty())
      throw Error(fmt::format("search: expected prompts with at least one token, got none in prompt {}", i));
    check_prompt(model, prompts[i], options);
  }
  SearchOptions of_batch = watch;
  of_batch.longest = most_tokens(options, model);
  const auto order = by_length(prompts);
  std::vector<std::vector<Hypothesis>> results(prompts.size());
  for (std::size_t first = 0; first < order.size();) {
    const std::size_t row_tokens = prompts[order[first]].size() * static_cast<std::size_t>(options.num_beams);
    const std::size_t fitting =
        model.rows_are_independent()
            ? std::max<std::size_t>(1, static_cast<std::size_t>(batch_tokens) / row_tokens)
            : 1;
    const auto rows = std::span(order).subspan(first, std::min(fitting, order.size() - first));
    std::vector<std::vector<std::int64_t>> batch;
    of_batch.identities.clear();
    for (const std::size_t row : rows) {
      batch.push_back(prompts[row]);
      of_batch.identities.push_back(watch.identities.empty() ? row : watch.identities[row]);
    }
    watch_rows(of_batch, watch, rows);
    Context context{.stop = watch.stop};
    const auto decoding = model.decode(static_cast<std::int64_t>(rows.size()));
    auto found = search(*decoding, batch, options, of_batch, context);
    for (std::size_t i = 0; i < rows.size(); ++i) results[rows[i]] = std::move(found[i]);
    first += rows.size();
  }
  return results;
}

std::vector<std::vector<Hypothesis>> search_sources(const EncoderDecoderModel& model,
                                                    std::span<const std::vector<std::int64_t>> sources,
                                                    const GenerationOptions& options,
                                                    std::int64_t batch_tokens, const SearchOptions& watch) {
  const GenerationOptions completed = complete(options, model, 1);
  check_generation_options(completed, model.vocab_size());
  check_sources(sources, model);
  if (batch_tokens < 1)
    throw Error(fmt::format("search: expected batch_tokens of at least 1, got {}", batch_tokens));
  const NoGradients no_gradients;
  const auto order = by_length(sources);
  std::vector<std::vector<Hypothesis>> results(sources.size());
  for (std::size_t first = 0; first < order.size();) {
    const std::size_t row_tokens = sources[order[first]].size() * static_cast<std::size_t>(options.num_beams);
    const std::size_t fitting = std::max<std::size_t>(1, static_cast<std::size_t>(batch_tokens) / row_tokens);
    const auto rows = std::span(order).subspan(first, std::min(fitting, order.size() - first));
    SearchOptions batch_watch{.capture = watch.capture};
    watch_rows(batch_watch, watch, rows);
    for (const std::size_t row : rows) {
      batch_watch.identities.push_back(watch.identities.empty() ? row : watch.identities[row]);
      if (options.encoder_no_repeat_ngram_size > 0 || options.encoder_repetition_penalty != 1)
        batch_watch.sources.push_back(sources[row]);
    }
    Context context{.stop = watch.stop};
    const auto decoding = model.decode(pad(sources, rows, model.pad_id()), context);
    const Tensor prompt = Tensor::full({static_cast<std::int64_t>(rows.size()), 1},
                                       static_cast<double>(*completed.decoder_start_token_id), DType::i64);
    auto found = search(*decoding, prompt, completed, batch_watch, context);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (Hypothesis& h : found[i]) drop_padding(h, static_cast<std::int64_t>(sources[rows[i]].size()));
      results[rows[i]] = std::move(found[i]);
    }
    first += rows.size();
  }
  return results;
}

std::vector<std::vector<Hypothesis>> search_features(const EncoderDecoderModel& model, const Tensor& features,
                                                     const std::vector<std::int64_t>& decoder_prompt,
                                                     const GenerationOptions& options,
                                                     std::int64_t batch_tokens, const SearchOptions& watch) {
  if (features.rank() != 3 || features.numel() == 0 || !is_floating(features.dtype())) {
    throw Error(
        "search: expected input_features, floating numbers [B, bins, frames] of at least one row, got " +
        features.str());
  }
  if (batch_tokens < 1)
    throw Error(fmt::format("search: expected batch_tokens of at least 1, got {}", batch_tokens));
  const auto prompt_length = std::max<std::int64_t>(1, static_cast<std::int64_t>(decoder_prompt.size()));
  const GenerationOptions completed = complete(options, model, prompt_length);
  check_generation_options(completed, model.vocab_size());
  std::vector<std::int64_t> prompt = decoder_prompt;
  if (prompt.empty()) prompt = {*completed.decoder_start_token_id};
  check_ids(prompt, model.vocab_size(), "the decoder's prompt");
  const NoGradients no_gradients;
  const std::int64_t count = features.size(0);
  const std::int64_t fitting = std::max<std::int64_t>(1, batch_tokens / features.size(2) / options.num_beams);
  std::vector<std::vector<Hypothesis>> results;
  for (std::int64_t first = 0; first < count; first += fitting) {
    const std::int64_t end = std::min(count, first + fitting);
    std::vector<std::size_t> rows(static_cast<std::size_t>(end - first));
    std::iota(rows.begin(), rows.end(), static_cast<std::size_t>(first));
    SearchOptions of_batch{.capture = watch.capture};
    watch_rows(of_batch, watch, rows);
    of_batch.sources.resize(rows.size());  // sound has no tokens
    for (std::int64_t row = first; row < end; ++row) {
      const auto at = static_cast<std::size_t>(row);
      of_batch.identities.push_back(watch.identities.empty() ? at : watch.identities[at]);
    }
    Context context{.stop = watch.stop};
    const auto decoding =
        model.decode({{}, {}, slice(features, 0, first, end).to(DType::f32).contiguous()}, context);
    const std::vector<std::vector<std::int64_t>> prompts(static_cast<std::size_t>(end - first), prompt);
    for (auto& found : search(*decoding, prompts, completed, of_batch, context))
      results.push_back(std::move(found));
  }
  return results;
}

}  // namespace heed
