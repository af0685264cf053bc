// Documents from JSON text, by recursion over JsonReader.
#include "core/json_document.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>

#include "core/json_reader.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

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

Json number(JsonReader& reader, const JsonRules& rules) {
  const std::string_view text = reader.number();
  if (text.find_first_of(".eE") == text.npos) {
    if (const auto integer = json_integer(text)) return *integer;
    if (const auto natural = json_unsigned(text)) return *natural;
  }
  if (rules.numbers == JsonNumbers::two_roundings) return read_number(text);
  const auto nearest = json_double(text);
  if (!nearest) reader.fail("a number that fits a double", std::string(text.substr(0, 40)));
  return *nearest;
}

Json value(JsonReader& reader, const JsonRules& rules);

Json object(JsonReader& reader, const JsonRules& rules) {
  Json result = Json::object();
  auto& members = result.get_ref<Json::object_t&>();
  std::set<std::string> seen;
  std::string key;
  for (reader.begin_object(); reader.next_key(key);) {
    if (!rules.repeated_keys && !seen.insert(key).second)
      reader.fail("every key once", '"' + key + "\" twice");
    // Not through the object's own functions, which would compare the key with all others each time.
    members.Container::emplace_back(key, value(reader, rules));
  }
  return result;
}

Json value(JsonReader& reader, const JsonRules& rules) {
  using Kind = JsonReader::Kind;
  Json result;
  switch (reader.peek()) {
    case Kind::null: reader.null(); break;
    case Kind::boolean: result = reader.boolean(); break;
    case Kind::number: result = number(reader, rules); break;
    case Kind::string: result = reader.string(); break;
    case Kind::object: result = object(reader, rules); break;
    case Kind::array:
      result = Json::array();
      for (reader.begin_array(); reader.next_element();) result.push_back(value(reader, rules));
      break;
  }
  return result;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, const JsonRules& rules) {
  JsonReader reader(where, text);
  Json document = value(reader, rules);
  reader.finish();
  return document;
}

}  // namespace heed
