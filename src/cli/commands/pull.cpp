// heed pull: downloads models from the Hugging Face hub.
#include "hub/pull.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "cli/cli.h"
#include "cli/options/option_group.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "heed/error.h"
#include "heed/io/hub_cache.h"
#include "heed/io/json.h"
#include "hub/cache.h"
#include "hub/http.h"

namespace heed::cli {
namespace {

struct PullArguments {
  std::vector<std::string> models;
  std::string revision;
  hub::Patterns patterns;
};

// Returns "owner/model" from the URL of a model's page, or an empty string for anything else.
std::string model_of_address(const std::string& text) {
  const std::size_t scheme = text.find("://");
  const std::size_t host = scheme == std::string::npos ? scheme : text.find('/', scheme + 3);
  if (host == std::string::npos) return {};
  const std::string path = text.substr(host + 1);
  const std::size_t model = path.find('/');
  const std::string name = model == std::string::npos
                               ? path
                               : path.substr(0, std::min(path.find_first_of("/?#", model + 1), path.size()));
  return is_repository_name(name) ? name : "";
}

// Rejects all invalid command lines before the first connection.
std::vector<hub::PullOptions> pulls_of(const PullArguments& arguments) {
  std::vector<hub::PullOptions> pulls;
  for (const std::string& text : arguments.models) {
    const auto [repository, revision] = split_revision(text);
    if (!is_repository_name(repository)) {
      const std::string meant = model_of_address(text);
      throw UsageError("model: expected owner/model as on the hub, got " +
                       (meant.empty()
                            ? "\"" + text + "\" (for example: heed pull openai-community/gpt2)"
                            : "the address " + text + " (give owner/model: heed pull " + meant + ")"));
    }
    if (!revision.empty() && !arguments.revision.empty())
      throw UsageError("--revision: expected one revision, got two (" + text + ")");
    hub::PullOptions options;
    options.model = repository;
    const bool named = text.find('@') != std::string::npos;
    if (named || !arguments.revision.empty()) options.revision = named ? revision : arguments.revision;
    if (!is_revision(options.revision)) {
      throw UsageError("--revision: expected a branch, a tag or a commit, got \"" + options.revision + "\"");
    }
    options.patterns = arguments.patterns;
    pulls.push_back(options);
  }
  return pulls;
}

void report(const hub::PullOptions& options, const hub::PullResult& result, bool as_json) {
  if (!as_json) {
    print_stdout("{}\n", result.path.string());
  } else {
    JsonWriter json;
    json.begin_object()
        .field("model", options.model)
        .field("revision", options.revision)
        .field("commit", result.commit)
        .field("path", result.path.string())
        .field("files", result.files)
        .field("bytes", result.bytes)
        .field("received", result.received);
    print_stdout("{}\n", json.end_object().text());
  }
  flush_results();
}

void pull_one(const hub::Settings& settings, hub::PullOptions options, const Globals& globals) {
  using Clock = std::chrono::steady_clock;
  Progress progress(globals.quiet);
  const auto start = Clock::now();
  options.stop = &stop_flag();
  options.on_message = [&](const std::string& message) {
    if (globals.quiet) return;
    progress.finish();
    print_stderr(options.model + ": " + message);
  };
  options.on_progress = [&](const hub::PullProgress& p) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double rate = seconds > 0 ? static_cast<double>(p.received) / seconds : 0;
    std::string text =
        fmt::format("{}  {} of {}", options.model, hub::size_text(p.done), hub::size_text(p.total));
    if (rate > 0) {
      text += fmt::format("  {}/s  {} left", hub::size_text(static_cast<std::uint64_t>(rate)),
                          clock_time(static_cast<double>(p.total - std::min(p.done, p.total)) / rate));
    }
    progress.show_text(static_cast<std::int64_t>(p.done), static_cast<std::int64_t>(p.total), text);
  };
  const hub::PullResult result = hub::pull(settings, options);
  progress.finish();
  report(options, result, globals.json);
}

void run(const PullArguments& arguments, const Globals& globals) {
  const std::vector<hub::PullOptions> pulls = pulls_of(arguments);
  const hub::Settings settings = hub::Settings::from_environment();
  try {
    for (const hub::PullOptions& options : pulls) pull_one(settings, options, globals);
  } catch (const Canceled&) {
    print_stderr("heed: download: stopped (run the same command again to resume)");
    throw;
  }
}

}  // namespace

void add_pull(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("pull", "Download models from the Hugging Face hub into its cache");
  auto arguments = std::make_shared<PullArguments>();
  command
      ->add_option("model", arguments->models,
                   "Models as the hub names them: owner/model, or owner/model@revision")
      ->required();
  OptionGroup input(*command, "Input");
  input.value("--revision", arguments->revision, "REVISION", "Branch, tag or commit (default: main)");
  input.value("--include", arguments->patterns.include, "GLOB",
              "Download the files that match, instead of those heed reads");
  input.value("--exclude", arguments->patterns.exclude, "GLOB", "Leave out the files that match");
  command->footer(
      "Prints the directory of each model. --model owner/model finds it afterward.\n\n"
      "Examples:\n"
      "  heed pull openai-community/gpt2\n"
      "  heed pull google-bert/bert-base-uncased Helsinki-NLP/opus-mt-en-fr\n"
      "  heed pull owner/model --revision v1.0 --exclude '*.md'\n"
      "  HF_TOKEN=hf_... heed pull owner/private-model");
  command->callback([arguments, &globals] { run(*arguments, globals); });
}

}  // namespace heed::cli
