// tokenizer_config.json of Marian tokenizers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "files/input_file.h"
#include "heed/error.h"
#include "text/files.h"
#include "text/marian_tokenizer.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& where, std::string_view key, std::string_view expected,
                         const Json& got) {
  throw Error(fmt::format("{}: {}: expected {}, got {}", where, key, expected, got.dump()));
}

/// Reads a special token, given as a string or as an object with its `content`.
bool read_token(const Json& json, const char* key, const std::string& where, std::string& token) {
  const auto place = json.find(key);
  if (place == json.end() || place->is_null()) return false;
  const Json& value = place->is_object() && place->contains("content") ? (*place)["content"] : *place;
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    refuse(where, key, "a token", *place);
  token = value.get<std::string>();
  return true;
}

bool read_flag(const Json& json, const char* key, const std::string& where) {
  const auto place = json.find(key);
  if (place == json.end() || place->is_null()) return false;
  if (!place->is_boolean()) refuse(where, key, "true or false", *place);
  return place->get<bool>();
}

MarianTokenizerConfig::AddedToken read_added(const std::string& key, const Json& value,
                                             const std::string& where) {
  const std::string name = "added_tokens_decoder." + key;
  MarianTokenizerConfig::AddedToken token{};
  const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token.id);
  if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token.id < 0) {
    refuse(where, name, "an id as its name", key);
  }
  if (!value.is_object() || !read_token(value, "content", where, token.content)) {
    refuse(where, name, "an object with the token's content", value);
  }
  for (const char* option : {"lstrip", "rstrip", "single_word"}) {
    if (read_flag(value, option, where)) refuse(where, name, fmt::format("{} to be false", option), value);
  }
  token.special = read_flag(value, "special", where);
  return token;
}

}  // namespace

MarianTokenizerConfig MarianTokenizerConfig::load(const std::filesystem::path& directory) {
  MarianTokenizerConfig config;
  const auto config_path = directory / "tokenizer_config.json",
             map_path = directory / "special_tokens_map.json";
  Json map = Json::object();
  if (has_entry(config_path)) config.json = read_json_object(config_path);
  if (has_entry(map_path)) map = read_json_object(map_path);

  const std::string where = config_path.string();
  const auto token = [&](const char* key, std::string& value) {
    if (!read_token(config.json, key, where, value)) read_token(map, key, map_path.string(), value);
  };
  token("eos_token", config.eos);
  token("unk_token", config.unk);
  token("pad_token", config.pad);
  config.separate_vocabs = read_flag(config.json, "separate_vocabs", where);
  config.clean_up_spaces = read_flag(config.json, "clean_up_tokenization_spaces", where);
  if (const auto length = config.json.find("model_max_length"); length != config.json.end()) {
    // Some files have 1e30 here, which means no limit.
    if (!length->is_number()) refuse(where, "model_max_length", "a number", *length);
    if (length->is_number_unsigned() && length->get<std::uint64_t>() < (1u << 31)) {
      config.model_max_length = length->get<std::int64_t>();
    }
  }
  if (const auto added = config.json.find("added_tokens_decoder"); added != config.json.end()) {
    if (!added->is_object()) refuse(where, "added_tokens_decoder", "an object", *added);
    for (const auto& item : added->items())
      config.added.push_back(read_added(item.key(), item.value(), where));
  }
  std::sort(config.added.begin(), config.added.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return config;
}

Vocabulary MarianTokenizerConfig::extend(Vocabulary vocabulary, const std::string& where) const {
  std::vector<std::string> tail;
  for (const AddedToken& token : added) {
    const std::int64_t end = vocabulary.size() + static_cast<std::int64_t>(tail.size());
    if (token.id < vocabulary.size()
            ? vocabulary.tokens()[static_cast<std::size_t>(token.id)] != token.content
            : token.id != end) {
      throw Error(
          fmt::format("{}: added_tokens_decoder.{}: expected a token of vocab.json, or the id {} that comes "
                      "next, got {}",
                      where, token.id, end, Json(token.content).dump()));
    }
    if (token.id == end) tail.push_back(token.content);
  }
  if (tail.empty()) return vocabulary;
  std::vector<std::string> tokens = vocabulary.tokens();
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  return Vocabulary(std::move(tokens), where);
}

}  // namespace heed
