// The heed command: reads the command line, runs one command, and turns errors into one line and an exit
// status: 0 done, 1 it failed, 2 the command line is wrong.
#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "cli/input.h"
#include "cli/option_values.h"
#include "cli/terminal.h"
#include "heed/cancelled.h"
#include "heed/threads.h"

namespace heed::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;
constexpr int kSignal = 128;
constexpr int kInterrupted = 130;  // as shells say it of SIGINT
constexpr const char* kNoMemory = "memory: expected more, got none (make the batch smaller)";

void add_global_options(CLI::App& app, Globals& globals) {
  app.add_flag("--quiet,-q", globals.quiet, "No progress and no warnings");
  app.add_flag("--json", globals.json, "Results as JSON, one value per line where there are several");
  app.add_option("--threads", globals.threads, "Compute threads (default: all processors)")
      ->transform(whole_number(1, 4096));
  app.add_option("--seed", globals.seed, "Seed of everything random")->transform(whole_number(0));
}

// One line, whatever the message holds, and even where stderr cannot be written to.
int fail(int status, std::string message) {
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  std::fputs(("heed: error: " + message + "\n").c_str(), stderr);
  return status;
}

std::string before(const std::string& text, const std::string& mark) {
  return text.substr(0, text.find(mark));
}

std::string after(const std::string& text, const std::string& mark) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.substr(at + mark.size());
}

// What CLI11 found, in heed's form. Its kinds of error are classes, but their details stand in their texts
// only.
std::string wrong_use(const CLI::App& app, const CLI::ParseError& error) {
  const auto commands = app.get_subcommands();
  const std::string command = commands.empty() ? "heed" : "heed " + commands.front()->get_name();
  const std::string help = " (" + command + " --help shows the use)", text = error.what();
  const bool wants_command = commands.empty() || text.starts_with("A subcommand");
  if (wants_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::vector<std::string> others = app.remaining(true);
    return "command line: expected a command" + (commands.empty() ? "" : " of " + command) + ", got " +
           (others.empty() ? "none" : others.front()) + help;
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    return "command line: expected " + before(text, " is required") + ", got none" + help;
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return "command line: expected what " + command + " takes, got " + after(text, "expected: ") + help;
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool missing = text.find("missing") != std::string::npos;
    return before(text, ":") + ": expected one value, got " + (missing ? "none" : "another number of them") +
           help;
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return text;
  return "command line: expected values the options take, got " + after(text, "Could not convert: ") + help;
}

int report(const std::filesystem::filesystem_error& error) {
  return fail(kFailed, fmt::format("{}: expected a place that can be used, got \"{}\"",
                                   error.path1().string(), error.code().message()));
}

// For what no catch can reach: SentencePiece's trainer ends the process when one of its threads gets no
// memory.
[[noreturn]] void end_at_once() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) {
    std::fputs("heed: error: memory: expected more, got none (use less data, e.g. data.max_pairs)\n", stderr);
    std::_Exit(kFailed);
  } catch (...) {  // a bug of ours
  }
  std::abort();
}

int run(int argc, char** argv) {
  CLI::App app("heed trains transformers, runs them, and shows what they attend to.", "heed");
  app.set_version_flag("--version", "heed " HEED_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "heed COMMAND --help shows what a command takes, with examples.\n"
      "Examples:\n"
      "  heed translate \"The cat sat on the mat.\"\n"
      "  heed train recipes/reverse.toml --output runs/reverse");
  Globals globals;
  add_global_options(app, globals);
  app.parse_complete_callback([&] {
    if (globals.threads > 0) set_threads(globals.threads);
  });
  add_translate(app, globals);
  add_generate(app, globals);
  add_fill(app, globals);
  add_classify(app, globals);
  add_tag(app, globals);
  add_answer(app, globals);
  add_embed(app, globals);
  add_train(app, globals);
  add_evaluate(app, globals);
  add_attend(app, globals);
  add_tokenize(app, globals);
  add_forward(app, globals);
  add_info(app, globals);
  add_pull(app, globals);
  add_average(app, globals);
  add_bench(app, globals);
  try {
    try {
      const std::vector<std::string> words = with_brackets_kept(argc, argv);
      std::vector<const char*> pointers;
      for (const std::string& word : words) pointers.push_back(word.c_str());
      app.parse(argc, pointers.data());
    } catch (const CLI::Success& success) {  // --help and --version
      app.exit(success);
    }
    flush_results();
    return 0;
  } catch (const Stopped& stopped) {
    return kSignal + stopped.signal;
  } catch (const CLI::ParseError& error) {
    return fail(kWrongUse, wrong_use(app, error));
  } catch (const UsageError& error) {
    return fail(kWrongUse, error.what());
  } catch (const Cancelled&) {
    return kInterrupted;
  } catch (const ReportedError&) {
    return kFailed;
  } catch (const Error& error) {
    return fail(kFailed, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailed, kNoMemory);
  } catch (const std::length_error&) {  // of a container asked for more than there are addresses
    return fail(kFailed, kNoMemory);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(error);
  } catch (const std::system_error& error) {  // fmt's, when stdout takes no more
    return fail(kFailed,
                fmt::format("stdout: expected to write the results, got \"{}\"", error.code().message()));
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) {
  // A file larger than the limit of the process is an error of write(2) then, which is reported and leaves no
  // temporary file behind.
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(heed::cli::end_at_once);
  return heed::cli::run(argc, argv);
}
