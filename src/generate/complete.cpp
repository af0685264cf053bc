// Prompts to tokens, a search, and the texts of what it found.
#include "heed/generate/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "heed/error.h"
#include "heed/grammar/grammar.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"

namespace heed {
namespace {

/// Returns true if the end of the ids' text contains one of the strings. Decodes only as many ids as
/// necessary.
bool holds_any(const Tokenizer& tokenizer, std::span<const std::int64_t> ids,
               const std::vector<std::string>& strings) {
  std::size_t longest = 0;
  for (const std::string& text : strings) longest = std::max(longest, text.size());
  constexpr std::size_t kMargin = 8;  // tokens whose text may depend on those before them
  const std::string text = tokenizer.decode_clean(ids.last(std::min(ids.size(), longest + kMargin)));
  return std::any_of(strings.begin(), strings.end(),
                     [&](const std::string& string) { return text.find(string) != std::string::npos; });
}

using Ids = std::vector<std::int64_t>;

/// Continues prompts[i], which is text indices[i] of the call.
std::vector<std::vector<Completion>> complete_some(const DecoderModel& model, const Tokenizer& tokenizer,
                                                   std::span<const Ids> prompts,
                                                   const std::vector<std::size_t>& indices,
                                                   const CompleteOptions& options) {
  for (const std::string& stop : options.stop_strings) {
    if (stop.empty()) throw Error("generate: expected stop strings with characters, got an empty one");
  }
  SearchHooks hooks;
  hooks.taps = options.taps;
  hooks.stop = options.task.stop;
  for (const std::size_t index : indices) hooks.sample_ids.push_back(options.task.first_index + index);
  if (!options.stop_strings.empty()) {
    hooks.is_finished = [&](std::size_t, std::span<const std::int64_t> ids) {
      return holds_any(tokenizer, ids, options.stop_strings);
    };
  }
  if (options.grammar) {
    std::vector<std::size_t> lengths;
    for (const Ids& prompt : prompts) lengths.push_back(prompt.size());
    hooks.process = constrain_tokens(*options.grammar, TokenVocabulary(tokenizer), lengths,
                                     options.generation.eos_token_id);
  }
  std::map<std::pair<std::size_t, std::size_t>, StreamingDecoder> streams;  // by prompt and sequence
  if (options.on_text) {
    hooks.on_token = [&](std::size_t row, std::size_t sequence_index, std::int64_t id) {
      const auto [stream, fresh] = streams.try_emplace({row, sequence_index}, tokenizer);
      if (fresh) stream->second.begin_after(prompts[row]);
      if (options.on_text(indices[row], sequence_index, stream->second.push(id))) return true;
      streams.erase(stream);  // discards the text that it holds back
      return false;
    };
  }
  auto found = search_prompts(model, prompts, options.generation, options.task.batch_tokens, hooks);
  for (auto& [key, stream] : streams) options.on_text(indices[key.first], key.second, stream.finish());
  std::vector<std::vector<Completion>> completions;
  for (std::size_t i = 0; i < found.size(); ++i) {
    completions.emplace_back();
    for (Hypothesis& hypothesis : found[i]) {
      std::string text = tokenizer.decode_continuation(prompts[i], hypothesis.ids);
      completions.back().push_back({std::move(text), std::move(hypothesis)});
    }
    const Hypothesis& best = completions.back().front().hypothesis;
    if (best.finish_reason == FinishReason::positions)
      options.task.warn(indices[i], positions_warning(best, std::ssize(prompts[i]), options.generation));
  }
  return completions;
}

}  // namespace

std::vector<std::int64_t> prompt_ids(const Tokenizer& tokenizer, const std::string& prompt,
                                     const GenerationOptions& options) {
  std::vector<std::int64_t> ids = tokenizer.encode(prompt).ids;
  if (!ids.empty()) return ids;
  const auto begin = options.bos_token_id ? options.bos_token_id : tokenizer.bos_id();
  if (!begin) {
    throw Error(
        "generate: expected a prompt with at least one token, got an empty one "
        "(the model names no token that begins texts)");
  }
  return {*begin};
}

std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::string> prompts,
                                              const CompleteOptions& options) {
  // Models without a maximum position accept texts longer than those they were trained on, but work less
  // well. One warning is enough.
  const std::int64_t trained =
      trained_length(model, tokenizer).value_or(std::numeric_limits<std::int64_t>::max());
  bool warned = false;
  std::vector<Ids> ids;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    try {
      Ids prompt =
          options.encode ? options.encode(prompts[i]) : prompt_ids(tokenizer, prompts[i], options.generation);
      check_prompt(model, prompt, options.generation);
      if (!warned && std::ssize(prompt) > trained) {
        options.task.warn(
            i, fmt::format("{} tokens, more than the {} the model was trained on", prompt.size(), trained));
        warned = true;
      }
      ids.push_back(std::move(prompt));
      indices.push_back(i);
    } catch (const Error& error) {
      options.task.fail("generate", i, error.what());
    }
  }
  std::vector<std::vector<Completion>> completions(prompts.size());
  auto found = complete_some(model, tokenizer, ids, indices, options);
  for (std::size_t i = 0; i < found.size(); ++i) completions[indices[i]] = std::move(found[i]);
  return completions;
}

std::vector<std::vector<Completion>> complete(const DecoderModel& model, const Tokenizer& tokenizer,
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options) {
  std::vector<std::size_t> indices(prompts.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return complete_some(model, tokenizer, prompts, indices, options);
}

}  // namespace heed
