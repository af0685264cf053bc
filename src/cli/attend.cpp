// heed attend: shows which tokens each token attends to, as a heat map in the terminal or as a file.
#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/failed_lines.h"
#include "cli/generation_arguments.h"
#include "cli/input.h"
#include "cli/model_commands.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/pictures.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/autograd.h"
#include "heed/cancelled.h"
#include "heed/generate/translate.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"

namespace heed::cli {
namespace {

struct AttendArguments {
  std::vector<std::string> texts;
  std::optional<std::string> target;
  ModelChoice model{kDefaultTranslator};
  std::string kind;  // empty: cross if the model has it, otherwise self
  std::string layers;
  std::string heads;
  std::filesystem::path output;
};

constexpr const char* kMissingText = "missing text (give one with at least one word)";

// Where the weights of one kind come from, and what its rows and columns represent.
struct AttentionKind {
  const char* name;
  const char* stack;
  const char* part;
};
constexpr AttentionKind kKinds[] = {{"cross", "decoder", "cross_attn"},
                                    {"encoder", "encoder", "self_attn"},
                                    {"decoder", "decoder", "self_attn"}};

bool is_self(const AttentionKind& kind) { return std::string(kind.part) == "self_attn"; }

// The kinds that a model has.
std::vector<AttentionKind> kinds_of(const Model& model) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  const std::string only_stack = dynamic_cast<const DecoderModel*>(&model) != nullptr ? "decoder" : "encoder";
  std::vector<AttentionKind> kinds;
  for (const AttentionKind& kind : kKinds) {
    const bool there = both == nullptr ? is_self(kind) && kind.stack == only_stack
                       : is_self(kind) ? both->has_self_attention()
                                       : both->has_cross_attention();
    if (there) kinds.push_back(kind);
  }
  if (kinds.empty())
    throw Error("attend: expected a model with attention, got " + kind_of(model) +
                " without (config.json: attention)");
  return kinds;
}

// Returns the requested kinds of those that a model has.
std::vector<AttentionKind> chosen_kinds(const std::string& name, const Model& model) {
  const std::vector<AttentionKind> available = kinds_of(model);
  const bool crosses = !is_self(available.front());
  std::vector<AttentionKind> kinds;
  for (const AttentionKind& kind : available) {
    const bool self = is_self(kind);
    if (name.empty() ? !crosses || !self : name == kind.name || (name == "self" && self))
      kinds.push_back(kind);
  }
  if (!kinds.empty()) return kinds;
  throw UsageError("--kind: expected " +
                   (available.size() > 1
                        ? std::string("self, cross, encoder or decoder")
                        : std::string(crosses ? "cross" : "self") + ", the only kind of this model") +
                   ", got " + name);
}

MapChoice choice_of(const AttendArguments& arguments) {
  MapChoice choice;
  const bool terminal = arguments.output.empty();
  if (!arguments.layers.empty() && arguments.layers != "all")
    choice.layers = parse_ids(arguments.layers, "--layers");
  choice.mean_of_heads = arguments.heads == "mean" || (arguments.heads.empty() && terminal);
  if (!choice.mean_of_heads && !arguments.heads.empty() && arguments.heads != "all")
    choice.heads = parse_ids(arguments.heads, "--heads");
  return choice;
}

std::vector<std::string> tokens_of(const Tokenizer& tokenizer, const std::vector<std::int64_t>& ids) {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) tokens.push_back(tokenizer.token(id));
  return tokens;
}

// Where the options for the model's own translation come from.
struct Settings {
  const std::filesystem::path& directory;
  const Globals& globals;
};

// Returns the target's ids: those of --target, or of the model's own translation.
std::vector<std::int64_t> target_ids(const AttendArguments& arguments, const std::string& text,
                                     const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                                     const Settings& settings) {
  if (arguments.target) return tokenizer.encode_target(*arguments.target).ids;
  TranslateOptions options;
  options.generation = load_generation_options(settings.directory);
  choose_seed(options.generation, settings.globals);
  const std::vector<std::string> texts{text};
  return translate(model, tokenizer, texts, options).front().candidates.front().hypothesis.ids;
}

Tensor one_row(const std::vector<std::int64_t>& ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// Runs `forward` and collects the maps of the requested kinds.
template <class Forward>
void gather_maps(const AttendArguments& arguments, const std::vector<AttentionKind>& kinds,
                 AttentionPicture& picture, Forward forward) {
  const MapChoice choice = choice_of(arguments);
  Taps taps;
  for (const AttentionKind& kind : kinds) {
    const std::string prefix = std::string(kind.stack) + ".layers.",
                      suffix = std::string(".") + kind.part + ".weights";
    auto listen = [&](const std::string& layer) {
      taps.listen(prefix + layer + suffix, [&picture, &choice, kind, prefix](const std::string& name,
                                                                             Tensor& weights) {
        const Tensor heads = reshape(weights, {weights.size(1), weights.size(2), weights.size(3)});
        add_maps(picture, name, kind.name, std::stoll(name.substr(prefix.size())), heads, choice);
      });
    };
    if (choice.layers.empty()) listen("*");
    for (const std::int64_t layer : choice.layers) listen(std::to_string(layer));
  }
  const NoGradients guard;
  Context context{false, nullptr, &taps};
  forward(context);
  try {
    taps.require_all_fired();
  } catch (const Error&) {
    if (choice.layers.empty()) throw;
    throw UsageError("--layers: " + arguments.layers +
                     " not found (heed info MODEL lists the model's layers, counted from 0)");
  }
}

// Runs a pass over the known target: the decoder input is the target shifted by one position after the start
// token.
AttentionPicture attend(const AttendArguments& arguments, const std::string& text,
                        const EncoderDecoderModel& model, const Tokenizer& tokenizer,
                        const Settings& settings) {
  const Encoding source = tokenizer.encode(text);
  const std::vector<std::int64_t> target = target_ids(arguments, text, model, tokenizer, settings);
  if (target.empty()) throw Error(kMissingText);
  const auto fed =
      model.decoder_inputs(one_row(target), CrossEntropyOptions().ignore_index).to_vector<std::int64_t>();

  AttentionPicture picture;
  picture.title = text + " → " + tokenizer.decode(target);
  const std::vector<AttentionKind> kinds = chosen_kinds(arguments.kind, model);
  for (const AttentionKind& kind : kinds) {
    const std::vector<std::string> of_target = tokens_of(tokenizer, target),
                                   of_fed = tokens_of(tokenizer, fed);
    const bool cross = std::string(kind.name) == "cross", encoder = std::string(kind.name) == "encoder";
    picture.tokens[kind.name] = {cross     ? of_target
                                 : encoder ? source.tokens
                                           : of_fed,
                                 cross || encoder ? source.tokens : of_fed};
  }
  gather_maps(arguments, kinds, picture, [&](Context& context) {
    model.forward({{"input_ids", one_row(source.ids)}, {"decoder_input_ids", one_row(fed)}}, {}, context);
  });
  return picture;
}

// Runs a pass over the text itself, for models with one stack.
AttentionPicture attend_one_stack(const AttendArguments& arguments, const std::string& text,
                                  const Model& model, const Tokenizer& tokenizer) {
  if (arguments.target) throw UsageError("--target: expected an encoder-decoder, got " + kind_of(model));
  const Encoding encoding = tokenizer.encode(text);
  if (encoding.ids.empty()) throw Error(kMissingText);
  AttentionPicture picture;
  picture.title = text;
  const std::vector<AttentionKind> kinds = chosen_kinds(arguments.kind, model);
  for (const AttentionKind& kind : kinds) picture.tokens[kind.name] = {encoding.tokens, encoding.tokens};
  gather_maps(arguments, kinds, picture, [&](Context& context) {
    model.forward({{"input_ids", one_row(encoding.ids)}}, {}, context);
  });
  return picture;
}

void show(const AttentionPicture& picture, const std::filesystem::path& file, const Globals& globals) {
  if (!file.empty()) {
    write_picture(picture, file);
    if (!globals.quiet) print_stderr("wrote " + file.string());
  } else if (globals.json) {
    std::string json = attention_json(picture);
    std::erase(json, '\n');  // one value per line
    fmt::print("{}\n", json);
  } else {
    fmt::print("{}", attention_terminal(picture, {terminal_width(100), colour_stdout()}));
  }
  flush_results();
}

void run(AttendArguments arguments, const Globals& globals) {
  if (arguments.target) arguments.target = valid_text(*arguments.target, "--target", globals.quiet);
  if (!arguments.output.empty()) check_picture_file(arguments.output);
  const std::vector<std::string> texts = read_texts(arguments.texts, globals.quiet);
  if (arguments.target && texts.size() > 1)
    throw UsageError("--target: expected one text, got " + std::to_string(texts.size()));
  const LocatedModel located = locate_model(arguments.model);
  const std::filesystem::path& directory = located.directory;
  const auto model = load_model(directory, DType::f32, located.adapters);
  warn_of_unknown_settings(*model, directory, globals);
  const auto tokenizer = load_tokenizer(directory);
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(model.get());
  FailedLines failed(globals.json);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    AttentionPicture picture;
    try {
      picture = encoder_decoder != nullptr
                    ? attend(arguments, texts[i], *encoder_decoder, *tokenizer, {directory, globals})
                    : attend_one_stack(arguments, texts[i], *model, *tokenizer);
    } catch (const UsageError&) {
      throw;
    } catch (const Cancelled&) {
      throw;
    } catch (const Error& error) {
      failed.add(i, error.what());
      if (arguments.output.empty()) failed.print_in_place_of(i);
      flush_results();
      continue;
    }
    const bool single = texts.size() == 1 || arguments.output.empty();
    show(picture, single ? arguments.output : numbered(arguments.output, i), globals);
  }
  failed.finish();
}

}  // namespace

void add_attend(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("attend", "Show which tokens a model attends to");
  auto a = std::make_shared<AttendArguments>();
  command->add_option("text", a->texts, "Texts; without any, the lines of stdin");
  command->add_option("--target", a->target, "A given translation of the text, instead of the model's own")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->capture_default_str();
  command
      ->add_option("--kind", a->kind,
                   "Which attention; self is that of encoder and decoder (default: cross where the model has "
                   "it, else self)")
      ->type_name("cross|encoder|decoder|self")
      ->group("Output");
  command->add_option("--layers", a->layers, "Layers to show, e.g. 0,3 (default: all)")
      ->type_name("LIST|all")
      ->group("Output");
  command
      ->add_option("--heads", a->heads,
                   "Heads to show, e.g. 0,3, or their mean (default: all in files, mean in the terminal)")
      ->type_name("LIST|all|mean")
      ->group("Output");
  command
      ->add_option(
          "--output,-o", a->output,
          "Write .html, .svg, .json or .npy instead of a heat map in the terminal; of several texts, "
          "to FILE-N for the N-th")
      ->type_name("FILE")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  heed attend \"The cat sat on the mat.\"\n"
      "  heed attend \"The cat sat on the mat.\" --target \"Le chat était assis sur le tapis.\" --layers 1 "
      "--heads all\n"
      "  heed attend \"I like tea.\" --kind encoder --output tea.html");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
