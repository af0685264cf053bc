// Marian's tokenizer: a SentencePiece model per side splits a text into pieces, and a vocabulary maps them to
// ids.
#include "heed/text/training.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>

#include "heed/error.h"
#include "text/algorithms/sentencepiece_model.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;
using SharedModel = std::shared_ptr<const SentencePieceModel>;

constexpr const char *kConfigFile = "tokenizer_config.json", *kMapFile = "special_tokens_map.json";
constexpr const char* kPad = "<pad>";
constexpr std::pair<SpecialRole, const char*> kUsual[] = {
    {SpecialRole::eos, "</s>"}, {SpecialRole::unk, "<unk>"}, {SpecialRole::pad, kPad}};

/// Leaves of a configuration what Marian's tokenizer has, and names the tokens that it does not name.
void complete(TokenizerConfig& config) {
  std::array<std::optional<std::string>, kSpecialRoles> roles;
  for (const auto& [role, token] : kUsual)
    roles[static_cast<std::size_t>(role)] = config.role(role).value_or(token);
  config.roles = std::move(roles);
  config.names_roles = true;
  config.additional_special_tokens.clear();
  config.add_bos = config.add_eos = std::nullopt;
  config.tokenizer_class.clear();
}

/// Of special tokens, those of tokenizer_config.json take precedence over those of special_tokens_map.json.
TokenizerConfig load_config(const ModelFiles& from, const JsonField& document, const JsonField& map) {
  TokenizerConfig config = TokenizerConfig::load(from);
  config.roles = {};
  config.read_roles(document);
  config.read_roles(map);
  complete(config);
  for (const auto& [role, usual] : kUsual) {
    if (config.role(role)->empty())
      throw Error(fmt::format("{}: {}: expected a token, got \"\"", config.where, role_key(role)));
  }
  for (const AddedToken& token : config.added_tokens) {
    for (const auto& [option, set] : {std::pair("lstrip", token.lstrip), std::pair("rstrip", token.rstrip),
                                      std::pair("single_word", token.single_word)}) {
      if (set)
        throw Error(fmt::format("{}: added_tokens_decoder.{}.{}: expected false, got true", config.where,
                                token.id, option));
    }
  }
  return config;
}

/// Adds the added tokens that follow a vocabulary. Throws Error if the two contradict each other.
void extend(TokenTable& vocabulary, const TokenizerConfig& config) {
  for (const AddedToken& token : config.added_tokens) {
    const std::int64_t end = vocabulary.end_id();
    if (token.id < end ? vocabulary.token(token.id) != token.content : token.id != end) {
      throw Error(
          fmt::format("{}: added_tokens_decoder.{}: expected a token of vocab.json, or the id {} that comes "
                      "next, got {}",
                      config.where, token.id, end, Json(token.content).dump()));
    }
    if (token.id == end) append_token(vocabulary, token.content, config.where);
  }
}

/// Makes the pipeline of one side. `where` names the vocabulary's file.
Pipeline make_side(const SharedModel& model, TokenTable vocabulary, const TokenizerConfig& config,
                   bool clean_up_spaces, const std::string& where) {
  const auto require = [&](SpecialRole role, const char* what) {
    const std::string& token = *config.role(role);
    const std::int32_t id = vocabulary.find(token);
    if (id < 0) throw Error(fmt::format("{}: {} token {} not found", where, what, token));
    return id;
  };
  Pipeline side;
  side.where = where;
  const std::int32_t end = require(SpecialRole::eos, "end");
  side.default_id = require(SpecialRole::unk, "unknown");
  std::vector<AddedToken> tokens = config.added_tokens;
  for (const auto& [role, usual] : kUsual) tokens.push_back(plain_token(*config.role(role), true));
  SentencePieceDecoding decoding;
  decoding.after_whole = " ";
  decoding.strip = decoding.replace_blanks = true;
  decoding.clean_up_spaces = clean_up_spaces;
  for (AddedToken& token : tokens) {
    if (vocabulary.find(token.content) < 0) continue;
    if (token.special) decoding.whole.insert(token.content);
    token.normalized = false;
    side.added.add(std::move(token), vocabulary);
  }
  side.model = sentencepiece_tokens(model, std::move(vocabulary), *side.default_id, true);
  side.decoder = sentencepiece_decoder(model, std::move(decoding));
  side.post_processor = frame_processor({}, {{end, *config.role(SpecialRole::eos)}}, 1);
  return side;
}

std::string vocabulary_json(const TokenTable& vocabulary) {
  std::string json = "{\n";
  for (std::int32_t id = 0; id < vocabulary.end_id(); ++id) {
    json += fmt::format("  {}: {}{}\n", Json(std::string(vocabulary.token(id))).dump(), id,
                        id + 1 < vocabulary.end_id() ? "," : "");
  }
  return json + "}\n";
}

}  // namespace

std::unique_ptr<Tokenizer> load_marian_tokenizer(const ModelFiles& from) {
  TokenizerFiles files;
  const OptionalFile config_file(files, from, kConfigFile), map(files, from, kMapFile);
  TokenizerConfig config = load_config(from, config_file.field(), map.field());
  const bool separate = config_file.field().boolean("separate_vocabs", false);
  const bool clean_up_spaces = std::exchange(config.clean_up_spaces, false);  // decode() itself cleans up

  const auto path = [&from](const char* name) { return from.where(name); };
  const auto source_model =
      std::make_shared<const SentencePieceModel>(files.read(from, "source.spm"), path("source.spm"));
  const std::string& target_bytes = files.read(from, "target.spm");
  const bool one_model = target_bytes == (files.contents.end() - 2)->second;
  const SharedModel target_model =
      one_model ? source_model : std::make_shared<const SentencePieceModel>(target_bytes, path("target.spm"));
  TokenTable vocabulary = read_vocabulary(files.read(from, "vocab.json"), path("vocab.json"));
  extend(vocabulary, config);
  std::optional<Pipeline> target;
  if (separate) {
    target = make_side(target_model,
                       read_vocabulary(files.read(from, "target_vocab.json"), path("target_vocab.json")),
                       config, clean_up_spaces, path("target_vocab.json"));
  } else if (!one_model) {
    target = make_side(target_model, vocabulary, config, clean_up_spaces, path("vocab.json"));
  }
  Pipeline source =
      make_side(source_model, std::move(vocabulary), config, clean_up_spaces, path("vocab.json"));
  config.added_tokens.clear();  // both sides have them
  if (!source.token_to_id(*config.role(SpecialRole::pad)))
    config.roles[static_cast<std::size_t>(SpecialRole::pad)].reset();
  return std::make_unique<PipelineTokenizer>(std::move(source), std::move(config), std::move(files),
                                             std::move(target));
}

std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::filesystem::path& directory) {
  return load_marian_tokenizer(ModelFiles(directory));
}

std::unique_ptr<Tokenizer> train_marian_tokenizer(const MarianTokenizerOptions& options,
                                                  const SentenceSource& sentences,
                                                  SentencePieceReport* report) {
  for (const std::string& symbol : options.sentencepiece.user_defined_symbols) {
    if (symbol == kPad) {
      throw Error(
          fmt::format("Marian tokenizer: user_defined_symbols: expected tokens other than {}, got it "
                      "(it is always added)",
                      kPad));
    }
  }
  const std::string bytes = train_sentencepiece_model(options.sentencepiece, 1, sentences, report);
  const auto model = std::make_shared<const SentencePieceModel>(bytes, "trained model");
  TokenTable vocabulary;
  for (int piece = 0; piece < model->size(); ++piece)
    append_token(vocabulary, model->piece(piece), "trained vocabulary");
  append_token(vocabulary, kPad, "trained vocabulary");

  TokenizerConfig config;
  complete(config);
  config.model_max_length = options.model_max_length;
  Json json = {{"source_lang", replace_invalid_utf8(options.source_language)},
               {"target_lang", replace_invalid_utf8(options.target_language)},
               {"model_max_length", options.model_max_length},
               {"tokenizer_class", "MarianTokenizer"},
               {"separate_vocabs", false},
               {"clean_up_tokenization_spaces", false}};
  Json tokens = Json::object();
  for (const auto& [role, token] : kUsual) json[role_key(role)] = tokens[role_key(role)] = token;
  TokenizerFiles files;
  files.contents = {{"source.spm", bytes},
                    {"target.spm", bytes},
                    {"vocab.json", vocabulary_json(vocabulary)},
                    {kConfigFile, json.dump(2) + "\n"},
                    {kMapFile, tokens.dump(2) + "\n"}};
  Pipeline side = make_side(model, std::move(vocabulary), config, false, "trained vocabulary");
  return std::make_unique<PipelineTokenizer>(std::move(side), std::move(config), std::move(files));
}

}  // namespace heed
