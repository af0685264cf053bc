// Tokenizers whose model is executed as SentencePiece does: a SentencePiece model and little else, such as
// LLaMA's tokenizer.model, and M2M100's, whose vocab.json has the ids of the pieces. Special tokens are
// matched in the text first; SentencePiece tokenizes each part between them as if it stood alone, which
// Hugging Face transformers calls the legacy behavior.
#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "text/algorithms/sentencepiece_model.h"
#include "text/loading/loaders.h"
#include "text/pipeline/languages.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace heed {
namespace {

void name_role(TokenizerConfig& config, SpecialRole role, const char* token) {
  auto& name = config.roles[static_cast<std::size_t>(role)];
  if (!name) name = token;
}

/// Adds a token of the configuration. SentencePiece normalizes what is between added tokens.
void add_token(AddedTokens& added, AddedToken token, const TokenTable& vocabulary) {
  token.normalized = false;
  added.add(std::move(token), vocabulary);
}

// The other language_codes: those of the models for the shared task of WMT21.
constexpr std::string_view kWmt21Codes = "en ha is ja cs ru zh de";

std::vector<std::string_view> m2m100_codes(const JsonField& config) {
  const std::string name = config.string("language_codes", "m2m100");
  if (name != "m2m100" && name != "wmt21") config.at("language_codes").fail("m2m100 or wmt21");
  return language_codes(name == "wmt21" ? kWmt21Codes : language_rule(kM2m100Class)->codes);
}

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

/// Returns the languages, which follow the tokens of the vocabulary, and all special and added tokens.
AddedTokens m2m100_tokens(const std::vector<std::string_view>& codes, const TokenizerConfig& config,
                          TokenTable& vocabulary, const std::string& where) {
  AddedTokens added;
  for (const std::string_view code : codes) {
    const std::string token = m2m100_token(code);
    vocabulary.insert(token, static_cast<std::int32_t>(vocabulary.end_id()));
    added.add(plain_token(token, true), vocabulary);
  }
  for (const std::string& token : config.special_tokens()) {
    if (added.find(token) == nullptr) added.add(plain_token(token, true), vocabulary);
  }
  for (const AddedToken& token : config.added_tokens) {
    add_token(added, token, vocabulary);
    const AddedToken* placed = added.find(token.content);
    if (placed != nullptr && placed->id != token.id)
      throw Error(fmt::format("{}: added token {}: expected the id {}, got {}", where, token.content,
                              placed->id, token.id));
  }
  return added;
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const ModelFiles& from, const char* name) {
  TokenizerFiles files;
  Pipeline pipeline;
  pipeline.where = from.where(name);
  const auto model = std::make_shared<const SentencePieceModel>(files.read(from, name), pipeline.where);
  pipeline.model = sentencepiece_tokens(model);
  const TokenTable& pieces = pipeline.model->vocabulary();
  for (const char* other : {"tokenizer_config.json", "special_tokens_map.json"})
    files.read_config(from, other);
  TokenizerConfig config = TokenizerConfig::load(from);
  config.guesses_roles = false;
  for (const auto& [role, token] : {std::pair(SpecialRole::bos, "<s>"), std::pair(SpecialRole::eos, "</s>"),
                                    std::pair(SpecialRole::unk, "<unk>")}) {
    if (!config.names_roles && pieces.find(token) >= 0) name_role(config, role, token);
  }
  SentencePieceDecoding decoding;
  // A model without any configuration is used by SentencePiece's own rules: no special tokens are matched.
  if (files.contents.size() > 1) {
    for (const AddedToken& token : config.added_tokens) add_token(pipeline.added, token, pieces);
    for (const std::string& token : config.special_tokens()) {
      if (pipeline.added.find(token) == nullptr) pipeline.added.add(plain_token(token, true), pieces);
    }
    for (const auto& [id, token] : pipeline.added.tokens()) decoding.whole.insert(token.content);
  }
  pipeline.decoder = sentencepiece_decoder(model, std::move(decoding));
  if (!config.add_bos) config.add_bos = true;
  files.read_chat_templates(from);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

std::unique_ptr<Tokenizer> load_m2m100(const ModelFiles& from, const char* name) {
  TokenizerFiles files;
  const OptionalFile settings(files, from, "tokenizer_config.json"),
      map(files, from, "special_tokens_map.json"), added(files, from, "added_tokens.json");
  const std::vector<std::string_view> codes = m2m100_codes(settings.field());
  Pipeline pipeline;
  pipeline.unused_ids = settings.field().integer("num_madeup_words", 0, 10000, 8);
  const auto model = std::make_shared<const SentencePieceModel>(files.read(from, name), from.where(name));
  pipeline.where = from.where("vocab.json");
  TokenTable vocabulary = read_vocabulary(files.read(from, "vocab.json"), pipeline.where);
  TokenizerConfig config = TokenizerConfig::load(from);
  name_role(config, SpecialRole::bos, "<s>");
  name_role(config, SpecialRole::eos, "</s>");
  name_role(config, SpecialRole::sep, "</s>");
  name_role(config, SpecialRole::unk, "<unk>");
  name_role(config, SpecialRole::pad, "<pad>");
  config.names_roles = true;
  config.tokenizer_class = kM2m100Class;
  read_token_ids(added.field(), config);
  for (const SpecialRole needed : {SpecialRole::unk, SpecialRole::eos}) {
    const std::string& token = *config.role(needed);
    if (vocabulary.find(token) < 0) throw Error(fmt::format("{}: token {} not found", pipeline.where, token));
  }
  pipeline.default_id = vocabulary.find(*config.role(SpecialRole::unk));
  pipeline.added = m2m100_tokens(codes, config, vocabulary, pipeline.where);
  SentencePieceDecoding decoding;
  decoding.strip = true;
  for (const auto& [id, token] : pipeline.added.tokens()) {
    if (token.special) decoding.whole.insert(token.content);
  }
  pipeline.model = sentencepiece_tokens(model, std::move(vocabulary), *pipeline.default_id, false);
  pipeline.decoder = sentencepiece_decoder(model, std::move(decoding));
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

}  // namespace heed
