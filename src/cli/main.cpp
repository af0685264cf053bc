// The heed command: parses the command line, runs one command, and reports an error as one line and an exit
// status: 0 for success, 1 for failure, 2 for a wrong command line, 70 for a bug of heed.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/options/help.h"
#include "cli/options/option_values.h"
#include "cli/options/usage_errors.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/processes.h"
#include "cli/terminal/terminal.h"
#include "heed/analyses/analyzed.h"
#include "heed/error.h"
#include "heed/threads.h"
#include "kernels/machine.h"

namespace heed::cli {

// The commands, in the order of the help: a line has the group there, and the name of the command, of its
// file commands/NAME.cpp and of the function add_NAME that it defines. Help, completion, docs/commands.md and
// the tests of these are made from what this table adds.
// clang-format off
#define HEED_COMMANDS(COMMAND) \
  COMMAND(kStart, generate) \
  COMMAND(kStart, chat) \
  COMMAND(kStart, translate) \
  COMMAND(kStart, train) \
  COMMAND(kStart, attend) \
  COMMAND(kStart, serve) \
  COMMAND(kUse, transcribe) \
  COMMAND(kUse, caption) \
  COMMAND(kUse, fill) \
  COMMAND(kUse, classify) \
  COMMAND(kUse, answer) \
  COMMAND(kUse, embed) \
  COMMAND(kUse, tokenize) \
  COMMAND(kUse, forward) \
  COMMAND(kLookInside, explore) \
  COMMAND(kLookInside, lens) \
  COMMAND(kLookInside, heads) \
  COMMAND(kLookInside, attribute) \
  COMMAND(kLookInside, ablate) \
  COMMAND(kLookInside, patch) \
  COMMAND(kLookInside, circuits) \
  COMMAND(kLookInside, features) \
  COMMAND(kLookInside, steer) \
  COMMAND(kMeasure, evaluate) \
  COMMAND(kMeasure, doctor) \
  COMMAND(kMeasure, bench) \
  COMMAND(kFiles, models) \
  COMMAND(kFiles, pull) \
  COMMAND(kFiles, convert)
// clang-format on

#define HEED_DECLARE_COMMAND(group, name) void add_##name(CLI::App& app, const Globals& globals);
HEED_COMMANDS(HEED_DECLARE_COMMAND)
#undef HEED_DECLARE_COMMAND

namespace {

constexpr const char* kStart = "Start here";
constexpr const char* kUse = "Use a model";
constexpr const char* kLookInside = "Look inside a model";
constexpr const char* kMeasure = "Check and measure";
constexpr const char* kFiles = "Models and their files";

void add_commands(CLI::App& app, const Globals& globals) {
#define HEED_ADD_COMMAND(title, name) \
  add_##name(app, globals);           \
  app.get_subcommand(#name)->group(title);
  HEED_COMMANDS(HEED_ADD_COMMAND)
#undef HEED_ADD_COMMAND
}

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;
constexpr int kSignal = 128;  // plus the signal's number, as in shells

void add_common_options(CLI::App& app, Globals& globals) {
  app.set_help_flag("--help,-h", "Show this help");
  app.get_help_ptr()->group(kCommonOptions);
  app.add_flag("--json", globals.json, "Write results as JSON, one value per line where there are several")
      ->group(kCommonOptions);
  app.add_option("--threads", globals.threads, "Compute threads (default: all processors)")
      ->transform(whole_number(1, 4096))
      ->type_name("N")
      ->group(kCommonOptions);
  app.add_option("--seed", globals.seed,
                 "Seed of random numbers (default: a new one for each run; of training, the recipe's)")
      ->transform(whole_number(0))
      ->type_name("N")
      ->group(kCommonOptions);
  app.add_flag("--quiet,-q", globals.quiet, "Write no progress and no warnings")->group(kCommonOptions);
  app.add_flag("--verbose,-v", globals.verbose, "Report choices made for you, such as the seed, on stderr")
      ->group(kCommonOptions);
}

// For failures that no catch can handle: SentencePiece's trainer terminates the process if one of its threads
// gets no memory.
[[noreturn]] void end_at_once() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fputs("heed: error: memory: not enough for this work (use less data, e.g. data.max_pairs)\n",
               stderr);
    std::_Exit(kFailed);
  } catch (const InternalError& error) {  // in a destructor
    std::fprintf(stderr, "heed: error: %s\n", failure(error).c_str());
    std::_Exit(exit_status(error));
  } catch (...) {  // a bug in heed
  }
  std::abort();
}

std::string help_of(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, full_name(command), CLI::AppFormatMode::Normal);
}

// heed help COMMAND
void add_help(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show the help of a command")->group("");
  auto path = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *path, "The command, e.g. translate, or bench gemm")->type_name("COMMAND");
  command->footer("Example:\n  heed help translate");
  command->callback([&app, path] {
    const CLI::App* shown = &app;
    for (const std::string& name : *path) {
      const CLI::App* next = nullptr;
      for (const CLI::App* candidate : shown->get_subcommands({})) {
        if (candidate->get_name() == name) next = candidate;
      }
      if (next == nullptr) throw UsageError(unknown_command(*shown, name));
      shown = next;
    }
    print_stdout("{}", help_of(*shown));
  });
}

// --seed is a common option, but few commands use random numbers.
void warn_of_unused_seed(const CLI::App& command, const Globals& globals) {
  constexpr std::string_view kRandomCommands[] = {"train", "attend", "heads", "ablate", "transcribe"};
  const bool random =
      command.get_option_no_throw("--do-sample") != nullptr ||
      std::count(std::begin(kRandomCommands), std::end(kRandomCommands), command.get_name()) > 0;
  if (globals.seed && !random && !globals.quiet) warn("--seed has no effect on " + full_name(command));
}

int fail(int status, const std::string& message) {
  report_failure(status, message);
  return status;
}

// A process that ends because others were asked to has no signal of its own.
int status_of_stop() {
  const int signal = stop_signal();
  const int status = kSignal + (signal != 0 ? signal : SIGTERM);
  end_other_processes(status);
  return status;
}

// If the command is missing, all commands are listed.
bool misses_command(const CLI::App& app, const std::vector<std::string>& words) {
  return !chosen_command(app).get_subcommands({}).empty() && unconsumed_words(app, words).empty();
}

int explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  if (misses_command(app, words) && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::fputs(help_of(chosen_command(app)).c_str(), stderr);
    return kWrongUse;
  }
  return fail(kWrongUse, wrong_use(app, error, words));
}

void parse(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  try {
    app.parse(static_cast<int>(pointers.size()), pointers.data());
  } catch (const CLI::CallForHelp&) {
    const std::vector<std::string> others = unconsumed_words(app, words);
    const CLI::App& command = chosen_command(app);
    if (!command.get_subcommands({}).empty() && !others.empty())
      throw UsageError(unknown_command(command, others.front()));
    print_stdout("{}", help_of(command));
  } catch (const CLI::CallForVersion& version) {
    print_stdout("{}\n", version.what());
  } catch (const CLI::Success&) {  // an option has printed what was asked for
  }
}

int run(int argc, char** argv) {
  CLI::App app("heed trains transformers, runs them, and shows their attention.", "heed");
  app.formatter(std::make_shared<HelpFormatter>());
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "heed help COMMAND lists what a command takes, with examples.\n"
      "\n"
      "Examples:\n"
      "  heed translate \"The cat sat on the mat.\"\n"
      "  heed train reverse --output runs/reverse");
  Globals globals;
  add_common_options(app, globals);
  app.set_version_flag("--version", version_text, "Show the version");
  app.get_version_ptr()->group(kCommonOptions);
  add_commands(app, globals);
  add_help(app);
  unprotect_values(app);
  app.parse_complete_callback([&] {
    static_cast<void>(kernels::target_name());  // throws where HEED_TARGET is wrong
    if (!globals.quiet) warn_of_unknown_background();
    if (globals.threads > 0) set_threads(globals.threads);
    join_processes(chosen_command(app), globals);
    warn_of_unused_seed(chosen_command(app), globals);
    refuse_overwritten_inputs(chosen_command(app));
  });
  const std::vector<std::string> words = protect_brackets(argc, argv);
  const LeaveProcesses at_end;
  try {
    if (argc > 2 && words[words.size() - 2] == "--completion") {  // not in the help
      print_stdout("{}", completion_script(app, words.back()));
    } else if (words.size() > 1 && words.back() == "--completion") {
      throw UsageError("--completion: missing value: bash or zsh");
    } else {
      parse(app, words);
    }
    flush_results();
    return 0;
  } catch (const CLI::ParseError& error) {
    return explain(app, error, words);
  } catch (const UsageError& error) {
    return fail(kWrongUse, error.what());
  } catch (const OptionError& error) {  // of the library, which has options without dashes
    return fail(kWrongUse, std::string("--") + error.what());
  } catch (const Canceled&) {
    return status_of_stop();
  } catch (const ReportedError&) {
    return kFailed;
  } catch (const std::exception& error) {
    return fail(exit_status(error), failure(error));
  }
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  // Exceeding the process's file size limit is then an error of write(2), which is reported and leaves no
  // temporary file behind.
  std::signal(SIGXFSZ, SIG_IGN);
  heed::cli::report_cut_files();
  std::set_terminate(heed::cli::end_at_once);
  return heed::cli::run(argc, argv);
}
