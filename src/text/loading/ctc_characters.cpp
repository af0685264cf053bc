// The tokenizer of wav2vec 2.0 with a CTC head (Wav2Vec2CTCTokenizer): a vocab.json of characters.
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <utility>

#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/loading/loaders.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace heed {
namespace {

struct CharacterSettings {
  std::string delimiter;      ///< the token between words
  std::string shown_between;  ///< what decoded text has in its place
  bool lower_case = false;    ///< texts are in lower case, the vocabulary is in upper case
  std::string blank;          ///< the padding token
};

/// Upper case, and the delimiter in the place of spaces.
class CharacterNormalizer final : public Normalizer {
 public:
  CharacterNormalizer(bool upper, std::string delimiter) : upper_(upper), delimiter_(std::move(delimiter)) {}
  void apply(NormalizedText& text) const override {
    Rewrite rewrite(text);
    while (!rewrite.done()) {
      const char32_t c = rewrite.peek();
      const std::string instead = c == U' ' ? delimiter_ : upper_ ? upper_case(c) : std::string();
      if (instead.empty()) {
        c == U' ' ? rewrite.drop(1) : rewrite.keep();
        continue;
      }
      std::size_t at = 0;
      rewrite.replace(next_character(instead, at));
      while (at < instead.size()) rewrite.insert(next_character(instead, at));
    }
    text = rewrite.finish();
  }

 private:
  static std::string upper_case(char32_t c) {
    std::string upper;
    icu::UnicodeString(static_cast<UChar32>(c)).toUpper(icu::Locale::getRoot()).toUTF8String(upper);
    return upper;
  }

  bool upper_;
  std::string delimiter_;
};

/// Each character is a token.
class Characters final : public TokenModel {
 public:
  Characters(TokenTable vocabulary, std::int32_t unknown)
      : TokenModel(std::move(vocabulary)), unknown_(unknown) {}
  void tokenize(std::string_view piece, ModelTokens& tokens) const override {
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      at += utf8_length(piece[at]);
      const std::int32_t id = vocabulary().find(piece.substr(begin, at - begin));
      tokens.list.push_back(
          {id >= 0 ? id : unknown_, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(at)});
    }
  }
  std::int32_t unknown_id_shown_as_text() const override { return unknown_; }

 private:
  std::int32_t unknown_;
};

/// The text of frames: of tokens that follow each other once, without blanks.
class CtcDecoder final : public TokenDecoder {
 public:
  explicit CtcDecoder(CharacterSettings settings) : settings_(std::move(settings)) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if ((i > 0 && tokens[i] == tokens[i - 1]) || tokens[i] == settings_.blank) continue;
      text += tokens[i] == settings_.delimiter ? settings_.shown_between : tokens[i];
    }
    text = strip(text);
    tokens = {settings_.lower_case ? lower_case(text) : text};
  }

 private:
  CharacterSettings settings_;
};

/// Adds the tokens of added_tokens.json and of added_tokens_decoder, with their ids.
void insert_added(TokenTable& vocabulary, const JsonField& json, const TokenizerConfig& config) {
  const auto insert = [&](const std::string& token, std::int32_t id, const JsonField& field) {
    if (vocabulary.find(token) == id) return;
    if (vocabulary.find(token) >= 0 || !vocabulary.insert(token, id))
      field.fail("an id that vocab.json gives to this token, or to none");
  };
  json.each_member([&](const std::string& token, const JsonField& id) {
    insert(token, static_cast<std::int32_t>(id.integer(0, 2 * vocabulary.end_id() + 1024)), id);
  });
  const nlohmann::ordered_json none;
  for (const AddedToken& token : config.added_tokens) {
    const JsonField field(none, config.where, "added_tokens_decoder." + std::to_string(token.id));
    if (token.id > 2 * vocabulary.end_id() + 1024) field.fail("an id near those of vocab.json");
    insert(token.content, token.id, field);
  }
}

CharacterSettings read_settings(const JsonField& json, TokenizerConfig& config) {
  constexpr std::pair<SpecialRole, const char*> kUsualTokens[] = {{SpecialRole::bos, "<s>"},
                                                                  {SpecialRole::eos, "</s>"},
                                                                  {SpecialRole::unk, "<unk>"},
                                                                  {SpecialRole::pad, "<pad>"}};
  if (const auto language = json.find("target_lang"))
    language->fail("null, as vocabularies of several languages are not read");
  if (const auto name = json.find("tokenizer_class");
      name && name->string() != "Wav2Vec2CTCTokenizer" && name->string() != "Wav2Vec2Tokenizer")
    name->fail("Wav2Vec2CTCTokenizer, as there is a vocab.json alone");
  config.names_roles = true;
  for (const auto& [role, usual] : kUsualTokens) {
    auto& name = config.roles[static_cast<std::size_t>(role)];
    if (!name) name = usual;
  }
  return {.delimiter = json.string("word_delimiter_token", "|"),
          .shown_between = json.string("replace_word_delimiter_char", " "),
          .lower_case = json.boolean("do_lower_case", false),
          .blank = *config.role(SpecialRole::pad)};
}

}  // namespace

std::unique_ptr<Tokenizer> load_ctc_characters(const ModelFiles& from, const char* name) {
  TokenizerFiles files;
  TokenizerConfig config = TokenizerConfig::load(from);
  const OptionalFile settings_file(files, from, "tokenizer_config.json"),
      added(files, from, "added_tokens.json");
  files.read_config(from, "special_tokens_map.json");
  const CharacterSettings settings = read_settings(settings_file.field(), config);

  Pipeline pipeline;
  pipeline.where = from.where(name);
  const Json json = parse_json(files.read(from, name), pipeline.where, kTokenizerJson);
  TokenTable vocabulary = parse_vocabulary(JsonField(json, pipeline.where));
  std::vector<std::string> words;  // tokens of several characters
  for (std::int32_t id = 0; id < vocabulary.end_id(); ++id) {
    if (vocabulary.has(id) && count_characters(vocabulary.token(id)) > 1)
      words.emplace_back(vocabulary.token(id));
  }
  insert_added(vocabulary, added.field(), config);
  const std::int32_t unknown = vocabulary.find(*config.role(SpecialRole::unk));
  if (unknown < 0)
    throw Error(pipeline.where + ": expected the unknown token " + *config.role(SpecialRole::unk) +
                " (tokenizer_config.json: unk_token), got a vocabulary without it");
  for (const std::string& word : words) {
    AddedToken token = plain_token(word, false);
    token.normalized = false;
    token.lstrip = token.rstrip = true;
    pipeline.added.add(std::move(token), vocabulary);
  }
  for (const AddedToken& token : config.added_tokens) {
    if (pipeline.added.find(token.content) == nullptr && token.content != settings.delimiter)
      pipeline.added.add(token, vocabulary);
  }
  added.field().each_member([&](const std::string& token, const JsonField&) {
    if (pipeline.added.find(token) == nullptr) pipeline.added.add(plain_token(token, true), vocabulary);
  });
  config.added_tokens.clear();
  config.word_delimiter = settings.delimiter;
  config.clean_up_spaces = settings_file.field().boolean("clean_up_tokenization_spaces", false);
  pipeline.default_id = unknown;
  pipeline.normalizer = std::make_unique<CharacterNormalizer>(settings.lower_case, settings.delimiter);
  pipeline.model = std::make_unique<Characters>(std::move(vocabulary), unknown);
  pipeline.decoder = std::make_unique<CtcDecoder>(settings);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

}  // namespace heed
