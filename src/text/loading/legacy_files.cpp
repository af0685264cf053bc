// Tokenizers without tokenizer.json: converts their files to the equivalent tokenizer.json and loads that.
#include <fmt/format.h>

#include <algorithm>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/loading/loaders.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConfigFiles[] = {"tokenizer_config.json", "special_tokens_map.json"};

/// Splits a text file into lines without their ends. Throws Error if it is not UTF-8.
std::vector<std::string_view> lines_of(std::string_view text, const std::string& where) {
  if (const auto invalid = first_invalid_utf8(text)) {
    throw Error(fmt::format("{}: expected UTF-8, got an invalid sequence at byte {}", where, *invalid));
  }
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

void default_role(TokenizerConfig& config, SpecialRole role, const char* token) {
  auto& name = config.roles[static_cast<std::size_t>(role)];
  if (!name && !config.names_roles) name = token;
}

Json added_token(const std::string& content, std::int64_t id, bool strips_left = false) {
  return {{"id", id},
          {"content", content},
          {"special", true},
          {"normalized", false},
          {"lstrip", strips_left},
          {"rstrip", false},
          {"single_word", false}};
}

/// Adds the special tokens that the configuration names, and its added tokens unchanged.
void add_tokens(Json& document, const TokenizerConfig& config) {
  Json& list = document["added_tokens"];
  if (!list.is_array()) list = Json::array();
  for (const std::string& token : config.special_tokens()) {
    const bool there = std::any_of(list.begin(), list.end(),
                                   [&token](const Json& other) { return other["content"] == token; });
    if (!there) list.push_back(added_token(token, 0));
  }
  for (const AddedToken& token : config.added_tokens) {
    Json added = added_token(token.content, token.id, token.lstrip);
    added["special"] = token.special;
    added["normalized"] = token.normalized;
    added["rstrip"] = token.rstrip;
    added["single_word"] = token.single_word;
    list.push_back(std::move(added));
  }
}

std::unique_ptr<Tokenizer> finish(Json document, const std::string& where, TokenizerConfig config,
                                  TokenizerFiles files, const ModelFiles& from) {
  add_tokens(document, config);
  Pipeline pipeline = parse_pipeline(JsonField(document, where));
  for (const char* name : kConfigFiles) files.read_config(from, name);
  files.read_chat_templates(from);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

const Json& id_in(const Json& vocabulary, const std::string& token, const std::string& where) {
  const auto place = vocabulary.find(token);
  if (place == vocabulary.end()) {
    throw Error(fmt::format("{}: token {} not found", where, token));
  }
  return *place;
}

/// `<s> A </s>` and RoBERTa's form of the pair.
Json roberta_processing(const Json& vocabulary, const TokenizerConfig& config, const std::string& where) {
  const std::string cls = config.role(SpecialRole::cls).value_or("<s>"),
                    sep = config.role(SpecialRole::sep).value_or("</s>");
  return {{"type", "RobertaProcessing"},
          {"cls", {cls, id_in(vocabulary, cls, where)}},
          {"sep", {sep, id_in(vocabulary, sep, where)}},
          {"trim_offsets", true},
          {"add_prefix_space", config.prefix_space}};
}

}  // namespace

std::unique_ptr<Tokenizer> load_word_piece(const ModelFiles& from, const char* name) {
  TokenizerFiles files;
  TokenizerConfig config = TokenizerConfig::load(from);
  const std::string where = from.where(name);
  Json vocabulary = Json::object();
  std::int64_t id = 0;
  for (const std::string_view line : lines_of(files.read(from, name), where)) {
    // If a token occurs twice, the later position counts. Not by [], which compares the key with all others.
    vocabulary.get_ref<Json::object_t&>().Container::emplace_back(std::string(line), id++);
  }
  default_role(config, SpecialRole::unk, "[UNK]");
  default_role(config, SpecialRole::sep, "[SEP]");
  default_role(config, SpecialRole::pad, "[PAD]");
  default_role(config, SpecialRole::cls, "[CLS]");
  default_role(config, SpecialRole::mask, "[MASK]");
  const std::string cls = config.role(SpecialRole::cls).value_or("[CLS]"),
                    sep = config.role(SpecialRole::sep).value_or("[SEP]");
  Json normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", config.chinese_characters},
                     {"strip_accents", nullptr},
                     {"lowercase", config.lower_case}};
  if (config.strip_accents) normalizer["strip_accents"] = *config.strip_accents;
  const Json document = {{"normalizer", normalizer},
                         {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                         {"post_processor",
                          {{"type", "BertProcessing"},
                           {"cls", {cls, id_in(vocabulary, cls, where)}},
                           {"sep", {sep, id_in(vocabulary, sep, where)}}}},
                         {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
                         {"model",
                          {{"type", "WordPiece"},
                           {"unk_token", config.role(SpecialRole::unk).value_or("[UNK]")},
                           {"vocab", std::move(vocabulary)}}}};
  return finish(std::move(document), where, std::move(config), std::move(files), from);
}

std::unique_ptr<Tokenizer> load_byte_level_bpe(const ModelFiles& from, const char* vocabulary_name,
                                               const char* merges_name) {
  TokenizerFiles files;
  TokenizerConfig config = TokenizerConfig::load(from);
  const std::string where = from.where(vocabulary_name), merges_where = from.where(merges_name);
  Json vocabulary = parse_json(files.read(from, vocabulary_name), where, kTokenizerJson);
  if (!vocabulary.is_object()) JsonField(vocabulary, where).fail("an object of tokens and ids");
  Json merges = Json::array();
  const std::string merges_text = files.read(from, merges_name);
  bool first = true;
  for (const std::string_view line : lines_of(merges_text, merges_where)) {
    if (!(first && line.substr(0, 8) == "#version") && !line.empty()) merges.push_back(std::string(line));
    first = false;
  }
  const bool roberta =
      vocabulary.contains("<mask>") && vocabulary.contains("<s>") && vocabulary.contains("</s>");
  Json document = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", config.prefix_space}}},
                   {"decoder", {{"type", "ByteLevel"}}}};
  Json added = Json::array();
  if (roberta) {
    document["post_processor"] = roberta_processing(vocabulary, config, where);
    for (const char* token : {"<s>", "<pad>", "</s>", "<unk>", "<mask>"}) {
      if (vocabulary.contains(token)) {
        added.push_back(added_token(token, 0, std::string_view(token) == "<mask>"));
      }
    }
  } else {
    document["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
    if (vocabulary.contains("<|endoftext|>")) added.push_back(added_token("<|endoftext|>", 0));
  }
  document["added_tokens"] = std::move(added);
  document["model"] = {{"type", "BPE"}, {"merges", std::move(merges)}, {"vocab", std::move(vocabulary)}};
  return finish(std::move(document), where, std::move(config), std::move(files), from);
}

}  // namespace heed
