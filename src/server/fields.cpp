// What a walk does with each type of field.
#include "server/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/edit_distance.h"
#include "core/strings.h"

namespace heed::server {
namespace {

std::int64_t whole(double bound) {
  if (bound >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  return bound <= -0x1p63 ? std::numeric_limits<std::int64_t>::min() : static_cast<std::int64_t>(bound);
}

// Shorter names are near to too many others.
constexpr std::size_t kLeastMisspelled = 6;

bool is_misspelled(const std::string& name, const std::string& known) {
  return name.size() >= kLeastMisspelled && edit_distance(name, known) == 1;
}

}  // namespace

// Passes a field; whether it is there to be read.
bool Fields::is_given(const char* name, const char* type, std::string_view note, const FieldRule& rule,
                      Json fallback) {
  if (object_ == nullptr) {
    notes_.push_back({name, type, std::string(note), rule, std::move(fallback)});
    return false;
  }
  passed_.emplace_back(name);
  const bool is_there = object_->find(name) != nullptr;
  if (!is_there && rule.required != nullptr) fail(name, rule.required);
  if (is_there) require_size(name, rule);
  return is_there;
}

void Fields::require_size(const char* name, const FieldRule& rule) const {
  const Json& value = *object_->find(name);
  const auto require = [&](std::size_t got, std::size_t most, const char* of) {
    if (most == 0 || got <= most) return;
    const std::string path = object_->path_of(name);
    throw ApiError(ErrorCode::too_large,
                   "request: " + path + ": expected at most " + std::to_string(most) + of + ", got " +
                       std::to_string(got),
                   path);
  };
  const auto require_text = [&](const Json& text) {
    if (text.is_string()) require(text.get_ref<const std::string&>().size(), rule.bytes, " bytes");
  };
  if (value.is_structured()) require(value.size(), rule.items, "");
  require_text(value);
  if (!value.is_array() || rule.bytes == 0) return;
  for (const Json& one : value) require_text(one);
}

void Fields::operator()(const char* name, bool& value, std::string_view note) {
  if (is_given(name, "boolean", note, {}, value)) value = *object_->boolean(name);
}

void Fields::operator()(const char* name, std::optional<bool>& value, std::string_view note) {
  if (is_given(name, "boolean", note, {})) value = object_->boolean(name);
}

void Fields::operator()(const char* name, std::int64_t& value, std::string_view note, const FieldRule& rule) {
  const Json fallback = rule.required == nullptr ? Json(value) : Json();
  if (is_given(name, "integer", note, rule, fallback))
    value = *object_->integer(name, whole(rule.least), whole(rule.most));
}

void Fields::operator()(const char* name, std::optional<std::int64_t>& value, std::string_view note,
                        const FieldRule& rule) {
  if (is_given(name, "integer", note, rule))
    value = object_->integer(name, whole(rule.least), whole(rule.most));
}

void Fields::operator()(const char* name, double& value, std::string_view note, const FieldRule& rule) {
  if (is_given(name, "number", note, rule, value)) value = *object_->number(name, rule.least, rule.most);
}

void Fields::operator()(const char* name, std::optional<double>& value, std::string_view note,
                        const FieldRule& rule) {
  if (is_given(name, "number", note, rule)) value = object_->number(name, rule.least, rule.most);
}

void Fields::operator()(const char* name, std::string& value, std::string_view note, const FieldRule& rule) {
  if (!is_given(name, "string", note, rule, value.empty() ? Json() : Json(value))) return;
  value = *object_->string(name);
  const auto is_known = [&](const char* word) { return value == word; };
  if (!rule.words.empty() && std::none_of(rule.words.begin(), rule.words.end(), is_known))
    fail(name, alternatives({rule.words.begin(), rule.words.end()}));
}

void Fields::operator()(const char* name, std::optional<std::string>& value, std::string_view note,
                        const FieldRule& rule) {
  if (is_given(name, "string", note, rule)) value = object_->string(name);
}

void Fields::operator()(const char* name, std::vector<std::string>& values, std::string_view note,
                        const FieldRule& rule) {
  FieldRule of_texts = rule;
  of_texts.schema = R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})";
  if (is_given(name, "any", note, of_texts)) values = object_->strings(name);
}

void Fields::operator()(const char* name, std::vector<std::int64_t>& values, std::string_view note,
                        const FieldRule& rule) {
  if (is_given(name, "array", note, rule))
    values = object_->integers(name, whole(rule.least), whole(rule.most));
}

void Fields::operator()(const char* name, std::vector<double>& values, std::string_view note,
                        const FieldRule& rule) {
  if (is_given(name, "array", note, rule)) values = object_->numbers(name, rule.least, rule.most);
}

void Fields::any(const char* name, const Json*& value, std::string_view note, const FieldRule& rule) {
  if (is_given(name, "any", note, rule)) value = object_->find(name);
}

void Fields::object(const char* name, const Json*& value, std::string_view note, const FieldRule& rule) {
  if (is_given(name, "object", note, rule)) value = object_->object(name);
}

void Fields::array(const char* name, const Json*& value, std::string_view note, const FieldRule& rule) {
  if (is_given(name, "array", note, rule)) value = object_->array(name);
}

bool Fields::members(const char* name, std::string_view note, FunctionRef<void(Fields& members)> walk) {
  if (is_given(name, "object", note, {})) {
    const std::optional<RequestObject> object = object_->members(name);
    Fields inner(*object, strict_);
    walk(inner);
    inner.require_known();
    return true;
  }
  if (object_ == nullptr) {
    Fields inner;
    walk(inner);
    notes_.back().members = std::move(inner.notes_);
  }
  return false;
}

void Fields::each(const char* name, std::string_view note, std::size_t most,
                  FunctionRef<void(Fields& element)> walk) {
  if (is_given(name, "array", note, {})) {
    const std::size_t size = object_->array(name)->size();
    if (size > most) fail(name, "at most " + std::to_string(most));
    for (std::size_t i = 0; i < size; ++i) {
      const RequestObject object = object_->element(name, i);
      Fields inner(object, strict_);
      walk(inner);
      inner.require_known();
    }
  } else if (object_ == nullptr) {
    Fields inner;
    walk(inner);
    notes_.back().members = std::move(inner.notes_);
  }
}

void Fields::refused(const char* name, const char* instead, const Json& off) {
  const Json* value = nullptr;
  if (object_ == nullptr) return notes_.push_back({name, "refused", instead});
  passed_.emplace_back(name);
  value = object_->find(name);
  if (value == nullptr || *value == off || (value->is_array() && value->empty())) return;
  throw ApiError(
      ErrorCode::not_supported,
      "request: " + object_->path_of(name) + ": expected none (" + instead + "), got " + json_shown(*value),
      object_->path_of(name));
}

void Fields::require_known() const {
  for (const auto& [name, value] : object_->items()) {
    if (value.is_null() || std::find(passed_.begin(), passed_.end(), name) != passed_.end()) continue;
    const auto near =
        std::find_if(passed_.begin(), passed_.end(),
                     [&, name = name](const std::string& known) { return is_misspelled(name, known); });
    if (near == passed_.end() && !strict_) continue;
    const std::string path = object_->path_of(name), shown = json_shown(path);
    throw ApiError(ErrorCode::invalid,
                   "request: " + shown.substr(1, shown.size() - 2) + ": expected a known key" +
                       (near == passed_.end() ? "" : " (perhaps " + *near + ")"),
                   path);
  }
}

}  // namespace heed::server
