// heed attend: shows which tokens each token attends to, as a heat map in the terminal or as a file.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/attend/attend.h"
#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/chats.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/ablation_options.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/pictures.h"
#include "cli/terminal/terminal.h"
#include "heed/error.h"
#include "heed/inspect/record.h"
#include "heed/models/kind.h"
#include "heed/models/registry.h"
#include "inspect/token_input.h"
#include "models/non_finite.h"

namespace heed::cli {
namespace {

// Of a page's queries and keys, unless --vectors asks for more: a text of 64 tokens in a BERT of usual size.
constexpr std::int64_t kUsualVectors = 1'200'000;

// Multiply-adds that ablation may take for a page, unless --ablate asks for it: about 2 s of a slow core.
constexpr double kCheapAblation = 1e10;

// Whether a model transcribes; its alignment heads, if it has any, are shown unless others are chosen.
bool transcribes(const AttendInput& input) { return !input.sound.words.empty(); }

// Returns the requested kinds of those that a model has. The page of a recording leaves out those of the
// encoder, which are millions of weights.
bool is_figure(const AttendArguments& arguments, const Globals& globals);

// Of two towers, in figures, the pooling of images stands for their self-attention unless that is asked for.
std::vector<AttentionKind> chosen_kinds(const AttendArguments& arguments, const DualEncoderModel& model,
                                        const Globals& globals) {
  std::vector<AttentionKind> kinds = attention_kinds(model);
  const std::string& name = arguments.kind;
  const bool asked = arguments.shows("rollout") || arguments.patch.any();
  const bool pools = kinds.back().name == "pooling";
  std::erase_if(kinds, [&](const AttentionKind& kind) {
    if (!name.empty()) return name != kind.name && !(name == "self" && kind.is_self());
    if (asked && !kind.is_self()) return true;
    return kind.name == "image" && pools && !asked && is_figure(arguments, globals);
  });
  if (kinds.empty())
    throw UsageError(fmt::format("--kind: expected {}, got {}",
                                 pools ? "image, text, pooling or self" : "image, text or self", name));
  return kinds;
}

std::vector<AttentionKind> chosen_kinds(const AttendArguments& arguments, const AttendInput& input,
                                        const Model& model) {
  const std::vector<AttentionKind> available = attention_kinds(model);
  const bool crosses = !available.front().is_self(), rollout = arguments.shows("rollout");
  const bool page = arguments.output.extension() == ".html";
  const std::string& name = arguments.kind;
  std::vector<AttentionKind> kinds;
  for (const AttentionKind& kind : available) {
    const bool wanted = name.empty()
                            ? !crosses || (page && !(transcribes(input) && kind.name == "encoder")) ||
                                  kind.is_self() == rollout
                            : name == kind.name || (name == "self" && kind.is_self());
    if (wanted) kinds.push_back(kind);
  }
  if (kinds.empty()) {
    throw UsageError("--kind: expected " +
                     (available.size() > 1
                          ? std::string("self, cross, encoder or decoder")
                          : std::string(crosses ? "cross" : "self") + ", the only kind of this model") +
                     ", got " + (name.empty() ? "none for --show rollout" : name));
  }
  if (rollout && !name.empty() && !kinds.front().is_self())
    throw UsageError(
        "--show rollout: expected self-attention (--kind self, encoder or decoder), got --kind cross");
  return kinds;
}

bool writes(const AttendArguments& arguments, const char* ending) {
  return arguments.output.extension() == ending;
}

// Whether the maps are drawn once and for all: files of numbers and the page have whole maps.
bool is_figure(const AttendArguments& arguments, const Globals& globals) {
  return arguments.output.empty()
             ? !globals.json
             : writes(arguments, ".svg") || writes(arguments, ".pdf") || writes(arguments, ".png");
}

// Whether the alignment heads of a model of speech are shown: by default, in figures and in the terminal.
bool shows_alignment(const AttendArguments& arguments, const AttendInput& input, const Globals& globals) {
  if (arguments.heads == "alignment" || !arguments.heads.empty()) return arguments.heads == "alignment";
  return arguments.layers.empty() && !input.alignment_heads.empty() && is_figure(arguments, globals);
}

// What is shown: by default weights, and on a page the rollout of self-attention too.
std::vector<std::string> measures_of(const AttendArguments& arguments,
                                     const std::vector<AttentionKind>& kinds) {
  if (!arguments.show.empty()) return arguments.show;
  std::vector<std::string> measures{"weights"};
  const bool plain = arguments.layers.empty() && (arguments.heads.empty() || arguments.heads == "all") &&
                     arguments.ranges.all();
  const bool self =
      std::any_of(kinds.begin(), kinds.end(), [](const AttentionKind& kind) { return kind.is_self(); });
  if (writes(arguments, ".html") && plain && self) measures.emplace_back("rollout");
  return measures;
}

// Whether to run the model without each chosen head of the record. The default depends on the work alone: a
// pass multiplies each position by each parameter.
bool ablates(const AttendArguments& arguments, const AttentionRecord& record, const MapChoice& choice,
             const Model& model) {
  if (arguments.ablate) return *arguments.ablate;
  if (arguments.asks_for_each()) return true;
  if (!writes(arguments, ".html") || !record.logits.defined()) return false;
  double passes = 0, positions = 0, parameters = 0;
  for (const RecordedLayer& layer : record.layers) {
    passes += static_cast<double>(chosen_heads(choice, layer.weights.size(0)).size());
    positions = std::max(positions, static_cast<double>(std::max(layer.all_queries, layer.all_keys)));
  }
  for (const Parameter& parameter : model.parameters())
    parameters += static_cast<double>(parameter.tensor.numel());
  return passes * positions * parameters <= kCheapAblation;
}

void keep_layers(AttentionRecord& record, const std::vector<std::int64_t>& layers) {
  std::erase_if(record.layers, [&](const RecordedLayer& layer) {
    return !layers.empty() && std::find(layers.begin(), layers.end(), layer.layer) == layers.end();
  });
}

bool attention_is_finite(const AttentionRecord& record) {
  return std::none_of(record.layers.begin(), record.layers.end(),
                      [](const RecordedLayer& layer) { return first_non_finite(layer.weights); }) &&
         !(record.logits.defined() && first_non_finite(record.logits));
}

bool has_kind(const std::vector<AttentionKind>& kinds, const std::string& name) {
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const AttentionKind& kind) { return kind.name == name; });
}

// Figures of images and recordings lie over them, or along time.
AttentionPicture laid_out(AttentionPicture picture, const AttendArguments& arguments,
                          const AttendInput& input, const AttendSource& source) {
  if (is_figure(arguments, source.globals) && arguments.ranges.all()) {
    if (transcribes(input) && picture.tokens.contains("cross") && !arguments.patch.any())
      return picture_along_time(std::move(picture), input, source);
    if (!input.texts.empty()) keep_last_queries(picture);
    if (input.tensors.contains("pixel_values") && picture.tokens.contains("cross"))
      return picture_of_words(std::move(picture), input, source, arguments.patch);
    if (input.tensors.contains("pixel_values") ||
        (input.sound.seconds > 0 && picture.tokens.contains("encoder")))
      return picture_over_image(std::move(picture), input, source, arguments.patch);
  }
  if (arguments.patch.any())
    throw UsageError(
        std::string(arguments.patch.time
                        ? "--time: expected a recording (and --kind encoder of a model of speech)"
                        : "--patch: expected an image") +
        ", in the terminal or in .svg, .pdf or .png without --queries and --keys");
  return picture;
}

// A line of --reference, with the same target as the shown text.
TensorMap reference_input(const std::string& line, const AttendArguments& arguments,
                          const AttendSource& source) {
  return text_input({line, std::nullopt, arguments.target, std::nullopt, arguments.start}, source).tensors;
}

AttentionPicture attend(const AttendArguments& arguments, AttendInput input, const AttendSource& source) {
  MapChoice choice = choice_of(arguments);
  const bool page = writes(arguments, ".html");
  const auto* towers = dynamic_cast<const DualEncoderModel*>(&source.model);
  RecordOptions options{towers != nullptr ? chosen_kinds(arguments, *towers, source.globals)
                                          : chosen_kinds(arguments, input, source.model)};
  const std::vector<std::string> measures = measures_of(arguments, options.kinds);
  const auto shows = [&](const char* measure) {
    return std::find(measures.begin(), measures.end(), measure) != measures.end();
  };
  check_ranges(arguments.ranges, input, options.kinds);
  if (!shows("rollout")) {  // which takes all layers and positions
    options.layers = choice.layers;
    options.queries = arguments.ranges.selection().queries;
    options.keys = arguments.ranges.selection().keys;
  }
  options.value_norms = page || shows("norms");
  options.vectors = page;
  const AttentionKind& first = options.kinds.front();
  HeadAblationOptions ablation{
      .heads = choice.heads,
      .ablation = {.replacement = arguments.ablation.replacement.value_or(Replacement::zero),
                   .seed = source.globals.seed.value_or(0),
                   .removed = components_named(arguments.ablation.remove, first)}};
  const std::vector<TensorMap> reference = arguments.ablation.reference_inputs(
      source.globals, [&](const std::string& line) { return reference_input(line, arguments, source); });
  ablation.ablation.reference = reference;
  Taps removed;
  if (!arguments.ablation.remove.empty()) {
    if (towers != nullptr)
      throw UsageError("--remove: expected a model of one tower, got " + source.model.family());
    replace_components(removed, source.model, input.tensors, ablation.ablation);
    options.taps = &removed;
  }
  AttentionPicture picture;
  picture.title = input.title;
  if (!arguments.ablation.remove.empty())
    picture.title +=
        fmt::format(" (with {} for {})", text_of(ablation.ablation.replacement), arguments.ablation.remove);
  picture.sound = input.sound;
  if (shows("gradient") && towers != nullptr) {
    if (input.texts.empty()) throw UsageError("--show gradient: missing --text, whose similarity it is of");
    options.gradient = LogitChoice();
    picture.title += " (gradient of the similarity)";
  } else if (shows("gradient")) {
    options.gradient = chosen_logit(arguments.position, arguments.token, input, source);
    picture.title += fmt::format(" (gradient of {} at {})", name_of(options.gradient->token, source),
                                 options.gradient->position);
  }
  AttentionRecord record = towers != nullptr ? record_towers(*towers, input, options)
                                             : record_attention(source.model, input.tensors, options);
  std::set<std::int64_t> layers;
  for (const RecordedLayer& layer : record.layers) layers.insert(layer.layer);
  check_layers(choice, layers);
  const bool words = input.tensors.contains("pixel_values") || transcribes(input);
  if (is_figure(arguments, source.globals) && arguments.ranges.all() && words &&
      input.alignment_heads.empty() && has_kind(options.kinds, "cross")) {  // a map for each word is enough
    choice.mean_of_heads = choice.mean_of_heads || arguments.heads.empty();
    if (arguments.layers.empty()) choice.layers = {record.layers.back().layer};
  }
  warn_of_non_finite(source.model, attention_is_finite(record), source.globals);
  add_missing_tokens(input, record, source.model.input());
  for (const RecordedLayer& layer : record.layers) {
    if (picture.tokens.contains(layer.kind)) continue;
    AttentionTokens& tokens = picture.tokens[layer.kind] = input.tokens[layer.kind];
    if (arguments.output.empty() ? source.globals.json : writes(arguments, ".json")) continue;
    tokens = {inspect::shown_tokens(tokens.queries, source.tokenizer),
              inspect::shown_tokens(tokens.keys, source.tokenizer)};
  }
  const AttentionRecord whole = record;
  if (shows("rollout") && !arguments.ranges.all()) record = cut_record(arguments.ranges, whole);
  const bool aligns = shows_alignment(arguments, input, source.globals) &&
                      (arguments.heads == "alignment" || has_kind(options.kinds, "cross"));
  for (const std::string& measure : measures) {
    if (aligns && measure != "rollout") {
      keep_layers(record, choice.layers);
      add_alignment(picture, record, input, measure);
    } else {
      add_measure(picture, measure == "rollout" ? whole : record, choice, measure);
    }
  }
  if (page) add_page_facts(picture, record, input, source, arguments.vectors ? INT64_MAX : kUsualVectors);
  keep_layers(record, choice.layers);
  if (ablates(arguments, record, choice, source.model))
    add_ablations(picture, record, ablation, input, source, arguments.ablate.has_value());
  if (!arguments.ranges.all()) cut_picture(arguments.ranges, picture);
  picture = laid_out(std::move(picture), arguments, input, source);
  if (!input.part.empty() && !source.globals.quiet) print_stderr(printable(input.part));
  return picture;
}

FigureStyle style_of(const AttendArguments& arguments) {
  return {arguments.width, arguments.palette == "red"    ? Palette::red
                           : arguments.palette == "grey" ? Palette::gray
                                                         : Palette::blue};
}

void show(const AttentionPicture& picture, const std::filesystem::path& file,
          const AttendArguments& arguments, const Globals& globals) {
  if (!file.empty()) {
    write_picture(picture, file, style_of(arguments));
    if (!globals.quiet)
      print_stderr("wrote " + file.string() +
                   (arguments.ranges.all() ? "" : " (" + arguments.ranges.text() + ")"));
  } else if (globals.json) {
    std::string json = attention_json(picture);
    std::erase(json, '\n');  // one value per line
    fmt::print("{}\n", json);
  } else {
    fmt::print("{}", attention_terminal(picture, {terminal_width(100), color_stdout(), light_terminal()}));
  }
  flush_results();
}

void check_arguments(AttendArguments& arguments, const Globals& globals) {
  if (arguments.target) arguments.target = valid_text(*arguments.target, "--target", globals.quiet);
  if (arguments.pair) arguments.pair = valid_text(*arguments.pair, "--pair", globals.quiet);
  if (!arguments.output.empty()) check_picture_file(arguments.output);
  if (!arguments.input.empty() &&
      (!arguments.texts.empty() || arguments.target || arguments.pair || arguments.start))
    throw UsageError("attend: expected --input or texts, got both");
  if (!arguments.chat.messages.empty() &&
      (!arguments.texts.empty() || !arguments.input.empty() || arguments.target || arguments.pair))
    throw UsageError("--messages: cannot be combined with text, --input, --target or --pair");
  if (arguments.target && arguments.max_new_tokens)
    throw UsageError("--max-new-tokens: cannot be combined with --target");
  if (arguments.vectors && !writes(arguments, ".html"))
    throw UsageError("--vectors: needs --output FILE.html");
  arguments.ablation.check();
  if (arguments.asks_for_each() && !writes(arguments, ".html") && !writes(arguments, ".json") &&
      !(globals.json && arguments.output.empty()))
    throw UsageError(
        "--ablate: needs --output FILE.html or FILE.json, or --json (heed ablate measures what a prediction "
        "loses)");
  arguments.ranges.selection();
  if (arguments.heads == "alignment" && writes(arguments, ".html"))
    throw UsageError("--heads: expected heads, all, mean or max for a page, got alignment");
  const bool gradient = arguments.shows("gradient");
  if (!gradient && (arguments.position || arguments.token.given()))
    throw UsageError(std::string(arguments.position ? "--position" : "--token") + ": needs --show gradient");
}

void run(AttendArguments arguments, const Globals& globals) {
  check_arguments(arguments, globals);
  const bool chats = !arguments.chat.messages.empty();
  std::vector<std::string> texts{""};
  if (chats) {
    texts.clear();
    for (GivenChat& given : read_chats(arguments.chat.messages, "--messages"))
      texts.push_back(std::move(given.json));
  } else if (arguments.input.empty()) {
    texts = read_texts(arguments.texts, globals.quiet);
  }
  for (const char* option : {"--target", "--pair"}) {
    if (texts.size() > 1 && (option[2] == 't' ? arguments.target : arguments.pair).has_value())
      throw UsageError(std::string(option) + ": expected one text, got " + std::to_string(texts.size()));
  }
  const LocatedModel located = locate_model(arguments.model);
  const std::filesystem::path& directory = located.directory;
  const auto model = load_model(located, DType::f32);
  warn_of_unknown_settings(*model, directory, globals);
  // Tensors of images and sounds need none; token ids of a file are then shown as numbers.
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    if (model->vocab_size() > 0) tokenizer = load_tokenizer(directory);
  } catch (const Error&) {
    if (arguments.input.empty() && model->input().kind == InputKind::tokens) throw;
  }
  std::optional<ModelChat> chat;
  if (chats && model->input().kind != InputKind::tokens)
    throw UsageError("--messages: expected a decoder, got " + kind_of(*model));
  if (chats) chat = ModelChat::load(directory.string(), *tokenizer);
  const AttendSource source{*model, tokenizer.get(), directory, globals, chat ? &*chat : nullptr};
  if (model->input().kind != InputKind::tokens && !arguments.texts.empty()) texts = file_arguments(texts);
  const bool lines = arguments.texts.empty() && arguments.input.empty() && !chats;
  FailedLines failed(globals.json);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    AttentionPicture picture;
    try {
      if (!arguments.images_texts.empty() && dynamic_cast<const DualEncoderModel*>(model.get()) == nullptr)
        throw UsageError("--text: expected a model of texts and images, such as clip, got " +
                         model->family());
      const AttendText text{texts[i],         arguments.pair,
                            arguments.target, arguments.max_new_tokens,
                            arguments.start,  arguments.images_texts};
      picture = attend(
          arguments,
          arguments.input.empty() ? text_input(text, source) : tensor_input(arguments.input, source), source);
    } catch (const UsageError&) {
      throw;
    } catch (const OptionError&) {
      throw;
    } catch (const Canceled&) {
      throw;
    } catch (const Error& error) {
      if (texts.size() == 1 && !lines) throw;
      failed.add(i, error.what());
      if (arguments.output.empty()) failed.print_in_place_of(i);
      flush_results();
      continue;
    }
    const bool single = texts.size() == 1 || arguments.output.empty();
    picture.model.name = title_of(arguments.model);
    show(picture, single ? arguments.output : numbered(arguments.output, i), arguments, globals);
  }
  failed.finish();
}

}  // namespace

MapChoice choice_of(const AttendArguments& arguments) {
  MapChoice choice;
  const bool terminal = arguments.output.empty();
  if (!arguments.layers.empty() && arguments.layers != "all")
    choice.layers = parse_ids(arguments.layers, "--layers");
  choice.mean_of_heads = arguments.heads == "mean" || (arguments.heads.empty() && terminal);
  choice.max_of_heads = arguments.heads == "max";
  if (!choice.mean_of_heads && !choice.max_of_heads && !arguments.heads.empty() && arguments.heads != "all" &&
      arguments.heads != "alignment")
    choice.heads = parse_ids(arguments.heads, "--heads");
  return choice;
}

void check_layers(const MapChoice& choice, const std::set<std::int64_t>& layers) {
  for (const std::int64_t layer : choice.layers) {
    if (!layers.contains(layer))
      throw UsageError("--layers: " + std::to_string(layer) +
                       " not found (heed models MODEL lists the model's layers, counted from 0)");
  }
}

void write_attention_page(const std::vector<std::int64_t>& ids, std::size_t begin, const std::string& title,
                          const AttendSource& source, const std::string& model,
                          const std::filesystem::path& file) {
  check_picture_file(file);
  AttendArguments arguments;
  arguments.output = file;
  if (begin > 0) arguments.ranges.queries = fmt::format("{}:", begin);
  AttentionPicture picture = attend(arguments, token_input(ids, title, source), source);
  picture.model.name = model;
  write_picture(picture, file, style_of(arguments));
}

void add_attend(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("attend", "Show which tokens a model attends to");
  auto a = std::make_shared<AttendArguments>();
  command->add_option(
      "text", a->texts,
      "Texts, image files for an image model, or sound files for a model that hears, - for one on stdin; "
      "without any, the lines of stdin");
  command
      ->add_option("--target", a->target,
                   "A given translation of the text or caption of the image, instead of the model's own")
      ->type_name("TEXT")
      ->group("Input");
  command->add_option("--pair", a->pair, "Second text of a pair, for an encoder")
      ->type_name("TEXT")
      ->group("Input");
  command
      ->add_option(
          "--text", a->images_texts,
          "Text to compare an image with, for a model of both such as CLIP: its tokens are shown beside; "
          "may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group("Input");
  a->chat.add_messages_to(*command);
  command
      ->add_option("--start", a->start,
                   "Where the part of a recording begins that is shown, at most 30 s of speech (default: 0)")
      ->check(number_from_zero())
      ->type_name("SECONDS")
      ->group("Input");
  command
      ->add_option("--max-new-tokens", a->max_new_tokens, "Continue the text first by at most so many tokens")
      ->transform(whole_number(1))
      ->type_name("N")
      ->group("Input");
  command
      ->add_option("--input,-i", a->input,
                   "Safetensors file with the model's inputs: pixel_values of an image, input_features of a "
                   "sound, input_ids, ...")
      ->type_name("FILE")
      ->group("Input");
  add_model_option(*command, a->model)->capture_default_str();
  command
      ->add_option("--kind", a->kind,
                   "Which attention; self is that of encoder and decoder (default: cross where the model has "
                   "it, else self; on a page, all)")
      ->type_name("cross|encoder|decoder|image|text|pooling|self")
      ->group("Output");
  command
      ->add_option(
          "--layers", a->layers,
          "Layers to show, e.g. 0,3 (default: all; of a caption over its image and of Moonshine, the last)")
      ->type_name("LIST|all")
      ->group("Output");
  command
      ->add_option(
          "--heads", a->heads,
          "Heads to show, e.g. 0,3, their mean or largest, or the mean of the alignment heads of a model of "
          "speech "
          "(default: all in files, mean in the terminal and of a caption over its image, alignment in the "
          "terminal and "
          "figures of Whisper)")
      ->type_name("LIST|all|mean|max|alignment")
      ->group("Output");
  command
      ->add_option("--queries", a->ranges.queries,
                   "Rows to record and show: positions from 0, e.g. 10:20, 10:, :20 or 7 (default: all)")
      ->type_name("A:B")
      ->group("Output");
  command->add_option("--keys", a->ranges.keys, "Columns to record and show, in the same way (default: all)")
      ->type_name("A:B")
      ->group("Output");
  CLI::Option* show = command->add_option(
      "--show", a->show,
      "What to show, one or more, by commas: attention weights; their norms with the values, "
      "||alpha f(x)||; rollout through the layers; weight times gradient of a logit (default: weights, and "
      "on "
      "a page rollout)");
  accept_words(show, {"weights", "norms", "rollout", "gradient"})->delimiter(',')->group("Output");
  command
      ->add_flag_function(
          "--ablate,!--no-ablate", [a](std::int64_t count) { a->ablate = count > 0; },
          "Say what the absence of each chosen head changes in the logits (.html, .json), by a pass for each "
          "(default: on a page, where passes x positions x parameters are up to 1e10, about 2 s)")
      ->group("Ablation");
  a->ablation.add_to(*command, "Heads and feed-forward networks without which the attention is shown");
  add_token_options(*command, a->token,
                    "What --show gradient is of (default: the one that follows in the text, else the most "
                    "probable)",
                    "Gradient");
  OptionGroup(*command, "Gradient")
      .count("--position", a->position, 0,
             "The position whose logit it is, from 0 (default: the last; of a masked language model, that of "
             "the first mask)");
  command
      ->add_flag(
          "--vectors", a->vectors,
          "Keep queries and keys on the page, also of long texts, whose pages grow by about half (.html)")
      ->group("Output");
  command
      ->add_option(
          "--patch", a->patch.place,
          "Patch of an image whose attention is laid over it, counted from 0 at the upper left (default: "
          "the class token)")
      ->type_name("ROW,COLUMN")
      ->group("Output");
  command
      ->add_option(
          "--time", a->patch.time,
          "Frame of a recording whose attention in the encoder is laid over the spectrogram (default: the "
          "mean of all)")
      ->check(number_from_zero())
      ->type_name("SECONDS")
      ->group("Output");
  command->add_option("--width", a->width, "Width of an SVG, PDF or PNG figure in pixels, 96 to the inch")
      ->check(positive_number())
      ->type_name("N")
      ->group("Output");
  accept_words(command->add_option("--palette", a->palette, "Colors of an SVG, PDF or PNG figure"),
               {"blue", "red", "grey"})
      ->capture_default_str()
      ->group("Output");
  command
      ->add_option("--output,-o", a->output,
                   "Write .html, .svg, .pdf, .png, .json or .npy instead of a heat map in the terminal; of "
                   "several texts, to FILE-N for the N-th")
      ->type_name("FILE")
      ->group("Output");
  command->footer(
      "Examples:\n"
      "  heed attend \"The cat sat on the mat.\"\n"
      "  heed attend \"The cat sat on the mat.\" --target \"Le chat était assis sur le tapis.\" --layers 1 "
      "--heads all\n"
      "  heed attend \"I like tea.\" --kind encoder --output tea.html\n"
      "  heed attend --model gpt2 \"The cat sat. The cat\" --remove 4.11,5.1 --output without.svg\n"
      "  heed attend \"I like tea.\" --show norms --output tea.svg --width 640 --palette grey\n"
      "  heed attend --model gpt2 --queries 900: --keys :64 --output last.png < long.txt\n"
      "  heed attend --model bert-base-uncased \"Tea is a [MASK].\" --show gradient\n"
      "  heed attend --model ./vit photo.jpg --show rollout\n"
      "  heed attend --model ./dinov2 photo.jpg --layers 11 --heads all --output photo.svg\n"
      "  heed attend --model ./vit-gpt2-image-captioning photo.jpg --output words.png\n"
      "  heed attend --model ./clip photo.jpg --text \"a cat\" --text \"a dog\" --show gradient --layers 11 "
      "--heads mean\n"
      "  heed attend --model whisper-base talk.wav\n"
      "  heed attend --model whisper-base talk.mp3 --start 60 --output minute.svg");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
