// Files of prompts.
#include <fmt/core.h>

#include <algorithm>

#include "core/json.h"
#include "core/json_field.h"
#include "data/lines.h"
#include "heed/analyses/analyzed.h"

namespace heed {
namespace {

struct PromptKey {
  const char* name;
  std::optional<std::string> Prompt::*field;
};
constexpr PromptKey kKeys[] = {
    {"corrupted", &Prompt::corrupted}, {"target", &Prompt::target}, {"A", &Prompt::a}, {"B", &Prompt::b}};

// Other keys are the user's own.
void set(Prompt& prompt, const std::string& key, const std::string& text) {
  if (key == "clean") prompt.clean = text;
  for (const PromptKey& known : kKeys) {
    if (key == known.name && !text.empty()) prompt.*known.field = text;
  }
}

bool is_key(const std::string& name) {
  return name == "clean" || std::any_of(std::begin(kKeys), std::end(kKeys),
                                        [&](const PromptKey& key) { return name == key.name; });
}

void check(const Prompt& prompt) {
  if (prompt.clean.empty()) throw Error(prompt.where + ": clean: expected a text, got none");
}

std::vector<Prompt> of_json_lines(const std::filesystem::path& file) {
  std::vector<Prompt> prompts;
  data::Lines lines(file);
  for (std::string line; lines.next(line);) {
    if (line.empty()) continue;
    Prompt& prompt = prompts.emplace_back();
    prompt.where = fmt::format("{}:{}", file.string(), lines.count());
    const Json json = parse_json(line, prompt.where);
    const JsonField object(json, prompt.where);
    object.at("clean");
    object.each_member([&](const std::string& key, const JsonField& member) {
      if (is_key(key) && !member.is_null()) set(prompt, key, member.string());
    });
    check(prompt);
  }
  return prompts;
}

std::vector<Prompt> of_table(const std::filesystem::path& file, const std::string& format) {
  data::Table table(file, format, false);
  std::vector<std::string> header, fields;
  if (!table.next(header)) throw Error(file.string() + ": expected a header and rows, got an empty file");
  if (std::find(header.begin(), header.end(), "clean") == header.end())
    throw Error(table.where() +
                ": expected a header with a column clean (and corrupted, target, A, B where they are "
                "needed), got " +
                (header.empty() ? "none" : header.front()));
  std::vector<Prompt> prompts;
  while (table.next(fields)) {
    if (fields.size() == 1 && fields.front().empty()) continue;
    Prompt& prompt = prompts.emplace_back();
    prompt.where = table.where();
    if (fields.size() != header.size())
      throw Error(fmt::format("{}: expected {} columns, as the header has, got {}", prompt.where,
                              header.size(), fields.size()));
    if (!table.is_utf8()) throw Error(prompt.where + ": expected UTF-8, got other bytes");
    for (std::size_t i = 0; i < fields.size(); ++i) set(prompt, header[i], fields[i]);
    check(prompt);
  }
  return prompts;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending != ".jsonl" && ending != ".tsv" && ending != ".csv")
    throw OptionError("prompts", "expected a file ending in .jsonl, .tsv or .csv, got " + file.string());
  std::vector<Prompt> prompts = ending == ".jsonl" ? of_json_lines(file) : of_table(file, ending.substr(1));
  if (prompts.empty()) throw Error(file.string() + ": expected at least one prompt, got none");
  return prompts;
}

}  // namespace heed
