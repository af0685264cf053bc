// Reads the configuration files of a tokenizer, and keeps them to be saved again.
#include "text/loading/tokenizer_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "text/loading/loaders.h"

namespace heed {
namespace {

constexpr std::array<const char*, kSpecialRoles> kRoleKeys = {
    "bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "cls_token", "sep_token"};

/// Returns a token, given as a string or as an object with its `content`.
std::string token_content(const JsonField& field) {
  return field.value().is_object() ? field.at("content").string() : field.string();
}

void read_added_tokens(const JsonField& field, TokenizerConfig& config) {
  field.each_member([&config](const std::string& key, const JsonField& token) {
    std::int32_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || id < 0)
      token.fail("an id as its name");
    config.added_tokens.push_back(parse_added_token(token, id));
  });
  std::sort(config.added_tokens.begin(), config.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

std::optional<bool> optional_flag(const JsonField& document, std::string_view key) {
  const auto field = document.find(key);
  if (!field) return std::nullopt;
  return field->boolean();
}

/// Returns the maximum length. Some files have 1e30, which means no limit.
std::optional<std::int64_t> read_length(const JsonField& document) {
  const auto field = document.find("model_max_length");
  if (!field) return std::nullopt;
  const double length = field->number();
  if (length < 1) field->fail("a number from 1");
  if (length >= 2147483648.0) return std::nullopt;
  return static_cast<std::int64_t>(length);
}

}  // namespace

const char* role_key(SpecialRole role) { return kRoleKeys[static_cast<std::size_t>(role)]; }

void TokenizerConfig::read_roles(const JsonField& document) {
  for (std::size_t role = 0; role < kSpecialRoles; ++role) {
    const auto given = document.find(kRoleKeys[role]);
    if (given && !roles[role]) roles[role] = token_content(*given);
    names_roles = names_roles || document.value().contains(kRoleKeys[role]);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    const auto list = document.find(key);
    if (!list || !additional_special_tokens.empty()) continue;
    if (list->value().is_object()) continue;  // named tokens: special through their own keys
    for (std::size_t i = 0; i < list->array_size(); ++i) {
      additional_special_tokens.push_back(token_content(list->at(i)));
    }
  }
}

TokenizerConfig TokenizerConfig::load(const ModelFiles& from) {
  TokenizerConfig config;
  constexpr const char *kOwn = "tokenizer_config.json", *kMap = "special_tokens_map.json";
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (from.has(kOwn)) json = read_json_object(from, kOwn);
  const JsonField document(json, from.where(kOwn));
  // special_tokens_map.json takes precedence, but is ignored if there is an added_tokens_decoder, as in
  // transformers.
  if (from.has(kMap) && !json.contains("added_tokens_decoder")) {
    const nlohmann::ordered_json map = read_json_object(from, kMap);
    config.read_roles(JsonField(map, from.where(kMap)));
  }
  config.read_roles(document);
  if (const auto added = document.find("added_tokens_decoder")) read_added_tokens(*added, config);
  config.add_bos = optional_flag(document, "add_bos_token");
  config.add_eos = optional_flag(document, "add_eos_token");
  config.clean_up_spaces = document.boolean("clean_up_tokenization_spaces", false);
  config.model_max_length = read_length(document);
  config.tokenizer_class = document.string("tokenizer_class", "");
  config.lower_case = document.boolean("do_lower_case", true);
  config.strip_accents = optional_flag(document, "strip_accents");
  config.chinese_characters = document.boolean("tokenize_chinese_chars", true);
  config.prefix_space = document.boolean("add_prefix_space", false);
  config.extra_ids = document.integer("extra_ids", 0, 100000, 100);
  if (const auto source = document.find("src_lang")) config.source_language = source->string();
  if (const auto target = document.find("tgt_lang")) config.target_language = target->string();
  config.legacy_behaviour = document.boolean("legacy_behaviour", false);
  config.where = from.where(kOwn);
  return config;
}

std::vector<std::string> TokenizerConfig::special_tokens() const {
  std::vector<std::string> tokens;
  for (const auto& role : roles) {
    if (role) tokens.push_back(*role);
  }
  tokens.insert(tokens.end(), additional_special_tokens.begin(), additional_special_tokens.end());
  return tokens;
}

bool TokenizerConfig::replaces_post_processor(bool has_one) const {
  if (!add_bos && !add_eos) return false;
  // Other classes add more around a text than these flags describe, and leave that to tokenizer.json.
  constexpr std::array<const char*, 8> kFollowing = {
      "LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast",
      "GemmaTokenizer", "GemmaTokenizerFast", "CohereTokenizer",    "CohereTokenizerFast"};
  return !has_one || std::find(kFollowing.begin(), kFollowing.end(), tokenizer_class) != kFollowing.end();
}

const std::string& TokenizerFiles::read(const ModelFiles& from, const char* name) {
  contents.emplace_back(name, from.text(name, file_limits::kTokenizer));
  return contents.back().second;
}

const std::string* TokenizerFiles::read_config(const ModelFiles& from, const char* name) {
  if (!from.has(name)) return nullptr;
  contents.emplace_back(name, from.text(name, file_limits::kTokenizerConfig));
  return &contents.back().second;
}

void TokenizerFiles::read_chat_templates(const ModelFiles& from) {
  for (const std::string& file : chat_template_files(from)) read_config(from, file.c_str());
}

void TokenizerFiles::save(const std::filesystem::path& directory) const {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(fmt::format("{}: cannot be created: {}", directory.string(), error.message()));
  }
  for (const auto& [name, bytes] : contents) {
    std::filesystem::create_directories((directory / name).parent_path(), error);
    write_file(directory / name, bytes);
  }
}

Json read_json_object(const ModelFiles& from, std::string_view name) {
  const std::string where = from.where(name);
  Json json = parse_json(from.text(name, file_limits::kTokenizerConfig), where, kTokenizerJson);
  if (!json.is_object()) JsonField(json, where).fail("an object");
  return json;
}

OptionalFile::OptionalFile(TokenizerFiles& files, const ModelFiles& from, const char* name)
    : where_(from.where(name)) {
  if (const std::string* text = files.read_config(from, name))
    json_ = parse_json(*text, where_, kTokenizerJson);
}

}  // namespace heed
