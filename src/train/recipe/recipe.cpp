// Reads recipes: TOML values into fields, with a message for every kind of mistake.
#include "heed/train/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <toml++/toml.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "core/edit_distance.h"
#include "core/strings.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "train/recipe/recipe_fields.h"

namespace heed {
namespace {

std::string section_of(std::string_view key) { return std::string(key.substr(0, key.find('.'))); }

// Throws Error for a section that no key belongs to.
void refuse_unknown_section(const std::string& where, const std::vector<RecipeField>& fields,
                            const std::string& section) {
  std::vector<std::string> known;
  for (const RecipeField& field : fields) {
    if (const std::string name = section_of(field.key); known.empty() || known.back() != name)
      known.push_back(name);
  }
  if (std::find(known.begin(), known.end(), section) != known.end()) return;
  const std::string near = nearest_word(section, known);
  throw Error(near.empty() ? fmt::format("{}: expected one of the sections [{}], got [{}]", where,
                                         fmt::join(known, "], ["), section)
                           : fmt::format("{}: expected a known section, got [{}] (did you mean [{}]?)", where,
                                         section, near));
}

[[noreturn]] void unknown_key(const std::string& where, const std::vector<RecipeField>& fields,
                              const std::string& key) {
  throw Error(fmt::format("{}: expected a known key, got {}{}", where, key, nearest_key_hint(fields, key)));
}

std::string show(const toml::node& node) {
  std::string shown;
  node.visit([&](const auto& value) {
    std::ostringstream out;
    out << value;
    shown = out.str();
  });
  return shown;
}

std::string show(double number) { return fmt::format("{}", number); }

// Replaces "${NAME}" by the environment variable.
std::string expand_variables(const std::string& text, const std::string& where) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = text.find("${", at);
    if (open == std::string::npos) return out + text.substr(at);
    const std::size_t close = text.find('}', open);
    if (close == std::string::npos) {
      throw Error(fmt::format("{}: expected ${{NAME}}, got \"{}\" (the brace is not closed)", where, text));
    }
    const std::string name = text.substr(open + 2, close - open - 2);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') {
      throw Error(
          fmt::format("{}: the environment variable {} is not set (export {}=... or write the path out)",
                      where, name, name));
    }
    out += text.substr(at, open - at) + value;
    at = close + 1;
  }
}

// Assigns a TOML value to a field. `where` begins messages; relative paths start at `base`.
class Assignment {
 public:
  Assignment(const RecipeField& field, const toml::node& node, std::string where, std::filesystem::path base)
      : field_(field), node_(node), where_(std::move(where) + ": " + field.key), base_(std::move(base)) {}

  void run() const {
    std::visit([this](auto* target) { set(*target); }, field_.target);
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& meant = "") const {
    throw Error(fmt::format("{}: expected {}, got {}{}", where_, expected, show(node_),
                            meant.empty() ? "" : " (did you mean " + meant + "?)"));
  }
  std::string range(const char* kind) const {
    // A double does not take every whole number.
    const double value = node_.is_integer() ? static_cast<double>(*node_.value<std::int64_t>())
                                            : node_.value<double>().value_or(0);
    const bool is_above = value > field_.max;
    if (field_.max >= 1e15 && !is_above) return fmt::format("{} of at least {}", kind, show(field_.min));
    return fmt::format("{} from {} to {}", kind, show(field_.min), show(field_.max));
  }
  double number(const toml::node& node, const std::string& expected) const {
    const std::optional<double> value = node.value<double>();
    if (!node.is_number() || !value || !(*value >= field_.min && *value <= field_.max)) fail(expected);
    return *value;
  }
  void set(bool& target) const {
    if (!node_.is_boolean()) fail("true or false");
    target = *node_.value<bool>();
  }
  void set(std::int64_t& target) const {
    const std::string expected = range("a whole number");
    const double value = number(node_, expected);
    if (std::floor(value) != value) fail(expected);
    target = static_cast<std::int64_t>(value);
  }
  void set(Interval& target) const {
    constexpr std::string_view kUnit = "epoch";
    const std::string expected =
        "a whole number of steps of at least 0, \"epoch\", or epochs such as \"0.5 epoch\"";
    if (node_.is_string()) {
      const std::string text = *node_.value<std::string>();
      double epochs = 1;
      if (!text.ends_with(kUnit)) fail(expected);
      if (const std::string_view count =
              trimmed(std::string_view(text).substr(0, text.size() - kUnit.size()));
          !count.empty()) {
        const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), epochs);
        if (error != std::errc() || end != count.data() + count.size()) fail(expected);
      }
      if (!(epochs > 0 && epochs < field_.max)) fail(expected);
      target = Interval();
      target.epochs = epochs;
      return;
    }
    const double steps = number(node_, expected);
    if (std::floor(steps) != steps) fail(expected);
    target = static_cast<std::int64_t>(steps);
  }
  void set(double& target) const { target = number(node_, range("a number")); }
  void set(std::array<double, 2>& target) const {
    const std::string expected = "two numbers in brackets, each" + range("").substr(0);
    const toml::array* both = node_.as_array();
    if (both == nullptr || both->size() != target.size()) fail(expected);
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = number((*both)[i], expected);
  }
  void set(std::string& target) const {
    const std::optional<std::string> value = node_.value<std::string>();
    const std::string expected =
        field_.choices.empty() ? "text" : fmt::format("one of {}", fmt::join(field_.choices, ", "));
    if (!node_.is_string() || !value) fail(expected);
    const auto& choices = field_.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), *value) == choices.end())
      fail(expected, nearest_word(*value, choices));
    target = *value;
  }
  void set(std::vector<std::int64_t>& target) const {
    const std::string expected = "a list of whole numbers in brackets, each" + range("").substr(0);
    const toml::array* array = node_.as_array();
    if (array == nullptr) fail(expected);
    target.clear();
    for (const toml::node& element : *array) {
      const double value = number(element, expected);
      if (std::floor(value) != value) fail(expected);
      target.push_back(static_cast<std::int64_t>(value));
    }
  }
  std::vector<std::string> texts(const std::string& expected) const {
    std::vector<std::string> list;
    const toml::array* array = node_.as_array();
    if (array == nullptr || array->empty()) fail(expected);
    for (const toml::node& element : *array) {
      if (!element.is_string() || element.value<std::string>()->empty()) fail(expected);
      list.push_back(*element.value<std::string>());
    }
    return list;
  }
  void set(std::vector<std::string>& target) const {
    target = texts("a list of texts in brackets and quotes");
  }
  void set(ModuleTargets& target) const {
    constexpr const char* kExpected =
        "a list of names in brackets and quotes, or one regular expression for the whole name";
    const bool expression = node_.is_string() && !node_.value<std::string>()->empty();
    target = expression ? ModuleTargets{.expression = *node_.value<std::string>()}
                        : ModuleTargets{.names = texts(kExpected)};
  }
  void set(ClassWeights& target) const {
    constexpr const char* kExpected = "\"balanced\", or a table of labels and weights of at least 0";
    if (node_.is_string() && *node_.value<std::string>() == "balanced") {
      target = {.balanced = true};
      return;
    }
    const toml::table* table = node_.as_table();
    if (table == nullptr || table->empty()) fail(kExpected);
    target = {};
    for (auto&& [label, weight] : *table) target.labels[std::string(label.str())] = number(weight, kExpected);
  }
  void set(std::filesystem::path& target) const {
    if (!node_.is_string()) fail("a path in quotes");
    const std::string text = expand_variables(*node_.value<std::string>(), where_);
    target =
        text.empty() ? std::filesystem::path() : std::filesystem::absolute(base_ / text).lexically_normal();
  }

  const RecipeField& field_;
  const toml::node& node_;
  std::string where_;
  std::filesystem::path base_;
};

std::string json_text(const toml::node& node) {
  std::ostringstream out;
  out << toml::json_formatter{node};
  return out.str();
}

const RecipeField* find_field(const std::vector<RecipeField>& fields, std::string_view key) {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const RecipeField& f) { return f.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

/// Where a string that begins at `at` ends.
std::size_t string_end(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool several_lines = text.substr(at, 3) == std::string(3, quote);
  const std::string end(several_lines ? 3 : 1, quote);
  for (at += end.size(); at < text.size() && text.substr(at, end.size()) != end; ++at)
    if (text[at] == '\\' && quote == '"') ++at;
  return std::min(at + end.size(), text.size());
}

/// Throws Error for values that are deeper than toml++ can free without exhausting the stack. It counts the
/// brackets, but not the parts of a.b.c, each of which is a table in the one before.
void limit_depth(std::string_view text, const std::string& where) {
  constexpr std::size_t kDeepest = 64;
  std::vector<std::size_t> open;  // the parts of keys before each open bracket
  std::size_t parts = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = string_end(text, at) - 1;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size()) - 1;
    } else if (c == '[' || c == '{') {
      open.push_back(std::exchange(parts, parts + 1));
    } else if (c == ']' || c == '}') {
      parts = open.empty() ? 0 : open.back();
      if (!open.empty()) open.pop_back();
    } else if (c == '.') {
      ++parts;
    } else if (c == ',' || c == '\n') {
      parts = open.empty() ? 0 : open.back() + 1;
    }
    if (parts > kDeepest)
      throw Error(fmt::format(
          "{}:{}: expected values nested at most {} deep, got deeper ones", where,
          1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'), kDeepest));
  }
}

toml::table parse_toml(const std::string& text, const std::string& where) {
  limit_depth(text, where);
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw Error(fmt::format("{}:{}: expected TOML, got something else ({})", where, e.source().begin.line,
                            e.description()));
  }
}

std::string as_text(const RecipeField& field) {
  struct Visitor {
    std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
    std::string operator()(const std::int64_t* v) const { return fmt::format("{}", *v); }
    std::string operator()(const double* v) const { return fmt::format("{}", *v); }
    std::string operator()(const std::string* v) const { return *v; }
    std::string operator()(const std::filesystem::path* v) const { return v->string(); }
    std::string operator()(const std::vector<std::string>* v) const { return JsonWriter().value(*v).text(); }
    std::string operator()(const std::vector<std::int64_t>* v) const { return JsonWriter().value(*v).text(); }
    std::string operator()(const ModuleTargets* v) const {
      return v->expression.empty() ? (*this)(&v->names) : v->expression;
    }
    std::string operator()(const Interval* v) const {
      if (v->epochs == 0) return fmt::format("{}", v->steps);
      return v->epochs == 1 ? "epoch" : fmt::format("{} epoch", v->epochs);
    }
    std::string operator()(const ClassWeights* v) const {
      if (v->balanced) return "balanced";
      std::vector<std::string> parts;
      for (const auto& [label, weight] : v->labels)
        parts.push_back(fmt::format("{} = {}", JsonWriter().value(label).text(), weight));
      return parts.empty() ? "" : fmt::format("{{ {} }}", fmt::join(parts, ", "));
    }
    std::string operator()(const std::array<double, 2>* v) const {
      return fmt::format("[{}, {}]", (*v)[0], (*v)[1]);
    }
  };
  return std::visit(Visitor{}, field.target);
}

// Of SECTION.KEY=VALUE.
std::string key_of(std::string_view assignment) {
  return std::string(trimmed(assignment.substr(0, assignment.find('=')), " \t"));
}

}  // namespace

Recipe load_recipe(const std::filesystem::path& file, const std::vector<std::string>& following) {
  const toml::table document = parse_toml(read_file(file, file_limits::kRecipe), file.string());
  Recipe recipe;
  const std::vector<RecipeField> fields = recipe_fields(recipe);
  for (auto&& [section_key, section_node] : document) {
    const std::string section(section_key.str());
    const std::string section_where = fmt::format("{}:{}", file.string(), section_key.source().begin.line);
    const toml::table* table = section_node.as_table();
    if (table == nullptr) unknown_key(section_where, fields, section);
    refuse_unknown_section(section_where, fields, section);
    for (auto&& [key, node] : *table) {
      const std::string name = section + "." + std::string(key.str());
      const std::string where = fmt::format("{}:{}", file.string(), key.source().begin.line);
      const RecipeField* field = find_field(fields, name);
      if (field == nullptr && section == "model") {
        recipe.model.settings[std::string(key.str())] = json_text(node);
        continue;
      }
      if (field == nullptr) unknown_key(where, fields, name);
      if (section == "model" && name != "model.family")
        recipe.model.sizes[std::string(key.str())] = json_text(node);
      recipe.given[name] = where;
      const bool is_replaced = std::any_of(following.begin(), following.end(),
                                           [&](const std::string& one) { return key_of(one) == name; });
      if (!is_replaced) Assignment(*field, node, where, std::filesystem::absolute(file).parent_path()).run();
    }
  }
  return recipe;
}

void apply_override(Recipe& recipe, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = key_of(assignment);
  if (equals == std::string_view::npos || key.empty()) {
    throw Error(fmt::format("override: expected section.key=value, got \"{}\"", assignment));
  }
  const std::vector<RecipeField> fields = recipe_fields(recipe);
  const RecipeField* field = find_field(fields, key);
  const bool of_model = key.starts_with("model.");
  if (field == nullptr && !of_model) {
    if (key.find('.') != std::string::npos) refuse_unknown_section("override", fields, section_of(key));
    unknown_key("override", fields, key);
  }
  const std::string value(trimmed(assignment.substr(equals + 1), " \t"));
  limit_depth(value, "override");
  toml::table table;
  const bool wants_text = field != nullptr && (std::holds_alternative<std::string*>(field->target) ||
                                               std::holds_alternative<std::filesystem::path*>(field->target));
  const bool quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  if (wants_text && !quoted) {
    table.insert("x", value);
  } else {
    try {
      table = toml::parse("x = " + value);
    } catch (const toml::parse_error&) {
      table.insert("x", value);  // a number was expected: the check below reports a text
    }
  }
  if (field == nullptr) {
    recipe.model.settings[key.substr(key.find('.') + 1)] = json_text(*table.get("x"));
    recipe.given[key] = kRecipeOverride;
    return;
  }
  Assignment(*field, *table.get("x"), "override", std::filesystem::current_path()).run();
  if (of_model && key != "model.family")
    recipe.model.sizes[key.substr(key.find('.') + 1)] = json_text(*table.get("x"));
  recipe.given[key] = kRecipeOverride;
}

void refuse_overrides_of_model(const Recipe& recipe) {
  for (const auto& [key, where] : recipe.given) {
    if (where == kRecipeOverride && (key.starts_with("model.") || key.starts_with("tokenizer.")))
      throw Error(fmt::format(
          "override: expected no {} beside --init, whose model and tokenizer are taken as they are", key));
  }
}

std::map<std::string, std::string> recipe_values(const Recipe& recipe) {
  Recipe copy = recipe;
  std::map<std::string, std::string> values;
  for (const RecipeField& field : recipe_fields(copy)) values[field.key] = as_text(field);
  for (const auto& [key, value] : recipe.model.settings) values["model." + key] = value;
  return values;
}

std::string recipe_reference() {
  Recipe defaults;
  std::string text, section;
  for (const RecipeField& field : recipe_fields(defaults)) {
    const std::size_t dot = field.key.find('.');
    if (field.key.substr(0, dot) != section) {
      section = field.key.substr(0, dot);
      text += fmt::format("{}| `[{}]` | default | of | |\n|---|---|---|---|\n", text.empty() ? "" : "\n",
                          section);
    }
    std::string value = as_text(field);
    if (!value.empty()) value = fmt::format("`{}`", value);
    std::string users = field.tasks.empty() ? "" : fmt::format("`{}`", fmt::join(field.tasks, "`, `"));
    if (!field.formats.empty()) users += fmt::format(" with `{}`", fmt::join(field.formats, "`, `"));
    std::string choices;
    if (!field.choices.empty()) choices = fmt::format("`{}`: ", fmt::join(field.choices, "`, `"));
    text += fmt::format("| `{}` | {} | {} | {}{} |\n", field.key.substr(dot + 1), value, users, choices,
                        field.doc);
  }
  return text;
}

std::vector<std::string> fixed_differences(const std::map<std::string, std::string>& kept,
                                           const Recipe& recipe) {
  // Recipes of earlier versions lack later keys, whose defaults are what those versions did.
  std::map<std::string, std::string> before = recipe_values(Recipe());
  for (const auto& [key, value] : kept) before[key] = value;
  std::vector<std::string> keys;
  Recipe copy = recipe;
  for (const RecipeField& field : recipe_fields(copy)) {
    if (!field.may_change && before.at(field.key) != as_text(field)) keys.emplace_back(field.key);
  }
  const auto add = [&](const std::string& key) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  const std::map<std::string, std::string> now = recipe_values(recipe);
  for (const auto& [key, value] : kept) {
    if (key.starts_with("model.") && (!now.contains(key) || now.at(key) != value)) add(key);
  }
  for (const auto& [key, value] : recipe.model.settings) {
    if (!kept.contains("model." + key)) add("model." + key);
  }
  return keys;
}

}  // namespace heed
