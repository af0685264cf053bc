#include "text/pipeline_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "text/word_ends.h"

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

}  // namespace

PipelineTokenizer::PipelineTokenizer(Pipeline pipeline, TokenizerConfig config, TokenizerFiles files)
    : pipeline_(std::move(pipeline)), config_(std::move(config)), files_(std::move(files)) {
  const TokenTable& vocabulary = pipeline_.model->vocabulary();
  // The tokenizer.json decides what is matched in a text; only tokens that it lacks are added.
  const auto unknown = [&](const std::string& token) {
    return pipeline_.added.find(token) == nullptr && vocabulary.find(token) < 0;
  };
  for (const AddedToken& token : config_.added_tokens) {
    if (unknown(token.content)) pipeline_.added.add(token, vocabulary);
  }
  for (const std::string& name : config_.special_tokens()) {
    if (!unknown(name)) continue;
    AddedToken token;
    token.content = name;
    token.special = true;
    token.normalized = false;
    pipeline_.added.add(token, vocabulary);
  }
  pipeline_.added.prepare(pipeline_.normalizer.get(), pipeline_.where);
  end_id_ = vocabulary.end_id();
  if (!pipeline_.added.tokens().empty()) {
    end_id_ = std::max<std::int64_t>(end_id_, pipeline_.added.tokens().rbegin()->first + 1);
  }
  find_roles();
  const auto end_token = [&](bool wanted, SpecialRole role) -> std::optional<EndToken> {
    const auto id = special_id(role);
    if (!wanted || !id) return std::nullopt;
    return EndToken{*id, std::string(*find_token(*id))};
  };
  if (config_.replaces_post_processor(pipeline_.post_processor != nullptr)) {
    pipeline_.post_processor = ends_processor(end_token(config_.add_bos.value_or(false), SpecialRole::bos),
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
    if (config_.names_roles) continue;
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
  languages.list = find_languages(*rule, pipeline_.added, pipeline_.model->vocabulary());
  if (languages.list.empty()) return;
  marks_.emplace(std::move(languages), *rule, config_, EndToken{*end, token(*end)});
}

void PipelineTokenizer::set_languages(std::optional<std::string_view> source,
                                      std::optional<std::string_view> target) {
  if (!marks_) return Tokenizer::set_languages(source, target);
  marks_->choose(source, target);
}

Encoding PipelineTokenizer::cut(std::string_view text) const {
  const CharacterOffsets characters(text);
  Encoding encoding;
  encoding.ids.reserve(text.size() / 3 + 4);
  encoding.tokens.reserve(text.size() / 3 + 4);
  encoding.offsets.reserve(text.size() / 3 + 4);
  for (const AddedPart& part : pipeline_.added.split(text, false)) {
    const std::string_view view = text.substr(part.begin, part.end - part.begin);
    if (part.id >= 0) {
      encoding.push(part.id, std::string(view), {characters[part.begin], characters[part.end]});
    } else {
      tokenize_part(view, static_cast<std::uint32_t>(part.begin), characters, encoding);
    }
  }
  return encoding;
}

bool PipelineTokenizer::separates(std::string_view text, std::size_t at) const {
  NormalizedText around(letters_around(text, at), 0, nullptr);
  if (pipeline_.normalizer) pipeline_.normalizer->apply(around);
  const char32_t space = space_between(around.text());
  return space != 0 && pipeline_.pre_tokenizer->at_word_end(space) == PreTokenizer::WordEnd::cut;
}

Encoding PipelineTokenizer::cut_beginning(std::string_view text, std::int64_t count) const {
  constexpr int kMaxAttempts = 64;  // word ends tried before the whole text is tokenized
  if (!pipeline_.pre_tokenizer || !pipeline_.added.preserve_word_ends() ||
      (pipeline_.normalizer && !pipeline_.normalizer->preserves_word_ends())) {
    return cut(text);
  }
  for (std::size_t bytes = first_bytes(text, count);; bytes *= 4) {
    std::size_t end = find_word_end(text, bytes);
    for (int tries = 1; end < text.size() && !separates(text, end); ++tries) {
      end = tries < kMaxAttempts ? find_word_end(text, end + 1) : text.size();
    }
    Encoding encoding = cut(text.substr(0, end));
    if (end == text.size() || encoding.size() >= count) return encoding;
  }
}

void PipelineTokenizer::tokenize_part(std::string_view part, std::uint32_t origin,
                                      const CharacterOffsets& characters, Encoding& encoding) const {
  const GrowthLimit limit(pipeline_.where, part.size());
  NormalizedText text(part, origin, &limit);
  if (pipeline_.normalizer) pipeline_.normalizer->apply(text);
  for (const AddedPart& found : pipeline_.added.split(text.text(), true)) {
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
    cut_pieces(std::move(pieces), characters, encoding);
    if (whole) return;
  }
}

void PipelineTokenizer::cut_pieces(Pieces pieces, const CharacterOffsets& characters,
                                   Encoding& encoding) const {
  if (pipeline_.pre_tokenizer) pipeline_.pre_tokenizer->apply(pieces);
  const TokenModel& model = *pipeline_.model;
  std::vector<ModelToken> tokens;
  for (const Pieces::Piece& piece : pieces.list) {
    tokens.clear();
    const std::string_view view = pieces.view(piece);
    model.tokenize(view, tokens);
    for (const ModelToken& token : tokens) {
      const ByteSpan span = pieces.text.original(piece.begin + token.begin, piece.begin + token.end);
      encoding.push(token.id,
                    std::string(token.id == model.unknown_id_shown_as_text()
                                    ? view.substr(token.begin, token.end - token.begin)
                                    : model.vocabulary().token(token.id)),
                    {characters[span.begin], characters[span.end]});
    }
  }
}

Encoding PipelineTokenizer::assemble(Encoding first, std::optional<Encoding> second,
                                     bool add_special_tokens) const {
  const PostProcessor* processor = marks_ ? &marks_->source() : pipeline_.post_processor.get();
  return process(processor, std::move(first), std::move(second), add_special_tokens);
}

Encoding PipelineTokenizer::assemble_target(Encoding text, bool add_special_tokens) const {
  const PostProcessor* processor = marks_ ? &marks_->target() : pipeline_.post_processor.get();
  return process(processor, std::move(text), std::nullopt, add_special_tokens);
}

std::optional<std::string_view> PipelineTokenizer::find_token(std::int64_t id) const {
  if (const AddedToken* added = pipeline_.added.find(id)) return added->content;
  const TokenTable& vocabulary = pipeline_.model->vocabulary();
  if (!vocabulary.has(id)) return std::nullopt;
  return vocabulary.token(static_cast<std::int32_t>(id));
}

std::string PipelineTokenizer::token(std::int64_t id) const {
  const auto token = find_token(id);
  if (!token)
    throw Error(fmt::format("token: expected an id of the vocabulary (0 to {}), got {}", end_id_ - 1, id));
  return std::string(*token);
}

std::optional<std::int64_t> PipelineTokenizer::token_to_id(std::string_view token) const {
  if (const AddedToken* added = pipeline_.added.find(token)) return added->id;
  const std::int32_t id = pipeline_.model->vocabulary().find(token);
  if (id < 0) return std::nullopt;
  return id;
}

bool PipelineTokenizer::is_special(std::int64_t id) const {
  const AddedToken* added = pipeline_.added.find(id);
  if (added != nullptr && added->special) return true;
  return config_.names_roles && std::find(roles_.begin(), roles_.end(), std::optional(id)) != roles_.end();
}

std::string PipelineTokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int64_t id : ids) {
    if (id < 0) throw Error(fmt::format("decode: expected ids from 0, got {}", id));
    const auto token = find_token(id);
    if (!token || (skip_special_tokens && is_special(id))) continue;
    tokens.emplace_back(*token);
  }
  if (pipeline_.decoder) pipeline_.decoder->apply(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (!pipeline_.decoder && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

}  // namespace heed
