// Runs the stages of a tokenizer file: added tokens, normalizer, pre-tokenizer, model, post-processor,
// decoder.
#include "text/pipeline/pipeline_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pause_point.h"
#include "heed/error.h"
#include "text/pipeline/word_ends.h"

namespace heed {
namespace {

/// The usual special tokens of models, for tokenizers without a configuration.
constexpr std::array<std::array<const char*, 3>, kSpecialRoles> kDefaultTokens = {{
    {"<s>", "<|begin_of_text|>", "<|endoftext|>"},
    {"</s>", "<|end_of_text|>", "<|endoftext|>"},
    {"<unk>", "[UNK]", "<|endoftext|>"},
    {"<pad>", "[PAD]", nullptr},
    {"<mask>", "[MASK]", nullptr},
    {"[CLS]", "<s>", nullptr},
    {"[SEP]", "</s>", nullptr},
}};

/// Whether bytes of a text are outside of all spans, which are ascending.
class OutsideOf {
 public:
  explicit OutsideOf(std::span<const TextSpan> spans) : spans_(spans) {}
  bool operator()(std::size_t begin, std::size_t end) const {
    const auto after = std::upper_bound(spans_.begin(), spans_.end(), begin,
                                        [](std::size_t at, const TextSpan& span) { return at < span.end; });
    return after == spans_.end() || after->begin >= end;
  }

 private:
  std::span<const TextSpan> spans_;
};

}  // namespace

PipelineTokenizer::PipelineTokenizer(Pipeline pipeline, TokenizerConfig config, TokenizerFiles files,
                                     std::optional<Pipeline> target)
    : source_(std::move(pipeline)),
      target_(std::move(target)),
      config_(std::move(config)),
      files_(std::move(files)) {
  const TokenTable& vocabulary = source_.model->vocabulary();
  // The tokenizer's file decides what is matched in a text; only tokens that it lacks are added.
  for (const AddedToken& token : config_.added_tokens) {
    if (!source_.token_to_id(token.content)) source_.added.add(token, vocabulary);
  }
  for (const std::string& token : config_.special_tokens()) {
    if (!source_.token_to_id(token)) source_.added.add(plain_token(token, true), vocabulary);
  }
  find_roles();
  for (Pipeline* side : {&source_, target_ ? &*target_ : nullptr}) {
    if (side == nullptr) continue;
    side->added.prepare(side->normalizer.get(), side->where);
    for (const auto& role : config_.roles) {
      const auto id = role && config_.names_roles ? side->token_to_id(*role) : std::nullopt;
      if (id) side->special_ids.push_back(*id);
    }
  }
  const auto end_token = [&](bool wanted, SpecialRole role) -> std::optional<EndToken> {
    const auto id = special_id(role);
    if (!wanted || !id) return std::nullopt;
    return EndToken{*id, source_.token(*id)};
  };
  if (config_.replaces_post_processor(source_.post_processor != nullptr)) {
    source_.post_processor = ends_processor(end_token(config_.add_bos.value_or(false), SpecialRole::bos),
                                            end_token(config_.add_eos.value_or(false), SpecialRole::eos));
  }
  find_language_marks();
}

void PipelineTokenizer::find_roles() {
  for (std::size_t role = 0; role < kSpecialRoles; ++role) {
    const std::optional<std::string>& name = config_.roles[role];
    if (name) {
      roles_[role] = token_to_id(*name);
      continue;
    }
    if (config_.names_roles || !config_.guesses_roles) continue;
    for (const char* usual : kDefaultTokens[role]) {
      if (!roles_[role] && usual != nullptr) roles_[role] = token_to_id(usual);
    }
  }
}

// The classes with languages build their post-processor themselves, in transformers too; that of a
// tokenizer.json names the language that was set when it was written.
void PipelineTokenizer::find_language_marks() {
  const LanguageRule* rule = language_rule(config_.tokenizer_class);
  const auto end = special_id(SpecialRole::eos);
  if (rule == nullptr || !end) return;
  Languages languages;
  languages.list = find_languages(*rule, source_.added, source_.model->vocabulary());
  if (languages.list.empty()) return;
  marks_.emplace(std::move(languages), *rule, config_, EndToken{*end, token(*end)});
}

void PipelineTokenizer::set_languages(std::optional<std::string_view> source,
                                      std::optional<std::string_view> target) {
  if (!marks_) return Tokenizer::set_languages(source, target);
  marks_->choose(source, target);
}

Encoding PipelineTokenizer::post_process(Encoding first, std::optional<Encoding> second,
                                         bool add_special_tokens) const {
  const PostProcessor* processor = marks_ ? &marks_->source() : source_.post_processor.get();
  return process(processor, std::move(first), std::move(second), add_special_tokens);
}

Encoding PipelineTokenizer::post_process_target(Encoding text, bool add_special_tokens) const {
  const PostProcessor* processor = marks_ ? &marks_->target() : target().post_processor.get();
  return process(processor, std::move(text), std::nullopt, add_special_tokens);
}

Encoding Pipeline::tokenize(std::string_view text, std::span<const TextSpan> data) const {
  const CharacterOffsets characters(text);
  Encoding encoding;
  encoding.ids.reserve(text.size() / 4 + 4);
  encoding.tokens.reserve(text.size() / 4 + 4);
  encoding.offsets.reserve(text.size() / 4 + 4);
  for (const AddedPart& part : added.split(text, false, OutsideOf(data))) {
    const std::string_view view = text.substr(part.begin, part.end - part.begin);
    if (part.id >= 0) {
      encoding.push(part.id, std::string(view), {characters[part.begin], characters[part.end]});
    } else {
      tokenize_part(view, static_cast<std::uint32_t>(part.begin), characters, data, encoding);
    }
  }
  return encoding;
}

bool Pipeline::separates(std::string_view text, std::size_t at) const {
  NormalizedText around(letters_around(text, at), 0, nullptr);
  if (normalizer) normalizer->apply(around);
  const char32_t space = space_between(around.text());
  return space != 0 && pre_tokenizer->at_word_end(space) == PreTokenizer::WordEnd::cut;
}

std::size_t Pipeline::safe_end(std::string_view text, std::size_t from) const {
  constexpr int kMaxAttempts = 64;  // word ends tried before the whole text is tokenized
  if (!added.preserve_word_ends() || (normalizer && !normalizer->preserves_word_ends())) return text.size();
  if (!pre_tokenizer) return normalizer ? text.size() : model->safe_end(text, from);
  std::size_t end = find_word_end(text, from);
  for (int tries = 1; end < text.size() && !separates(text, end); ++tries) {
    end = tries < kMaxAttempts ? find_word_end(text, end + 1) : text.size();
  }
  return end;
}

Encoding Pipeline::tokenize_prefix(std::string_view text, std::int64_t count) const {
  for (std::size_t bytes = first_bytes(text, count);; bytes *= 4) {
    const std::size_t end = safe_end(text, bytes);
    Encoding encoding = tokenize(text.substr(0, end));
    if (end == text.size() || encoding.size() >= count) return encoding;
  }
}

void Pipeline::tokenize_part(std::string_view part, std::uint32_t origin, const CharacterOffsets& characters,
                             std::span<const TextSpan> data, Encoding& encoding) const {
  const GrowthLimit limit(where, part.size());
  pause_point();
  NormalizedText text(part, origin, &limit);
  if (normalizer) normalizer->apply(text);
  pause_point();
  const auto allowed = [&](std::size_t begin, std::size_t end) {
    const ByteSpan span = text.original(begin, end);
    return OutsideOf(data)(span.begin, span.end);
  };
  for (const AddedPart& found : added.split(text.text(), true, allowed)) {
    if (found.id >= 0) {
      const ByteSpan span = text.original(found.begin, found.end);
      encoding.push(found.id, text.text().substr(found.begin, found.end - found.begin),
                    {characters[span.begin], characters[span.end]});
      continue;
    }
    const std::uint32_t begin = text.origin_of(found.begin);
    const auto size = static_cast<std::uint32_t>(found.end - found.begin);
    const bool whole = size == text.text().size();
    Pieces pieces{whole ? std::move(text) : text.slice(found.begin, found.end), {{0, size, begin}}};
    tokenize_pieces(std::move(pieces), characters, encoding);
    if (whole) return;
  }
}

void Pipeline::tokenize_pieces(Pieces pieces, const CharacterOffsets& characters, Encoding& encoding) const {
  pause_point();
  if (pre_tokenizer) pre_tokenizer->apply(pieces);
  ModelTokens tokens;
  for (const Pieces::Piece& piece : pieces.list) {
    pause_point();
    tokens.list.clear();
    tokens.texts.clear();
    const std::string_view view = pieces.view(piece);
    model->tokenize(view, tokens);
    for (std::size_t i = 0; i < tokens.list.size(); ++i) {
      const ModelToken& token = tokens.list[i];
      const ByteSpan span = pieces.text.original(piece.begin + token.begin, piece.begin + token.end);
      const std::pair<std::int64_t, std::int64_t> offsets(characters[span.begin], characters[span.end]);
      if (!tokens.texts.empty()) {
        encoding.push(token.id, std::move(tokens.texts[i]), offsets);
      } else if (token.id == model->unknown_id_shown_as_text()) {
        encoding.push(token.id, std::string(view.substr(token.begin, token.end - token.begin)), offsets);
      } else {
        encoding.push(token.id, std::string(model->vocabulary().token(token.id)), offsets);
      }
    }
  }
}

std::int64_t Pipeline::end_id() const {
  const std::int64_t end = model->vocabulary().end_id();
  const auto& tokens = added.tokens();
  return (tokens.empty() ? end : std::max<std::int64_t>(end, tokens.rbegin()->first + 1)) + unused_ids;
}

std::int64_t Pipeline::with_token(std::int64_t id) const {
  if (added.find(id) != nullptr || model->vocabulary().has(id)) return id;
  return default_id && id >= 0 && id < end_id() ? *default_id : -1;
}

std::string_view Pipeline::token_of(std::int64_t id) const {
  const AddedToken* token = added.find(id);
  return token != nullptr ? std::string_view(token->content)
                          : model->vocabulary().token(static_cast<std::int32_t>(id));
}

std::string Pipeline::token(std::int64_t id) const {
  const std::int64_t known = with_token(id);
  if (known < 0)
    throw Error(fmt::format("token: expected an id of the vocabulary (0 to {}), got {}", end_id() - 1, id));
  return std::string(token_of(known));
}

std::optional<std::int64_t> Pipeline::token_to_id(std::string_view token) const {
  if (const AddedToken* found = added.find(token)) return found->id;
  const std::int32_t id = model->vocabulary().find(token);
  if (id < 0) return std::nullopt;
  return id;
}

bool Pipeline::is_special(std::int64_t id) const {
  const AddedToken* token = added.find(id);
  if (token != nullptr && token->special) return true;
  if (std::find(special_ids.begin(), special_ids.end(), id) != special_ids.end()) return true;
  return token == nullptr && model->is_control(id);
}

std::string Pipeline::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int64_t id : ids) {
    const std::int64_t known = with_token(id);
    if (known < 0 && default_id)
      throw Error(fmt::format("decode: expected ids from 0 to {}, got {}", end_id() - 1, id));
    if (id < 0) throw Error(fmt::format("decode: expected ids from 0, got {}", id));
    if (known < 0 || (skip_special_tokens && is_special(known))) continue;
    tokens.emplace_back(token_of(known));
  }
  if (decoder) decoder->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (!decoder && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

}  // namespace heed
