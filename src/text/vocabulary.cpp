#include "text/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/input_file.h"
#include "heed/error.h"
#include "text/files.h"

namespace heed {
namespace {

using Entry = std::pair<std::string, std::int64_t>;

/// Collects the entries while parsing: a document tree would hide repeated keys and use more memory.
class EntryReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit EntryReader(std::string where) : where_(std::move(where)) {}
  std::vector<Entry> take() { return std::move(entries_); }

  bool start_object(std::size_t) override {
    if (inside_) refuse("an object");
    inside_ = true;
    return true;
  }
  bool end_object() override { return true; }
  bool key(std::string& token) override {
    entries_.emplace_back(std::move(token), 0);
    return true;
  }
  bool number_integer(std::int64_t value) override {
    if (value < 0) refuse(std::to_string(value));
    return number_unsigned(static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!inside_ || value > static_cast<std::uint64_t>(INT64_MAX)) refuse(std::to_string(value));
    entries_.back().second = static_cast<std::int64_t>(value);
    return true;
  }
  bool number_float(double, const std::string& text) override { return refuse(text); }
  bool null() override { return refuse("null"); }
  bool boolean(bool value) override { return refuse(value ? "true" : "false"); }
  bool string(std::string& value) override { return refuse('"' + value + '"'); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("bytes"); }
  bool start_array(std::size_t) override { return refuse("an array"); }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    throw Error(fmt::format("{}: expected JSON, got: {}", where_, e.what()));
  }

 private:
  bool refuse(const std::string& got) const {
    if (!inside_) throw Error(fmt::format("{}: expected an object of tokens and ids, got {}", where_, got));
    throw Error(fmt::format("{}: token {}: expected an id (an integer from 0), got {}", where_,
                            nlohmann::json(entries_.back().first).dump(), got));
  }

  std::string where_;
  std::vector<Entry> entries_;
  bool inside_ = false;
};

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
  EntryReader reader(where);
  nlohmann::json::sax_parse(read_regular_file(path, file_limits::kTokenizer), &reader);
  std::vector<Entry> entries = reader.take();
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
  write_text_file(path, json + "}\n");
}

}  // namespace heed
