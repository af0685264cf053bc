// heed explore: serves a page on which one types text, or drops an image or a sound, and sees what one or two
// models make of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "explore/recording/recording.h"
#include "explore/routes.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/open/loaded_model.h"
#include "server/access.h"
#include "server/http_server.h"

namespace heed::cli {
namespace {

struct ExploreArguments {
  std::vector<std::string> models;
  std::vector<std::string> adapters;  // of the last model
  std::vector<std::string> steering;  // of the last model: FILE, or FILE=LARGEST
  std::string steered_layers;
  std::string host = "127.0.0.1";
  std::int64_t port = 8717;
  std::filesystem::path page;   // a recording is written to
  std::int64_t page_limit = 3;  // MB of answers
  std::string page_view = "matrix";
  std::string page_head;
  std::filesystem::path page_notes;
  std::vector<std::string> texts, targets;
};

void check_arguments(ExploreArguments& arguments, const Globals& globals) {
  const bool exports = !arguments.page.empty();
  if (exports && arguments.page.extension() != ".html")
    throw UsageError("--export: expected a file name that ends in .html, got " + arguments.page.string());
  const std::string& view = arguments.page_view;
  if (view.find('=') == view.npos &&
      std::find(std::begin(explore::kExportedViews), std::end(explore::kExportedViews), view) ==
          std::end(explore::kExportedViews))
    throw UsageError(fmt::format("--export-view: expected {}, or what follows the # of an address, got {}",
                                 fmt::join(explore::kExportedViews, ", "), view));
  if (!exports && !arguments.page_notes.empty()) throw UsageError("--export-notes: needs --export FILE.html");
  if (arguments.texts.empty() && !arguments.page_head.empty())
    throw UsageError("--export-head: needs --text");
  if (!exports && !arguments.texts.empty()) throw UsageError("--text: needs --export FILE.html");
  if (arguments.targets.size() > arguments.texts.size())
    throw UsageError("--target: expected at most one for each --text, got " +
                     std::to_string(arguments.targets.size()) + " for " +
                     std::to_string(arguments.texts.size()));
  for (std::string& text : arguments.texts) text = valid_text(text, "--text", globals.quiet);
  for (std::string& target : arguments.targets) target = valid_text(target, "--target", globals.quiet);
}

explore::ExploredModel open_explored(const ModelChoice& choice, const Globals& globals) {
  require_name(choice.name);
  LoadOptions options = load_options(choice);
  options.head = true;
  const std::vector<SteeringFile> offered = std::exchange(options.steering, {});  // the page adds them
  std::optional<Waiting> waiting(std::in_place, opening(choice), globals.quiet);
  const LoadedModel opened = heed::load(choice.name, options);
  waiting.reset();
  warn_of_settings(opened, globals);
  const std::filesystem::path place = opened.location();
  const std::string shown =
      (place.filename().empty() ? place.parent_path().filename() : place.filename()).string();
  std::string title = std::filesystem::exists(choice.name) ? shown : choice.name;
  for (const std::string& adapter : choice.adapters) title += " + " + adapter;
  explore::ExploredModel explored(std::move(title), opened);
  for (const SteeringFile& one : offered) {
    if (one.strength <= 0)
      throw UsageError(
          fmt::format("--steer: {}: expected a largest strength above 0, got {}", one.file, one.strength));
    explored.offer_steering({one.file, one.strength, one.layers});
  }
  return explored;
}

std::string address_of(const server::HttpServer& server, const std::string& host, const std::string& token) {
  const bool numbers_with_colons = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/?token={}", numbers_with_colons ? "[" + host + "]" : host, server.port(),
                     token);
}

void write_page(const explore::Recording& recording, const explore::Explorer& explorer,
                const ExploreArguments& arguments, const Globals& globals) {
  const std::string notes = arguments.page_notes.empty() ? "" : read_file(arguments.page_notes);
  const std::string page = recording.page(explorer.models(), arguments.page_view, notes);
  write_file(arguments.page, page);
  if (globals.quiet) return;
  print_stderr(fmt::format("wrote {} ({} kB)", arguments.page.string(), (page.size() + 999) / 1000));
}

void warn_of_left_out(const explore::Recording& recording, const ExploreArguments& arguments) {
  warn(fmt::format("--export: the recording is full: {} of its answers {} left out (--export-limit is {} MB)",
                   recording.left_out(), recording.left_out() == 1 ? "was" : "were", arguments.page_limit));
}

/// Records texts without serving.
void export_texts(explore::Explorer& explorer, explore::Recording& recording,
                  const ExploreArguments& arguments, const Globals& globals) {
  record_texts(explorer, recording, arguments.texts, arguments.targets, stop_flag(), arguments.page_head);
  if (recording.left_out() > 0 && !globals.quiet) warn_of_left_out(recording, arguments);
  write_page(recording, explorer, arguments, globals);
}

void run(ExploreArguments arguments, const Globals& globals) {
  check_arguments(arguments, globals);
  const bool exports = !arguments.page.empty();
  std::vector<explore::ExploredModel> models;
  for (const std::string& name : arguments.models) {
    const bool last = models.size() + 1 == arguments.models.size();
    ModelChoice choice{name};
    if (last) choice = {name, arguments.adapters, arguments.steering, arguments.steered_layers};
    models.push_back(open_explored(choice, globals));
  }
  explore::Explorer explorer(std::move(models));
  explore::Recording recording(static_cast<std::size_t>(arguments.page_limit) * 1'000'000);
  if (!arguments.texts.empty()) return export_texts(explorer, recording, arguments, globals);
  const std::string token = server::random_token();
  // Says once that the recording is full.
  const auto record = [&](std::string_view path, const std::string& request, const std::string& answer) {
    if (!exports) return;
    const bool was_full = recording.left_out() > 0;
    recording.add(path, request, answer, explorer);
    if (recording.left_out() > 0 && !was_full && !globals.quiet) warn_of_left_out(recording, arguments);
  };
  server::Application application(explore::routes(explorer, token, record),
                                  explore::application_options(arguments.host, token));
  server::HttpServer server(
      {.host = arguments.host,
       .port = static_cast<std::uint16_t>(arguments.port),
       .body_of = [&](const server::HttpRequest& request) { return application.body_of(request); }},
      [&](server::HttpRequest request, std::shared_ptr<server::Reply> reply) {
        application.handle(std::move(request), std::move(reply));
      });
  if (!server.is_loopback() && !globals.quiet)
    warn("--host " + arguments.host +
         ": other machines can connect, unencrypted; whoever has the address can use the models");
  const std::string address = address_of(server, arguments.host, token);
  if (globals.json) {
    print_stdout("{}\n", JsonWriter().begin_object().field("url", address).end_object().text());
  } else {
    print_stdout("{}\n", address);
    if (!globals.quiet) print_stderr("open this address in a browser; Ctrl-C ends");
  }
  flush_results();
  server.run(stop_flag());
  if (exports && recording.empty()) warn("--export: nothing was asked, so no page is written");
  if (exports && !recording.empty()) write_page(recording, explorer, arguments, globals);
}

}  // namespace

void add_explore(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "explore",
      "Serve a page to explore what models make of a text, an image or a sound, and change their heads");
  auto a = std::make_shared<ExploreArguments>();
  OptionGroup recording(*command, "Recording"), server(*command, "Server");
  add_models_argument(*command, a->models, "A model (heed help models), or two to compare")
      ->required()
      ->expected(1, 2);
  OptionGroup model(*command, "Model");
  model.value("--adapter", a->adapters, "DIR[=W]",
              "LoRA adapter of the (last) model, as PEFT saves it, times W if that is given; several add up");
  CLI::Option* steer =
      model.value("--steer", a->steering, "FILE[=S]",
                  "Vectors to add to the residual stream of the (last) model, as heed steer writes them: "
                  "a slider of the page, from -S to S (default: 1)");
  model
      .value("--steer-layers", a->steered_layers, "RANGE",
             "Layers that are steered, as 10:20, from 0 and without the last (default: all of the file)")
      ->needs(steer);
  server.count("--port", a->port, 0, "The port; 0 takes one that is free", 65535);
  server
      .value("--host", a->host, "ADDRESS",
             "The address to listen on; any but a loopback address lets other machines connect")
      ->capture_default_str();
  recording.value("--export", a->page, "FILE.html",
                  "Record what the page asks, and write it as one page that needs no server: at the end, or "
                  "at once with --text");
  recording.value(
      "--text", a->texts, "TEXT",
      "With --export: record what the page asks when it is opened on this text, and do not serve");
  recording.value("--target", a->targets, "TEXT",
                  "The target of the text in the same place, for an encoder-decoder; empty: its own output");
  recording
      .value("--export-view", a->page_view, "VIEW",
             fmt::format("What the exported page opens on: {}, or what follows the # of an address that the "
                         "page copies",
                         fmt::join(explore::kExportedViews, ", ")))
      ->capture_default_str();
  recording.value("--export-head", a->page_head, "KIND.LAYER.HEAD",
                  "With --text: a head, such as decoder.0.3, whose steps, scores, traps and ablation are "
                  "recorded beside those of the heads that the page opens on");
  recording.value("--export-notes", a->page_notes, "FILE.html",
                  "A part of HTML above what the exported page shows, such as the text of a lesson");
  recording
      .count("--export-limit", a->page_limit, 1,
             "The largest recording, before compression; what does not fit is left out", 1000)
      ->type_name("MB");
  command
      ->add_flag_callback(
          "--list-fields",
          [] {
            print_stdout("{}", explore::listed_fields());
            throw CLI::Success();
          },
          "List every field of a request, and exit")
      ->trigger_on_parse();
  command->footer(
      "Examples:\n"
      "  heed explore gpt2\n"
      "  heed explore en-fr\n"
      "  heed explore ./vit\n"
      "  heed explore gpt2 gpt2 --adapter runs/poems\n"
      "  heed explore gpt2 --steer mood.safetensors=2\n"
      "  heed explore runs/one runs/two --port 0\n"
      "  heed explore en-fr --export page.html --text \"The black cat drinks milk.\"");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
