// The parser, character by character with the line and column of its errors, and trees as text.
#include "core/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>

#include "core/pause_point.h"
#include "core/text_lines.h"
#include "core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <class T>
std::optional<T> whole(std::string_view number) {
  T value{};
  const char* end = number.data() + number.size();
  const std::from_chars_result result = std::from_chars(number.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

/// The double nearest to a power of ten.
double power_of_ten(int exponent) {
  static const auto kPowers = [] {
    std::array<double, 309> powers{};
    for (int i = 0; i < 309; ++i) powers[static_cast<std::size_t>(i)] = std::stod("1e" + std::to_string(i));
    return powers;
  }();
  return kPowers[static_cast<std::size_t>(exponent)];
}

/// The digits as an integer, as far as it fits 64 bits, times or by a power of ten: two roundings.
double read_number(std::string_view text) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  const bool negative = text[0] == '-';
  std::uint64_t digits = 0;
  int exponent = 0;
  bool fraction = false, full = false;
  std::size_t at = negative ? 1 : 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(text[at] - '0');
    full = full || digits > kMost / 10 || (digits == kMost / 10 && digit > kMost % 10);
    if (!full) digits = digits * 10 + digit;
    exponent += full ? (fraction ? 0 : 1) : (fraction ? -1 : 0);
  }
  if (at < text.size()) {
    const bool minus = text[at + 1] == '-';
    int given = 0;
    for (const char c : text.substr(at + 1))
      given = c < '0' || c > '9' ? given : std::min(given * 10 + (c - '0'), 100000);
    exponent += minus ? -given : given;
  }
  auto value = static_cast<double>(digits);
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  const double power = power_of_ten(std::min(std::abs(exponent), 308));
  if (value != 0) value = exponent < 0 ? value / power : exponent > 308 ? HUGE_VAL : value * power;
  return negative ? -value : value;
}

template <class Tree>
std::string dump(const Tree& tree, int indent) {
  return tree.dump(indent, ' ', false, Tree::error_handler_t::replace);
}

// Between two pauses: bytes of a string, and elements of an array.
constexpr std::size_t kPiece = std::size_t{1} << 18, kElements = 1024;

}  // namespace

JsonReader::JsonReader(std::string where, std::string_view text, const JsonRules& rules)
    : where_(std::move(where)), text_(text), rules_(rules) {
  if (const std::optional<std::size_t> bad = first_invalid_utf8(text)) {
    throw Error(where_ + ": expected UTF-8, got bytes that are not, from byte " + std::to_string(*bad));
  }
  if (text.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

void JsonReader::fail(std::string_view expected, std::string_view got) const {
  const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  throw Error(where_ + ": expected " + std::string(expected) + ", got " + std::string(got) + " (line " +
              std::to_string(line) + ", column " + std::to_string(before.size() - line_start + 1) + ")");
}

void JsonReader::fail_here(std::string_view expected) const {
  if (at_ >= text_.size()) fail(expected, "the end of the text");
  const char c = text_[at_];
  if (c > ' ' && c < 0x7f) fail(expected, "\"" + std::string(1, c) + "\"");
  fail(expected, "byte " + std::to_string(static_cast<unsigned char>(c)));
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

void JsonReader::expect(char c, std::string_view expected) {
  if (at_ >= text_.size() || text_[at_] != c) fail_here(expected);
  ++at_;
}

void JsonReader::literal(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) fail_here(word);
  at_ += word.size();
}

JsonReader::Kind JsonReader::peek() {
  skip_space();
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (c == '{') return Kind::object;
  if (c == '[') return Kind::array;
  if (c == '"') return Kind::string;
  if (c == 't' || c == 'f') return Kind::boolean;
  if (c == 'n') return Kind::null;
  if (c == '-' || is_digit(c)) return Kind::number;
  fail_here("a value");
}

void JsonReader::enter(char c, std::string_view expected) {
  skip_space();
  expect(c, expected);
  if (++depth_ > kMaxDepth) fail("nesting of at most " + std::to_string(kMaxDepth), "deeper nesting");
  first_ = true;
}

// After an element: reads the comma, or reads the closing bracket and returns true.
bool JsonReader::leave(char c, std::string_view expected) {
  skip_space();
  const bool ends = at_ < text_.size() && text_[at_] == c;
  if (ends) {
    ++at_;
    --depth_;
  } else if (!first_) {
    expect(',', expected);
    skip_space();
  }
  first_ = false;
  return ends;
}

void JsonReader::begin_object() { enter('{', "an object"); }
void JsonReader::begin_array() { enter('[', "an array"); }
bool JsonReader::next_element() { return !leave(']', "\",\" or \"]\""); }

bool JsonReader::next_key(std::string& key) {
  if (leave('}', "\",\" or \"}\"")) return false;
  if (at_ >= text_.size() || text_[at_] != '"') fail_here("a key in quotes");
  key = string();
  skip_space();
  expect(':', "\":\"");
  return true;
}

char32_t JsonReader::hex4() {
  char32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    char32_t digit;
    if (is_digit(c)) {
      digit = static_cast<char32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<char32_t>((c | 0x20) - 'a' + 10);
    } else {
      fail_here("four hexadecimal digits after \\u");
    }
    code = code * 16 + digit;
  }
  return code;
}

void JsonReader::escape(std::string& out) {
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const std::size_t plain = c == '\0' ? std::string_view::npos : kLetters.find(c);
  if (plain != std::string_view::npos) {
    ++at_;
    out.push_back(kMeanings[plain]);
    return;
  }
  expect('u', "an escape (one of \"\\/bfnrtu)");
  char32_t code = hex4();
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const char32_t low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("the second half of a surrogate pair", "something else");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xD800 && code <= 0xDFFF) {
    fail("a character", "half of a surrogate pair");
  }
  append_utf8(out, code);
}

std::string JsonReader::string() {
  skip_space();
  expect('"', "a string");
  std::string out;
  for (;;) {
    const std::size_t start = at_, end = std::min(text_.size(), start + kPiece);
    while (at_ < end && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    out.append(text_.substr(start, at_ - start));
    if (at_ == start + kPiece) {
      pause_point();
      continue;
    }
    if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\\')) fail_here("the closing quote");
    if (text_[at_++] == '"') return out;
    escape(out);
  }
}

std::string_view JsonReader::number_text() {
  skip_space();
  const std::size_t start = at_;
  const auto digits = [&] {
    if (at_ >= text_.size() || !is_digit(text_[at_])) fail_here("a digit");
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  const auto at_one_of = [&](std::string_view set) {
    return at_ < text_.size() && set.find(text_[at_]) != std::string_view::npos;
  };
  if (at_one_of("-")) ++at_;
  if (at_one_of("0")) {
    ++at_;
  } else {
    digits();
  }
  if (at_one_of(".")) {
    ++at_;
    digits();
  }
  if (at_one_of("eE")) {
    ++at_;
    if (at_one_of("+-")) ++at_;
    digits();
  }
  return text_.substr(start, at_ - start);
}

bool JsonReader::boolean() {
  skip_space();
  const bool value = at_ < text_.size() && text_[at_] == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonReader::null() {
  skip_space();
  literal("null");
}

Json JsonReader::number() {
  const std::string_view text = number_text();
  if (text.find_first_of(".eE") == text.npos) {
    if (const auto integer = whole<std::int64_t>(text)) return *integer;
    if (const auto natural = whole<std::uint64_t>(text)) return *natural;
  }
  if (rules_.numbers == JsonNumbers::two_roundings) return read_number(text);
  const auto nearest = whole<double>(text);
  if (!nearest) fail("a number that fits a double", text.substr(0, 40));
  return *nearest;
}

Json JsonReader::object() {
  Json result = Json::object();
  auto& members = result.get_ref<Json::object_t&>();
  std::set<std::string> seen;
  std::string key;
  for (begin_object(); next_key(key);) {
    if (!rules_.repeated_keys && !seen.insert(key).second) fail("every key once", json_shown(key) + " twice");
    // Not through the object's own functions, which would compare the key with all others each time.
    members.Container::emplace_back(key, value());
  }
  return result;
}

// Recursion is limited by the depth of nesting.
Json JsonReader::value() {
  Json result;
  switch (peek()) {
    case Kind::null: null(); break;
    case Kind::boolean: result = boolean(); break;
    case Kind::number: result = number(); break;
    case Kind::string: result = string(); break;
    case Kind::object: result = object(); break;
    case Kind::array:
      result = Json::array();
      for (begin_array(); next_element();) {
        if (result.size() % kElements == kElements - 1) pause_point();
        result.push_back(value());
      }
      break;
  }
  return result;
}

void JsonReader::skip() {
  std::string key;
  switch (peek()) {
    case Kind::null: return null();
    case Kind::boolean: boolean(); return;
    case Kind::number: number_text(); return;
    case Kind::string: string(); return;
    case Kind::array:
      for (begin_array(); next_element();) skip();
      return;
    case Kind::object:
      for (begin_object(); next_key(key);) skip();
      return;
  }
}

void JsonReader::finish() {
  skip_space();
  if (at_ < text_.size()) fail_here("the end of the text");
}

Json parse_json(std::string_view text, const std::string& where, const JsonRules& rules) {
  JsonReader reader(where, text, rules);
  Json document = reader.value();
  reader.finish();
  return document;
}

std::string json_text(const Json& value, int indent) { return dump(value, indent); }
std::string json_text(const nlohmann::json& value, int indent) { return dump(value, indent); }
std::string json_quoted(std::string_view text) { return dump(Json(text), -1); }

std::string json_shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (value.is_binary()) return std::to_string(value.get_binary().size()) + " bytes";
  if (!value.is_string() || value.get_ref<const std::string&>().size() <= kShown) return json_text(value);
  const std::string_view text = value.get_ref<const std::string&>();
  std::size_t end = kShown;
  while (end > 0 && !is_utf8_start(text[end])) --end;
  return json_quoted(text.substr(0, end)) + "...";
}

}  // namespace heed
