// Parses the JSON of tokenizer files: large objects of tokens in order, and numbers as the tokenizers library
// reads them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "heed/error.h"
#include "text/files.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxDepth = 100;

/// Returns the double nearest to a power of ten.
double power_of_ten(int exponent) {
  static const auto kPowers = [] {
    std::array<double, 309> powers{};
    for (int i = 0; i < 309; ++i) powers[static_cast<std::size_t>(i)] = std::stod(fmt::format("1e{}", i));
    return powers;
  }();
  return kPowers[static_cast<std::size_t>(exponent)];
}

/// Multiplies or divides the digits, as an integer truncated to 64 bits, by a power of ten: two roundings.
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

/// Builds the document from the parser's events.
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(Json& root, const std::string& where) : root_(root), where_(where) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double, const std::string& text) override { return add(read_number(text)); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    throw Error(fmt::format("{}: expected JSON, got: {}", where_, e.what()));
  }

 private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // Not by the object's own insertion, which compares the key with all others each time.
    auto& members = parent.get_ref<Json::object_t&>();
    members.Container::emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }
  bool open(Json container) {
    if (open_.size() >= kMaxDepth) {
      throw Error(fmt::format("{}: expected JSON nested at most {} deep, got more", where_, kMaxDepth));
    }
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  const std::string& where_;
  std::vector<Json*> open_;
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  Json root;
  DocumentBuilder builder(root, where);
  Json::sax_parse(text, &builder);
  return root;
}

}  // namespace heed
