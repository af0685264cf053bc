// Config over a JSON document, with a record of the keys that were used.
#include <cmath>
#include <map>
#include <set>

#include "core/json_document.h"
#include "core/json_reader.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/io/json.h"

namespace heed {

using Json = nlohmann::ordered_json;

namespace io {

struct ConfigNode {
  const Json* value;  // an object or an array
  std::set<std::string, std::less<>> used = {};
  std::set<std::string, std::less<>> ignored = {};                             // with everything in them
  std::map<std::string, std::unique_ptr<ConfigNode>, std::less<>> inner = {};  // read through sub()
};

}  // namespace io

using io::ConfigNode;

struct Config::Document {
  std::string where;
  Json json;
  mutable ConfigNode root;
};

namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;

void check_size(const Config& config, std::string_view name, std::int64_t value) {
  if (value < 1) config.fail(name, "an integer of at least 1");
  if (value > kLargestSize) config.fail(name, "an integer of at most " + std::to_string(kLargestSize));
}

std::string describe(const Json& value) {
  constexpr std::size_t kShown = 60;
  if (value.is_array()) return "an array of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  if (!value.is_string() || value.get_ref<const std::string&>().size() <= kShown) return value.dump();
  const std::string& text = value.get_ref<const std::string&>();
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return Json(text.substr(0, end)).dump() + "...";
}

/// A member of an object, or an element of an array by its index.
const Json* member(const Json& of, std::string_view name) {
  if (of.is_array()) {
    const auto place = json_unsigned(name);
    return place && *place < of.size() ? &of[static_cast<std::size_t>(*place)] : nullptr;
  }
  const auto found = of.find(name);
  return found == of.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const Json& value) {
  std::vector<std::string> names;
  for (const auto& item : value.items()) names.push_back(item.key());
  return names;
}

/// The value of a key, marked as used even where there is none; null if it is absent or null.
const Json* find(ConfigNode& node, std::string_view name) {
  const Json* value = member(*node.value, name);
  node.used.emplace(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void collect_unused(const ConfigNode& node, const std::string& prefix, std::vector<std::string>& out) {
  for (const auto& item : node.value->items()) {
    const std::string& name = item.key();
    if (item.value().is_null() || node.ignored.contains(name)) continue;
    if (!node.used.contains(name)) out.push_back(prefix + name);
    const auto inner = node.inner.find(name);
    if (inner != node.inner.end()) collect_unused(*inner->second, prefix + name + ".", out);
  }
}

void collect_asked(const ConfigNode& node, const std::string& prefix, std::vector<std::string>& out) {
  for (const std::string& name : node.used) {
    out.push_back(prefix + name);
    const auto inner = node.inner.find(name);
    if (inner != node.inner.end()) collect_asked(*inner->second, prefix + name + ".", out);
  }
}

}  // namespace

Config::Config(std::shared_ptr<const Document> document, ConfigNode* node, std::string prefix)
    : document_(std::move(document)), node_(node), prefix_(std::move(prefix)) {}

Config Config::load(const std::filesystem::path& file) {
  return parse(read_regular_file(file, file_limits::kConfig), file.string());
}

Config Config::parse(std::string_view text, std::string where) {
  auto document = std::make_shared<Document>();
  document->where = std::move(where);
  document->json = parse_json(text, document->where);
  if (!document->json.is_object())
    throw Error(document->where + ": expected an object, got " + describe(document->json));
  document->root.value = &document->json;
  ConfigNode* root = &document->root;
  return Config(std::move(document), root, "");
}

void Config::fail(std::string_view name, std::string_view expected) const {
  const Json* value = member(*node_->value, name);
  throw Error(document_->where + ": " + prefix_ + std::string(name) + ": expected " + std::string(expected) +
              ", got " + (value == nullptr ? "nothing" : describe(*value)));
}

const std::string& Config::where() const { return document_->where; }

bool Config::has(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  return value != nullptr && !value->is_null();
}

bool Config::is_string(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  return value != nullptr && value->is_string();
}

bool Config::is_off(std::string_view name) const {
  const Json* value = member(*node_->value, name);
  return value == nullptr || value->is_null() || *value == Json(false) ||
         (value->is_structured() && value->empty());
}

std::vector<std::string> Config::names() const { return names_of(*node_->value); }

std::optional<std::int64_t> Config::optional_integer(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX)
    fail(name, "an integer that fits 64 bits");
  if (value->is_number_integer()) return value->get<std::int64_t>();
  if (value->is_number() && std::abs(value->get<double>()) >= 0x1p63)
    fail(name, "an integer that fits 64 bits");
  fail(name, "an integer");
}

std::int64_t Config::integer(std::string_view name, std::int64_t default_value) const {
  return optional_integer(name).value_or(default_value);
}

std::int64_t Config::required_integer(std::string_view name) const {
  const std::optional<std::int64_t> value = optional_integer(name);
  if (!value) fail(name, "an integer");
  return *value;
}

std::int64_t Config::positive_integer(std::string_view name, std::int64_t default_value) const {
  const std::int64_t value = integer(name, default_value);
  check_size(*this, name, value);
  return value;
}

std::int64_t Config::required_positive_integer(std::string_view name) const {
  const std::int64_t value = required_integer(name);
  check_size(*this, name, value);
  return value;
}

std::optional<double> Config::optional_number(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, "a number");
  return value->get<double>();
}

double Config::number(std::string_view name, double default_value) const {
  return optional_number(name).value_or(default_value);
}

double Config::required_number(std::string_view name) const {
  const std::optional<double> value = optional_number(name);
  if (!value) fail(name, "a number");
  return *value;
}

std::optional<bool> Config::optional_boolean(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, "true or false");
  return value->get<bool>();
}

bool Config::boolean(std::string_view name, bool default_value) const {
  return optional_boolean(name).value_or(default_value);
}

std::optional<std::string> Config::optional_string(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, "a string");
  return value->get<std::string>();
}

std::string Config::string(std::string_view name, std::string_view default_value) const {
  return optional_string(name).value_or(std::string(default_value));
}

std::string Config::required_string(std::string_view name) const {
  const std::optional<std::string> value = optional_string(name);
  if (!value) fail(name, "a string");
  return *value;
}

std::vector<std::int64_t> Config::integers(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return {};
  if (value->is_number()) return {required_integer(name)};
  if (!value->is_array()) fail(name, "an array of integers");
  const Config array = sub(name);
  std::vector<std::int64_t> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_integer(place));
  return elements;
}

std::vector<double> Config::numbers(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return {};
  if (!value->is_array()) fail(name, "an array of numbers");
  const Config array = sub(name);
  std::vector<double> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_number(place));
  return elements;
}

std::vector<std::string> Config::strings(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return {};
  if (value->is_string()) return {required_string(name)};
  if (!value->is_array()) fail(name, "an array of strings");
  const Config array = sub(name);
  std::vector<std::string> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_string(place));
  return elements;
}

std::optional<Config> Config::optional_sub(std::string_view name) const {
  const Json* value = find(*node_, name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_structured()) fail(name, "an object or an array");
  auto& inner = node_->inner[std::string(name)];
  if (inner == nullptr) inner = std::make_unique<ConfigNode>(ConfigNode{value});
  return Config(document_, inner.get(), prefix_ + std::string(name) + ".");
}

Config Config::sub(std::string_view name) const {
  std::optional<Config> inner = optional_sub(name);
  if (!inner) fail(name, "an object or an array");
  return *inner;
}

void Config::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) node_->ignored.emplace(name);
}

std::vector<std::string> Config::unused() const {
  std::vector<std::string> names;
  collect_unused(*node_, prefix_, names);
  return names;
}

std::vector<std::string> Config::asked() const {
  std::vector<std::string> names;
  collect_asked(*node_, prefix_, names);
  return names;
}

Config Config::with(std::string_view members) const {
  const Config added = parse(members, where());
  Json changed = *node_->value;
  for (const auto& [name, value] : added.node_->value->items()) {
    if (value.is_null()) {
      changed.erase(name);
    } else {
      changed[name] = value;
    }
  }
  return parse(changed.dump(), where());
}

std::string Config::text() const {
  return node_->value->dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace heed
