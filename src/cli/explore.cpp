// heed explore: serves a page on which one types text, or drops an image or a sound, and sees what one or two
// models make of it.
#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "explore/application.h"
#include "explore/model_card.h"
#include "heed/canceled.h"
#include "heed/generate/options.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "server/access.h"

namespace heed::cli {
namespace {

struct ExploreArguments {
  std::vector<std::string> models;
  std::vector<std::string> adapters;  // of the last model
  std::string host = "127.0.0.1";
  std::int64_t port = 8717;
};

explore::ExploredModel open_explored(const ModelChoice& choice, const Globals& globals) {
  const std::string& name = choice.name;
  const LocatedModel located = locate_model(choice);
  auto model = load_model(located, DType::f32);
  warn_of_unknown_settings(*model, located.directory, globals);
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    if (model->vocab_size() > 0) tokenizer = load_tokenizer(located.directory);
  } catch (const Error&) {  // of sound, characters are then shown as numbers
    const bool captions =
        model->input().is_image() && dynamic_cast<const EncoderDecoderModel*>(model.get()) != nullptr;
    if (model->input().kind == InputKind::tokens || captions) throw;
  }
  const std::string shown = located.directory.filename().empty()
                                ? located.directory.parent_path().filename().string()
                                : located.directory.filename().string();
  std::string title = std::filesystem::exists(name) ? shown : name;
  for (const std::string& adapter : choice.adapters) title += " + " + adapter;
  tasks::FileProcessor processor = tasks::load_file_processor(model->input(), located.directory);
  explore::ExploredModel explored{std::move(title), std::move(model), std::move(tokenizer),
                                  load_generation_options(located.directory), std::move(processor)};
  explored.show_examples(explore::examples_of(located.directory));
  return explored;
}

std::string address_of(const server::HttpServer& server, const std::string& host, const std::string& token) {
  const bool numbers_with_colons = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}/?token={}", numbers_with_colons ? "[" + host + "]" : host, server.port(),
                     token);
}

void run(const ExploreArguments& arguments, const Globals& globals) {
  std::vector<explore::ExploredModel> models;
  for (const std::string& name : arguments.models) {
    const bool last = models.size() + 1 == arguments.models.size();
    models.push_back(open_explored({name, last ? arguments.adapters : std::vector<std::string>{}}, globals));
  }
  explore::Explorer explorer(std::move(models));
  const std::string token = server::random_token();
  explore::Application application(explorer, arguments.host, token);
  server::HttpServer server(
      {.host = arguments.host,
       .port = static_cast<std::uint16_t>(arguments.port),
       .has_large_body = [&](const server::HttpRequest& request) { return application.has_file(request); }},
      [&](const server::HttpRequest& request) { return application.at_once(request); },
      [&](const server::HttpRequest& request, const std::atomic<bool>& stop) {
        return application.compute(request, stop);
      });
  if (!server.is_loopback() && !globals.quiet)
    warn("--host " + arguments.host +
         ": other machines can connect, unencrypted; whoever has the address can use the models");
  const std::string address = address_of(server, arguments.host, token);
  if (globals.json) {
    fmt::print("{}\n", JsonWriter().begin_object().field("url", address).end_object().text());
  } else {
    fmt::print("{}\n", address);
    if (!globals.quiet) print_stderr("open this address in a browser; Ctrl-C ends");
  }
  flush_results();
  server.run(stop_flag());
  throw Canceled();
}

}  // namespace

void add_explore(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "explore",
      "Serve a page to explore what models make of a text, an image or a sound, and change their heads");
  auto a = std::make_shared<ExploreArguments>();
  command->add_option("model", a->models, "One model, or two to compare: directories or names")
      ->required()
      ->expected(1, 2)
      ->type_name("MODEL");
  command
      ->add_option(
          "--adapter", a->adapters,
          "LoRA adapter of the (last) model, as PEFT saves it, times W if that is given; several add up")
      ->allow_extra_args(false)
      ->type_name("DIR[=W]");
  command->add_option("--port", a->port, "The port; 0 takes one that is free")
      ->transform(whole_number(0, 65535))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--host", a->host,
                   "The address to listen on; any but a loopback address lets other machines connect")
      ->capture_default_str()
      ->type_name("ADDRESS");
  command->footer(
      "Examples:\n"
      "  heed explore gpt2\n"
      "  heed explore en-fr\n"
      "  heed explore ./vit\n"
      "  heed explore gpt2 gpt2 --adapter runs/poems\n"
      "  heed explore runs/one runs/two --port 0");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
