// Texts to sources and parts that fit, one search over all, and texts joined again.
#include "heed/generate/translate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "generate/option_fields.h"
#include "generate/translation_sources.h"
#include "heed/error.h"
#include "heed/models/model.h"
#include "heed/text/unicode.h"

namespace heed {

using generate::TranslationSources;

namespace {

class Preparation {
 public:
  Preparation(const EncoderDecoderModel& model, const Tokenizer& tokenizer, const TranslateOptions& options)
      : tokenizer_(tokenizer),
        options_(options),
        limit_(model.max_positions()),
        trained_(trained_length(model, tokenizer)) {
    if (limit_) limit_name_ = fmt::format("the model's {} positions", *limit_);
    if (const auto& most = options.generation.max_source_length; most && (!limit_ || *most < *limit_)) {
      limit_ = most;
      limit_name_ = fmt::format("the {} of the longest sources in training", *most);
    }
    special_tokens_ = static_cast<std::int64_t>(tokenizer.encode("").ids.size());
    fixed_tokens_ = static_cast<std::int64_t>(tokenizer.encode(options.prefix).ids.size());
    if (limit_ && *limit_ <= fixed_tokens_) {
      throw Error(fmt::format("translate: expected a model with more than {} positions, got {}",
                              fixed_tokens_, *limit_));
    }
  }

  TranslationSources prepare(std::span<const std::string> texts) {
    for (std::size_t line = 0; line < texts.size(); ++line) {
      sources_.first_part.push_back(sources_.ids.size());
      std::size_t replaced = 0;
      const std::string text = replace_invalid_utf8(texts[line], &replaced);
      if (replaced > 0)
        options_.task.warn(
            line, fmt::format("{} invalid UTF-8 sequence{} replaced", replaced, replaced == 1 ? "" : "s"));
      add(line, text);
    }
    sources_.first_part.push_back(sources_.ids.size());
    return std::move(sources_);
  }

 private:
  void add(std::size_t line, const std::string& text) {
    if (options_.long_lines == LongLines::cut && limit_) return add_cut(line, text);
    Encoding encoding = tokenizer_.encode(text);
    if (encoding.size() <= special_tokens_) return;  // blank: nothing to translate
    if (!options_.prefix.empty()) encoding = tokenizer_.encode(options_.prefix + text);
    const std::int64_t length = encoding.size();
    if (!limit_ && trained_ && length > *trained_) {
      options_.task.warn(
          line, fmt::format("{} tokens, more than the {} the model was trained on", length, *trained_));
      trained_.reset();  // one warning is enough
    }
    if (!limit_ || length <= *limit_) return push(std::move(encoding));
    const std::string reason = fmt::format("{} tokens, more than {}", length, limit_name_);
    switch (options_.long_lines) {
      case LongLines::error: {
        return options_.task.fail(
            "translate", line,
            fmt::format("expected at most {} tokens, got {} (shorten it, or have long lines cut or split)",
                        *limit_, length));
      }
      case LongLines::cut: break;  // without a limit, all lines are accepted
      case LongLines::split: {
        const auto parts = generate::split_text(text, tokenizer_, *limit_ - fixed_tokens_);
        options_.task.warn(line, reason + fmt::format(": translated in {} parts", parts.size()));
        for (const std::string& part : parts) push(cut(tokenizer_.encode(options_.prefix + part)));
      }
    }
  }

  /// Adds a line of which only the tokens within the limit are used. A long line is not tokenized to its end.
  void add_cut(std::size_t line, const std::string& text) {
    const auto encode = [this](const std::string& input, std::int64_t length, bool& shortened) {
      Truncation truncation;
      truncation.max_length = length;
      return tokenizer_.encode_truncated(input, std::nullopt, truncation, true, &shortened);
    };
    bool shortened = false;
    if (encode(text, special_tokens_ + 1, shortened).size() <= special_tokens_) return;  // blank
    Encoding encoding = encode(options_.prefix + text, *limit_, shortened);
    if (shortened) options_.task.warn(line, fmt::format("more than {}: the rest is ignored", limit_name_));
    push(std::move(encoding));
  }

  /// Keeps the tokens that fit, and the end token.
  Encoding cut(Encoding encoding) const {
    if (static_cast<std::int64_t>(encoding.ids.size()) <= *limit_) return encoding;
    const auto keep = static_cast<std::size_t>(*limit_);
    if (tokenizer_.eos_id() && encoding.ids.back() == *tokenizer_.eos_id()) {
      encoding.ids[keep - 1] = encoding.ids.back();
      encoding.tokens[keep - 1] = encoding.tokens.back();
    }
    encoding.ids.resize(keep);
    encoding.tokens.resize(keep);
    return encoding;
  }

  void push(Encoding encoding) {
    sources_.ids.push_back(std::move(encoding.ids));
    sources_.tokens.push_back(std::move(encoding.tokens));
  }

  const Tokenizer& tokenizer_;
  const TranslateOptions& options_;
  std::optional<std::int64_t> limit_, trained_;
  std::string limit_name_;
  std::int64_t special_tokens_ = 0;
  std::int64_t fixed_tokens_ = 0;  // including those of the prefix
  TranslationSources sources_;
};

TranslationCandidate to_text(Hypothesis hypothesis, const Tokenizer& tokenizer) {
  TranslationCandidate candidate;
  candidate.text = tokenizer.decode(hypothesis.ids);
  for (const std::int64_t id : hypothesis.ids) candidate.tokens.push_back(tokenizer.token(id));
  candidate.hypothesis = std::move(hypothesis);
  return candidate;
}

/// Appends the translation of the next part of a line.
void append(TranslationCandidate& whole, TranslationCandidate part) {
  if (!whole.text.empty() && !part.text.empty()) whole.text += ' ';
  whole.text += part.text;
  whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
  auto& ids = whole.hypothesis.ids;
  ids.insert(ids.end(), part.hypothesis.ids.begin(), part.hypothesis.ids.end());
  whole.hypothesis.score += part.hypothesis.score;
  // The parts that did not end by themselves cut the whole.
  whole.hypothesis.finish_reason = std::max(whole.hypothesis.finish_reason, part.hypothesis.finish_reason);
}

/// Joins the translations of parts. Candidate i of the whole consists of candidate i of every part.
Translation join(std::vector<Translation> parts, const GenerationOptions& options) {
  if (parts.empty())
    return {{}, std::vector<TranslationCandidate>(static_cast<std::size_t>(options.num_return_sequences))};
  Translation whole = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    auto& candidates = parts[i].candidates;
    whole.candidates.resize(std::min(whole.candidates.size(), candidates.size()));
    for (std::size_t c = 0; c < whole.candidates.size(); ++c)
      append(whole.candidates[c], std::move(candidates[c]));
    auto& tokens = parts[i].source_tokens;
    whole.source_tokens.insert(whole.source_tokens.end(), tokens.begin(), tokens.end());
  }
  if (parts.size() > 1) {
    for (TranslationCandidate& candidate : whole.candidates) {
      Hypothesis& h = candidate.hypothesis;
      const auto length = static_cast<double>(std::max<std::size_t>(h.ids.size(), 1));
      h.beam_score = options.num_beams > 1 ? h.score / std::pow(length, options.length_penalty) : h.score;
    }
  }
  return whole;
}

}  // namespace

TranslationSources generate::translation_sources(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                                 std::span<const std::string> texts,
                                                 const TranslateOptions& options) {
  return Preparation(model, tokenizer, options).prepare(texts);
}

std::vector<Translation> translate(const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                   std::span<const std::string> texts, const TranslateOptions& options) {
  if (options.long_lines == LongLines::split && !options.capture.empty()) {
    throw Error("translate: expected either long lines to be split or attention to be captured, got both");
  }
  GenerationOptions generation = options.generation;
  SearchHooks hooks{.capture = options.capture, .stop = options.task.stop};
  generate::allow_whole_length(model, generation, hooks);
  TranslationSources sources = generate::translation_sources(model, tokenizer, texts, options);
  for (std::size_t line = 0; line < texts.size(); ++line) {
    for (std::size_t part = sources.first_part[line]; part < sources.first_part[line + 1]; ++part) {
      hooks.sample_ids.push_back((options.task.first_index + line) << 20 | (part - sources.first_part[line]));
    }
  }
  auto found = search_sources(model, sources.ids, generation, options.task.batch_tokens, hooks);
  std::vector<Translation> translations;
  for (std::size_t line = 0; line < texts.size(); ++line) {
    std::vector<Translation> parts;
    for (std::size_t part = sources.first_part[line]; part < sources.first_part[line + 1]; ++part) {
      const Hypothesis& best = found[part].front();
      if (best.finish_reason == FinishReason::positions)
        options.task.warn(line, positions_warning(best, 1, options.generation));
      Translation translation;
      translation.source_tokens = std::move(sources.tokens[part]);
      for (Hypothesis& hypothesis : found[part]) {
        translation.candidates.push_back(to_text(std::move(hypothesis), tokenizer));
      }
      parts.push_back(std::move(translation));
    }
    translations.push_back(join(std::move(parts), generation));
  }
  return translations;
}

}  // namespace heed
