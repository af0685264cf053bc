// tokenizer_config.json of Marian tokenizers.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "text/files.h"
#include "text/marian_tokenizer.h"

namespace heed {
namespace {

/// Reads a special token, given as a string or as an object with its `content`. Returns false if there is
/// none.
bool read_token(const JsonField& document, const char* key, std::string& token) {
  const auto field = document.find(key);
  if (!field) return false;
  token = field->value().is_object() ? field->at("content").string() : field->string();
  if (token.empty()) field->fail("a token");
  return true;
}

MarianTokenizerConfig::AddedToken read_added(const std::string& key, const JsonField& field) {
  MarianTokenizerConfig::AddedToken token{};
  const auto parsed = std::from_chars(key.data(), key.data() + key.size(), token.id);
  if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || token.id < 0)
    field.fail("an id as its name");
  if (!read_token(field, "content", token.content)) field.fail("an object with the token's content");
  for (const char* option : {"lstrip", "rstrip", "single_word"}) {
    if (field.boolean(option, false)) field.at(option).fail("false");
  }
  token.special = field.boolean("special", false);
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

  const JsonField document(config.json, config_path.string()), tokens(map, map_path.string());
  const auto token = [&](const char* key, std::string& value) {
    if (!read_token(document, key, value)) read_token(tokens, key, value);
  };
  token("eos_token", config.eos);
  token("unk_token", config.unk);
  token("pad_token", config.pad);
  config.separate_vocabs = document.boolean("separate_vocabs", false);
  config.clean_up_spaces = document.boolean("clean_up_tokenization_spaces", false);
  if (const auto length = document.find("model_max_length")) {
    // Some files have 1e30 here, which means no limit.
    const double number = length->number();
    if (length->value().is_number_unsigned() && number < 0x1p31) config.model_max_length = length->integer();
  }
  if (const auto added = document.find("added_tokens_decoder")) {
    added->each_member([&](const std::string& key, const JsonField& field) {
      config.added.push_back(read_added(key, field));
    });
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
                      where, token.id, end, json_quoted(token.content)));
    }
    if (token.id == end) tail.push_back(token.content);
  }
  if (tail.empty()) return vocabulary;
  std::vector<std::string> tokens = vocabulary.tokens();
  tokens.insert(tokens.end(), tail.begin(), tail.end());
  return Vocabulary(std::move(tokens), where);
}

}  // namespace heed
