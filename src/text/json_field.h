// JsonField: a value in a JSON file with the way to it, so that a complaint names file and field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "heed/threads.h"

namespace heed {

class JsonField {
 public:
  /// `value` must outlive this. `where` begins messages: the file.
  JsonField(const nlohmann::ordered_json& value, std::string where, std::string path = {})
      : value_(&value), where_(std::move(where)), path_(std::move(path)) {}

  const nlohmann::ordered_json& value() const { return *value_; }
  /// The file this is from.
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }
  /// A member of this object; absent and null are the same. Throws Error when this is no object.
  std::optional<JsonField> find(std::string_view key) const;
  JsonField at(std::string_view key) const;
  /// An element of this array.
  JsonField at(std::size_t index) const;
  /// Visits the members of this object in order. Throws Error when this is no object.
  void each_member(FunctionRef<void(const std::string& key, const JsonField& member)> visit) const;
  /// Number of elements. Throws Error when this is no array.
  std::size_t array_size() const;

  const std::string& string() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  /// A string of exactly one character.
  char32_t character() const;

  bool boolean(std::string_view key, bool otherwise) const;
  std::string string(std::string_view key, std::string_view otherwise) const;
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) const;

  /// Throws `FILE: PATH: expected EXPECTED, got VALUE`.
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  const nlohmann::ordered_json* value_;
  std::string where_;
  std::string path_;
};

}  // namespace heed
