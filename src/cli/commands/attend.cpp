// heed attend: shows which tokens each token attends to, as a heat map in the terminal or as a file.
#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/tap_options.h"
#include "cli/options/task_arguments.h"
#include "cli/results/results.h"
#include "cli/terminal/exit.h"
#include "cli/terminal/terminal.h"
#include "heed/analyses/attend.h"
#include "heed/error.h"

namespace heed::cli {
namespace {

struct AttendArguments {
  std::vector<std::string> given;  // texts, or names of files
  SubjectRequest request;
  std::filesystem::path input;
  ChatArguments chat;
  ModelChoice model{kDefaultTranslator};
  std::string layers, heads, patch;
  AttendOptions options;
  std::filesystem::path output;
  bool vectors = false;
  AblationArguments ablation;
  double width = 0;
  std::string palette = "blue";

  bool writes(const char* ending) const { return output.extension() == ending; }
};

void check_ablation(AttendArguments& a, const Globals& globals) {
  a.ablation.check();
  const bool chosen = a.options.ablate.has_value();  // else it is not worth a bar
  if (a.ablation.replacement && a.ablation.remove.empty() && !chosen) a.options.ablate = true;
  if (a.options.ablate.value_or(false) && !a.writes(".html") && !a.writes(".json") &&
      !(globals.json && a.output.empty()))
    throw UsageError(
        "--ablate: needs --output FILE.html or FILE.json, or --json (heed ablate measures what a prediction "
        "loses)");
  if (!chosen) a.options.progress = {};
  a.options.remove = a.ablation.remove;
  a.options.replacement = a.ablation.replacement.value_or(Replacement::zero);
  a.options.seed = globals.seed.value_or(0);
}

// --layers and --heads.
void read_choice(AttendArguments& a) {
  if (a.layers == "all") a.options.layers.emplace();
  if (!a.layers.empty() && a.layers != "all") a.options.layers = parse_ids(a.layers, "--layers");
  a.options.heads = a.heads.empty()          ? AttendHeads::usual
                    : a.heads == "mean"      ? AttendHeads::mean
                    : a.heads == "max"       ? AttendHeads::max
                    : a.heads == "alignment" ? AttendHeads::alignment
                                             : AttendHeads::all;
  if (a.options.heads == AttendHeads::all && a.heads != "all")
    a.options.chosen_heads = parse_ids(a.heads, "--heads");
  if (!a.patch.empty()) a.options.patch = parse_ids(a.patch, "--patch");
}

void check_arguments(AttendArguments& a, const Globals& globals) {
  SubjectRequest& request = a.request;
  if (request.target) request.target = valid_text(*request.target, "--target", globals.quiet);
  if (request.pair) request.pair = valid_text(*request.pair, "--pair", globals.quiet);
  if (!a.output.empty()) check_picture_file(a.output);
  const bool reads_texts = !a.given.empty() || request.target || request.pair;
  if (!a.input.empty() && (reads_texts || request.start))
    throw UsageError("attend: expected --input or texts, got both");
  request.is_chat = !a.chat.messages.empty();
  if (request.is_chat && (reads_texts || !a.input.empty()))
    throw UsageError("--messages: cannot be combined with text, --input, --target or --pair");
  if (request.target && request.max_new_tokens)
    throw UsageError("--max-new-tokens: cannot be combined with --target");
  if (a.vectors && !a.writes(".html")) throw UsageError("--vectors: needs --output FILE.html");
  check_ablation(a, globals);
  if (!a.options.queries.empty()) parse_positions(a.options.queries, "--queries");
  if (!a.options.keys.empty()) parse_positions(a.options.keys, "--keys");
  if (a.heads == "alignment" && a.writes(".html"))
    throw UsageError("--heads: expected heads, all, mean or max for a page, got alignment");
  const auto& shown = a.options.show;
  const bool gradient = std::find(shown.begin(), shown.end(), "gradient") != shown.end();
  if (!gradient && (a.options.position || a.options.token.given()))
    throw UsageError(std::string(a.options.position ? "--position" : "--token") + ": needs --show gradient");
  if (a.vectors) a.options.most_vectors = INT64_MAX;
  a.options.form = a.writes(".html")                                          ? AttendForm::page
                   : a.output.empty() && !globals.json                        ? AttendForm::terminal
                   : a.writes(".svg") || a.writes(".pdf") || a.writes(".png") ? AttendForm::figure
                                                                              : AttendForm::numbers;
}

// Texts, conversations, or nothing where tensors are given.
std::vector<std::string> read_given(const AttendArguments& a, const Globals& globals) {
  if (!a.input.empty()) return {""};
  std::vector<std::string> texts;
  if (a.request.is_chat) {
    for (GivenChat& chat : read_chats(a.chat.messages, "--messages")) texts.push_back(std::move(chat.json));
  } else {
    texts = read_texts(a.given, globals.quiet);
  }
  for (const char* option : {"--target", "--pair"}) {
    if (texts.size() > 1 && (option[2] == 't' ? a.request.target : a.request.pair).has_value())
      throw UsageError(std::string(option) + ": expected one text, got " + std::to_string(texts.size()));
  }
  return texts;
}

void show(const AttentionPicture& picture, const std::filesystem::path& file, const AttendArguments& a,
          const Globals& globals) {
  if (!file.empty()) {
    write_picture(picture, file,
                  {a.width, a.palette == "red"    ? Palette::red
                            : a.palette == "grey" ? Palette::gray
                                                  : Palette::blue});
    if (!globals.quiet)
      print_stderr("wrote " + file.string() +
                   (a.options.all_positions() ? "" : " (" + a.options.range_text() + ")"));
  } else if (globals.json) {
    std::string json = attention_json(picture);
    std::erase(json, '\n');  // one value per line
    print_stdout("{}\n", json);
  } else {
    print_styled(attention_terminal(picture, terminal_style(100)));
  }
  flush_results();
}

void run(AttendArguments a, const Globals& globals) {
  Progress bar(globals.quiet);
  a.options.progress = [&](std::int64_t done, std::int64_t total, const char* what) {
    bar.show(done, total, what);
  };
  check_arguments(a, globals);
  std::vector<std::string> texts = read_given(a, globals);
  read_choice(a);
  const LoadedModel model = open_model(a.model, globals, {}, true);
  warn_of_settings(model, globals);
  const bool reads_files = model.model().input().kind != InputKind::tokens;
  // Tensors of images and sounds need no tokenizer; token ids of a file are then shown as numbers.
  ModelParts parts{model.model()};
  const bool has_tokenizer = model.model().vocab_size() > 0 && model.has_tokenizer();
  if (has_tokenizer || (a.input.empty() && !reads_files)) parts.tokenizer = &model.tokenizer();
  if (a.request.is_chat && reads_files)
    throw UsageError("--messages: expected a decoder, got " + model.kind());
  if (a.request.is_chat) static_cast<void>(model.chat_templates());  // says what is missing
  if (!a.given.empty()) texts = reads_files ? file_arguments(texts) : text_arguments(texts, globals.quiet);
  const auto subject_with = [&](const std::string& text, const SubjectRequest& request) {
    SubjectRequest one = request;
    one.given = text;
    one.seed = [&] { return chosen_seed(globals); };
    one.stop = &stop_flag();
    one.on_warning = [&](const std::string& message) {
      if (!globals.quiet) warn(message);
    };
    return subject_of(model, one);
  };
  if (a.output.empty() && globals.json && a.heads.empty()) a.options.heads = AttendHeads::mean;
  a.options.reference = a.ablation.reference_inputs(globals, [&](const std::string& line) {
    return subject_with(line, {.given = {}, .target = a.request.target, .start = a.request.start}).inputs;
  });
  const bool lines = a.given.empty() && a.input.empty() && !a.request.is_chat;
  FailedLines failed(globals.json);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    AttendedSubject attended;
    std::string note;
    try {
      Subject subject = a.input.empty() ? subject_with(texts[i], a.request)
                                        : subject_of_tensors(parts, read_tensors(a.input), a.input.string());
      if (!a.input.empty()) subject.title = a.input.filename().string();
      note = subject.note;
      attended = attend(parts, std::move(subject), a.options);
      bar.finish();
    } catch (const UsageError&) {
      throw;
    } catch (const OptionError&) {
      throw;
    } catch (const Canceled&) {
      throw;
    } catch (const Error& error) {
      if (texts.size() == 1 && !lines) throw;
      failed.add(i, error.what());
      if (a.output.empty()) failed.print_in_place_of(i);
      flush_results();
      continue;
    }
    warn_of_non_finite(model.model(), attended.finite, globals);
    if (!note.empty() && !globals.quiet) print_stderr(printable(note));
    const bool single = texts.size() == 1 || a.output.empty();
    attended.picture.model.name = title_of(a.model);
    show(attended.picture, single ? a.output : numbered(a.output, i), a, globals);
  }
  failed.finish();
}

}  // namespace

void add_attend(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("attend", "Show which tokens a model attends to");
  auto a = std::make_shared<AttendArguments>();
  command->add_option(
      "text", a->given,
      "Texts, image files for an image model, or sound files for a model that hears, - for one on stdin; "
      "without any, the lines of stdin");
  command
      ->add_option("--target", a->request.target,
                   "A given translation of the text or caption of the image, instead of the model's own")
      ->type_name("TEXT")
      ->group("Input");
  command->add_option("--pair", a->request.pair, "Second text of a pair, for an encoder")
      ->type_name("TEXT")
      ->group("Input");
  command
      ->add_option(
          "--text", a->request.texts,
          "Text to compare an image with, for a model of both such as CLIP: its tokens are shown beside; "
          "may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->group("Input");
  a->chat.add_messages_to(*command);
  command
      ->add_option("--start", a->request.start,
                   "Where the part of a recording begins that is shown, at most 30 s of speech (default: 0)")
      ->check(number_from_zero())
      ->type_name("SECONDS")
      ->group("Input");
  command
      ->add_option("--max-new-tokens", a->request.max_new_tokens,
                   "Continue the text first by at most so many tokens")
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
      ->add_option("--kind", a->options.kind,
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
      ->add_option("--queries", a->options.queries,
                   "Rows to record and show: positions from 0, e.g. 10:20, 10:, :20 or 7 (default: all)")
      ->type_name("A:B")
      ->group("Output");
  command->add_option("--keys", a->options.keys, "Columns to record and show, in the same way (default: all)")
      ->type_name("A:B")
      ->group("Output");
  CLI::Option* show = command->add_option(
      "--show", a->options.show,
      "What to show, one or more, by commas: attention weights; their norms with the values, "
      "||alpha f(x)||; rollout through the layers; weight times gradient of a logit (default: weights, and "
      "on "
      "a page rollout)");
  accept_words(show, {"weights", "norms", "rollout", "gradient"})->delimiter(',')->group("Output");
  command
      ->add_flag_function(
          "--ablate,!--no-ablate", [a](std::int64_t count) { a->options.ablate = count > 0; },
          "Say what the absence of each chosen head changes in the logits (.html, .json), by a pass for each "
          "(default: on a page, where passes x positions x parameters are up to 1e10, about 2 s)")
      ->group("Ablation");
  a->ablation.add_to(*command, "Heads and feed-forward networks without which the attention is shown");
  add_token_options(*command, a->options.token,
                    "What --show gradient is of (default: the one that follows in the text, else the most "
                    "probable)",
                    "Gradient");
  OptionGroup(*command, "Gradient")
      .count("--position", a->options.position, 0,
             "The position whose logit it is, from 0 (default: the last; of a masked language model, that of "
             "the first mask)");
  command
      ->add_flag(
          "--vectors", a->vectors,
          "Keep queries and keys on the page, also of long texts, whose pages grow by about half (.html)")
      ->group("Output");
  command
      ->add_option(
          "--patch", a->patch,
          "Patch of an image whose attention is laid over it, counted from 0 at the upper left (default: "
          "the class token)")
      ->type_name("ROW,COLUMN")
      ->group("Output");
  command
      ->add_option(
          "--time", a->options.time,
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
