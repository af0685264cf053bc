// Searches for the continuations of some prompts: one batch, stepped to its end.
#include "heed/generate/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generate/decoding_batch.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/shape.h"

namespace heed {

namespace generate {

Search::Search(SearchTask task)
    : task_(std::move(task)),
      processors_(task_.options, std::ssize(task_.prompt),
                  longest_sequence(std::ssize(task_.prompt), task_.options, task_.hooks.longest),
                  task_.hooks.sources.empty() ? task_.prompt : task_.hooks.sources[task_.row],
                  own_process()) {}

ProcessScores Search::own_process() const {
  if (!task_.hooks.process) return {};
  return [this](std::span<const std::int64_t> ids, std::span<float> scores) {
    task_.hooks.process(task_.row, ids, scores);
  };
}

std::optional<FinishReason> Search::finished(std::span<const std::int64_t> ids) const {
  const auto& ends = options().eos_token_id;
  const SearchHooks& hooks = task_.hooks;
  const bool full = std::ssize(ids) >= max_length();
  const bool forced = full && !options().forced_eos_token_id.empty();
  if (!forced && (std::find(ends.begin(), ends.end(), ids.back()) != ends.end() ||
                  (hooks.is_finished &&
                   hooks.is_finished(task_.row, ids.subspan(static_cast<std::size_t>(prompt_length()))))))
    return FinishReason::stop;
  if (!full) return std::nullopt;
  const bool of_model = hooks.longest && *hooks.longest < resolved_max_length(options(), prompt_length());
  return of_model ? FinishReason::positions : FinishReason::length;
}

RandomStream Search::random(std::int64_t length, std::int64_t sequence_index) const {
  // One block of Philox maps the three numbers to a separate stream.
  const auto words =
      philox4x32(options().seed, task_.sample_id,
                 static_cast<std::uint64_t>(length) << 32 | static_cast<std::uint64_t>(sequence_index));
  return {options().seed, static_cast<std::uint64_t>(words[0]) << 32 | words[1]};
}

std::unique_ptr<Search> make_search(SearchTask task) {
  return task.options.num_beams == 1 ? make_row_search(std::move(task)) : make_beam_search(std::move(task));
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

std::optional<std::int64_t> most_tokens(const GenerationOptions& options, const Model& model) {
  if (!options.max_new_tokens && !options.max_length) return model.trained_positions();
  const auto positions = model.max_positions();
  return positions ? std::optional(*positions + 1) : std::nullopt;
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
  std::vector<std::vector<Hypothesis>> results(prompts.size());
  if (prompts.empty()) return results;
  Context watched = context;
  watched.cache_dtype = options.cache_dtype;
  if (hooks.stop != nullptr) watched.stop = hooks.stop;
  generate::DecodingBatch batch(decoding, watched, hooks.capture);
  for (std::size_t row = 0; row < prompts.size(); ++row) {
    batch.add(generate::make_search({.prompt = prompts[row],
                                     .options = options,
                                     .hooks = hooks,
                                     .row = row,
                                     .sample_id = hooks.sample_ids.empty() ? row : hooks.sample_ids[row]}),
              decoding.length());
  }
  for (batch.read();; batch.step()) {
    for (const auto& done : batch.take_done()) {
      if (done->error) std::rethrow_exception(done->error);
      results[done->task().row] = done->results(batch.recorder());
    }
    if (batch.empty()) break;
  }
  batch.recorder().require_all_fired();
  return results;
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
