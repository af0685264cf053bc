// Config over a JSON document, with a record of the keys that were used.
#include <map>
#include <set>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/model_files.h"
#include "heed/io/json.h"

namespace heed {

namespace io {

struct ConfigNode {
  JsonField field;  // an object or an array
  std::set<std::string, std::less<>> used = {};
  std::set<std::string, std::less<>> ignored = {};                             // with everything in them
  std::map<std::string, std::unique_ptr<ConfigNode>, std::less<>> inner = {};  // read through sub()

  std::string prefix() const { return field.path().empty() ? "" : field.path() + "."; }
};

}  // namespace io

using io::ConfigNode;

struct Config::Document {
  Document(Json value, std::string where) : json(std::move(value)), root{JsonField(json, std::move(where))} {}
  Json json;
  mutable ConfigNode root;
};

namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;

void check_size(const Config& config, std::string_view name, std::int64_t value) {
  if (value < 1) config.fail(name, "an integer of at least 1");
  if (value > kLargestSize) config.fail(name, "an integer of at most " + std::to_string(kLargestSize));
}

/// The value of a key, marked as used even where there is none; nullopt if it is absent or null.
std::optional<JsonField> find(ConfigNode& node, std::string_view name) {
  node.used.emplace(name);
  const Json* value = node.field.member(name);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return JsonField(*value, node.field.where(), node.field.path_of(name));
}

template <class T>
T required(const Config& config, std::string_view name, std::optional<T> value, std::string_view expected) {
  if (!value) config.fail(name, expected);
  return *std::move(value);
}

/// The elements of an array, each read by `read` from the array and its index.
template <class Read>
auto elements(const Config& array, const Read& read) {
  std::vector<decltype(read(array, ""))> elements;
  for (const std::string& place : array.names()) elements.push_back(read(array, place));
  return elements;
}

void collect_unused(const ConfigNode& node, std::vector<std::string>& out) {
  for (const auto& item : node.field.value().items()) {
    const std::string& name = item.key();
    if (item.value().is_null() || node.ignored.contains(name)) continue;
    if (!node.used.contains(name)) out.push_back(node.prefix() + name);
    const auto inner = node.inner.find(name);
    if (inner != node.inner.end()) collect_unused(*inner->second, out);
  }
}

void collect_asked(const ConfigNode& node, std::vector<std::string>& out) {
  for (const std::string& name : node.used) {
    out.push_back(node.prefix() + name);
    const auto inner = node.inner.find(name);
    if (inner != node.inner.end()) collect_asked(*inner->second, out);
  }
}

}  // namespace

Config::Config(std::shared_ptr<const Document> document, ConfigNode* node)
    : document_(std::move(document)), node_(node) {}

Config Config::load(const std::filesystem::path& file) {
  return parse(read_regular_file(file, file_limits::kConfig), file.string());
}

Config Config::load(const ModelFiles& model, std::string_view name) {
  return parse(model.text(name, file_limits::kConfig), model.where(name));
}

Config Config::parse(std::string_view text, std::string where) {
  Json json = parse_json(text, where);
  auto document = std::make_shared<Document>(std::move(json), std::move(where));
  if (!document->json.is_object()) document->root.field.fail("an object");
  ConfigNode* root = &document->root;
  return Config(std::move(document), root);
}

void Config::fail(std::string_view name, std::string_view expected) const {
  const JsonField& field = node_->field;
  if (const Json* value = field.member(name))
    JsonField(*value, field.where(), field.path_of(name)).fail(expected);
  throw Error(field.where() + ": " + field.path_of(name) + ": expected " + std::string(expected) +
              ", got nothing");
}

const std::string& Config::where() const { return node_->field.where(); }

bool Config::has(std::string_view name) const {
  const Json* value = node_->field.member(name);
  return value != nullptr && !value->is_null();
}

bool Config::is_string(std::string_view name) const {
  const Json* value = node_->field.member(name);
  return value != nullptr && value->is_string();
}

bool Config::is_number(std::string_view name) const {
  const Json* value = node_->field.member(name);
  return value != nullptr && value->is_number();
}

bool Config::is_off(std::string_view name) const {
  const Json* value = node_->field.member(name);
  return value == nullptr || value->is_null() || *value == Json(false) ||
         (value->is_structured() && value->empty());
}

std::vector<std::string> Config::names() const {
  std::vector<std::string> names;
  for (const auto& item : node_->field.value().items()) names.push_back(item.key());
  return names;
}

std::optional<std::int64_t> Config::optional_integer(std::string_view name) const {
  const auto field = find(*node_, name);
  return field ? std::optional(field->integer()) : std::nullopt;
}

std::int64_t Config::integer(std::string_view name, std::int64_t default_value) const {
  return optional_integer(name).value_or(default_value);
}

std::int64_t Config::required_integer(std::string_view name) const {
  return required(*this, name, optional_integer(name), "an integer");
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
  const auto field = find(*node_, name);
  return field ? std::optional(field->number()) : std::nullopt;
}

double Config::number(std::string_view name, double default_value) const {
  return optional_number(name).value_or(default_value);
}

double Config::required_number(std::string_view name) const {
  return required(*this, name, optional_number(name), "a number");
}

std::optional<bool> Config::optional_boolean(std::string_view name) const {
  const auto field = find(*node_, name);
  return field ? std::optional(field->boolean()) : std::nullopt;
}

bool Config::boolean(std::string_view name, bool default_value) const {
  return optional_boolean(name).value_or(default_value);
}

std::optional<std::string> Config::optional_string(std::string_view name) const {
  const auto field = find(*node_, name);
  return field ? std::optional(field->string()) : std::nullopt;
}

std::string Config::string(std::string_view name, std::string_view default_value) const {
  return optional_string(name).value_or(std::string(default_value));
}

std::string Config::required_string(std::string_view name) const {
  return required(*this, name, optional_string(name), "a string");
}

std::vector<std::int64_t> Config::integers(std::string_view name) const {
  const auto field = find(*node_, name);
  if (!field) return {};
  if (field->value().is_number()) return {field->integer()};
  if (!field->value().is_array()) fail(name, "an array of integers");
  return elements(sub(name), [](const Config& c, std::string_view at) { return c.required_integer(at); });
}

std::vector<double> Config::numbers(std::string_view name) const {
  const auto field = find(*node_, name);
  if (!field) return {};
  if (!field->value().is_array()) fail(name, "an array of numbers");
  return elements(sub(name), [](const Config& c, std::string_view at) { return c.required_number(at); });
}

std::vector<std::string> Config::strings(std::string_view name) const {
  const auto field = find(*node_, name);
  if (!field) return {};
  if (field->value().is_string()) return {field->string()};
  if (!field->value().is_array()) fail(name, "an array of strings");
  return elements(sub(name), [](const Config& c, std::string_view at) { return c.required_string(at); });
}

std::optional<Config> Config::optional_sub(std::string_view name) const {
  const auto field = find(*node_, name);
  if (!field) return std::nullopt;
  if (!field->value().is_structured()) fail(name, "an object or an array");
  auto& inner = node_->inner[std::string(name)];
  if (inner == nullptr) inner = std::make_unique<ConfigNode>(ConfigNode{*field});
  return Config(document_, inner.get());
}

Config Config::sub(std::string_view name) const {
  return required(*this, name, optional_sub(name), "an object or an array");
}

void Config::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) node_->ignored.emplace(name);
}

std::vector<std::string> Config::unused() const {
  std::vector<std::string> names;
  collect_unused(*node_, names);
  return names;
}

std::vector<std::string> Config::asked() const {
  std::vector<std::string> names;
  collect_asked(*node_, names);
  return names;
}

Config Config::with(std::string_view members) const {
  const Config added = parse(members, where());
  Json changed = node_->field.value();
  for (const auto& [name, value] : added.node_->field.value().items()) {
    if (value.is_null()) {
      changed.erase(name);
    } else {
      changed[name] = value;
    }
  }
  return parse(json_text(changed), where());
}

std::string Config::text() const { return json_text(node_->field.value(), 2) + "\n"; }

}  // namespace heed
