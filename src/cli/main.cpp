// The heed command: reads the command line, runs one command, and turns errors into one line and an exit
// status: 0 done, 1 it failed, 2 the command line is wrong.
#include <fmt/core.h>

#include <cstdio>
#include <new>

#include "cli/cli.h"
#include "heed/threads.h"

namespace heed::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUse = 2;

void add_global_options(CLI::App& app, Globals& globals) {
  app.add_flag("--quiet,-q", globals.quiet, "No progress and no warnings");
  app.add_flag("--json", globals.json, "Results as JSON, one value per line where there are several");
  app.add_option("--threads", globals.threads, "Compute threads (default: all processors)")->check(CLI::Range(1, 4096));
  app.add_option("--seed", globals.seed, "Seed of everything random");
}

int fail(int status, const char* message) {
  fmt::print(stderr, "heed: error: {}\n", message);
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("heed trains transformers, runs them, and shows what they attend to.", "heed");
  app.set_version_flag("--version", "heed " HEED_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  Globals globals;
  add_global_options(app, globals);
  app.parse_complete_callback([&] {
    if (globals.threads > 0) set_threads(globals.threads);
  });
  add_translate(app, globals);
  add_train(app, globals);
  add_evaluate(app, globals);
  add_attend(app, globals);
  add_tokenize(app, globals);
  add_forward(app, globals);
  add_info(app, globals);
  add_average(app, globals);
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0) return fail(kFailed, "stdout: expected to write the results, got an error");
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return fail(kWrongUse, fmt::format("command line: {} (heed --help shows the use)", error.what()).c_str());
  } catch (const UsageError& error) {
    return fail(kWrongUse, error.what());
  } catch (const Error& error) {
    return fail(kFailed, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kFailed, "memory: expected more, got none (make the batch smaller)");
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace
}  // namespace heed::cli

int main(int argc, char** argv) { return heed::cli::run(argc, argv); }
