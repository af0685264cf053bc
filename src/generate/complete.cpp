#include "heed/generate/complete.h"

#include <algorithm>
#include <map>

#include "heed/error.h"
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
                                              std::span<const std::vector<std::int64_t>> prompts,
                                              const CompleteOptions& options) {
  for (const std::string& stop : options.stop_strings) {
    if (stop.empty()) throw Error("generate: expected stop strings with characters, got an empty one");
  }
  SearchHooks hooks;
  hooks.stop = options.stop;
  for (std::size_t i = 0; i < prompts.size(); ++i) hooks.identities.push_back(options.first_prompt + i);
  if (!options.stop_strings.empty()) {
    hooks.ends = [&](std::size_t, std::span<const std::int64_t> ids) {
      return holds_any(tokenizer, ids, options.stop_strings);
    };
  }
  std::map<std::pair<std::size_t, std::size_t>, StreamingDecoder> streams;
  if (options.on_text) {
    hooks.on_token = [&](std::size_t row, std::size_t copy, std::int64_t id) {
      const auto [stream, fresh] = streams.try_emplace({row, copy}, tokenizer);
      if (fresh) stream->second.begin_after(prompts[row]);
      if (options.on_text(row, copy, stream->second.push(id))) return true;
      streams.erase(stream);  // discards the text that it holds back
      return false;
    };
  }
  auto found = search_prompts(model, prompts, options.generation, options.batch_tokens, hooks);
  for (auto& [key, stream] : streams) options.on_text(key.first, key.second, stream.finish());
  std::vector<std::vector<Completion>> completions;
  for (std::size_t i = 0; i < found.size(); ++i) {
    completions.emplace_back();
    for (Hypothesis& hypothesis : found[i]) {
      std::string text = tokenizer.decode_continuation(prompts[i], hypothesis.ids);
      completions.back().push_back({std::move(text), std::move(hypothesis)});
    }
  }
  return completions;
}

}  // namespace heed
