#include "text/vocabulary.h"

#include <fmt/format.h>

#include <utility>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "text/files.h"

namespace heed {
namespace {

using Entry = std::pair<std::string, std::int64_t>;

std::vector<Entry> read_entries(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where, kTokenizerJson);
  if (!json.is_object()) JsonField(json, where).fail("an object of tokens and ids");
  std::vector<Entry> entries;
  for (const auto& entry : json.items()) {
    const Json& id = entry.value();
    if (!id.is_number_integer() || id < 0 || id > INT64_MAX) {
      throw Error(fmt::format("{}: token {}: expected an id (an integer from 0), got {}", where,
                              json_quoted(entry.key()), json_shown(id)));
    }
    entries.emplace_back(entry.key(), id.get<std::int64_t>());
  }
  return entries;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string_view where) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const auto place = ids_.emplace(tokens_[id], static_cast<std::int64_t>(id));
    if (!place.second) {
      throw Error(fmt::format("{}: token {}: expected one id, got {} and {}", where, json_quoted(tokens_[id]),
                              place.first->second, id));
    }
  }
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const std::string where = path.string();
  std::vector<Entry> entries = read_entries(read_regular_file(path, file_limits::kTokenizer), where);
  if (entries.empty()) throw Error(where + ": expected an object of tokens and ids, got an empty one");

  std::vector<std::string> tokens(entries.size());
  std::vector<bool> taken(entries.size(), false);
  for (Entry& entry : entries) {
    const auto id = static_cast<std::size_t>(entry.second);
    const auto complain = [&](const std::string& expected) {
      throw Error(
          fmt::format("{}: token {}: expected {}, got {}", where, json_quoted(entry.first), expected, id));
    };
    if (id >= tokens.size()) {
      complain(
          fmt::format("an id from 0 to {} ({} tokens, ids without gaps)", tokens.size() - 1, tokens.size()));
    }
    if (taken[id]) complain(fmt::format("an id other than that of {}", json_quoted(tokens[id])));
    taken[id] = true;
    tokens[id] = std::move(entry.first);
  }
  return Vocabulary(std::move(tokens), where);
}

std::optional<std::int64_t> Vocabulary::find(std::string_view token) const {
  const auto place = ids_.find(token);
  if (place == ids_.end()) return std::nullopt;
  return place->second;
}

const std::string& Vocabulary::token(std::int64_t id, const char* where) const {
  if (id < 0 || id >= size()) {
    throw Error(fmt::format("{}: expected ids from 0 to {}, got {}", where, size() - 1, id));
  }
  return tokens_[static_cast<std::size_t>(id)];
}

void Vocabulary::save(const std::filesystem::path& path) const {
  std::string json = "{\n";
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    json += fmt::format("  {}: {}{}\n", json_quoted(tokens_[id]), id, id + 1 < tokens_.size() ? "," : "");
  }
  write_file(path, json + "}\n");
}

}  // namespace heed
