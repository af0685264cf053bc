// The filter `tojson`, with the arguments and the output of Python's json.dumps.
#include <algorithm>
#include <cmath>

#include "chat/functions.h"
#include "core/utf8.h"

namespace heed::chat {
namespace {

class JsonDump {
 public:
  JsonDump(Renderer& renderer, const BoundArguments& given) : budget_(renderer.budget()) {
    ascii_ = given.truth(0, false);
    if (given[1] != nullptr && !given[1]->is_none()) {
      indented_ = true;
      if (given[1]->is_text()) {
        indent_ = given[1]->text();
      } else {
        const std::int64_t width = std::max<std::int64_t>(0, given.whole(1, 0));
        budget_.check(static_cast<std::size_t>(width));
        indent_.append(std::string(static_cast<std::size_t>(width), ' '));
      }
    }
    item_separator_ = MarkedText(indented_ ? "," : ", ");
    key_separator_ = MarkedText(": ");
    if (given[2] != nullptr && !given[2]->is_none()) {
      const bool pair = given[2]->is_sequence() && given[2]->items().size() == 2 &&
                        given[2]->items()[0].is_text() && given[2]->items()[1].is_text();
      if (!pair)
        throw TemplateError("expected two strings as separators of tojson, got " + type_name(*given[2]));
      item_separator_ = given[2]->items()[0].text();
      key_separator_ = given[2]->items()[1].text();
    }
    sorted_ = given.truth(3, false);
  }

  MarkedText run(const Value& value) {
    write(value, 0);
    return std::move(out_);
  }

 private:
  void write(const Value& value, int level) {
    budget_.step();
    budget_.check(out_.size());
    if (value.is_text()) return write_text(value.text());
    if (value.is_sequence()) return write_list(value.items(), level);
    if (value.is_dict()) return write_dict(value.dict(), level);
    out_.append(scalar(value));
  }

  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.is_boolean()) return value.boolean() ? "true" : "false";
    if (value.is_integer()) return std::to_string(value.whole());
    if (!value.is_real()) {
      require_defined(value);
      throw TemplateError("expected a value that JSON has, got " + type_name(value));
    }
    const double number = value.number();
    return std::isnan(number)   ? "NaN"
           : std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity")
                                : real_repr(number);
  }

  void new_line(int level) {
    if (!indented_) return;
    budget_.check(out_.size() + indent_.size() * static_cast<std::size_t>(level));
    out_.append("\n");
    for (int i = 0; i < level; ++i) out_.append(indent_);
  }

  void write_list(const Values& values, int level) {
    if (values.empty()) return out_.append("[]");
    out_.append("[");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0) out_.append(item_separator_);
      new_line(level + 1);
      write(values[i], level + 1);
    }
    new_line(level);
    out_.append("]");
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) return out_.append("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (sorted_) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    }
    out_.append("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.append(item_separator_);
      new_line(level + 1);
      const Value& key = entries[i]->first;
      if (key.is_text()) {
        write_text(key.text());
      } else if (key.is_none() || key.is_number()) {
        out_.append("\"" + scalar(key) + "\"");
      } else {
        throw TemplateError("expected keys that JSON has, got " + type_name(key));
      }
      out_.append(key_separator_);
      write(entries[i]->second, level + 1);
    }
    new_line(level);
    out_.append("}");
  }

  void write_text(const MarkedText& text) {
    budget_.scan(text.size());
    std::string quoted = "\"";
    char buffer[16];
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const char32_t c = next_character(text.bytes(), at);
      constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kLetters = "\"\\nrtbf";
      const std::size_t escape = c < 0x80 ? kPlain.find(static_cast<char>(c)) : kPlain.npos;
      if (escape != kPlain.npos) {
        quoted += {'\\', kLetters[escape]};
      } else if (c >= 0x20 && (!ascii_ || c < 0x7F || c == 0x7F)) {
        quoted += text.bytes().substr(begin, at - begin);
      } else if (c < 0x10000) {
        std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(c));
        quoted += buffer;
      } else {
        const auto pair = static_cast<unsigned>(c - 0x10000);
        std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (pair >> 10),
                      0xDC00 + (pair & 0x3FF));
        quoted += buffer;
      }
    }
    budget_.check(out_.size() + quoted.size());
    text.append_derived(out_, quoted + "\"");
  }

  Budget& budget_;
  MarkedText out_;
  bool ascii_ = false, indented_ = false, sorted_ = false;
  MarkedText indent_, item_separator_, key_separator_;
};

}  // namespace

Value to_json(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  return renderer.text(JsonDump(renderer, given).run(input));
}

}  // namespace heed::chat
