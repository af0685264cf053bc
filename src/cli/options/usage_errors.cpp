// Messages about the command line. CLI11's errors are distinguished by class, but their details are only in
// their texts.
//
// A command or an option that is renamed or goes away gets a line in kFormerNames: who types the former name
// is answered with the present one, with exit status 2. A line is {command, option, present}: `command` is
// the full name as it was typed, `option` is empty where the command itself went away, and `present` is what
// does the same now, with what must be typed beside it. A name that takes on another meaning in the same
// command cannot be answered so, and should get a new name instead.
#include "cli/options/usage_errors.h"

#include <algorithm>
#include <string_view>

#include "cli/options/help.h"
#include "core/edit_distance.h"

namespace heed::cli {
namespace {

constexpr char kMark = '\x1f';

std::string before(const std::string& text, const std::string& mark) {
  return text.substr(0, text.find(mark));
}

std::string after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.substr(at + mark.size());
}

struct FormerName {
  std::string_view command, option, present;
};
constexpr FormerName kFormerNames[] = {
    {"heed attend", "--label", "--token"},
    {"heed attend", "--metric", "heed ablate --metric"},
    {"heed attend", "--prompts", "heed ablate --prompts"},
    {"heed average", "", "heed convert MODEL MODEL"},
    {"heed bench attention", "--heads", "--num-heads"},
    {"heed bench attention", "--keys", "--num-keys"},
    {"heed bench attention", "--kind", "--pattern"},
    {"heed bench attention", "--kv-heads", "--num-kv-heads"},
    {"heed bench lengths", "--heads", "--num-heads"},
    {"heed bench recurrent", "--input", "--input-size"},
    {"heed doctor", "--text", "--texts"},
    {"heed evaluate", "--metric", "--scores"},
    {"heed evaluate", "--text", "--texts"},
    {"heed heads", "--ablate", "heed ablate"},
    {"heed heads", "--ablation", "heed ablate --ablation"},
    {"heed heads", "--feed-forward", "heed ablate --feed-forward"},
    {"heed heads", "--metric", "heed ablate --metric"},
    {"heed heads", "--reference", "heed ablate --reference"},
    {"heed heads", "--remove", "heed ablate --remove"},
    {"heed heads", "--text", "--texts"},
    {"heed info", "", "heed models MODEL"},
    {"heed lens", "--id", "heed attribute logit --id"},
    {"heed lens", "--other", "heed attribute logit --other"},
    {"heed lens", "--position", "heed attribute logit --position"},
    {"heed lens", "--prompts", "heed attribute logit --prompts"},
    {"heed lens", "--token", "heed attribute logit --token"},
    {"heed merge", "", "heed convert"},
    {"heed patch", "--compare", "--check-attribution"},
    {"heed patch", "--label", "--token"},
    {"heed quantize", "", "heed convert --bits 4"},
    {"heed tag", "", "heed classify"},
    {"heed tokenize", "--target", "--as-target"},
    {"heed transcribe", "--stride", "--stride-length-s"},
    {"heed transcribe", "--window", "--chunk-length-s"},
    {"heed translate", "--task", "--task-params"},
    {"heed why", "", "heed attribute score"},
};

// Commands and options of Ollama, llama.cpp and OpenAI, by their names here.
struct OtherName {
  std::string_view other, name;
};
constexpr OtherName kOtherNames[] = {
    {"run", "chat"},
    {"list", "models"},
    {"ls", "models"},
    {"show", "models"},
    {"download", "pull"},
    {"finetune", "train"},
    {"--max-tokens", "--max-new-tokens"},
    {"--n-predict", "--max-new-tokens"},
    {"--repeat-penalty", "--repetition-penalty"},
    {"--temp", "--temperature"},
    {"--top", "--top-k"},
};

std::string name_here(const std::string& word) {
  const auto* found = std::find_if(std::begin(kOtherNames), std::end(kOtherNames),
                                   [&](const OtherName& one) { return one.other == word; });
  return found == std::end(kOtherNames) ? std::string() : std::string(found->name);
}

// Returns the message for a name that went away, or an empty one for another. `option` may be empty.
std::string about_former_name(const std::string& command, const std::string& option) {
  for (const FormerName& former : kFormerNames) {
    if (former.command != command || former.option != option) continue;
    const std::string present(former.present);
    const std::string name = option.empty() ? command : option + " of " + command;
    return "command line: " + name + " is now " + present + " (" +
           (option.empty() ? present.substr(0, present.find(' ', 5)) : command) + " --help shows its use)";
  }
  return "";
}

std::string unprotect(const std::string& word) {
  return !word.empty() && word.front() == kMark ? word.substr(1) : word;
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-'; }

bool has_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> names = option_names(*option);
    if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  }
  return false;
}

// Collects the names of the commands below `app` that have an option.
void find_takers(const CLI::App& app, const std::string& option, std::vector<std::string>& names) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (has_option(*command, option)) names.push_back(full_name(*command));
    find_takers(*command, option, names);
  }
}

std::string list_of(const std::vector<std::string>& words, const char* last) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list += (i == 0 ? "" : i + 1 < words.size() ? ", " : last) + words[i];
  return list;
}

std::string unknown_options(const CLI::App& app, const CLI::App& command,
                            const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    const std::string former = about_former_name(full_name(command), option);
    if (!former.empty()) return former;
  }
  std::string message = "command line: unknown option";
  message += options.size() == 1 ? " " : "s ";
  message += list_of(options, ", ") + " for " + full_name(command) + " (";
  std::vector<std::string> takers, known;
  find_takers(app, options.front(), takers);
  for (const CLI::Option* option : listed_options(command)) {
    for (const std::string& name : option_names(*option)) known.push_back(name);
  }
  std::string near = name_here(options.front());
  const bool is_here = !near.empty() && has_option(command, near);
  if (!is_here) near = nearest_word(options.front(), known);
  if (!takers.empty() && !is_here) {
    constexpr std::size_t kMost = 3;
    const bool more = takers.size() > kMost;
    if (more) takers.resize(kMost);
    message += list_of(takers, more ? ", " : " and ") + (more                 ? " and others take it; "
                                                         : takers.size() == 1 ? " takes it; "
                                                                              : " take it; ");
  } else if (!near.empty()) {
    message += "did you mean " + near + "? ";
  }
  return message + full_name(command) + " --help lists all)";
}

std::string about_unconsumed_words(const CLI::App& app, const CLI::App& command,
                                   const std::vector<std::string>& words) {
  std::vector<std::string> options;
  for (const std::string& word : words) {
    if (is_option(word)) options.push_back(before(word, "="));
  }
  if (!options.empty()) return unknown_options(app, command, options);
  return std::string("command line: unexpected argument") + (words.size() == 1 ? " " : "s ") +
         list_of(words, ", ") + " for " + full_name(command) + " (" + full_name(command) +
         " --help shows its use)";
}

}  // namespace

std::vector<std::string> protect_brackets(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::string& word : words) {
    if (word.size() > 1 && word.front() == '[' && word.back() == ']') word.insert(word.begin(), kMark);
  }
  return words;
}

void unprotect_values(CLI::App& app) {
  const auto remove_mark = [](std::string& word) {
    word = unprotect(word);
    return std::string();
  };
  for (CLI::Option* option : app.get_options()) {
    if (takes_value(*option)) option->transform(CLI::Validator(remove_mark, ""));
  }
  for (CLI::App* command : app.get_subcommands({})) unprotect_values(*command);
}

const CLI::App& chosen_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : chosen_command(*commands.front());
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

std::string unknown_command(const CLI::App& parent, const std::string& word) {
  const std::string name = full_name(parent), former = about_former_name(name + " " + word, "");
  if (!former.empty()) return former;
  std::vector<std::string> names;
  for (const CLI::App* command : parent.get_subcommands({})) names.push_back(command->get_name());
  std::string near = parent.get_parent() == nullptr ? name_here(word) : "";
  if (near.empty()) near = nearest_word(word, names);
  return "command line: unknown command " + word + (parent.get_parent() == nullptr ? "" : " of " + name) +
         " (" + (near.empty() ? "" : "did you mean " + near + "? ") + name + " --help lists all)";
}

std::vector<std::string> unconsumed_words(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> remaining = app.remaining(true), ordered;
  for (const std::string& word : words) {
    const auto found = std::find(remaining.begin(), remaining.end(), word);
    if (found == remaining.end()) continue;
    remaining.erase(found);
    ordered.push_back(unprotect(word));
  }
  return ordered;
}

std::string wrong_use(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& words) {
  const CLI::App& command = chosen_command(app);
  const std::string text = error.what(), help = " (" + full_name(command) + " --help shows its use)";
  const std::vector<std::string> others = unconsumed_words(app, words);
  const auto other = std::find_if_not(others.begin(), others.end(), is_option);
  if (!command.get_subcommands({}).empty()) {  // a command is missing
    if (other != others.end() && !is_option(others.front())) return unknown_command(command, *other);
  }
  if (!others.empty()) return about_unconsumed_words(app, command, others);
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::string name = before(text, " is required");
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option != nullptr && option->get_positional()) name = option->get_name(true);
    if (name == "--model" || name == "model")
      return "command line: missing " + name + " for " + full_name(command) +
             " (heed models lists those that are here; " + full_name(command) + " --help shows its use)";
    return "command line: missing " + name + " for " + full_name(command) + help;
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool missing = text.find("missing") != std::string::npos;
    const CLI::Option* option = command.get_option_no_throw(before(text, ":"));
    const int most = option != nullptr ? option->get_items_expected_max() : 1;
    return before(text, ":") + ": " +
           (missing    ? "missing its value"
            : most > 1 ? "expected at most " + std::to_string(most) + " values, got more"
                       : "expected one value, got several") +
           help;
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr)
    return "command line: expected one of " + before(text, " excludes ") + " and " +
           after(text, " excludes ") + ", got both" + help;
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr)
    return "command line: missing " + after(text, " requires ") + ", which " + before(text, " requires ") +
           " needs" + help;
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return text;
  return "command line: expected a valid value, got " + after(text, "Could not convert: ") + help;
}

}  // namespace heed::cli
