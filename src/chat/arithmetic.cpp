// Python's operators on numbers, texts and lists, within the limits of a rendering.
#include <cmath>
#include <utility>

#include "chat/functions.h"

namespace heed::chat {
namespace {

[[noreturn]] void fail_operands(std::string_view symbol, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  throw TemplateError("expected two values that " + std::string(symbol) + " can join, got " + type_name(a) +
                      " and " + type_name(b));
}

void require_no_overflow(bool overflows) {
  if (overflows) throw TemplateError("expected a result of 64 bits, got a larger integer");
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  require_no_overflow(a == INT64_MIN && b == -1);
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t whole_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) require_no_overflow(__builtin_mul_overflow(result, base, &result));
  return result;
}

/// a // b and a % b, of which the remainder has the sign of b.
std::pair<double, double> real_quotient(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  return {quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient),
          rest == 0 ? std::copysign(0.0, b) : rest};
}

Value join_whole(std::string_view symbol, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (symbol == "+" || symbol == "-" || symbol == "*") {
    require_no_overflow(symbol == "+"   ? __builtin_add_overflow(a, b, &result)
                        : symbol == "-" ? __builtin_sub_overflow(a, b, &result)
                                        : __builtin_mul_overflow(a, b, &result));
    return Value::integer(result);
  }
  if (symbol == "**" && b >= 0) return Value::integer(whole_power(a, b));
  if (symbol == "**") {
    if (a == 0) throw TemplateError("expected a power of 0 that is not negative, got " + std::to_string(b));
    return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (b == 0) throw TemplateError("expected a divisor other than 0, got 0");
  if (symbol == "/") return Value::real(static_cast<double>(a) / static_cast<double>(b));
  const std::int64_t quotient = floor_quotient(a, b);
  return Value::integer(symbol == "//" ? quotient : a - quotient * b);
}

Value join_reals(std::string_view symbol, double a, double b) {
  if (symbol == "+") return Value::real(a + b);
  if (symbol == "-") return Value::real(a - b);
  if (symbol == "*") return Value::real(a * b);
  if (symbol == "**") {
    const double result = std::pow(a, b);
    if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(result))
      throw TemplateError("expected a power that is a number, got one that is not");
    return Value::real(result);
  }
  if (b == 0) throw TemplateError("expected a divisor other than 0, got 0");
  if (symbol == "/") return Value::real(a / b);
  const auto [quotient, rest] = real_quotient(a, b);
  return Value::real(symbol == "//" ? quotient : rest);
}

Value repeated(Renderer& renderer, const Value& input, std::int64_t times) {
  const std::size_t size = input.is_text() ? input.text().size() : input.items().size();
  const auto count = static_cast<std::size_t>(size == 0 || times < 0 ? 0 : times);
  if (count > 0 && size > (std::size_t{1} << 40) / count) renderer.budget().check(std::size_t{1} << 40);
  renderer.budget().check(size * count);
  if (input.is_text()) {
    MarkedText text = input.text().part(0, 0);
    for (std::size_t i = 0; i < count; ++i) text.append(input.text());
    return renderer.text(std::move(text));
  }
  renderer.budget().step(size * count);
  Values values;
  for (std::size_t i = 0; i < count; ++i)
    values.insert(values.end(), input.items().begin(), input.items().end());
  return input.is_list() ? renderer.list(std::move(values))
                         : Value::tuple(std::move(values), &renderer.budget());
}

Value added(Renderer& renderer, const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) {
    renderer.budget().check(a.text().size() + b.text().size());
    const bool html = a.text().is_html() || b.text().is_html();
    MarkedText joined = html ? escaped(a.text(), renderer.budget()) : a.text();
    joined.append(html ? escaped(b.text(), renderer.budget()) : b.text());
    return renderer.text(std::move(joined));
  }
  if (!a.is_sequence() || !b.is_sequence() || a.is_list() != b.is_list()) fail_operands("+", a, b);
  Values values = a.items();
  values.insert(values.end(), b.items().begin(), b.items().end());
  return a.is_list() ? renderer.list(std::move(values)) : Value::tuple(std::move(values), &renderer.budget());
}

}  // namespace

Value arithmetic(Renderer& renderer, std::string_view symbol, const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return join_whole(symbol, a.whole(), b.whole());
  if (a.is_number() && b.is_number()) return join_reals(symbol, a.number(), b.number());
  if (symbol == "+") return added(renderer, a, b);
  if (symbol == "*" && b.is_whole() && (a.is_text() || a.is_sequence()))
    return repeated(renderer, a, b.whole());
  if (symbol == "*" && a.is_whole() && (b.is_text() || b.is_sequence()))
    return repeated(renderer, b, a.whole());
  if (symbol == "%" && a.is_text()) {
    CallArguments values;
    values.positional = b.is_tuple() ? b.items() : Values{b};
    return renderer.text(percent_format(renderer, a.text(), values));
  }
  fail_operands(symbol, a, b);
}

}  // namespace heed::chat
