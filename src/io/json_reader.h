// JsonReader: reads JSON (RFC 8259) value by value, in the order the caller expects, without building a tree.
// So a file can be checked while it is read, memory stays small whatever the file claims, and every error can
// say where it is. Strict: UTF-8 only, no comments, no trailing commas, no NaN, nesting of at most 64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heed::io {

class JsonReader {
 public:
  enum class Kind { null, boolean, number, string, array, object };

  /// `text` must outlive the reader. Throws Error `where: expected ...` when it is not UTF-8; so do all
  /// functions below when the text is not JSON or not what they read.
  JsonReader(std::string where, std::string_view text);

  /// The kind of the value that comes next.
  Kind peek();

  void begin_object();
  /// Reads the next key of the object; false when the object ends. Repeated keys are the caller's to refuse.
  bool next_key(std::string& key);
  void begin_array();
  /// Goes to the next element of the array; false when the array ends.
  bool next_element();

  std::string string();
  /// The number as it is written, e.g. "-1.5e3".
  std::string_view number();
  bool boolean();
  void null();
  /// Reads over one value of any kind.
  void skip();
  /// Checks that nothing but white space is left.
  void finish();

  /// Throws `where: expected EXPECTED, got GOT (line L, column C)` for the place last read.
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
  bool first_ = false;  // nothing was read yet of the object or array entered last
};

/// The number, when it is written as an integer (no point, no exponent) that fits.
std::optional<std::int64_t> json_integer(std::string_view number);
std::optional<std::uint64_t> json_unsigned(std::string_view number);
/// The nearest double; none when it is too large, or not zero but too small, for one.
std::optional<double> json_double(std::string_view number);

/// Where the bytes stop being UTF-8 (no overlong forms, no surrogates); none when all of them are.
std::optional<std::size_t> invalid_utf8(std::string_view text);

}  // namespace heed::io
