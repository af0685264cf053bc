// JSON: Config reads a configuration and records which keys are used, so that unknown settings are reported
// instead of ignored. JsonWriter writes configurations, logs and `--json` output.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/export.h"

namespace HEED_API heed {

class ModelFiles;
namespace io {
struct ConfigNode;
}

/// A JSON object of a configuration, or an array, whose keys are "0", "1", ... Copies share the record of
/// used keys. A key whose value is null counts as absent. Getters mark their key as used. They throw Error if
/// a value has the wrong type: `config.json: rope_scaling.factor: expected a number, got "abc"`.
/// Threads: one at a time, copies included.
class Config {
 public:
  /// Throws Error if the file cannot be read, is longer than 8 MiB, or is not one JSON object: strict JSON in
  /// UTF-8, without comments or repeated keys, nested at most 64 deep.
  static Config load(const std::filesystem::path& file);
  /// The same of a file of a model.
  static Config load(const ModelFiles& model, std::string_view name);
  /// The same from text. Messages name `where` instead of the file.
  static Config parse(std::string_view text, std::string where);

  /// Returns true if the key exists and is not null. Does not mark the key as used.
  bool has(std::string_view name) const;
  /// Returns true if the value is a string. Does not mark the key as used.
  bool is_string(std::string_view name) const;
  /// Returns true if the value is a number. Does not mark the key as used.
  bool is_number(std::string_view name) const;
  /// Returns true if the value is absent, null, false, or an empty object or array. Does not mark the key.
  bool is_off(std::string_view name) const;
  /// Returns all keys in the file's order, including null ones. Does not mark any key.
  std::vector<std::string> names() const;

  std::int64_t integer(std::string_view name, std::int64_t default_value) const;
  std::int64_t required_integer(std::string_view name) const;
  std::optional<std::int64_t> optional_integer(std::string_view name) const;
  /// For sizes: integers from 1 to 2^30, so that the product of two of them never overflows.
  std::int64_t positive_integer(std::string_view name, std::int64_t default_value) const;
  std::int64_t required_positive_integer(std::string_view name) const;

  double number(std::string_view name, double default_value) const;
  double required_number(std::string_view name) const;
  std::optional<double> optional_number(std::string_view name) const;

  bool boolean(std::string_view name, bool default_value) const;
  std::optional<bool> optional_boolean(std::string_view name) const;

  std::string string(std::string_view name, std::string_view default_value) const;
  std::string required_string(std::string_view name) const;
  std::optional<std::string> optional_string(std::string_view name) const;

  /// Returns an array of integers. A single integer counts as an array of one (`"eos_token_id": 2`). Empty if
  /// absent.
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  /// Returns an array of strings. A single string counts as an array of one.
  std::vector<std::string> strings(std::string_view name) const;

  /// Returns the object or array of that name. Throws Error if it is absent.
  Config sub(std::string_view name) const;
  std::optional<Config> optional_sub(std::string_view name) const;

  /// Marks keys that are known to be irrelevant, with any value, as used. The keys may be absent.
  void ignore(std::initializer_list<std::string_view> names) const;
  /// Returns the unused keys in the file's order, without null ones. Keys of objects read through sub()
  /// appear as "outer.inner".
  std::vector<std::string> unused() const;
  /// Returns the keys that getters were called with, including absent ones, in alphabetical order, in the
  /// form of unused().
  std::vector<std::string> asked() const;

  /// For checks by the caller: throws Error `FILE: NAME: expected EXPECTED, got VALUE`, with the key's value
  /// as written in the file.
  [[noreturn]] void fail(std::string_view name, std::string_view expected) const;
  /// Returns a copy with the members of the JSON object `members` added at the end or instead of those
  /// of the same name; a member null removes it. No key of the copy is used yet.
  Config with(std::string_view members) const;
  /// This object as JSON text, in the order of its keys.
  std::string text() const;
  /// The file (or `where`) that this was read from.
  const std::string& where() const;

 private:
  struct Document;
  Config(std::shared_ptr<const Document> document, io::ConfigNode* node);

  std::shared_ptr<const Document> document_;
  io::ConfigNode* node_;  // of the document
};

/// Builds JSON text in the order of the calls. Numbers have the fewest digits that read back as the same
/// value (a whole floating-point number keeps its ".0"). NaN and infinities, which JSON lacks, become null;
/// bytes that are not UTF-8 become U+FFFD. Repeated keys are not detected.
/// Threads: one at a time.
class JsonWriter {
 public:
  /// With `indent` 0 the text is one line, otherwise one line per member.
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(std::nullptr_t) { return raw("null"); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  template <std::integral T>
  JsonWriter& value(T number) {
    char digits[24];
    return raw({digits, std::to_chars(digits, digits + sizeof digits, number).ptr});
  }
  template <class T>
  JsonWriter& value(const std::vector<T>& elements) {
    begin_array();
    for (const T& element : elements) value(element);
    return end_array();
  }
  template <class T>
  JsonWriter& value(const std::map<std::string, T>& members) {
    begin_object();
    for (const auto& member : members) field(member.first, member.second);
    return end_object();
  }
  template <class T>
  JsonWriter& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : value(nullptr);
  }
  /// Writes a key and its value.
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  /// Returns the text written so far. Every object and array must have been closed.
  const std::string& text() const;

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view token);
  void separate();
  void new_line();
  void quote(std::string_view text);

  std::string text_;
  int indent_;
  std::vector<bool> empty_;  // per open bracket: no content yet
  bool after_key_ = false;
};

}  // namespace heed
