// heed classify: predicts labels of texts, or of image files.
#include "heed/tasks/classify.h"

#include <fmt/core.h>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/input/model_commands.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "heed/image/processor.h"
#include "heed/io/json.h"
#include "heed/text/unicode.h"
#include "tasks/file_input.h"

namespace heed::cli {
namespace {

struct ClassifyArguments : TaskArguments {
  std::int64_t top_k = 1;
  std::vector<std::string> pairs;
  bool tab_pairs = false;
  std::vector<std::string> labels;
  std::string label_template = "{}";
};

void print_json(const std::vector<std::string>& labels, const std::vector<LabelScore>& scores) {
  JsonWriter json;
  json.begin_array();
  for (const LabelScore& one : scores)
    json.begin_object().field("label", labels[one.index]).field("score", one.score).end_object();
  fmt::print("{}\n", json.end_array().text());
}

void print_text(const std::vector<std::string>& labels, const std::vector<LabelScore>& scores) {
  std::string line;
  for (const LabelScore& one : scores)
    line += (line.empty() ? "" : "\t") + labels[one.index] + " " + short_score(one.score);
  fmt::print("{}\n", line);
}

// Each text split at its first tab; one without a tab is refused.
std::vector<TextPair> split_at_tabs(const std::vector<std::string>& texts, const TaskOptions& options) {
  std::vector<TextPair> result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t tab = texts[i].find('\t');
    if (tab == std::string::npos) {
      options.fail("classify", i, "expected two texts with a tab between them, got one");
      result.push_back({"", ""});
    } else {
      result.push_back({texts[i].substr(0, tab), texts[i].substr(tab + 1)});
    }
  }
  return result;
}

// Adds the second texts: none, one for all, or one per text.
std::vector<TextPair> with_pairs(const std::vector<std::string>& texts, const std::vector<std::string>& pairs,
                                 std::size_t first) {
  std::vector<TextPair> result;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    TextPair pair{texts[i]};
    if (pairs.size() == 1) pair.second = pairs.front();
    if (pairs.size() > 1) pair.second = pairs[first + i];
    result.push_back(std::move(pair));
  }
  return result;
}

// The labels as a model of texts and images reads them.
std::vector<std::string> prompts_of(const ClassifyArguments& arguments, const Globals& globals) {
  const std::size_t at = arguments.label_template.find("{}");
  if (at == std::string::npos)
    throw UsageError("--template: expected a text with {}, where the label goes, got \"" +
                     arguments.label_template + "\"");
  std::vector<std::string> prompts;
  for (const std::string& label : arguments.labels) {
    std::string prompt = arguments.label_template;
    prompts.push_back(valid_text(prompt.replace(at, 2, label), "--labels", globals.quiet));
  }
  return prompts;
}

// Images by the labels of the command line.
void classify_by_labels(const ClassifyArguments& arguments, const Globals& globals) {
  const std::vector<std::string> prompts = prompts_of(arguments, globals);
  const LocatedModel located = locate_model(arguments.model);
  const auto model = load_model(located, weight_options(arguments.weights));
  const auto* dual = dynamic_cast<const DualEncoderModel*>(model.get());
  if (dual == nullptr)
    throw UsageError("--labels: expected a model of texts and images, such as CLIP, got " + kind_of(*model));
  warn_of_unknown_settings(*model, located.directory, globals);
  const auto tokenizer = load_tokenizer(located.directory);
  const ImageProcessor processor = load_image_processor(located.directory);
  for_each_line(
      file_arguments(arguments.texts), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& files, const TaskOptions& options) {
        return classify_images(*dual, *tokenizer, processor, files, prompts, arguments.top_k, options);
      },
      [&](const std::vector<LabelScore>& scores, const Line&) {
        globals.json ? print_json(arguments.labels, scores) : print_text(arguments.labels, scores);
      });
}

void run(const ClassifyArguments& arguments, const Globals& globals) {
  if (!arguments.labels.empty()) {
    if (arguments.tab_pairs || !arguments.pairs.empty())
      throw UsageError("--pair, --tab-pairs: expected neither beside --labels, got one");
    return classify_by_labels(arguments, globals);
  }
  if (arguments.label_template != "{}") throw UsageError("--template: missing --labels");
  if (arguments.pairs.size() > 1 && arguments.pairs.size() != arguments.texts.size()) {
    throw UsageError(fmt::format("--pair: expected one for all texts or one for each of {}, got {}",
                                 arguments.texts.size(), arguments.pairs.size()));
  }
  if (arguments.tab_pairs && !arguments.pairs.empty())
    throw UsageError("--tab-pairs: expected no --pair beside it, got one");
  std::vector<std::string> pairs;
  for (const std::string& pair : arguments.pairs) pairs.push_back(valid_text(pair, "--pair", globals.quiet));
  const LocatedModel located = locate_model(arguments.model);
  const auto model = load_model_to<EncoderModel>(Task::classify, located, weight_options(arguments.weights),
                                                 globals, {Task::classify_images, Task::classify_sounds});
  const auto print = [&](const std::vector<LabelScore>& scores, const Line&) {
    globals.json ? print_json(model->labels(), scores) : print_text(model->labels(), scores);
  };
  if (model->input().kind != InputKind::tokens) {
    if (arguments.tab_pairs || !pairs.empty())
      throw UsageError("--pair, --tab-pairs: expected neither for images and sounds, got one");
    const tasks::FileProcessor processor = tasks::load_file_processor(model->input(), located.directory);
    const auto compute = [&](const std::vector<std::string>& files, const TaskOptions& options) {
      return processor.image ? classify_images(*model, *processor.image, files, arguments.top_k, options)
                             : classify_sounds(*model, *processor.sound, files, arguments.top_k, options);
    };
    return for_each_line(file_arguments(arguments.texts), arguments.batch_tokens, globals, compute, print);
  }
  const auto tokenizer = load_tokenizer(located.directory);
  for_each_line(
      arguments.texts, arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
          if (is_blank(texts[i])) options.warn(i, "an empty text, which gets a label like any other");
        }
        const std::vector<TextPair> inputs = arguments.tab_pairs
                                                 ? split_at_tabs(texts, options)
                                                 : with_pairs(texts, pairs, options.first_index);
        return classify(*model, *tokenizer, inputs, arguments.top_k, options);
      },
      print);
}

}  // namespace

void add_classify(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("classify", "Label texts, images or sounds with a classifier");
  auto a = std::make_shared<ClassifyArguments>();
  add_task_options(*command, *a,
                   "Texts, or image or sound files for a model of those, - for one on stdin; without any, "
                   "the lines of stdin");
  OptionGroup input(*command, "Input"), output(*command, "Output");
  input.value("--pair", a->pairs, "TEXT", "Second text of a pair: one for all texts, or one for each");
  input.flag("--tab-pairs", a->tab_pairs, "Each text is a pair: two texts with a tab between them");
  input.value("--labels", a->labels, "TEXT",
              "A label to choose for images, for a model of texts and images; once for each label");
  input
      .value("--template", a->label_template, "TEXT",
             "With --labels: the text around each label, in place of {}")
      ->capture_default_str();
  output.count("--top-k", a->top_k, 0, "Number of labels to list for each, the likeliest first; 0 for all");
  command->footer(
      "Examples:\n"
      "  heed classify --model ./sentiment \"What a fine day.\"\n"
      "  heed classify --model ./entailment \"A man sleeps.\" --pair \"Nobody is awake.\" --top-k 0 --json\n"
      "  heed classify --model ./reranker --tab-pairs < queries-and-passages.tsv\n"
      "  heed classify --model ./vit photo.jpg drawing.png --top-k 5\n"
      "  heed classify --model ./clip photo.jpg --labels \"a cat\" --labels \"a dog\"\n"
      "  curl -s https://example.org/photo.jpg | heed classify --model ./vit -");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
