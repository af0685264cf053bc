// heed attend: which tokens each token looked at, as a heat map in the terminal or as a file.
#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/models.h"
#include "cli/option_values.h"
#include "cli/pictures.h"
#include "cli/terminal.h"
#include "heed/autograd.h"
#include "heed/generate/translate.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"

namespace heed::cli {
namespace {

struct AttendArguments {
  std::string text;
  std::optional<std::string> target;
  std::string model = kDefaultTranslator;
  std::string kind;  // empty: cross where a model has it, self elsewhere
  std::string layers;
  std::string heads;
  std::filesystem::path output;
};

// Where the weights of one kind come from, and what its rows and columns stand for.
struct Kind {
  const char* name;
  const char* stack;
  const char* part;
};
constexpr Kind kKinds[] = {{"cross", "decoder", "cross_attn"},
                           {"encoder", "encoder", "self_attn"},
                           {"decoder", "decoder", "self_attn"}};

// The kinds asked for, of a model with both stacks or only one.
std::vector<Kind> chosen_kinds(const std::string& name, const char* only_stack) {
  std::vector<Kind> kinds;
  for (const Kind& kind : kKinds) {
    const bool self = std::string(kind.part) == "self_attn";
    const bool there = only_stack == nullptr || (self && std::string(kind.stack) == only_stack);
    const bool asked =
        name.empty() ? only_stack != nullptr || !self : name == kind.name || (name == "self" && self);
    if (there && asked) kinds.push_back(kind);
  }
  if (!kinds.empty()) return kinds;
  throw UsageError("--kind: expected " +
                   (only_stack == nullptr ? std::string("self, cross, encoder or decoder")
                                          : std::string("self, as the model has no other")) +
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

// The target's ids: of the text given, or of the model's own translation.
std::vector<std::int64_t> target_ids(const AttendArguments& arguments, const EncoderDecoderModel& model,
                                     const Tokenizer& tokenizer, const std::filesystem::path& directory) {
  if (arguments.target) return tokenizer.encode_target(*arguments.target).ids;
  TranslateOptions options;
  options.generation = load_generation_options(directory);
  const std::vector<std::string> texts{arguments.text};
  return translate(model, tokenizer, texts, options).front().candidates.front().hypothesis.ids;
}

Tensor one_row(const std::vector<std::int64_t>& ids) {
  return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
}

// Runs `forward` and gathers the maps of the kinds.
template <class Forward>
void gather_maps(const AttendArguments& arguments, const std::vector<Kind>& kinds, AttentionPicture& picture,
                 Forward forward) {
  const MapChoice choice = choice_of(arguments);
  Taps taps;
  for (const Kind& kind : kinds) {
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
    throw UsageError("--layers: expected layers the model has, got " + arguments.layers);
  }
}

// A pass over the known target, its decoder fed with the target moved one place behind the start token.
AttentionPicture attend(const AttendArguments& arguments, const EncoderDecoderModel& model,
                        const Tokenizer& tokenizer, const std::filesystem::path& directory) {
  const Encoding source = tokenizer.encode(arguments.text);
  const std::vector<std::int64_t> target = target_ids(arguments, model, tokenizer, directory);
  if (target.empty()) throw Error("attend: expected a text with words, got an empty one");
  std::vector<std::int64_t> fed{model.decoder_start_id()};
  fed.insert(fed.end(), target.begin(), target.end() - 1);

  AttentionPicture picture;
  picture.title = arguments.text + " → " + tokenizer.decode(target);
  const std::vector<Kind> kinds = chosen_kinds(arguments.kind, nullptr);
  for (const Kind& kind : kinds) {
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

// A pass over the text itself, for models of one stack.
AttentionPicture attend_one_stack(const AttendArguments& arguments, const Model& model,
                                  const Tokenizer& tokenizer) {
  if (arguments.target) throw UsageError("--target: expected with an encoder-decoder, got " + model.family());
  const Encoding text = tokenizer.encode(arguments.text);
  if (text.ids.empty()) throw Error("attend: expected a text with words, got an empty one");
  const bool decoder = dynamic_cast<const DecoderModel*>(&model) != nullptr;
  AttentionPicture picture;
  picture.title = arguments.text;
  const std::vector<Kind> kinds = chosen_kinds(arguments.kind, decoder ? "decoder" : "encoder");
  for (const Kind& kind : kinds) picture.tokens[kind.name] = {text.tokens, text.tokens};
  gather_maps(arguments, kinds, picture, [&](Context& context) {
    model.forward({{"input_ids", one_row(text.ids)}}, {}, context);
  });
  return picture;
}

void run(AttendArguments arguments, const Globals& globals) {
  arguments.text = valid_text(arguments.text, "text", globals.quiet);
  if (arguments.target) arguments.target = valid_text(*arguments.target, "--target", globals.quiet);
  if (!arguments.output.empty()) check_picture_file(arguments.output);
  const std::filesystem::path directory = locate_model(arguments.model);
  const auto model = load_model(directory);
  warn_of_unknown_settings(*model, directory, globals);
  const auto tokenizer = load_tokenizer(directory);
  const auto* encoder_decoder = dynamic_cast<const EncoderDecoderModel*>(model.get());
  const AttentionPicture picture = encoder_decoder != nullptr
                                       ? attend(arguments, *encoder_decoder, *tokenizer, directory)
                                       : attend_one_stack(arguments, *model, *tokenizer);
  if (!arguments.output.empty()) {
    write_picture(picture, arguments.output);
    if (!globals.quiet) say("wrote " + arguments.output.string());
  } else if (globals.json) {
    fmt::print("{}\n", attention_json(picture));
  } else {
    fmt::print("{}", attention_terminal(picture, {terminal_width(100), colour_stdout()}));
  }
}

}  // namespace

void add_attend(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("attend", "Show the attention of a model over a text");
  auto a = std::make_shared<AttendArguments>();
  command->add_option("text", a->text, "The text")->required();
  command->add_option("--model,-m", a->model, "Model directory or name")->capture_default_str();
  command->add_option("--target", a->target, "A given translation instead of the model's own");
  command->add_option("--kind", a->kind,
                      "cross (default where there is one), encoder, decoder, or self for both of these");
  command->add_option("--layers", a->layers, "Layers to show, e.g. 0,3, or all (default)");
  command->add_option("--heads", a->heads,
                      "Heads to show, e.g. 0,3, all (default in files) or mean (default in the terminal)");
  command->add_option("--output,-o", a->output, "FILE.html, .svg, .json or .npy instead of the terminal");
  command->footer(
      "Examples:\n"
      "  heed attend \"The cat sat on the mat.\"\n"
      "  heed attend \"The cat sat on the mat.\" --target \"Le chat était assis sur le tapis.\" --layers 1 "
      "--heads all\n"
      "  heed attend \"I like tea.\" --kind encoder --output tea.html");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
