// Runs a single search: prompts, processors and strategy around one decoding.
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

std::optional<FinishReason> SearchState::finished(std::int64_t source,
                                                  std::span<const std::int64_t> ids) const {
  const std::int64_t prompt = prompt_length(source);
  const bool full = std::ssize(ids) >= max_length(source);
  const auto& ends = options.eos_token_id;
  const bool forced = full && !options.forced_eos_token_id.empty();
  if (!forced && (std::find(ends.begin(), ends.end(), ids.back()) != ends.end() ||
                  (hooks.is_finished && hooks.is_finished(static_cast<std::size_t>(source),
                                                          ids.subspan(static_cast<std::size_t>(prompt))))))
    return FinishReason::stop;
  if (!full) return std::nullopt;
  const bool of_model = hooks.longest && *hooks.longest < resolved_max_length(options, prompt);
  return of_model ? FinishReason::positions : FinishReason::length;
}

RandomStream SearchState::random(std::int64_t source, std::int64_t length,
                                 std::int64_t sequence_index) const {
  // One block of Philox maps the three numbers to a separate stream.
  const auto words =
      philox4x32(options.seed, sample_ids[static_cast<std::size_t>(source)],
                 static_cast<std::uint64_t>(length) << 32 | static_cast<std::uint64_t>(sequence_index));
  return {options.seed, static_cast<std::uint64_t>(words[0]) << 32 | words[1]};
}

void SearchState::reorder(const std::vector<std::int64_t>& rows) const {
  bool same = static_cast<std::int64_t>(rows.size()) == decoding.rows();
  for (std::size_t i = 0; same && i < rows.size(); ++i) same = rows[i] == static_cast<std::int64_t>(i);
  if (!same) decoding.reorder(rows);
}

Tensor SearchState::begin() const {
  const std::int64_t fed = decoding.length();
  std::int64_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, std::ssize(prompt) - fed);
  const Tensor ids = Tensor::zeros({sources(), longest}, DType::i64);
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    std::copy(prompts[i].begin() + fed, prompts[i].end(),
              ids.data<std::int64_t>() + static_cast<std::int64_t>(i) * longest);
    lengths.push_back(std::ssize(prompts[i]) - fed);
  }
  Tensor logits = recorder.step(decoding, ids, lengths);
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
  return recorder.step(decoding, Tensor::from(tokens, {static_cast<std::int64_t>(tokens.size()), 1}), {});
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

std::int64_t longest_sequence(std::int64_t prompt_length, const GenerationOptions& options,
                              std::optional<std::int64_t> longest) {
  const std::int64_t max_length = resolved_max_length(options, prompt_length);
  if (max_length <= prompt_length) {
    throw Error(
        fmt::format("search: expected room for a new token, got max_length {} for a prompt of {} tokens "
                    "(raise max_length, use max_new_tokens, or shorten the prompt)",
                    max_length, prompt_length));
  }
  if (longest && *longest <= prompt_length) {
    throw Error(
        fmt::format("search: expected room for a new token, got a prompt of {} tokens where the model's "
                    "positions allow {} (shorten the prompt)",
                    prompt_length, *longest - 1));
  }
  return longest ? std::min(max_length, *longest) : max_length;
}

}  // namespace generate

namespace {

void check_inputs(const Decoding& decoding, std::span<const std::vector<std::int64_t>> prompts,
                  const SearchHooks& hooks) {
  for (const auto& prompt : prompts) {
    if (prompt.empty()) throw Error("search: expected prompts with at least one token, got an empty one");
  }
  const auto count = static_cast<std::int64_t>(prompts.size());
  const bool begun = std::all_of(prompts.begin(), prompts.end(),
                                 [&](const auto& prompt) { return decoding.length() < std::ssize(prompt); });
  if (count != decoding.rows() || !begun) {
    throw Error(
        fmt::format("search: expected a decoding of {} rows that has not read the prompts to their ends, got "
                    "one of {} rows after {} tokens",
                    count, decoding.rows(), decoding.length()));
  }
  for (const std::size_t given : {hooks.sample_ids.size(), hooks.sources.size()}) {
    if (given != 0 && given != prompts.size())
      throw Error(fmt::format("search: expected {} sample_ids and sources, got {}", count, given));
  }
}

/// Returns the processors of each row, which depend on its prompt, its maximum length and its source.
std::vector<generate::Processors> processors_for(std::span<const std::vector<std::int64_t>> prompts,
                                                 const GenerationOptions& options, const SearchHooks& hooks) {
  std::vector<generate::Processors> processors;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<std::int64_t>(prompts[i].size());
    const auto& source = hooks.sources.empty() ? prompts[i] : hooks.sources[i];
    generate::ProcessScores process;
    if (hooks.process) {
      process = [&hooks, i](std::span<const std::int64_t> ids, std::span<float> scores) {
        hooks.process(i, ids, scores);
      };
    }
    processors.emplace_back(options, length, generate::longest_sequence(length, options, hooks.longest),
                            source, std::move(process));
  }
  return processors;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    case FinishReason::positions: return "positions";
  }
  HEED_ASSERT(false, "unknown finish reason");
}

std::string positions_warning(const Hypothesis& hypothesis, std::int64_t prompt_length,
                              const GenerationOptions& options) {
  const std::int64_t tokens = std::ssize(hypothesis.ids);
  const bool limited = options.max_new_tokens || options.max_length;
  // The last token of a length that was asked for is never fed, so it needs no position.
  const std::int64_t last = prompt_length + tokens - (limited ? 1 : 0);
  const std::string of =
      limited ? fmt::format(" of {}", resolved_max_length(options, prompt_length) - prompt_length) : "";
  return fmt::format("stopped at the model's last position ({}) after {}{} tokens", last, tokens, of);
}

std::vector<std::vector<Hypothesis>> search(Decoding& decoding,
                                            std::span<const std::vector<std::int64_t>> prompts,
                                            const GenerationOptions& options, const SearchHooks& hooks,
                                            Context& context) {
  check_generation_options(options);
  check_inputs(decoding, prompts, hooks);
  const NoGradients no_gradients;
  std::vector<std::uint64_t> sample_ids = hooks.sample_ids;
  if (sample_ids.empty()) {
    sample_ids.resize(prompts.size());
    std::iota(sample_ids.begin(), sample_ids.end(), std::uint64_t{0});
  }
  const std::vector<generate::Processors> processors = processors_for(prompts, options, hooks);
  Context watched = context;
  watched.cache_dtype = options.cache_dtype;
  for (const generate::Processors& one : processors)
    watched.cache_length = std::max(watched.cache_length, one.max_length());
  if (hooks.stop != nullptr) watched.stop = hooks.stop;
  generate::AttentionRecorder recorder(hooks.capture, watched);
  const generate::SearchState state{decoding, prompts, options, processors, sample_ids, hooks, recorder};
  auto found = options.num_beams == 1 ? generate::search_rows(state) : generate::search_beams(state);
  if (!found.empty()) recorder.require_all_fired();
  return found;
}

std::vector<std::vector<Hypothesis>> search(Decoding& decoding, const Tensor& prompt,
                                            const GenerationOptions& options, const SearchHooks& hooks,
                                            Context& context) {
  if (prompt.rank() != 2 || prompt.dtype() != DType::i64 || prompt.size(1) == 0) {
    throw Error("search: expected a prompt i64[rows, tokens] with at least one token, got " + prompt.str());
  }
  const std::vector<std::int64_t> ids = prompt.to_vector<std::int64_t>();
  std::vector<std::vector<std::int64_t>> prompts;
  for (std::int64_t i = 0; i < prompt.numel(); i += prompt.size(1))
    prompts.emplace_back(ids.begin() + i, ids.begin() + i + prompt.size(1));
  return search(decoding, prompts, options, hooks, context);
}

}  // namespace heed
