// A reader of calls by recursive descent.
#include "chat/call_reader.h"
#include "core/utf8.h"
#include "heed/error.h"

namespace heed::chat {
namespace {

constexpr int kDeepestLiteral = 60;

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  bool calls(Calls& calls) {
    const bool list = take('[');
    do {
      if (list && !calls.empty() && at(']')) break;
      if (!call(calls)) return false;
    } while (list && take(','));
    return !list || take(']');
  }
  std::string_view rest() {
    skip_space();
    return text_.substr(at_);
  }

 private:
  bool call(Calls& calls, bool printed = false) {
    std::string name = identifier();
    while (take('.')) name += "." + identifier();
    if (name.empty() || !take('(')) return false;
    if (const std::size_t begin = at_; name == "print" && !printed) {
      Calls shown;
      if (call(shown, true) && take(')')) {
        calls.push_back(std::move(shown.front()));
        return true;
      }
      at_ = begin;
    }
    Json arguments = Json::object();
    while (!take(')')) {
      const std::string key = identifier();
      if (key.empty() || arguments.contains(key) || !take('=')) return false;
      auto value = literal(0);
      if (!value) return false;
      arguments[key] = std::move(*value);
      if (!take(',') && !at(')')) return false;
    }
    calls.push_back({std::move(name), json_text(arguments)});
    return true;
  }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }
  bool at(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!at(c)) return false;
    ++at_;
    return true;
  }
  std::string identifier() {
    skip_space();
    const std::size_t begin = at_;
    const auto letter = [](char c) {
      return c == '_' || (static_cast<unsigned char>(c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    };
    while (at_ < text_.size() &&
           (letter(text_[at_]) || (at_ > begin && text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::optional<Json> literal(int depth) {
    if (depth > kDeepestLiteral) return std::nullopt;
    if (at('"') || at('\'')) return string();
    if (take('[')) return list(']', depth);
    if (take('(')) return list(')', depth);
    if (take('{')) return dictionary(depth);
    const std::string word = identifier();
    if (word == "True" || word == "true") return Json(true);
    if (word == "False" || word == "false") return Json(false);
    if (word == "None" || word == "null") return Json(nullptr);
    return word.empty() ? number() : std::nullopt;
  }
  std::optional<Json> number() {
    const std::size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
    try {
      Json value = parse_json(text_.substr(at_, end - at_), "number");
      at_ = end;
      return value;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  std::optional<Json> list(char close, int depth) {
    Json values = Json::array();
    while (!take(close)) {
      auto value = literal(depth + 1);
      if (!value || (!take(',') && !at(close))) return std::nullopt;
      values.push_back(std::move(*value));
    }
    return values;
  }
  std::optional<Json> dictionary(int depth) {
    Json values = Json::object();
    while (!take('}')) {
      const auto key = at('"') || at('\'') ? string() : std::nullopt;
      if (!key || !take(':')) return std::nullopt;
      auto value = literal(depth + 1);
      if (!value || (!take(',') && !at('}'))) return std::nullopt;
      values[key->get<std::string>()] = std::move(*value);
    }
    return values;
  }
  std::optional<Json> string() {
    const char quote = text_[at_++];
    std::string value;
    for (; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\') {
        value += text_[at_];
      } else if (++at_ >= text_.size() || !escape(value)) {
        return std::nullopt;
      }
    }
    if (at_ >= text_.size() || first_invalid_utf8(value)) return std::nullopt;
    ++at_;
    return Json(value);
  }
  /// Appends what the escape at this position means, and goes to its last byte.
  bool escape(std::string& value) {
    constexpr std::string_view kEscapes = "\\'\"nrtbf", kMeanings = "\\'\"\n\r\t\b\f";
    const char c = text_[at_];
    if (const std::size_t known = kEscapes.find(c); known != kEscapes.npos) {
      value += kMeanings[known];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string hex(text_.substr(at_ + 1, digits));
    if (digits == 0 || hex.size() < digits || hex.find_first_not_of("0123456789ABCDEFabcdef") != hex.npos)
      return false;
    const auto character = static_cast<char32_t>(std::stoul(hex, nullptr, 16));
    if (character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) return false;
    append_utf8(value, character);
    at_ += digits;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

bool take_python_calls(std::string_view& text, Calls& calls) {
  PythonReader reader(text);
  Calls found;
  if (!reader.calls(found)) return false;
  calls.insert(calls.end(), found.begin(), found.end());
  text = reader.rest();
  return true;
}

}  // namespace heed::chat
