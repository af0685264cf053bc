// Completion scripts: a table of every command's words and options, and a function per shell that reads it.
// An option's type name decides how its value is completed: FILE, DIR, MODEL, or choices such as f32|bf16.
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/cli.h"
#include "cli/options/help.h"
#include "cli/options/usage_errors.h"
#include "core/strings.h"

namespace heed::cli {
namespace {

void collect(const CLI::App& app, std::vector<const CLI::App*>& commands) {
  commands.push_back(&app);
  for (const CLI::App* command : app.get_subcommands({})) collect(*command, commands);
}

// Returns file, directory, model, none, or the choices separated by bars, without placeholders (in capitals).
std::string value_kind(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.rfind("FILE", 0) == 0) return "file";
  if (type.rfind("DIR", 0) == 0) return "directory";
  if (type == "MODEL") return "model";
  if (type.find('|') == std::string::npos) return "none";
  std::istringstream choices(type);
  std::vector<std::string> words;
  for (std::string choice; std::getline(choices, choice, '|');) {
    if (std::isupper(static_cast<unsigned char>(choice.front())) == 0) words.push_back(choice);
  }
  return joined(words, "|") + (words.size() == 1 ? "|" : "");
}

// Returns the text in single quotes, for either shell.
std::string single_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Returns a command's table as lines of a case statement: NAME) words='…' values='…' ;;
std::string bash_table(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  collect(app, commands);
  std::string table;
  for (const CLI::App* command : commands) {
    std::vector<std::string> options, values;
    for (const CLI::Option* option : listed_options(*command)) {
      for (const std::string& name : option_names(*option)) {
        if (name.size() > 2) options.push_back(name);  // short options are not offered
        if (takes_value(*option)) values.push_back(name + "=" + value_kind(*option));
      }
    }
    std::string arguments = "none";
    for (const CLI::Option* option : positionals(*command)) arguments = value_kind(*option);
    table += "    " + single_quoted(full_name(*command)) +
             ")\n      options=" + single_quoted(joined(options, " ")) +
             "\n      values=" + single_quoted(joined(values, " ")) +
             "\n      commands=" + single_quoted(joined(command_names(*command), " ")) +
             "\n      arguments=" + single_quoted(arguments) + " ;;\n";
  }
  return table;
}

constexpr const char* kBashHead =
    R"sh(# Completion of the heed command for bash, written by `heed --completion bash`.

# What a command takes: options, kinds of their values, commands below it, kind of its arguments.
_heed_table() {
  case $1 in
)sh";

constexpr const char* kBashTail = R"sh(  esac
}

# Names of models that can be given without a path: those in $HEED_MODELS and the installed ones.
_heed_models() {
  local folder program
  program=$(type -P "${1/#\~/$HOME}") && program=$(readlink -f "$program")
  local -a folders
  IFS=: read -r -a folders <<<"${HEED_MODELS:-}"
  for folder in "${folders[@]}" "${program:+${program%/*}/../share/heed/models}"; do
    if [[ -n $folder && -d $folder ]]; then
      (cd "$folder" && for model in */; do [[ -f ${model}config.json ]] && echo "${model%/}"; done)
    fi
  done
}

_heed() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  # bash makes three words of --option=value.
  if [[ $current == '=' ]]; then
    current=
  elif [[ $previous == '=' && COMP_CWORD -gt 1 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  local command=heed options values commands arguments word kind=
  _heed_table heed
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then
      command+=" $word"
      _heed_table "$command"
      [[ $command == 'heed help' ]] && break
    fi
  done
  for word in $values; do
    if [[ $word == "$previous="* ]]; then kind=${word#*=}; fi
  done

  local words=
  if [[ -z $kind ]]; then
    if [[ $current == -* ]]; then
      words=$options
    elif [[ -n $commands ]]; then
      words="$commands $options"
    elif [[ $command == 'heed help' ]]; then
      _heed_table heed
      words=$commands
    else
      kind=$arguments
      words=$options
    fi
  fi
  local files=
  case $kind in
    '' | none) ;;
    file) files=-f ;;
    directory) files=-d ;;
    model) words+=" $(_heed_models "${COMP_WORDS[0]}")" files=-d ;;
    *) words+=" ${kind//|/ }" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ -n $files ]]; then
    local paths
    mapfile -t paths < <(compgen "$files" -- "$current")
    COMPREPLY+=("${paths[@]}")
    compopt -o filenames 2>/dev/null
  fi
}

complete -F _heed heed
)sh";

// Escapes a text for a specification of _arguments, in which brackets and colons have a meaning.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_value(const CLI::Option& option) {
  const std::string kind = value_kind(option), name = zsh_text(option.get_type_name());
  if (kind == "file") return ":" + name + ":_files";
  if (kind == "directory") return ":" + name + ":_directories";
  if (kind == "model") return ":" + name + ":_heed_models";
  if (kind == "none") return ":" + name + ": ";
  std::string choices = kind;
  std::replace(choices.begin(), choices.end(), '|', ' ');
  return ":value:(" + choices + ")";
}

// Returns the specification of an option for _arguments. Its names exclude each other, unless it may be
// repeated.
std::string zsh_option(const CLI::Option& option, bool repeats) {
  const std::vector<std::string> names = option_names(option);
  const std::string text =
      "[" + zsh_text(option.get_description()) + "]" + (takes_value(option) ? zsh_value(option) : "");
  const std::string excluded = repeats ? "*" : "(" + joined(names, " ") + ")";
  std::string specifications;
  for (const std::string& name : names)
    specifications += " \\\n        " + single_quoted(excluded + name + text);
  return specifications;
}

std::string zsh_argument(const CLI::Option& option) {
  const bool several = option.get_expected_max() > 1;
  return " \\\n        " + single_quoted((several ? "*" : "1") + zsh_value(option));
}

constexpr const char* kZshProgram =
    "  local _heed_program=${commands[${words[1]}]:-${words[1]/#\\~/$HOME}}\n";

// Returns the functions of `app` and its commands. A name is "_heed_bench_gemm".
std::string zsh_functions(const CLI::App& app) {
  std::string name = full_name(app);
  std::replace(name.begin(), name.end(), ' ', '_');
  const auto commands = app.get_subcommands({});
  std::string out = "_" + name + "() {\n";
  if (!commands.empty()) out += "  local context state state_descr line\n  local -A opt_args\n";
  if (app.get_parent() == nullptr) out += kZshProgram;
  out += std::string("  _arguments") + (commands.empty() ? "" : " -C");
  for (const CLI::Option* option : listed_options(app))
    out += zsh_option(*option, takes_value(*option) && option->get_expected_max() > 1);
  if (commands.empty()) {
    const bool is_help = name == "heed_help";
    for (const CLI::Option* option : positionals(app))
      out += is_help ? " \\\n        '1:command:_heed_commands'" : zsh_argument(*option);
    return out + "\n}\n\n";
  }
  out += " \\\n        '1:command:_" + name + "_commands' '*::argument:->arguments' && return\n";
  out += "  case $state:${line[1]} in\n";
  for (const CLI::App* command : commands)
    out += "    arguments:" + command->get_name() + ") _" + name + "_" + command->get_name() + " ;;\n";
  out += "  esac\n}\n\n_" + name + "_commands() {\n  local -a names=(\n";
  for (const CLI::App* command : commands)
    out += "    " + single_quoted(command->get_name() + ":" + zsh_text(command->get_description())) + "\n";
  out += "  )\n  _describe command names\n}\n\n";
  for (const CLI::App* command : commands) out += zsh_functions(*command);
  return out;
}

constexpr const char* kZshHead = R"sh(#compdef heed
# Completion of the heed command for zsh, written by `heed --completion zsh`.

# Directories, and the names of models that can be given without a path: those in $HEED_MODELS and the
# installed ones.
_heed_models() {
  local -a names
  local folder
  for folder in ${(s.:.)HEED_MODELS} ${_heed_program:A:h}/../share/heed/models; do
    names+=($folder/*/config.json(N:h:t))
  done
  _alternative 'models:model:('"$names"')' 'directories:model directory:_directories'
}

)sh";

constexpr const char* kZshTail = "_heed \"$@\"\n";

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "bash") return kBashHead + bash_table(app) + kBashTail;
  if (shell == "zsh") return kZshHead + zsh_functions(app) + kZshTail;
  throw UsageError("--completion: expected bash or zsh, got " + shell);
}

}  // namespace heed::cli
