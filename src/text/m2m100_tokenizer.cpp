#include "text/m2m100_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/family_names.h"
#include "text/family_tokens.h"
#include "text/files.h"
#include "text/languages.h"
#include "text/sentencepiece_model.h"
#include "text/word_ends.h"

namespace heed {
namespace {

// The other language_codes: those of the models for the shared task of WMT21.
constexpr std::string_view kWmt21Codes = "en ha is ja cs ru zh de";

/// What is read from tokenizer_config.json for this tokenizer alone.
struct M2m100Settings {
  std::vector<std::string_view> codes;
  std::int64_t unused_ids = 0;  ///< after the languages: num_madeup_words

  explicit M2m100Settings(const JsonField& config)
      : unused_ids(config.integer("num_madeup_words", 0, 10000, 8)) {
    const std::string name = config.string("language_codes", "m2m100");
    if (name != "m2m100" && name != "wmt21") config.at("language_codes").fail("m2m100 or wmt21");
    codes = language_codes(name == "wmt21" ? kWmt21Codes : language_rule("M2M100Tokenizer")->codes);
  }
};

class M2m100Tokenizer final : public Tokenizer {
 public:
  /// `vocabulary` has the tokens of vocab.json, whose name is `where`.
  M2m100Tokenizer(SentencePieceModel model, TokenTable vocabulary, TokenizerConfig config,
                  const M2m100Settings& settings, TokenizerFiles files, const std::string& where);

  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const override;
  bool cleans_up_spaces() const override { return config_.clean_up_spaces; }
  std::int64_t vocab_size() const override { return end_id_; }
  std::string token(std::int64_t id) const override { return std::string(token_of(id, "token")); }
  std::optional<std::int64_t> token_to_id(std::string_view token) const override {
    const std::int32_t id = find(token);
    return id < 0 ? std::nullopt : std::optional<std::int64_t>(id);
  }
  bool is_special(std::int64_t id) const override {
    const AddedToken* added = added_.find(id);
    return added != nullptr && added->special;
  }
  std::optional<std::int64_t> bos_id() const override { return role(SpecialRole::bos); }
  std::optional<std::int64_t> eos_id() const override { return role(SpecialRole::eos); }
  std::optional<std::int64_t> unk_id() const override { return role(SpecialRole::unk); }
  std::optional<std::int64_t> pad_id() const override { return role(SpecialRole::pad); }
  std::optional<std::int64_t> sep_id() const override { return role(SpecialRole::sep); }
  std::optional<std::int64_t> model_max_length() const override { return config_.model_max_length; }
  const Languages* languages() const override { return &marks_->languages(); }
  void set_languages(std::optional<std::string_view> source,
                     std::optional<std::string_view> target) override {
    marks_->choose(source, target);
  }
  void save(const std::filesystem::path& directory) const override { files_.save(directory); }

 protected:
  Encoding cut(std::string_view text) const override;
  Encoding cut_beginning(std::string_view text, std::int64_t count) const override;
  Encoding assemble(Encoding first, std::optional<Encoding> second, bool add_special_tokens) const override {
    return process(&marks_->source(), std::move(first), std::move(second), add_special_tokens);
  }
  Encoding assemble_target(Encoding text, bool add_special_tokens) const override {
    return process(&marks_->target(), std::move(text), std::nullopt, add_special_tokens);
  }

 private:
  /// Adds the languages and all special tokens; returns the languages.
  std::vector<Language> add_tokens(const M2m100Settings& settings, const std::string& where);
  std::int32_t find(std::string_view token) const {
    const AddedToken* added = added_.find(token);
    return added != nullptr ? added->id : vocabulary_.find(token);
  }
  std::optional<std::int64_t> role(SpecialRole which) const { return token_to_id(*config_.role(which)); }
  std::string_view token_of(std::int64_t id, const char* where) const;

  SentencePieceModel model_;
  TokenTable vocabulary_;
  TokenizerConfig config_;
  TokenizerFiles files_;
  AddedTokens added_;
  std::optional<LanguageMarks> marks_;
  std::vector<std::int32_t> ids_;  // per piece of the model
  std::int32_t unknown_ = 0;
  std::int64_t end_id_ = 0;
};

/// Reads added_tokens.json, whose tokens are special only if other files say so. As in transformers, it is
/// ignored if the configuration has an added_tokens_decoder.
void read_token_ids(const JsonField& document, TokenizerConfig& config) {
  if (!config.added_tokens.empty()) return;
  const std::vector<std::string> special = config.special_tokens();
  document.each_member([&](const std::string& content, const JsonField& id) {
    const bool language = content.starts_with("__") && content.ends_with("__");
    const bool named = std::find(special.begin(), special.end(), content) != special.end();
    config.added_tokens.push_back(plain_token(content, language || named));
    config.added_tokens.back().id = static_cast<std::int32_t>(id.integer(0, INT32_MAX));
  });
  std::stable_sort(config.added_tokens.begin(), config.added_tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

void name_roles(TokenizerConfig& config) {
  const auto name = [&config](SpecialRole role, const char* token) {
    auto& given = config.roles[static_cast<std::size_t>(role)];
    if (!given) given = token;
  };
  name(SpecialRole::bos, "<s>");
  name(SpecialRole::eos, "</s>");
  name(SpecialRole::sep, "</s>");
  name(SpecialRole::unk, "<unk>");
  name(SpecialRole::pad, "<pad>");
}

M2m100Tokenizer::M2m100Tokenizer(SentencePieceModel model, TokenTable vocabulary, TokenizerConfig config,
                                 const M2m100Settings& settings, TokenizerFiles files,
                                 const std::string& where)
    : model_(std::move(model)),
      vocabulary_(std::move(vocabulary)),
      config_(std::move(config)),
      files_(std::move(files)) {
  for (const SpecialRole needed : {SpecialRole::unk, SpecialRole::eos}) {
    const std::string& token = *config_.role(needed);
    if (vocabulary_.find(token) < 0) throw Error(fmt::format("{}: token {} not found", where, token));
  }
  unknown_ = vocabulary_.find(*config_.role(SpecialRole::unk));
  Languages languages;
  languages.list = add_tokens(settings, where);
  const EndToken end{*eos_id(), *config_.role(SpecialRole::eos)};
  marks_.emplace(std::move(languages), *language_rule("M2M100Tokenizer"), config_, end);
  for (int piece = 0; piece < model_.size(); ++piece) {
    const std::int32_t id = find(model_.piece(piece));
    ids_.push_back(id < 0 ? unknown_ : id);
  }
  end_id_ =
      std::max<std::int64_t>(vocabulary_.end_id(), added_.tokens().rbegin()->first + 1) + settings.unused_ids;
}

std::vector<Language> M2m100Tokenizer::add_tokens(const M2m100Settings& settings, const std::string& where) {
  std::vector<Language> languages;
  const std::int64_t first = vocabulary_.count();
  for (const std::string_view code : settings.codes) {
    const std::int64_t id = first + static_cast<std::int64_t>(languages.size());
    std::string token = m2m100_token(code);
    if (!vocabulary_.insert(token, static_cast<std::int32_t>(id)))
      throw Error(fmt::format("{}: expected ids from 0 to {}, got also {}, which is that of the language {}",
                              where, first - 1, id, code));
    languages.push_back({std::string(code), std::move(token), id});
  }
  const auto add = [this](const std::string& content) {
    AddedToken token;
    token.content = content;
    token.special = true;
    token.normalized = false;
    if (added_.find(content) == nullptr) added_.add(token, vocabulary_);
  };
  for (const Language& language : languages) add(language.token);
  for (const std::string& token : config_.special_tokens()) add(token);
  for (AddedToken token : config_.added_tokens) {
    token.normalized = false;  // SentencePiece normalizes what is between added tokens
    added_.add(token, vocabulary_);
    const AddedToken* placed = added_.find(token.content);
    if (placed != nullptr && placed->id != token.id)
      throw Error(fmt::format("{}: added token {}: expected the id {}, got {}", where, token.content,
                              placed->id, token.id));
  }
  added_.prepare(nullptr, where);
  return languages;
}

std::string_view M2m100Tokenizer::token_of(std::int64_t id, const char* where) const {
  if (const AddedToken* added = added_.find(id)) return added->content;
  if (id < 0 || id >= end_id_)
    throw Error(fmt::format("{}: expected ids from 0 to {}, got {}", where, end_id_ - 1, id));
  return vocabulary_.token(vocabulary_.has(id) ? static_cast<std::int32_t>(id) : unknown_);
}

Encoding M2m100Tokenizer::cut(std::string_view text) const {
  const CharacterOffsets characters(text);
  Encoding encoding;
  for (const AddedPart& part : added_.split(text, false)) {
    const std::string_view view = text.substr(part.begin, part.end - part.begin);
    if (part.id >= 0) {
      encoding.push(part.id, std::string(view), {characters[part.begin], characters[part.end]});
      continue;
    }
    model_.encode(view, [&](std::string_view piece, int id, std::size_t begin, std::size_t end) {
      // An unknown piece is the text itself, which may be in vocab.json nevertheless.
      const std::int32_t known = model_.is_unknown(id) ? find(piece) : ids_[static_cast<std::size_t>(id)];
      encoding.push(known < 0 ? unknown_ : known, std::string(piece),
                    {characters[part.begin + begin], characters[part.begin + end]});
    });
  }
  return encoding;
}

Encoding M2m100Tokenizer::cut_beginning(std::string_view text, std::int64_t count) const {
  for (std::size_t bytes = first_bytes(text, count);; bytes *= 4) {
    const std::size_t end = added_.preserve_word_ends() ? model_.safe_end(text, bytes) : text.size();
    Encoding encoding = cut(text.substr(0, end));
    if (end == text.size() || encoding.size() >= count) return encoding;
  }
}

std::string M2m100Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string text;
  std::vector<std::string_view> pieces;
  const auto flush = [&] {
    if (!pieces.empty()) text += model_.decode(pieces);
    pieces.clear();
  };
  for (const std::int64_t id : ids) {
    const std::string_view token = token_of(id, "decode");
    if (!is_special(*token_to_id(token))) {
      pieces.push_back(token);
    } else if (!skip_special_tokens) {
      flush();
      text += token;
    }
  }
  flush();
  return std::string(strip(text));
}

}  // namespace

std::unique_ptr<Tokenizer> load_m2m100_tokenizer(const std::filesystem::path& directory) {
  TokenizerFiles files;
  const auto json_of = [](const std::string* text, const std::string& where) {
    return text != nullptr ? parse_json(*text, where, kTokenizerJson) : nlohmann::ordered_json::object();
  };
  const std::string config_where = (directory / "tokenizer_config.json").string(),
                    where = (directory / "vocab.json").string();
  const nlohmann::ordered_json config =
      json_of(files.read_config(directory, "tokenizer_config.json"), config_where);
  const M2m100Settings settings(JsonField(config, config_where));
  files.read_config(directory, "special_tokens_map.json");
  const std::string added_where = (directory / "added_tokens.json").string();
  const nlohmann::ordered_json added =
      json_of(files.read_config(directory, "added_tokens.json"), added_where);
  SentencePieceModel model(files.read(directory, kFairseqFile), (directory / kFairseqFile).string());
  const nlohmann::ordered_json json = json_of(&files.read(directory, "vocab.json"), where);
  TokenTable vocabulary = parse_vocabulary(JsonField(json, where));
  TokenizerConfig settled = TokenizerConfig::load(directory);
  name_roles(settled);
  read_token_ids(JsonField(added, added_where), settled);
  return std::make_unique<M2m100Tokenizer>(std::move(model), std::move(vocabulary), std::move(settled),
                                           settings, std::move(files), where);
}

}  // namespace heed
