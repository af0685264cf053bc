// TokenTable: the vocabulary of a tokenizer file, which maps tokens to ids and back; and PairMap, the hash
// map with 64-bit keys that merges and tries use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_field.h"

namespace heed {

/// A hash map with linear probing. The key ~0 is reserved.
class PairMap {
 public:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  explicit PairMap(std::size_t expected = 0) { resize(expected); }

  std::uint32_t find(std::uint64_t key) const {
    for (std::size_t at = slot(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].value;
      if (slots_[at].key == kFree) return kNone;
    }
  }
  /// Inserts a key or replaces its value.
  void set(std::uint64_t key, std::uint32_t value);
  std::size_t size() const { return size_; }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key;
    std::uint32_t value;
  };
  std::size_t slot(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15ull;
    return (key ^ key >> 32) & mask_;
  }
  void resize(std::size_t expected);

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  std::size_t size_ = 0;
};

/// A prefix tree over bytes.
class Trie {
 public:
  static constexpr std::uint32_t kNone = PairMap::kNone;
  /// A later value of the same key replaces the earlier one.
  void insert(std::string_view key, std::uint32_t value);
  bool empty() const { return values_.size() == 1; }
  /// The number of nodes, which are numbered from 0.
  std::size_t size() const { return values_.size(); }

  std::uint32_t root() const { return 0; }
  /// Returns the child of a node by `byte`, or kNone if no key continues this way.
  std::uint32_t next(std::uint32_t node, char byte) const {
    const auto c = static_cast<unsigned char>(byte);
    return node == 0 ? roots_[c] : edges_.find(std::uint64_t{node} << 8 | c);
  }
  /// Returns the value of the key that ends at a node, or kNone if none does.
  std::uint32_t value(std::uint32_t node) const { return values_[node]; }

 private:
  PairMap edges_;
  std::vector<std::uint32_t> values_ = {kNone};
  std::vector<std::uint32_t> roots_ = std::vector<std::uint32_t>(256, kNone);
};

class TokenTable {
 public:
  /// Ids must be below 2^31. A repeated token gets the later id. Returns false if the id is already in use.
  bool insert(std::string_view token, std::int32_t id);
  /// Returns the id of a token, or -1 if the token is not in the vocabulary.
  std::int32_t find(std::string_view token) const;
  /// Returns true if an id has a token.
  bool has(std::int64_t id) const;
  /// Returns the token of an id, which must have one.
  std::string_view token(std::int32_t id) const;
  /// The number of tokens, and one past the highest id.
  std::int64_t count() const { return count_; }
  std::int64_t end_id() const { return static_cast<std::int64_t>(places_.size()); }
  void reserve(std::size_t tokens, std::size_t bytes);

 private:
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool used = false;
  };
  static std::uint64_t hash(std::string_view token);
  void grow();

  std::string bytes_;                                          // all tokens, concatenated
  std::vector<Place> places_;                                  // per id
  std::vector<std::pair<std::uint32_t, std::int32_t>> slots_;  // part of the hash, and the id; -1 if free
  std::int64_t count_ = 0;
};

/// Parses `{"token": id, …}`. Throws Error naming the token if an id is not a number, is used twice, or is
/// far beyond the number of tokens.
TokenTable parse_vocabulary(const JsonField& field);

/// Reads vocab.json: `{"token": id, …}` in any order. Throws Error naming file and token if the JSON is
/// malformed or repeats a key, or if ids are not integers, negative, used twice or leave gaps.
TokenTable read_vocabulary(const std::string& text, const std::string& where);
/// Gives a token the next id. Throws Error, starting with `where`, if it has one.
void append_token(TokenTable& table, std::string_view token, const std::string& where);

}  // namespace heed
