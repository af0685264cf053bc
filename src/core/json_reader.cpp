#include "core/json_reader.h"

#include <algorithm>
#include <charconv>

#include "heed/error.h"

namespace heed {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

template <class T>
std::optional<T> whole(std::string_view number) {
  T value{};
  const char* end = number.data() + number.size();
  const std::from_chars_result result = std::from_chars(number.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

JsonReader::JsonReader(std::string where, std::string_view text) : where_(std::move(where)), text_(text) {
  if (const std::optional<std::size_t> bad = invalid_utf8(text)) {
    throw Error(where_ + ": expected UTF-8, got bytes that are not, from byte " + std::to_string(*bad));
  }
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

std::uint32_t JsonReader::hex4() {
  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    std::uint32_t digit;
    if (is_digit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      digit = static_cast<std::uint32_t>((c | 0x20) - 'a' + 10);
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
  std::uint32_t code = hex4();
  if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const std::uint32_t low = hex4();
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
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    out.append(text_.substr(start, at_ - start));
    if (at_ >= text_.size() || (text_[at_] != '"' && text_[at_] != '\\')) fail_here("the closing quote");
    if (text_[at_++] == '"') return out;
    escape(out);
  }
}

std::string_view JsonReader::number() {
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

void JsonReader::skip() {
  std::string key;
  switch (peek()) {
    case Kind::null: return null();
    case Kind::boolean: boolean(); return;
    case Kind::number: number(); return;
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

std::string_view json_kind_name(JsonReader::Kind kind) {
  switch (kind) {
    case JsonReader::Kind::null: return "null";
    case JsonReader::Kind::boolean: return "true or false";
    case JsonReader::Kind::number: return "a number";
    case JsonReader::Kind::string: return "a string";
    case JsonReader::Kind::array: return "an array";
    case JsonReader::Kind::object: break;
  }
  return "an object";
}

std::optional<std::int64_t> json_integer(std::string_view number) { return whole<std::int64_t>(number); }
std::optional<std::uint64_t> json_unsigned(std::string_view number) { return whole<std::uint64_t>(number); }
std::optional<double> json_double(std::string_view number) { return whole<double>(number); }

}  // namespace heed
