// Vocabulary: tokens and their ids, which are 0, 1, 2 … without gaps, as in vocab.json of Hugging Face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heed {

class Vocabulary {
 public:
  /// The i-th token gets id i. Throws Error (starting with `where`) if a token occurs twice.
  Vocabulary(std::vector<std::string> tokens, std::string_view where);
  /// Reads `{"token": id, …}`, in any order. Throws Error if the JSON is malformed or repeats a key, or if
  /// ids are not integers, negative, used twice or leave gaps.
  static Vocabulary load(const std::filesystem::path& path);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::int64_t size() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::optional<std::int64_t> find(std::string_view token) const;
  /// Returns the token of an id. Throws Error (starting with `where`) if the id does not exist.
  const std::string& token(std::int64_t id, const char* where) const;
  const std::vector<std::string>& tokens() const { return tokens_; }
  void save(const std::filesystem::path& path) const;

 private:
  std::vector<std::string> tokens_;  // never grows: ids_ refers to these strings
  std::unordered_map<std::string_view, std::int64_t> ids_;
};

}  // namespace heed
