// Reads vocabularies; hash tables with open addressing map tokens and pairs to numbers.
#include "text/algorithms/token_table.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

#include "core/json_field.h"
#include "heed/error.h"
#include "text/loading/tokenizer_config.h"

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

void PairMap::resize(std::size_t expected) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(std::bit_ceil(expected * 2 + 8), {kFree, kNone});
  mask_ = slots_.size() - 1;
  size_ = 0;
  for (const Slot& entry : old) {
    if (entry.key != kFree) set(entry.key, entry.value);
  }
}

void PairMap::set(std::uint64_t key, std::uint32_t value) {
  if (size_ * 2 >= slots_.size()) resize(size_ * 2);
  for (std::size_t at = slot(key);; at = (at + 1) & mask_) {
    if (slots_[at].key == kFree) ++size_;
    if (slots_[at].key == kFree || slots_[at].key == key) {
      slots_[at] = {key, value};
      return;
    }
  }
}

void Trie::insert(std::string_view key, std::uint32_t value) {
  std::uint32_t node = 0;
  for (const char byte : key) {
    std::uint32_t following = next(node, byte);
    if (following == kNone) {
      following = static_cast<std::uint32_t>(values_.size());
      values_.push_back(kNone);
      const auto c = static_cast<unsigned char>(byte);
      if (node == 0) {
        roots_[c] = following;
      } else {
        edges_.set(std::uint64_t{node} << 8 | c, following);
      }
    }
    node = following;
  }
  values_[node] = value;
}

std::uint64_t TokenTable::hash(std::string_view token) {
  std::uint64_t h = 0x9E3779B97F4A7C15ull ^ token.size();
  const auto mix = [&h](std::uint64_t word) {
    h = (h ^ word) * 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
  };
  const char* at = token.data();
  std::size_t left = token.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    mix(word);
  }
  std::uint64_t word = 0;
  if (left > 0) std::memcpy(&word, at, left);
  mix(word);
  return h;
}

void TokenTable::grow() {
  slots_.assign(std::max<std::size_t>(16, slots_.size() * 2), {0, -1});
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t id = 0; id < places_.size(); ++id) {
    if (!places_[id].used) continue;
    const std::uint64_t h = hash(token(static_cast<std::int32_t>(id)));
    std::size_t at = h & mask;
    while (slots_[at].second >= 0) at = (at + 1) & mask;
    slots_[at] = {static_cast<std::uint32_t>(h >> 32), static_cast<std::int32_t>(id)};
  }
}

void TokenTable::reserve(std::size_t tokens, std::size_t bytes) {
  bytes_.reserve(bytes);
  places_.reserve(tokens);
  slots_.assign(std::bit_ceil(tokens * 2 + 16) / 2, {0, -1});
  grow();
}

bool TokenTable::insert(std::string_view token, std::int32_t id) {
  if (has(id)) return false;
  if (static_cast<std::size_t>(count_) * 2 >= slots_.size()) grow();
  if (static_cast<std::size_t>(id) >= places_.size()) places_.resize(static_cast<std::size_t>(id) + 1);
  if (const std::int32_t before = find(token); before >= 0) {
    // The token gets the new id; its former id no longer has a token.
    std::size_t at = hash(token) & (slots_.size() - 1);
    while (slots_[at].second != before) at = (at + 1) & (slots_.size() - 1);
    slots_[at].second = id;
    std::swap(places_[static_cast<std::size_t>(id)], places_[static_cast<std::size_t>(before)]);
    return true;
  }
  const auto begin = static_cast<std::uint32_t>(bytes_.size());
  bytes_ += token;
  places_[static_cast<std::size_t>(id)] = {begin, static_cast<std::uint32_t>(bytes_.size()), true};
  ++count_;
  const std::uint64_t h = hash(token);
  std::size_t at = h & (slots_.size() - 1);
  while (slots_[at].second >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<std::uint32_t>(h >> 32), id};
  return true;
}

std::int32_t TokenTable::find(std::string_view token) const {
  if (slots_.empty()) return -1;
  const std::uint64_t h = hash(token);
  const auto tag = static_cast<std::uint32_t>(h >> 32);
  for (std::size_t at = h & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    const auto& entry = slots_[at];
    if (entry.second < 0) return -1;
    if (entry.first == tag && this->token(entry.second) == token) return entry.second;
  }
}

bool TokenTable::has(std::int64_t id) const {
  return id >= 0 && id < end_id() && places_[static_cast<std::size_t>(id)].used;
}

std::string_view TokenTable::token(std::int32_t id) const {
  const Place& place = places_[static_cast<std::size_t>(id)];
  return std::string_view(bytes_).substr(place.begin, place.end - place.begin);
}

TokenTable parse_vocabulary(const JsonField& field) {
  const nlohmann::ordered_json& entries = field.value();
  if (!entries.is_object()) field.fail("an object of tokens and ids");
  // Limits memory: an id far beyond the number of entries would need more than the file's size justifies.
  const auto most = static_cast<std::int64_t>(entries.size()) * 4 + 100000;
  TokenTable table;
  table.reserve(entries.size(), entries.size() * 8);
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    const nlohmann::ordered_json& value = entry.value();
    const bool huge =
        value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
    const std::int64_t id = value.is_number_integer() && !huge ? value.get<std::int64_t>() : -1;
    if (id < 0 || id > most)
      field.find(entry.key()).value_or(field).fail(fmt::format("an id from 0 to {}", most));
    if (!table.insert(entry.key(), static_cast<std::int32_t>(id))) {
      field.at(entry.key())
          .fail(fmt::format("an id other than that of {}",
                            json_quoted(table.token(static_cast<std::int32_t>(id)))));
    }
  }
  return table;
}

TokenTable read_vocabulary(const std::string& text, const std::string& where) {
  const std::vector<Entry> entries = read_entries(text, where);
  if (entries.empty()) throw Error(where + ": expected an object of tokens and ids, got an empty one");
  std::vector<const Entry*> by_id(entries.size(), nullptr);
  for (const Entry& entry : entries) {
    const auto id = static_cast<std::size_t>(entry.second);
    const auto complain = [&](const std::string& expected) {
      throw Error(fmt::format("{}: token {}: expected {}, got {}", where, nlohmann::json(entry.first).dump(),
                              expected, id));
    };
    if (id >= by_id.size()) {
      complain(
          fmt::format("an id from 0 to {} ({} tokens, ids without gaps)", by_id.size() - 1, by_id.size()));
    }
    if (by_id[id] != nullptr)
      complain(fmt::format("an id other than that of {}", nlohmann::json(by_id[id]->first).dump()));
    by_id[id] = &entry;
  }
  TokenTable table;
  table.reserve(entries.size(), text.size());
  for (const Entry* entry : by_id) append_token(table, entry->first, where);
  return table;
}

void append_token(TokenTable& table, std::string_view token, const std::string& where) {
  const std::int64_t id = table.end_id();
  if (const std::int32_t before = table.find(token); before >= 0) {
    throw Error(fmt::format("{}: token {}: expected one id, got {} and {}", where,
                            nlohmann::json(std::string(token)).dump(), before, id));
  }
  table.insert(token, static_cast<std::int32_t>(id));
}

}  // namespace heed
