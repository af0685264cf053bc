#include "text/json_field.h"

#include <fmt/format.h>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/utf8.h"

namespace heed {
namespace {

/// Returns a value as shown in messages: shortened, since it may be a whole vocabulary.
std::string shown(const nlohmann::ordered_json& value) {
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_binary()) return fmt::format("{} bytes", value.get_binary().size());
  std::string text = value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

}  // namespace

void JsonField::fail(std::string_view expected) const {
  throw Error(fmt::format("{}: {}{}expected {}, got {}", where_, path_, path_.empty() ? "" : ": ", expected,
                          shown(*value_)));
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  if (!value_->is_object()) fail("an object");
  const auto place = value_->find(key);
  if (place == value_->end() || place->is_null()) return std::nullopt;
  return JsonField(*place, where_, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

JsonField JsonField::at(std::string_view key) const {
  auto field = find(key);
  if (!field) {
    throw Error(fmt::format("{}: {}{}{}: not found", where_, path_, path_.empty() ? "" : ".", key));
  }
  return *field;
}

JsonField JsonField::at(std::size_t index) const {
  return JsonField((*value_)[index], where_, fmt::format("{}.{}", path_, index));
}

void JsonField::each_member(FunctionRef<void(const std::string& key, const JsonField& member)> visit) const {
  if (!value_->is_object()) fail("an object");
  for (const auto& entry : value_->items()) {
    visit(entry.key(),
          JsonField(entry.value(), where_, path_.empty() ? entry.key() : path_ + '.' + entry.key()));
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

std::int64_t JsonField::integer(std::int64_t least, std::int64_t most) const {
  const bool fits =
      value_->is_number_integer() &&
      (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(most));
  const std::int64_t number = fits ? value_->get<std::int64_t>() : 0;
  if (!fits || number < least || number > most) fail(fmt::format("an integer from {} to {}", least, most));
  return number;
}

char32_t JsonField::character() const {
  const std::string& text = string();
  if (count_characters(text) != 1) fail("one character");
  std::size_t at = 0;
  return next_character(text, at);
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
