#include "core/input_file.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "io/json_reader.h"

namespace heed {
namespace io {

struct JsonMembers {
  std::vector<std::string> keys;                          // in the file's order
  std::map<std::string, std::size_t, std::less<>> index;  // key to index
};

// Kept small, because a file may have millions of values.
struct JsonValue {
  JsonReader::Kind kind = JsonReader::Kind::null;
  bool truth = false;
  mutable bool used = false;
  std::string text;                      // a string's content, or a number as written
  std::vector<JsonValue> elements;       // those of an array, or the values of an object
  std::unique_ptr<JsonMembers> members;  // for objects only
};

}  // namespace io

using io::JsonReader;
using io::JsonValue;
using Kind = JsonReader::Kind;

struct Config::Document {
  std::string where;
  JsonValue root;
};

namespace {

constexpr std::int64_t kLargestSize = std::int64_t{1} << 30;

void check_size(const Config& config, std::string_view name, std::int64_t value) {
  if (value < 1) config.fail(name, "an integer of at least 1");
  if (value > kLargestSize) config.fail(name, "an integer of at most " + std::to_string(kLargestSize));
}

JsonValue read_value(JsonReader& reader);

void read_object(JsonReader& reader, JsonValue& object) {
  object.members = std::make_unique<io::JsonMembers>();
  auto& [keys, index] = *object.members;
  std::string key;
  for (reader.begin_object(); reader.next_key(key);) {
    if (!index.emplace(key, keys.size()).second) {
      reader.fail("every key once", "\"" + key + "\" twice");
    }
    keys.push_back(key);
    object.elements.push_back(read_value(reader));
  }
}

JsonValue read_value(JsonReader& reader) {
  JsonValue value;
  value.kind = reader.peek();
  switch (value.kind) {
    case Kind::null: reader.null(); break;
    case Kind::boolean: value.truth = reader.boolean(); break;
    case Kind::number: value.text = reader.number(); break;
    case Kind::string: value.text = reader.string(); break;
    case Kind::array:
      for (reader.begin_array(); reader.next_element();) value.elements.push_back(read_value(reader));
      break;
    case Kind::object: read_object(reader, value); break;
  }
  return value;
}

std::string describe(const JsonValue& value) {
  constexpr std::size_t kShown = 60;
  switch (value.kind) {
    case Kind::null: return "null";
    case Kind::boolean: return value.truth ? "true" : "false";
    case Kind::array: return "an array of " + std::to_string(value.elements.size());
    case Kind::object: return "an object";
    case Kind::number: return value.text.size() > kShown ? value.text.substr(0, kShown) + "..." : value.text;
    case Kind::string: break;
  }
  if (value.text.size() <= kShown) return JsonWriter().value(value.text).text();
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(value.text[end]) & 0xC0u) == 0x80u) --end;
  return JsonWriter().value(value.text.substr(0, end)).text() + "...";
}

void write_value(JsonWriter& json, const JsonValue& value) {
  switch (value.kind) {
    case Kind::null: json.value(nullptr); break;
    case Kind::boolean: json.value(value.truth); break;
    case Kind::number: json.written_number(value.text); break;
    case Kind::string: json.value(value.text); break;
    case Kind::array:
      json.begin_array();
      for (const JsonValue& element : value.elements) write_value(json, element);
      json.end_array();
      break;
    case Kind::object:
      json.begin_object();
      for (std::size_t i = 0; i < value.elements.size(); ++i) {
        json.key(value.members->keys[i]);
        write_value(json, value.elements[i]);
      }
      json.end_object();
      break;
  }
}

// Returns the index of an array's element from its name.
std::optional<std::size_t> element_index(std::string_view name, std::size_t count) {
  const std::optional<std::uint64_t> place = io::json_unsigned(name);
  if (!place || *place >= count) return std::nullopt;
  return static_cast<std::size_t>(*place);
}

const JsonValue* member(const JsonValue& of, std::string_view name) {
  if (of.kind == Kind::array) {
    const std::optional<std::size_t> place = element_index(name, of.elements.size());
    return place ? &of.elements[*place] : nullptr;
  }
  if (of.members == nullptr) return nullptr;
  const auto found = of.members->index.find(name);
  return found == of.members->index.end() ? nullptr : &of.elements[found->second];
}

std::vector<std::string> names_of(const JsonValue& value) {
  if (value.kind == Kind::object) return value.members->keys;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < value.elements.size(); ++i) names.push_back(std::to_string(i));
  return names;
}

// `used` of an object or array means that sub() was called, so its own members are checked.
void collect_unused(const JsonValue& value, const std::string& prefix, std::vector<std::string>& out) {
  const std::vector<std::string> names = names_of(value);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const JsonValue& inner = value.elements[i];
    if (inner.kind == Kind::null) continue;
    if (!inner.used) {
      out.push_back(prefix + names[i]);
    } else if (!inner.elements.empty()) {
      collect_unused(inner, prefix + names[i] + ".", out);
    }
  }
}

void mark_all(const JsonValue& value) {
  value.used = true;
  for (const JsonValue& inner : value.elements) mark_all(inner);
}

}  // namespace

Config::Config(std::shared_ptr<const Document> document, const JsonValue* value, std::string prefix)
    : document_(std::move(document)), value_(value), prefix_(std::move(prefix)) {}

Config Config::load(const std::filesystem::path& file) {
  return parse(read_regular_file(file, file_limits::kConfig), file.string());
}

Config Config::parse(std::string_view text, std::string where) {
  auto document = std::make_shared<Document>();
  document->where = std::move(where);
  JsonReader reader(document->where, text);
  if (reader.peek() != Kind::object) reader.fail("an object", "something else");
  document->root = read_value(reader);
  reader.finish();
  const JsonValue* root = &document->root;
  return Config(std::move(document), root, "");
}

void Config::fail(std::string_view name, std::string_view expected) const {
  const JsonValue* value = member(*value_, name);
  throw Error(document_->where + ": " + prefix_ + std::string(name) + ": expected " + std::string(expected) +
              ", got " + (value == nullptr ? "nothing" : describe(*value)));
}

const std::string& Config::where() const { return document_->where; }

const JsonValue* Config::find(std::string_view name) const {
  const JsonValue* value = member(*value_, name);
  if (value == nullptr) return nullptr;
  value->used = true;
  return value->kind == Kind::null ? nullptr : value;
}

bool Config::has(std::string_view name) const {
  const JsonValue* value = member(*value_, name);
  return value != nullptr && value->kind != Kind::null;
}

std::vector<std::string> Config::names() const { return names_of(*value_); }

std::optional<std::int64_t> Config::optional_integer(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::number) fail(name, "an integer");
  const std::optional<std::int64_t> integer = io::json_integer(value->text);
  if (!integer) {
    const bool fraction = value->text.find_first_of(".eE") != std::string::npos;
    fail(name, fraction ? "an integer" : "an integer that fits 64 bits");
  }
  return integer;
}

std::int64_t Config::integer(std::string_view name, std::int64_t otherwise) const {
  return optional_integer(name).value_or(otherwise);
}

std::int64_t Config::required_integer(std::string_view name) const {
  const std::optional<std::int64_t> value = optional_integer(name);
  if (!value) fail(name, "an integer");
  return *value;
}

std::int64_t Config::positive_integer(std::string_view name, std::int64_t otherwise) const {
  const std::int64_t value = integer(name, otherwise);
  check_size(*this, name, value);
  return value;
}

std::int64_t Config::required_positive_integer(std::string_view name) const {
  const std::int64_t value = required_integer(name);
  check_size(*this, name, value);
  return value;
}

std::optional<double> Config::optional_number(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::number) fail(name, "a number");
  const std::optional<double> number = io::json_double(value->text);
  if (!number) fail(name, "a number that fits a double");
  return number;
}

double Config::number(std::string_view name, double otherwise) const {
  return optional_number(name).value_or(otherwise);
}

double Config::required_number(std::string_view name) const {
  const std::optional<double> value = optional_number(name);
  if (!value) fail(name, "a number");
  return *value;
}

std::optional<bool> Config::optional_boolean(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::boolean) fail(name, "true or false");
  return value->truth;
}

bool Config::boolean(std::string_view name, bool otherwise) const {
  return optional_boolean(name).value_or(otherwise);
}

std::optional<std::string> Config::optional_string(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::string) fail(name, "a string");
  return value->text;
}

std::string Config::string(std::string_view name, std::string_view otherwise) const {
  return optional_string(name).value_or(std::string(otherwise));
}

std::string Config::required_string(std::string_view name) const {
  const std::optional<std::string> value = optional_string(name);
  if (!value) fail(name, "a string");
  return *value;
}

std::vector<std::int64_t> Config::integers(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return {};
  if (value->kind == Kind::number) return {required_integer(name)};
  if (value->kind != Kind::array) fail(name, "an array of integers");
  const Config array = sub(name);
  std::vector<std::int64_t> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_integer(place));
  return elements;
}

std::vector<double> Config::numbers(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return {};
  if (value->kind != Kind::array) fail(name, "an array of numbers");
  const Config array = sub(name);
  std::vector<double> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_number(place));
  return elements;
}

std::vector<std::string> Config::strings(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return {};
  if (value->kind == Kind::string) return {required_string(name)};
  if (value->kind != Kind::array) fail(name, "an array of strings");
  const Config array = sub(name);
  std::vector<std::string> elements;
  for (const std::string& place : array.names()) elements.push_back(array.required_string(place));
  return elements;
}

std::optional<Config> Config::optional_sub(std::string_view name) const {
  const JsonValue* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Kind::object && value->kind != Kind::array) fail(name, "an object or an array");
  return Config(document_, value, prefix_ + std::string(name) + ".");
}

Config Config::sub(std::string_view name) const {
  std::optional<Config> inner = optional_sub(name);
  if (!inner) fail(name, "an object or an array");
  return *inner;
}

void Config::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const JsonValue* value = member(*value_, name);
    if (value != nullptr) mark_all(*value);
  }
}

std::vector<std::string> Config::unused() const {
  std::vector<std::string> names;
  collect_unused(*value_, prefix_, names);
  return names;
}

std::string Config::text_with(std::string_view name, std::string_view value) const {
  JsonWriter json(2);
  json.begin_object();
  bool written = false;
  const std::vector<std::string> keys = names_of(*value_);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    json.key(keys[i]);
    const bool here = keys[i] == name;
    written = written || here;
    if (here) {
      json.value(value);
    } else {
      write_value(json, value_->elements[i]);
    }
  }
  if (!written) json.field(name, value);
  json.end_object();
  return json.text() + "\n";
}

}  // namespace heed
