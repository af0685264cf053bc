// JsonField: a value in a JSON file together with its path, so that errors name file and field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "heed/threads.h"

namespace heed {

class JsonField {
 public:
  /// `value` must outlive this. `where` begins messages; it names the file.
  JsonField(const Json& value, std::string where, std::string path = {})
      : value_(&value), where_(std::move(where)), path_(std::move(path)) {}

  const Json& value() const { return *value_; }
  /// The file that contains this value.
  const std::string& where() const { return where_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }
  /// Returns a member of this object, or an element of this array by its index; null if there is none.
  const Json* member(std::string_view key) const;
  /// Returns the path of a member or element.
  std::string path_of(std::string_view key) const;
  /// Returns a member of this object, or nullopt if it is absent or null. Throws Error if this is not an
  /// object.
  std::optional<JsonField> find(std::string_view key) const;
  JsonField at(std::string_view key) const;
  /// Returns an element of this array.
  JsonField at(std::size_t index) const;
  /// Visits the members of this object in order. Throws Error if this is not an object.
  void each_member(FunctionRef<void(const std::string& key, const JsonField& member)> visit) const;
  /// Returns the number of elements. Throws Error if this is not an array.
  std::size_t array_size() const;

  const std::string& string() const;
  bool boolean() const;
  double number() const;
  std::int64_t integer() const;
  std::int64_t integer(std::int64_t least, std::int64_t most) const;
  /// Returns the character of a string of exactly one character.
  char32_t character() const;

  bool boolean(std::string_view key, bool default_value) const;
  std::string string(std::string_view key, std::string_view default_value) const;
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most,
                       std::int64_t default_value) const;

  /// Throws `FILE: PATH: expected EXPECTED, got VALUE`.
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  const Json* value_;
  std::string where_;
  std::string path_;
};

}  // namespace heed
