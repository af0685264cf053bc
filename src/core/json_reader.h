// JsonReader: reads JSON (RFC 8259) value by value, in the order that the caller expects, without building a
// tree. A file is checked while it is read, memory use does not depend on what the file claims, and every
// error has its position. Strict: UTF-8 only, no comments, no trailing commas, no NaN, nesting of at most 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heed {

class JsonReader {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  /// `text` must outlive the reader. Throws Error `where: expected ...` if it is not UTF-8. All functions
  /// below do so if the text is not JSON or not the expected value.
  JsonReader(std::string where, std::string_view text);

  /// Returns the kind of the next value.
  Kind peek();

  void begin_object();
  /// Reads the next key of the object, or returns false at its end. The caller must check for repeated keys.
  bool next_key(std::string& key);
  void begin_array();
  /// Advances to the next element of the array, or returns false at its end.
  bool next_element();

  std::string string();
  /// Returns the number as written, e.g. "-1.5e3".
  std::string_view number();
  bool boolean();
  void null();
  /// Skips one value of any kind.
  void skip();
  /// Checks that only white space is left.
  void finish();

  /// Throws `where: expected EXPECTED, got GOT (line L, column C)` for the position last read.
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const;
  const std::string& where() const { return where_; }

 private:
  void skip_space();
  [[noreturn]] void fail_here(std::string_view expected) const;
  void expect(char c, std::string_view expected);
  void literal(std::string_view word);
  void enter(char c, std::string_view expected);
  bool leave(char c, std::string_view expected);
  void escape(std::string& out);
  std::uint32_t hex4();

  std::string where_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool first_ = false;  // nothing of the innermost object or array has been read yet
};

/// Returns "an array", "a number", ... for messages.
std::string_view json_kind_name(JsonReader::Kind kind);

/// Returns the value of a number that is written as an integer (no point, no exponent) and fits.
std::optional<std::int64_t> json_integer(std::string_view number);
std::optional<std::uint64_t> json_unsigned(std::string_view number);
/// Returns the nearest double, or nullopt if the number overflows, or underflows to zero.
std::optional<double> json_double(std::string_view number);

/// Returns the index of the first byte that is not valid UTF-8 (overlong forms and surrogates are invalid),
/// or nullopt.
std::optional<std::size_t> invalid_utf8(std::string_view text);

}  // namespace heed
