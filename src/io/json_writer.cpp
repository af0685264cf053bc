#include <cmath>

#include "core/strings.h"
#include "heed/core/utf8.h"
#include "heed/error.h"
#include "heed/io/json.h"

namespace heed {
namespace {

template <class T>
std::string shortest(T number) {
  char digits[40];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

void JsonWriter::new_line() {
  if (indent_ == 0) return;
  text_.push_back('\n');
  text_.append(empty_.size() * static_cast<std::size_t>(indent_), ' ');
}

// Writes what separates a new key or value from the previous token.
void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (empty_.empty()) {
    HEED_ASSERT(text_.empty(), "a second value after the first was complete");
    return;
  }
  if (!empty_.back()) text_.append(indent_ == 0 ? ", " : ",");
  empty_.back() = false;
  new_line();
}

JsonWriter& JsonWriter::raw(std::string_view token) {
  separate();
  text_.append(token);
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  raw({&bracket, 1});
  empty_.push_back(true);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  HEED_ASSERT(!empty_.empty() && !after_key_, "closed more than was opened, or a key without a value");
  const bool was_empty = empty_.back();
  empty_.pop_back();
  if (!was_empty) new_line();
  text_.push_back(bracket);
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  HEED_ASSERT(!empty_.empty() && !after_key_, "a key outside an object, or two keys in a row");
  separate();
  quote(name);
  text_.append(": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  return raw(std::isfinite(number) ? shortest(number) : "null");
}
JsonWriter& JsonWriter::value(float number) { return raw(std::isfinite(number) ? shortest(number) : "null"); }

void JsonWriter::quote(std::string_view text) {
  constexpr std::string_view kLetters = "bfnrt", kMeanings = "\b\f\n\r\t";
  const std::string valid = replace_invalid_utf8(text);
  text_.push_back('"');
  for (const char c : valid) {
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t short_form = kMeanings.find(c);
    if (c == '"' || c == '\\') {
      text_.append({'\\', c});
    } else if (short_form != std::string_view::npos) {
      text_.append({'\\', kLetters[short_form]});
    } else if (byte < 0x20) {
      text_.append({'\\', 'u', '0', '0', kHexDigits[byte >> 4], kHexDigits[byte & 15]});
    } else {
      text_.push_back(c);
    }
  }
  text_.push_back('"');
}

const std::string& JsonWriter::text() const {
  HEED_ASSERT(empty_.empty() && !after_key_, "the text was asked for before everything was closed");
  return text_;
}

}  // namespace heed
