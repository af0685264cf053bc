// Filters of text and numbers: replace, trim, indent, int, round, ...
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "chat/functions.h"
#include "chat/letters.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

/// The input as a string.
MarkedText input_text(Renderer& renderer, const Value& input) {
  MarkedText text = shown(input, renderer.budget());
  renderer.budget().scan(text.size());
  return text;
}

/// A filter that is a method of the input as a string.
Value by_method(Renderer& renderer, const Value& input, std::string_view method,
                const CallArguments& arguments) {
  return call_text_method(renderer, renderer.text(input_text(renderer, input)), method, arguments);
}

Value replace(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "replace", {"old", "new", "count"}, 2);
  const MarkedText text = input_text(renderer, input);
  const std::string old = given.text(0, "", renderer.budget()).bytes();
  const MarkedText fresh = given.text(1, "", renderer.budget());
  std::int64_t left = given[2] == nullptr || given[2]->is_none() ? -1 : given.whole(2, -1);
  MarkedText out;
  std::size_t done = 0;
  // An empty string is found before each character, and at the end.
  for (std::size_t at = 0; left != 0 && (at = find_text(text.bytes(), old, at)) != std::string::npos;
       --left) {
    renderer.budget().step();
    renderer.budget().check(out.size() + fresh.size() + text.size());
    out.append(text, done, at);
    out.append(fresh);
    done = at + old.size();
    at = done;
    if (!old.empty()) continue;
    if (at == text.size()) break;
    at += utf8_length(text.bytes()[at]);
  }
  out.append(text, done, text.size());
  return renderer.text(std::move(out));
}

Value title(Renderer& renderer, const Value& input, const CallArguments&) {
  const MarkedText text = input_text(renderer, input);
  renderer.budget().step(text.size() / 4);
  std::string out;
  bool begins = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t c = next_character(text.bytes(), at);
    const std::string_view character = std::string_view(text.bytes()).substr(begin, at - begin);
    out += begins ? upper_case(character) : lower_case(character);
    begins = is_space(c) ||
             (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
  }
  return renderer.text(text.derived(std::move(out)));
}

MarkedText references(const MarkedText& text, Budget& budget) {
  MarkedText out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const char* name = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '"'  ? "&#34;"
                       : c == '\'' ? "&#39;"
                                   : nullptr;
    if (name == nullptr) {
      out.append(text, i, i + 1);
    } else {
      text.part(i, i + 1).append_derived(out, name);
    }
    budget.check(out.size());
  }
  out.set_html();
  return out;
}

Value escape(Renderer& renderer, const Value& input, const CallArguments&) {
  return renderer.text(escaped(input_text(renderer, input), renderer.budget()));
}

Value force_escape(Renderer& renderer, const Value& input, const CallArguments&) {
  return renderer.text(references(input_text(renderer, input), renderer.budget()));
}

Value safe(Renderer& renderer, const Value& input, const CallArguments&) {
  MarkedText text = input_text(renderer, input);
  text.set_html();
  return renderer.text(std::move(text));
}

Value indent(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "indent", {"width", "first", "blank"});
  const bool is_string = given[0] != nullptr && given[0]->is_text();
  MarkedText space = is_string ? given[0]->text() : MarkedText();
  const std::int64_t width = is_string ? 0 : given.whole(0, 4);
  renderer.budget().check(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)));
  if (width > 0) space.append(std::string(static_cast<std::size_t>(width), ' '));
  MarkedText text = input_text(renderer, input);
  text.append("\n");
  const Value lines = call_text_method(renderer, renderer.text(std::move(text)), "splitlines", {});
  MarkedText out;
  for (std::size_t i = 0; i < lines.items().size(); ++i) {
    const MarkedText& line = lines.items()[i].text();
    if (i > 0) out.append("\n");
    if (i == 0 ? given.truth(1, false) : !line.empty() || given.truth(2, false)) out.append(space);
    out.append(line);
    renderer.budget().check(out.size() + space.size());
  }
  return renderer.text(std::move(out));
}

Value wordcount(Renderer& renderer, const Value& input, const CallArguments&) {
  const MarkedText text = input_text(renderer, input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text.bytes(), at);
    const bool word = c == '_' || is_alphabetic(c) || is_numeric(c);
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::integer(count);
}

/// A byte as it stands in a URL, or in a query.
void append_url(std::string& out, std::string_view text, bool query) {
  for (const char c : text) {
    if (is_ascii_letter_or_digit(c) || std::string_view("_.-~").find(c) != std::string_view::npos ||
        (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      out += '%';
      append_hex(out, static_cast<std::uint8_t>(c), kUpperHexDigits);
    }
  }
}

Value urlencode(Renderer& renderer, const Value& input, const CallArguments&) {
  std::string out;
  if (!input.is_dict()) {
    const MarkedText text = input_text(renderer, input);
    renderer.budget().check(3 * text.size());
    append_url(out, text.bytes(), false);
    return renderer.text(text.derived(std::move(out)));
  }
  MarkedText joined;
  for (const auto& [key, value] : input.dict().entries) {
    for (const Value* part : {&key, &value}) {
      const MarkedText text = input_text(renderer, *part);
      renderer.budget().check(joined.size() + 3 * text.size());
      out.clear();
      append_url(out, text.bytes(), true);
      joined.append(part == &value ? "=" : joined.empty() ? "" : "&");
      text.append_derived(joined, out);
    }
  }
  return renderer.text(std::move(joined));
}

struct SignAndDigits {
  bool minus = false;
  std::string digits;  // empty if the text is no number
};

// A number as Python reads it: spaces around it, a sign, and underscores between digits.
SignAndDigits sign_and_digits(std::string_view text) {
  text = strip(text);
  SignAndDigits number{text.starts_with('-'), {}};
  if (number.minus || text.starts_with('+')) text.remove_prefix(1);
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      number.digits += text[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return {};
    }
  }
  if (number.digits.starts_with('-') || number.digits.starts_with('+')) return {};
  return number;
}

// What is too large is infinite, and what is too small 0.
std::optional<double> real_of(std::string_view text) {
  const auto [minus, digits] = sign_and_digits(text);
  double number = 0;
  const char* const end = digits.data() + digits.size();
  const auto read = std::from_chars(digits.data(), end, number);
  if (digits.empty() || digits.ends_with(')') || read.ptr != end) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) number = std::strtod(digits.c_str(), nullptr);
  return minus ? -number : number;
}

Value to_integer(Renderer&, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "int", {"default", "base"});
  const Value otherwise = given[0] == nullptr ? Value::integer(0) : *given[0];
  require_defined(input);
  if (input.is_whole()) return Value::integer(input.whole());
  std::optional<double> number;
  if (input.is_real()) {
    number = input.number();
  } else if (input.is_text()) {
    const auto base = static_cast<int>(std::clamp<std::int64_t>(given.whole(1, 10), 2, 36));
    const auto [minus, digits] = sign_and_digits(input.bytes());
    std::string_view text = digits;
    if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
    std::int64_t whole = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), whole, base);
    if (!text.empty() && read.ptr == text.data() + text.size() && text[0] != '-') {
      if (read.ec == std::errc()) return Value::integer(minus ? -whole : whole);
      throw TemplateError("expected an integer of 64 bits, got a larger one");
    }
    number = real_of(input.bytes());
  }
  if (!number || !(std::abs(*number) < 9.2e18)) return otherwise;
  return Value::integer(static_cast<std::int64_t>(*number));
}

Value to_real(Renderer&, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "float", {"default"});
  require_defined(input);
  if (input.is_number()) return Value::real(input.number());
  if (input.is_text()) {
    if (const auto number = real_of(input.bytes())) return Value::real(*number);
  }
  return given[0] == nullptr ? Value::real(0) : *given[0];
}

Value rounded(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  const BoundArguments given(arguments, "round", {"precision", "method"});
  require_defined(input);
  if (!input.is_number()) throw TemplateError("expected a number to round, got " + type_name(input));
  const std::int64_t precision = given.whole(0, 0);
  const std::string method = given.text(1, "common", renderer.budget()).bytes();
  if (precision < -300 || precision > 300)
    throw TemplateError("expected a precision of at most 300, got " + std::to_string(precision));
  const double number = input.number();
  if (method == "common") {
    if (input.is_whole() && precision >= 0) return Value::integer(input.whole());
    double result = number;
    if (precision >= 0 && std::isfinite(number)) {
      // The decimal digits nearest to the number, read again: halves go to the even digit only where the
      // number is exactly between.
      char buffer[1024];
      std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), number);
      result = std::strtod(buffer, nullptr);
    } else if (precision < 0) {
      const double unit = std::pow(10.0, static_cast<double>(-precision));
      result = std::nearbyint(number / unit) * unit;
    }
    return input.is_whole() ? Value::integer(static_cast<std::int64_t>(result)) : Value::real(result);
  }
  if (method != "ceil" && method != "floor")
    throw TemplateError("expected common, ceil or floor as the method of round, got " + method);
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return Value::real((method == "ceil" ? std::ceil(number * unit) : std::floor(number * unit)) / unit);
}

Value absolute(Renderer& renderer, const Value& input, const CallArguments&) {
  require_defined(input);
  if (!input.is_number()) throw TemplateError("expected a number, got " + type_name(input));
  if (input.is_real()) return Value::real(std::abs(input.number()));
  return input.whole() < 0 ? arithmetic(renderer, "-", Value::integer(0), input)
                           : Value::integer(input.whole());
}

Value formatted(Renderer& renderer, const Value& input, const CallArguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty())
    throw TemplateError("expected arguments of format that all have names or none, got both");
  return renderer.text(percent_format(renderer, input_text(renderer, input), arguments));
}

}  // namespace

MarkedText escaped(const MarkedText& text, Budget& budget) {
  return text.is_html() ? text : references(text, budget);
}

const Filters& text_filters() {
  using R = Renderer&;
  using V = const Value&;
  using A = const CallArguments&;
  static const Filters kFilters{
      {"abs", absolute},
      {"capitalize", [](R r, V x, A a) { return by_method(r, x, "capitalize", a); }},
      {"center",
       [](R r, V x, A a) {
         const BoundArguments given(a, "center", {"width"});
         return by_method(r, x, "center", {{Value::integer(given.whole(0, 80))}, {}});
       }},
      {"e", escape},
      {"escape", escape},
      {"float", to_real},
      {"forceescape", force_escape},
      {"format", formatted},
      {"indent", indent},
      {"int", to_integer},
      {"lower", [](R r, V x, A a) { return by_method(r, x, "lower", a); }},
      {"replace", replace},
      {"round", rounded},
      {"safe", safe},
      {"string", [](R r, V x, A) { return r.text(input_text(r, x)); }},
      {"title", title},
      {"tojson", to_json},
      {"trim", [](R r, V x, A a) { return by_method(r, x, "strip", a); }},
      {"upper", [](R r, V x, A a) { return by_method(r, x, "upper", a); }},
      {"urlencode", urlencode},
      {"wordcount", wordcount},
  };
  return kFilters;
}

}  // namespace heed::chat
