// Text from formats: those of printf, which `%` and the filter `format` have, and those of str.format().
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "chat/functions.h"
#include "core/strings.h"
#include "core/utf8.h"
#include "heed/text/unicode.h"

namespace heed::chat {
namespace {

constexpr std::int64_t kMaxPrecision = 1000;

/// How one value is laid out.
struct Layout {
  std::string fill = " ";
  char align = '\0';  // <, >, ^ or =: after the sign
  char sign = '-';    // +, space, or - for negative numbers only
  bool prefix = false;
  bool thousands = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = '\0';
};

std::string with_thousands(std::string digits) {
  const std::size_t end = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

/// The digits of a number without its sign.
std::string whole_digits(std::uint64_t size, const Layout& layout) {
  std::string digits;
  const unsigned base = layout.type == 'b'            ? 2
                        : layout.type == 'o'          ? 8
                        : (layout.type | 0x20) == 'x' ? 16
                                                      : 10;
  const std::string_view letters = layout.type == 'X' ? kUpperHexDigits : kHexDigits;
  for (std::uint64_t rest = size; rest > 0 || digits.empty(); rest /= base) digits += letters[rest % base];
  while (base == 10 && static_cast<std::int64_t>(digits.size()) < layout.precision) digits += '0';
  std::reverse(digits.begin(), digits.end());
  if (layout.thousands && base == 10) digits = with_thousands(std::move(digits));
  if (layout.prefix && base != 10) digits.insert(0, std::string("0") + layout.type);
  return digits;
}

std::string real_digits(double size, const Layout& layout) {
  if (!std::isfinite(size)) return std::isnan(size) ? "nan" : "inf";
  if (layout.type == '\0' && layout.precision < 0) return real_repr(size);
  const bool percent = layout.type == '%';
  const char format[] = {'%', '.', '*', percent ? 'f' : layout.type == '\0' ? 'g' : layout.type, '\0'};
  char buffer[2048];
  const int precision = static_cast<int>(layout.precision < 0 ? 6 : layout.precision);
  std::snprintf(buffer, sizeof buffer, format, precision, percent ? size * 100 : size);
  std::string digits = buffer;
  if (layout.thousands) digits = with_thousands(std::move(digits));
  return percent ? digits + "%" : digits;
}

void append_padded(Renderer& renderer, MarkedText& out, const MarkedText& text, std::size_t sign,
                   const Layout& layout, char default_align) {
  const std::int64_t missing = std::max<std::int64_t>(0, layout.width - count_characters(text.bytes()));
  renderer.budget().check(static_cast<std::size_t>(missing) * layout.fill.size() + text.size() + out.size());
  const char align = layout.align == '\0' ? default_align : layout.align;
  const std::int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) out.append(layout.fill);
  };
  if (align == '=') out.append(text, 0, sign);
  fill(before);
  out.append(text, align == '=' ? sign : 0, text.size());
  fill(missing - before);
}

void append_number(Renderer& renderer, MarkedText& out, const Value& value, const Layout& layout) {
  const bool real =
      value.is_real() || std::string_view("eEfFgG%").find(layout.type) != std::string_view::npos;
  const bool as_real = real && layout.type != '\0' ? true : value.is_real();
  std::string digits;
  bool negative = false;
  if (as_real) {
    negative = std::signbit(value.number());
    digits = real_digits(std::abs(value.number()), layout);
  } else {
    const std::int64_t whole = value.whole();
    negative = whole < 0;
    digits = whole_digits(
        negative ? 0 - static_cast<std::uint64_t>(whole) : static_cast<std::uint64_t>(whole), layout);
  }
  const std::string sign = negative ? "-" : layout.sign == '-' ? "" : std::string(1, layout.sign);
  append_padded(renderer, out, MarkedText(sign + digits), sign.size(), layout, '>');
}

void append_text(Renderer& renderer, MarkedText& out, MarkedText text, const Layout& layout,
                 char default_align) {
  if (layout.precision >= 0)
    text = text.part(0, character_start(text.bytes(), static_cast<std::size_t>(layout.precision)));
  append_padded(renderer, out, text, 0, layout, default_align);
}

/// Reads a format, character by character.
class FormatReader {
 public:
  explicit FormatReader(const MarkedText& format) : format_(format), text_(format.bytes()) {}
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char next() {
    const char c = peek();
    ++at_;
    return c;
  }
  bool skip(char c) { return peek() == c && (++at_, true); }
  std::string_view up_to(std::string_view ends) {
    const std::size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const std::string_view part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }
  /// Passes text up to one of `ends` and appends it.
  void copy_to(std::string_view ends, MarkedText& out) {
    const std::size_t begin = at_;
    up_to(ends);
    out.append(format_, begin, at_);
  }
  std::string_view character() {
    const std::string_view c = text_.substr(at_, at_end() ? 0 : utf8_length(text_[at_]));
    at_ += c.size();
    return c;
  }
  std::int64_t number(std::int64_t most) {
    std::int64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = value * 10 + (peek() - '0');
      if (value > most)
        throw TemplateError("expected a number of at most " + std::to_string(most) +
                            " in a format, got a larger one");
    }
    return value;
  }

 private:
  const MarkedText& format_;
  std::string_view text_;
  std::size_t at_ = 0;
};

constexpr std::int64_t kMaxWidth = 1'000'000;

/// The arguments of a printf format, one after the other or by name.
class PercentArguments {
 public:
  explicit PercentArguments(const CallArguments& given) : given_(given) {}
  const Value& next() {
    if (place_ >= given_.positional.size())
      throw TemplateError("expected as many values as the format has places, got fewer");
    return given_.positional[place_++];
  }
  const Value& named(std::string_view name) {
    by_name_ = true;
    for (const auto& [known, value] : given_.named) {
      if (known == name) return value;
    }
    const bool is_dict = given_.positional.size() == 1 && given_.positional[0].is_dict();
    const Value* found = is_dict ? given_.positional[0].dict().find(name) : nullptr;
    if (found == nullptr)
      throw TemplateError("expected a value " + std::string(name) + " for a format, got none");
    return *found;
  }
  void finish() const {
    const bool mapping = by_name_ || (given_.positional.size() == 1 && given_.positional[0].is_dict());
    if (!mapping && place_ < given_.positional.size())
      throw TemplateError("expected as many values as the format has places, got more");
  }

 private:
  const CallArguments& given_;
  std::size_t place_ = 0;
  bool by_name_ = false;
};

void append_percent(Renderer& renderer, MarkedText& out, const Value& value, Layout& layout) {
  if (std::string_view("sra").find(layout.type) != std::string_view::npos) {
    MarkedText text;
    if (layout.type == 's') {
      text = shown(value, renderer.budget());
    } else {
      append_repr(text, value, renderer.budget());
    }
    layout.fill = " ";
    if (layout.align == '=') layout.align = '>';
    return append_text(renderer, out, std::move(text), layout, '>');
  }
  if (layout.type == 'c' && value.is_text() && count_characters(value.bytes()) == 1)
    return append_text(renderer, out, value.text(), layout, '>');
  require_defined(value);
  if (!value.is_number())
    throw TemplateError("expected a number for %" + std::string(1, layout.type) + ", got " +
                        type_name(value));
  if (layout.type == 'c') {
    std::string character;
    if (!value.is_whole() || value.whole() < 0 || value.whole() > 0x10FFFF ||
        (value.whole() >= 0xD800 && value.whole() < 0xE000))
      throw TemplateError("expected the code of a character for %c, got another number");
    append_utf8(character, static_cast<char32_t>(value.whole()));
    return append_text(renderer, out, MarkedText(character), layout, '>');
  }
  if (std::string_view("diuoxX").find(layout.type) == std::string_view::npos) {
    if (std::string_view("eEfFgG").find(layout.type) == std::string_view::npos)
      throw TemplateError("expected a letter that formats have after %, got " + std::string(1, layout.type));
    return append_number(renderer, out, value, layout);
  }
  if (layout.type == 'i' || layout.type == 'u') layout.type = 'd';
  if (value.is_real() && !(std::abs(value.number()) < 9.2e18))
    throw TemplateError("expected a number of 64 bits for %d, got a larger one");
  append_number(renderer, out,
                value.is_real() ? Value::integer(static_cast<std::int64_t>(value.number())) : value, layout);
}

/// [[fill]align][sign][#][0][width][,][.precision][type]
Layout parse_layout(std::string_view spec) {
  Layout layout;
  const MarkedText text{std::string(spec)};
  FormatReader reader(text);
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const std::size_t first = spec.empty() ? 0 : utf8_length(spec[0]);
  if (first > 0 && is_align(reader.peek(first))) layout.fill = reader.character();
  if (is_align(reader.peek())) layout.align = reader.next();
  if (reader.peek() == '+' || reader.peek() == '-' || reader.peek() == ' ') layout.sign = reader.next();
  layout.prefix = reader.skip('#');
  if (reader.skip('0') && layout.align == '\0') {
    layout.fill = "0";
    layout.align = '=';
  }
  layout.width = reader.number(kMaxWidth);
  layout.thousands = reader.skip(',');
  if (reader.skip('.')) layout.precision = reader.number(kMaxPrecision);
  if (!reader.at_end()) layout.type = reader.next();
  if (!reader.at_end() ||
      (layout.type != '\0' && std::string_view("sdboxXeEfFgG%").find(layout.type) == std::string_view::npos))
    throw TemplateError("expected a format such as >10.2f, got " + std::string(spec.substr(0, 100)));
  return layout;
}

}  // namespace

MarkedText percent_format(Renderer& renderer, const MarkedText& format, const CallArguments& values) {
  MarkedText out;
  PercentArguments arguments(values);
  FormatReader reader(format);
  while (reader.copy_to("%", out), !reader.at_end()) {
    renderer.budget().step();
    renderer.budget().check(out.size() + format.size());
    reader.next();
    const Value* value = nullptr;
    Layout layout;
    if (reader.skip('(')) {
      value = &arguments.named(reader.up_to(")"));
      reader.next();
    }
    for (; std::string_view("#0- +").find(reader.peek()) != std::string_view::npos && !reader.at_end();) {
      const char flag = reader.next();
      if (flag == '-') layout.align = '<';
      if (flag == '0' && layout.align == '\0') layout.align = '=';
      if (flag == '+' || (flag == ' ' && layout.sign != '+')) layout.sign = flag;
      layout.prefix = layout.prefix || flag == '#';
    }
    if (layout.align == '=') layout.fill = "0";
    layout.width = reader.number(kMaxWidth);
    if (reader.skip('.')) layout.precision = reader.number(kMaxPrecision);
    layout.type = reader.next();
    if (layout.type == '%') {
      out.append("%");
    } else {
      append_percent(renderer, out, value == nullptr ? arguments.next() : *value, layout);
    }
  }
  arguments.finish();
  return out;
}

MarkedText brace_format(Renderer& renderer, const MarkedText& format, const CallArguments& values) {
  MarkedText out;
  std::size_t place = 0;
  bool by_number = false;
  FormatReader reader(format);
  while (reader.copy_to("{}", out), !reader.at_end()) {
    renderer.budget().step();
    renderer.budget().check(out.size() + format.size());
    const char brace = reader.next();
    if (reader.skip(brace)) {
      out.append(std::string(1, brace));
      continue;
    }
    if (brace == '}') throw TemplateError("expected }} or a field before } in a format, got }");
    const std::string name(reader.up_to("!:}"));
    const char conversion = reader.skip('!') ? reader.next() : '\0';
    const std::string_view spec = reader.skip(':') ? reader.up_to("{}") : std::string_view();
    if (!reader.skip('}')) throw TemplateError("expected } after a field of a format, got another character");
    const bool digits =
        name.empty() || (name.size() < 5 && name.find_first_not_of("0123456789") == name.npos);
    by_number = by_number || (digits && !name.empty());
    if (by_number && (name.empty() || place > 0))
      throw TemplateError("expected fields of a format that all have numbers or none, got both");
    const std::size_t index = name.empty() ? place++ : digits ? std::stoul(name) : 0;
    const Value* value = digits && index < values.positional.size() ? &values.positional[index] : nullptr;
    for (const auto& [known, held] : values.named) value = !digits && known == name ? &held : value;
    if (value == nullptr)
      throw TemplateError("expected a value for the field \"" + name.substr(0, 100) +
                          "\" of a format, got none");
    const Layout layout = parse_layout(spec);
    const bool plain =
        conversion == '\0' && value->is_number() && !(value->is_boolean() && layout.type == '\0');
    if (plain && layout.type != 's') {
      if (value->is_real() && std::string_view("dboxX").find(layout.type) != std::string_view::npos)
        throw TemplateError("expected an integer for " + std::string(spec) + ", got float");
      append_number(renderer, out, *value, layout);
      continue;
    }
    if (layout.type != '\0' && layout.type != 's')
      throw TemplateError("expected a number for " + std::string(spec) + ", got " + type_name(*value));
    MarkedText text;
    if (conversion == 'r' || conversion == 'a') {
      append_repr(text, *value, renderer.budget());
    } else {
      text = shown(*value, renderer.budget());
    }
    append_text(renderer, out, std::move(text), layout, '<');
  }
  return out;
}

}  // namespace heed::chat
