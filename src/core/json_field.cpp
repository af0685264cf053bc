// Members of a JSON object by type, each error with the path to the member.
#include "core/json_field.h"

#include <charconv>
#include <cmath>

#include "core/utf8.h"
#include "heed/error.h"

namespace heed {

void JsonField::fail(std::string_view expected) const {
  throw Error(where_ + ": " + path_ + (path_.empty() ? "" : ": ") + "expected " + std::string(expected) +
              ", got " + json_shown(*value_));
}

const Json* JsonField::member(std::string_view key) const {
  if (value_->is_array()) {
    std::size_t index = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), index);
    const bool is_index = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    return is_index && index < value_->size() ? &(*value_)[index] : nullptr;
  }
  const auto place = value_->find(key);
  return place == value_->end() ? nullptr : &*place;
}

std::string JsonField::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + '.' + std::string(key);
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const Json* value = member(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return JsonField(*value, where_, path_of(key));
}

JsonField JsonField::at(std::string_view key) const {
  auto field = find(key);
  if (!field) throw Error(where_ + ": " + path_of(key) + ": not found");
  return *field;
}

JsonField JsonField::at(std::size_t index) const {
  return JsonField((*value_)[index], where_, path_of(std::to_string(index)));
}

void JsonField::each_member(FunctionRef<void(const std::string& key, const JsonField& member)> visit) const {
  if (!value_->is_object()) fail("an object");
  for (const auto& entry : value_->items()) {
    visit(entry.key(), JsonField(entry.value(), where_, path_of(entry.key())));
  }
}

std::size_t JsonField::array_size() const {
  if (!value_->is_array()) fail("an array");
  return value_->size();
}

const std::string& JsonField::string() const {
  if (!value_->is_string()) fail("a string");
  return value_->get_ref<const std::string&>();
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) fail("true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail("a number");
  return value_->get<double>();
}

namespace {

// A whole number may be written with a point (2.0), up to 2^53, where each is one.
std::optional<std::int64_t> whole_number(const Json& value) {
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::trunc(number) || std::abs(number) > 0x1p53) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::int64_t JsonField::integer() const {
  if (const auto whole = whole_number(*value_)) return *whole;
  const bool large = value_->is_number_unsigned()
                         ? value_->get<std::uint64_t>() > INT64_MAX
                         : value_->is_number_float() && std::abs(value_->get<double>()) >= 0x1p63;
  if (large) fail("an integer that fits 64 bits");
  if (!value_->is_number_integer()) fail("an integer");
  return value_->get<std::int64_t>();
}

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  const auto whole = whole_number(*value_);
  const bool fits =
      whole ||
      (value_->is_number_integer() &&
       (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most)));
  const std::int64_t number = whole ? *whole : fits ? value_->get<std::int64_t>() : 0;
  if (!fits || number < least || number > most)
    fail("an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return number;
}

char32_t JsonField::character() const {
  const std::string& text = string();
  std::size_t end = 0;
  const char32_t c = text.empty() ? U'\0' : next_character(text, end);
  if (text.empty() || end != text.size()) fail("one character");
  return c;
}

bool JsonField::boolean(std::string_view key, bool default_value) const {
  const auto field = find(key);
  return field ? field->boolean() : default_value;
}

std::string JsonField::string(std::string_view key, std::string_view default_value) const {
  const auto field = find(key);
  return field ? field->string() : std::string(default_value);
}

std::int64_t JsonField::integer(std::string_view key, std::int64_t least, std::int64_t most,
                                std::int64_t default_value) const {
  const auto field = find(key);
  return field ? field->integer(least, most) : default_value;
}

}  // namespace heed
