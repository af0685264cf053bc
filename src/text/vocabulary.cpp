#include "text/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_reader.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "text/files.h"

namespace heed {
namespace {

using Entry = std::pair<std::string, std::int64_t>;

// Reads entry by entry: a document would cost more memory.
std::vector<Entry> read_entries(const std::string& text, const std::string& where) {
  JsonReader json(where, text);
  if (const auto kind = json.peek(); kind != JsonReader::Kind::object)
    json.fail("an object of tokens and ids", json_kind_name(kind));
  std::vector<Entry> entries;
  std::string token;
  for (json.begin_object(); json.next_key(token);) {
    const auto refuse = [&](std::string_view got) {
      throw Error(fmt::format("{}: token {}: expected an id (an integer from 0), got {}", where,
                              nlohmann::json(token).dump(), got));
    };
    if (const auto kind = json.peek(); kind != JsonReader::Kind::number) refuse(json_kind_name(kind));
    const std::string_view number = json.number();
    const std::optional<std::int64_t> id = json_integer(number);
    if (!id || *id < 0) refuse(number);
    entries.emplace_back(token, *id);
  }
  json.finish();
  return entries;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens, std::string_view where) : tokens_(std::move(tokens)) {
  ids_.reserve(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const auto place = ids_.emplace(tokens_[id], static_cast<std::int64_t>(id));
    if (!place.second) {
      throw Error(fmt::format("{}: token {}: expected one id, got {} and {}", where,
                              nlohmann::json(tokens_[id]).dump(), place.first->second, id));
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
      throw Error(fmt::format("{}: token {}: expected {}, got {}", where, nlohmann::json(entry.first).dump(),
                              expected, id));
    };
    if (id >= tokens.size()) {
      complain(
          fmt::format("an id from 0 to {} ({} tokens, ids without gaps)", tokens.size() - 1, tokens.size()));
    }
    if (taken[id]) complain(fmt::format("an id other than that of {}", nlohmann::json(tokens[id]).dump()));
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
    json += fmt::format("  {}: {}{}\n", nlohmann::json(tokens_[id]).dump(), id,
                        id + 1 < tokens_.size() ? "," : "");
  }
  write_file(path, json + "}\n");
}

}  // namespace heed
