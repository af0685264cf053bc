// RequestObject by type.
#include "server/fields.h"

#include <fmt/format.h>

namespace heed::server {

namespace {

constexpr std::size_t kMostValues = 1 << 21;

// At least as many values as a text of JSON has: each but the first follows one of these characters.
std::size_t values_in(std::string_view json) {
  std::size_t count = 1;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (quoted) {
      at += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else {
      count += c == ',' || c == '[' || c == '{';
    }
  }
  return count;
}

}  // namespace

Json parse_body(std::string_view body) {
  if (values_in(body) > kMostValues)
    throw ApiError(ErrorCode::too_large,
                   fmt::format("request: expected at most {} values of JSON, got more", kMostValues));
  Json value;
  try {
    value = parse_json(body, "request");
  } catch (const Error& error) {
    throw ApiError(ErrorCode::invalid, error.what());
  }
  if (!value.is_object())
    throw ApiError(ErrorCode::invalid, "request: expected a JSON object, got " + json_shown(value));
  return value;
}

template <class Read>
auto RequestObject::read(std::string_view key, Read read) const {
  using Value = decltype(read(object_));
  try {
    const auto field = object_.find(key);
    return field ? std::optional<Value>(read(*field)) : std::nullopt;
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(ErrorCode::invalid, error.what(), path_of(key));
  }
}

const Json* RequestObject::find(std::string_view key) const {
  const Json* value = object_.member(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> RequestObject::boolean(std::string_view key) const {
  return read(key, [](const JsonField& field) { return field.boolean(); });
}

std::optional<double> RequestObject::number(std::string_view key, double least, double most) const {
  return read(key, [&](const JsonField& field) { return checked_number(field, least, most); });
}

double RequestObject::checked_number(const JsonField& field, double least, double most) const {
  const double value = field.number();
  if (!(value >= least && value <= most)) field.fail(fmt::format("a number from {} to {}", least, most));
  return value;
}

std::vector<double> RequestObject::numbers(std::string_view key, double least, double most) const {
  return read(key,
              [&](const JsonField& field) {
                std::vector<double> numbers;
                for (std::size_t i = 0; i < field.array_size(); ++i)
                  numbers.push_back(checked_number(field.at(i), least, most));
                return numbers;
              })
      .value_or(std::vector<double>());
}

std::optional<std::int64_t> RequestObject::integer(std::string_view key, std::int64_t least,
                                                   std::int64_t most) const {
  return read(key, [&](const JsonField& field) { return field.integer(least, most); });
}

std::optional<std::string> RequestObject::string(std::string_view key) const {
  return read(key, [](const JsonField& field) { return field.string(); });
}

std::vector<std::string> RequestObject::strings(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> texts;
  if (!value->is_array()) fail(key, "a string or an array of strings");
  for (const Json& one : *value) {
    if (!one.is_string()) fail(key, "strings alone in the array");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::vector<std::int64_t> RequestObject::integers(std::string_view key, std::int64_t least,
                                                  std::int64_t most) const {
  return read(key,
              [&](const JsonField& field) {
                std::vector<std::int64_t> numbers;
                for (std::size_t i = 0; i < field.array_size(); ++i)
                  numbers.push_back(field.at(i).integer(least, most));
                return numbers;
              })
      .value_or(std::vector<std::int64_t>());
}

const Json* RequestObject::object(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) fail(key, "an object");
  return value;
}

const Json* RequestObject::array(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_array()) fail(key, "an array");
  return value;
}

std::optional<RequestObject> RequestObject::members(std::string_view key) const {
  const Json* value = object(key);
  return value != nullptr ? std::optional(RequestObject(*value, path_of(key))) : std::nullopt;
}

RequestObject RequestObject::element(std::string_view key, std::size_t index) const {
  const std::string path = path_of(key) + "." + std::to_string(index);
  const Json& value = (*find(key))[index];
  if (!value.is_object())
    throw ApiError(ErrorCode::invalid, "request: " + path + ": expected an object, got " + json_shown(value),
                   path);
  return RequestObject(value, path);
}

void RequestObject::fail(std::string_view key, std::string_view expected) const {
  const Json* value = object_.member(key);
  throw ApiError(ErrorCode::invalid,
                 fmt::format("request: {}: expected {}, got {}", path_of(key), expected,
                             value == nullptr ? "nothing" : json_shown(*value)),
                 path_of(key));
}

}  // namespace heed::server
