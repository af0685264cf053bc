// heed serve: models behind HTTP.
#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <future>
#include <set>
#include <sstream>

#include "cli/cli.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "core/strings.h"
#include "core/text_lines.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "serve/model_server.h"
#include "serve/model_sources.h"
#include "server/http_server.h"
#include "server/service_manager.h"

namespace heed::cli {
namespace {

struct ServeArguments {
  std::vector<std::string> models;
  bool any_model = false, no_compression = false;
  std::string host = "127.0.0.1";
  std::int64_t port = 8080;
  std::vector<std::string> keys, origins, hosts;
  std::filesystem::path key_file;
  std::vector<std::string> steering;                       // NAME=FILE
  std::int64_t max_body = 32, max_bodies = 256;            // MB
  std::int64_t prompt_cache = 256;                         // MB
  std::int64_t request_timeout = 600, drain_timeout = 30;  // seconds
  std::int64_t connections = 1024;
  serve::SchedulerLimits limits;
  WeightArguments weights;
};

struct NamedModel {
  std::string name;  // in requests
  std::string path;
  WeightArguments weights = {};
  std::vector<std::string> aliases = {};
  std::vector<std::string> adapters = {};
};

// NAME=PATH; else the name is that of the directory or file, or as it was given.
NamedModel named_model(const std::string& given) {
  std::filesystem::path path = given;
  if (const std::size_t equals = given.find('=');
      equals != std::string::npos && !std::filesystem::exists(path)) {
    if (equals == 0 || equals + 1 == given.size())
      throw UsageError("serve: expected MODEL or NAME=MODEL, got " + given);
    return {given.substr(0, equals), given.substr(equals + 1)};
  }
  if (!std::filesystem::exists(path)) return {given, given};
  if (path.filename().empty()) path = path.parent_path();
  return {std::filesystem::absolute(path).lexically_normal().filename().string(), given};
}

// A model, and after commas options of its own: chat=PATH,activations=int8,alias=gpt-4o.
NamedModel model_with_options(const std::string& given, const WeightArguments& weights) {
  const bool is_path = std::filesystem::exists(given);
  std::istringstream parts(given);
  std::string part;
  if (!is_path) std::getline(parts, part, ',');
  NamedModel model = named_model(is_path ? given : part);
  model.weights = weights;
  while (!is_path && std::getline(parts, part, ',')) {
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals),
                      value = equals < part.size() ? part.substr(equals + 1) : "";
    const auto one_of = [&](const std::vector<std::string>& known) {
      if (std::find(known.begin(), known.end(), value) == known.end())
        throw UsageError(
            fmt::format("serve: {}: {}: expected {}, got {}", given, key, joined(known, " or "), value));
      return value;
    };
    if (key == "activations") {
      model.weights.activations = one_of({"auto", "f32", "int8"});
    } else if (key == "dtype") {
      model.weights.dtype = one_of({"f32", "bf16"});
    } else if (key == "alias" && !value.empty()) {
      model.aliases.push_back(value);
    } else if (key == "adapter" && !value.empty()) {
      model.adapters.push_back(value);
    } else {
      throw UsageError("serve: " + given +
                       ": expected activations=, dtype=, adapter= or alias= after the comma, got " + part);
    }
  }
  return model;
}

// Of the environment, for containers: as separate words.
std::vector<std::string> words_of(const char* variable) {
  const char* value = std::getenv(variable);
  std::istringstream stream(value != nullptr ? value : "");
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<server::Key> keys_of(const ServeArguments& arguments) {
  std::vector<server::Key> keys(arguments.keys.begin(), arguments.keys.end());
  if (!arguments.key_file.empty()) {
    require_file("--api-key-file", arguments.key_file);
    std::istringstream lines(read_file(arguments.key_file));
    std::size_t number = 0;
    for (std::string line; next_line(lines, line);) {
      ++number;
      if (line.find_first_not_of(" \t") == line.npos || line.front() == '#') continue;
      try {
        keys.push_back(server::parse_key(line));
      } catch (const Error& error) {
        throw Error(fmt::format("{}: line {}: {}", arguments.key_file.string(), number, error.what()));
      }
    }
    if (keys.empty()) throw Error(arguments.key_file.string() + ": expected a key on each line, got none");
  }
  for (const std::string& key : words_of("HEED_API_KEY")) keys.push_back(key);
  for (const server::Key& key : keys) {
    if (key.secret.empty()) throw UsageError("--api-key: expected a key with characters, got an empty one");
  }
  return keys;
}

serve::ModelSources sources_of(const ServeArguments& arguments) {
  const std::vector<std::string> given_models =
      arguments.models.empty() ? words_of("HEED_SERVE_MODELS") : arguments.models;
  if (given_models.empty())
    throw UsageError("serve: expected at least one model (heed serve MODEL..., or HEED_SERVE_MODELS)");
  serve::ModelSources sources;
  std::set<std::string> names;
  for (const std::string& given : given_models) {
    const NamedModel model = model_with_options(given, arguments.weights);
    std::vector<std::string> own = model.aliases;
    own.push_back(model.name);
    for (const std::string& name : std::set(own.begin(), own.end())) {
      if (!names.insert(name).second)
        throw UsageError("serve: expected models of different names, got " + name +
                         " twice (NAME=" + model.path + " gives another)");
    }
    sources.models.push_back({model.name, model.path, model.aliases,
                              load_options({.name = {}, .adapters = model.adapters}, model.weights)});
  }
  for (const std::string& given : arguments.steering) {
    const std::size_t equals = given.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == given.size())
      throw UsageError("--steer: expected NAME=FILE, got " + given);
    require_file("--steer", given.substr(equals + 1));
    sources.steering.emplace_back(given.substr(0, equals), given.substr(equals + 1));
  }
  return sources;
}

void warn_of_settings(const serve::ServedModel& model, const Globals& globals) {
  if (globals.quiet) return;
  for (const std::string& warning : model.opened.warnings()) warn(warning);
}

serve::Services load_services(const ServeArguments& arguments, const serve::ModelSources& sources,
                              const Globals& globals) {
  serve::Services services;
  services.created = std::time(nullptr);
  services.limits = arguments.limits;
  services.limits.generation.cached_bytes = static_cast<std::size_t>(arguments.prompt_cache) << 20;
  services.any_name = arguments.any_model;
  services.compresses = !arguments.no_compression;
  {
    const Waiting waiting("opening the models", globals.quiet);
    services.models = sources.open([](const std::string& name, const std::string& failure) {
      warn(name + " is not served: " + failure);
    });
  }
  for (const auto& model : services.models) warn_of_settings(*model, globals);
  if (!globals.quiet)
    services.registry->log = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  return services;
}

server::ServerLimits http_limits(const ServeArguments& arguments) {
  server::ServerLimits limits;
  limits.body_bytes = static_cast<std::size_t>(arguments.max_body) << 20;
  limits.bodies_bytes = static_cast<std::size_t>(arguments.max_bodies) << 20;
  limits.connections = static_cast<std::size_t>(arguments.connections);
  limits.read = std::chrono::seconds(60);
  limits.drain = std::chrono::seconds(arguments.drain_timeout);
  return limits;
}

// Of pages: a scheme and a host, perhaps with a port.
void check_origins(const std::vector<std::string>& origins) {
  for (const std::string& origin : origins) {
    const std::size_t scheme = origin.find("://");
    const bool whole = scheme != std::string::npos && scheme > 0 && scheme + 3 < origin.size() &&
                       origin.find('/', scheme + 3) == std::string::npos;
    if (origin != "*" && origin != "null" && !whole)
      throw UsageError("--cors-origin: expected * or an origin such as https://example.org, got " + origin);
  }
}

void check_hosts(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    if (host.empty() || host.find_first_of("/: ") != std::string::npos)
      throw UsageError("--allow-host: expected the name of a host such as heed.example.org, got " +
                       (host.empty() ? "an empty text" : host));
  }
}

void print_address(const server::HttpServer& server, const std::string& host, const Globals& globals) {
  const bool numbers_with_colons = host.find(':') != std::string::npos;
  const std::string address =
      fmt::format("http://{}:{}", numbers_with_colons ? "[" + host + "]" : host, server.port());
  if (globals.json) {
    print_stdout("{}\n", JsonWriter().begin_object().field("url", address).end_object().text());
  } else {
    print_stdout("{}\n", address);
  }
  flush_results();
}

/// What SIGHUP asks for: the keys are read, and the models whose files have changed or that are not served
/// are opened on a thread of their own, and served once all are.
class Reload {
 public:
  Reload(const ServeArguments& arguments, const serve::ModelSources& sources,
         const server::ServiceManager& manager, const Globals& globals)
      : arguments_(arguments), sources_(sources), manager_(manager), globals_(globals) {}

  /// Of the network's thread.
  void look(serve::ModelServer& server) {
    using namespace std::chrono_literals;
    if (news_.valid() && news_.wait_for(0s) == std::future_status::ready) {
      News news = news_.get();
      if (news.keys) server.application().replace_keys(std::move(*news.keys));
      server.replace(std::move(news.models));
      manager_.ready();
    }
    if (news_.valid() || !take_hangup()) return;
    manager_.reloading();
    news_ = std::async(std::launch::async, [this, now = server.services()] { return read(*now); });
  }

 private:
  struct News {
    std::optional<std::vector<server::Key>> keys;
    serve::ServedModels models;
  };

  News read(const serve::Services& now) const {
    const auto tell = [&](Json event, const std::string& failure) {
      if (!failure.empty()) event["error"] = failure;
      server::log_event(*now.registry, std::move(event));
    };
    News news;
    try {
      news.keys = keys_of(arguments_);
      if (!arguments_.key_file.empty()) tell({{"event", "keys_read"}, {"keys", news.keys->size()}}, "");
    } catch (const std::exception& error) {
      tell({{"event", "keys_kept"}}, failure(error));
    }
    news.models = sources_.open_changed(now.models, [&](const std::string& name, const std::string& failure) {
      tell({{"event", failure.empty() ? "model_opened" : "model_kept"}, {"model", name}}, failure);
    });
    for (const auto& model : news.models) {
      if (std::ranges::find(now.models, model) == now.models.end()) warn_of_settings(*model, globals_);
    }
    return news;
  }

  const ServeArguments& arguments_;
  const serve::ModelSources& sources_;
  const server::ServiceManager& manager_;
  const Globals& globals_;
  std::future<News> news_;  // ends first
};

void run(const ServeArguments& arguments, const Globals& globals) {
  check_origins(arguments.origins);
  check_hosts(arguments.hosts);
  server::AccessOptions access{.keys = keys_of(arguments),
                               .origins = arguments.origins,
                               .host = arguments.host,
                               .hosts = arguments.hosts};
  const std::atomic<bool>& stop = stop_flag();
  catch_hangups();
  const serve::ModelSources sources = sources_of(arguments);
  serve::Services services = load_services(arguments, sources, globals);
  std::unique_ptr<serve::ModelServer> models;
  server::ServiceManager manager;
  Reload reload(arguments, sources, manager, globals);
  bool stops = false;
  const auto look = [&] {
    if (!stops) reload.look(*models);
    if (!models->hangs()) manager.alive();
    if (stop && !std::exchange(stops, true)) manager.stopping();
  };
  const auto body_of = [&models](const server::HttpRequest& request) {
    return models->application().body_of(request);
  };
  const auto refuse = [&](int status, std::string message, const server::HttpRequest& request) {
    if (status == 413) message += " (--max-body " + std::to_string(arguments.max_body) + ")";
    if (status == 503) message += " (--max-bodies " + std::to_string(arguments.max_bodies) + ")";
    return models->application().refuse(status, message, request);
  };
  server::HttpServer server({.host = arguments.host,
                             .port = static_cast<std::uint16_t>(arguments.port),
                             .limits = http_limits(arguments),
                             .body_of = body_of,
                             .refuse = refuse,
                             .each_look = look},
                            [&](server::HttpRequest request, std::shared_ptr<server::Reply> reply) {
                              models->application().handle(std::move(request), std::move(reply));
                            });
  if (!server.is_loopback()) access.host.clear();  // it has names that are not known here
  if (!server.is_loopback() && access.keys.empty() && !globals.quiet)
    warn("--host " + arguments.host + ": other machines can use the models, without a key and unencrypted");
  models = std::make_unique<serve::ModelServer>(std::move(services), std::move(access),
                                                static_cast<double>(arguments.request_timeout));
  print_address(server, arguments.host, globals);
  manager.ready();
  server.run(stop);
}

constexpr const char* kVariables = "HEED_SERVE_";

// Each option is also a variable of the environment: --max-queue is HEED_SERVE_MAX_QUEUE.
void read_environment(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option == command.get_help_ptr() || option == command.get_version_ptr())
      continue;
    std::string name = kVariables;
    for (const char c : option->get_lnames().front())
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    option->envname(name);
  }
}

// A misspelled variable would be without effect.
void warn_of_unknown_variables(const CLI::App& command) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string name(text.substr(0, text.find('=')));
    if (!name.starts_with(kVariables) || name == "HEED_SERVE_MODELS") continue;
    const auto has_name = [&](const CLI::Option* option) { return option->get_envname() == name; };
    const auto own = command.get_options(), common = command.get_parent()->get_options();
    if (std::ranges::none_of(own, has_name) && std::ranges::none_of(common, has_name))
      warn(name + ": no option of heed serve has this variable (see heed serve --help)");
  }
}

}  // namespace

void add_serve(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "serve", "Serve models over HTTP, to clients of OpenAI and of Text Embeddings Inference");
  auto a = std::make_shared<ServeArguments>();
  OptionGroup server(*command, "Server"), limits(*command, "Limits");
  add_models_argument(*command, a->models,
                      "Models (heed help models). Requests name them; NAME=MODEL gives another name, and "
                      "MODEL,activations=int8,dtype=bf16,adapter=DIR,alias=NAME options of its own");
  server.flag(
      "--any-model", a->any_model,
      "A request for a model that is not served gets the first that can answer it, in place of status 404");
  server
      .value("--host", a->host, "ADDRESS",
             "The address to listen on; any but a loopback address lets other machines connect")
      ->capture_default_str();
  server.count("--port", a->port, 0, "The port; 0 takes one that is free", 65535);
  server.value(
      "--api-key", a->keys, "KEY",
      "A key that clients send (Authorization: Bearer KEY); any one of several; HEED_API_KEY as well");
  server.value(
      "--api-key-file", a->key_file, "FILE",
      "A file of keys, one on each line, with a name and limits if wanted (KEY name=alice requests=4 "
      "requests-per-minute=60 tokens-per-minute=20000); # begins a comment line");
  server.value("--cors-origin", a->origins, "ORIGIN",
               "Let pages of this origin ask (https://example.org); *: of any");
  server.value("--allow-host", a->hosts, "NAME",
               "On a loopback address, answer requests for this host, too (of a proxy, for example)");
  server.flag("--no-compression", a->no_compression,
              "Answers are not compressed, whatever clients accept (where a proxy does it)");
  OptionGroup(*command, "Model")
      .value("--steer", a->steering, "NAME=FILE",
             "Steering vectors (heed steer) that requests may add, under a name");
  limits.count("--max-batch-tokens", a->limits.batch_tokens, 1,
               "Largest batch of texts, in tokens with padding", 1 << 24);
  limits.count("--rows", a->limits.generation.rows, 1,
               "Most concurrent sequences: generations that are computed in one batch", 4096);
  limits.count("--prompt-tokens", a->limits.generation.prompt_tokens, 1,
               "Prefill chunk: tokens of prompts that are read between two tokens of other generations",
               1 << 24);
  limits
      .count("--prompt-cache", a->prompt_cache, 0,
             "Size of the prefix cache: keys and values of prompts, for others that begin alike (2^20 bytes)",
             1 << 20)
      ->type_name("MB");
  limits.count("--max-queue", a->limits.queue, 1,
               "Requests that are accepted at a time; others get status 429", 1 << 20);
  limits.count("--max-queue-tokens", a->limits.queue_tokens, 1,
               "Tokens of the prompts of accepted requests at a time; beyond, status 429",
               std::int64_t{1} << 40);
  limits.count("--max-new-tokens", a->limits.new_tokens, 1,
               "Largest number of tokens to generate for an answer, whatever its request asks for", 1 << 24);
  limits.count("--max-connections", a->connections, 1, "Connections at a time", 65536);
  limits
      .count("--max-body", a->max_body, 1, "The largest body of a request (2^20 bytes); beyond, status 413",
             1024)
      ->type_name("MB");
  limits
      .count("--max-bodies", a->max_bodies, 1,
             "The bodies of all requests that are not yet answered (2^20 bytes); beyond, status 503", 1 << 20)
      ->type_name("MB");
  limits
      .count("--request-timeout", a->request_timeout, 1,
             "Longest time from a request to the end of its answer", 1 << 24)
      ->type_name("SECONDS");
  limits
      .count("--drain-timeout", a->drain_timeout, 0,
             "After SIGTERM, the time for answers to what was accepted", 1 << 24)
      ->type_name("SECONDS");
  add_weight_options(*command, a->weights);
  read_environment(*command);
  command->preparse_callback([&app](std::size_t) { read_environment(app); });  // of this command alone
  command
      ->add_flag_callback(
          "--list-fields",
          [] {
            print_stdout("{}", serve::listed_fields());
            throw CLI::Success();
          },
          "List every field of a request, and exit")
      ->trigger_on_parse();
  command->footer(
      "Each option, the common ones too, is also a variable of the environment (HEED_SERVE_MAX_QUEUE=64,\n"
      "HEED_SERVE_THREADS=2); the models are\n"
      "HEED_SERVE_MODELS, separated by spaces.\n\n"
      "Examples:\n"
      "  heed serve ./smollm\n"
      "  heed serve chat=./smollm2-q4.gguf\n"
      "  heed serve ./smollm ./minilm --port 8000\n"
      "  heed serve ./minilm --host 0.0.0.0 --api-key-file keys.txt");
  command->callback([a, command, &globals] {
    if (!globals.quiet) warn_of_unknown_variables(*command);
    run(*a, globals);
  });
}

}  // namespace heed::cli
