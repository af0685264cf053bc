// heed classify: predicts labels of texts, of their tokens and the entities that these form, or of image and
// sound files.
#include "heed/tasks/classify.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/lines.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/terminal/terminal.h"
#include "heed/io/json.h"
#include "heed/models/kind.h"
#include "heed/tasks/tag.h"
#include "heed/text/unicode.h"
#include "tasks/tagging.h"

namespace heed::cli {
namespace {

struct ClassifyArguments : TaskArguments {
  std::int64_t top_k = 1;
  std::vector<std::string> pairs;
  bool tab_pairs = false;
  std::vector<std::string> labels;
  std::string label_template = "{}";
  TagOptions tagging;
};

void print_json(const std::vector<Label>& labels) {
  JsonWriter json;
  json.begin_array();
  for (const Label& one : labels)
    json.begin_object().field("label", one.name).field("score", one.score).end_object();
  print_stdout("{}\n", json.end_array().text());
}

void print_text(const std::vector<Label>& labels) {
  std::string line;
  for (const Label& one : labels)
    line += (line.empty() ? "" : "\t") + one.name + " " + short_score(one.score);
  print_stdout("{}\n", line);
}

void print_text(const std::vector<TaggedText>& tagged) {
  std::string line;
  for (const TaggedText& one : tagged) {
    line += fmt::format("{}{} {} {}-{} {}", line.empty() ? "" : "\t", one.label, one.word, one.start, one.end,
                        short_score(one.score));
  }
  print_stdout("{}\n", line);
}

// Options of labels of whole texts, for a model that labels tokens, and the other way round.
void check_use(const CLI::App& command, bool of_tokens, const std::string& got) {
  for (const char* option : {"--pair", "--tab-pairs", "--top-k"}) {
    if (of_tokens && command.count(option) > 0)
      throw UsageError(std::string(option) + ": expected a model that labels whole texts or files, got " +
                       got);
  }
  for (const char* option : {"--aggregation", "--stride"}) {
    if (!of_tokens && command.count(option) > 0)
      throw UsageError(std::string(option) + ": expected a model that labels tokens, got " + got);
  }
}

// The labels of tokens, and the entities that these form.
void classify_tokens(const LoadedModel& model, const ClassifyArguments& arguments, const Globals& globals) {
  TagOptions tagging = arguments.tagging;
  for_each_line(
      text_arguments(arguments.texts, globals.quiet), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        tagging.task = options;
        return model.tag(texts, tagging);
      },
      [&](const std::vector<TaggedText>& tagged, const Line&) {
        globals.json ? print_stdout("{}\n", tasks::tagged_json(tagged, tagging.aggregation))
                     : print_text(tagged);
      });
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
  const LoadedModel model = open_model(arguments.model, globals, arguments.weights, true);
  if (as<DualEncoderModel>(model.model()) == nullptr)
    throw UsageError("--labels: expected a model of texts and images, such as CLIP, got " + model.kind());
  warn_of_settings(model, globals);
  for_each_line(
      file_arguments(arguments.texts), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& files, const TaskOptions& options) {
        return model.classify_images(files, prompts, arguments.top_k, options);
      },
      [&](std::vector<Label>& labels, const Line&) {
        for (Label& one : labels) {
          const auto prompt = std::find(prompts.begin(), prompts.end(), one.name);
          one.name = arguments.labels[static_cast<std::size_t>(prompt - prompts.begin())];
        }
        globals.json ? print_json(labels) : print_text(labels);
      });
}

void run(const ClassifyArguments& arguments, const CLI::App& command, const Globals& globals) {
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
  const LoadedModel model = open_model_to(Task::classify, arguments.model, arguments.weights, globals,
                                          {Task::classify_images, Task::classify_sounds, Task::tag});
  if (model.can(Task::classify_images) && model.can(Task::embed)) refuse(model, Task::classify_images);
  check_use(command, model.can(Task::tag), model.kind());
  const auto print = [&](const std::vector<Label>& labels, const Line&) {
    globals.json ? print_json(labels) : print_text(labels);
  };
  if (model.model().input().kind != InputKind::tokens) {
    if (arguments.tab_pairs || !pairs.empty())
      throw UsageError("--pair, --tab-pairs: expected neither for images and sounds, got one");
    const auto compute = [&](const std::vector<std::string>& files, const TaskOptions& options) {
      return model.model().input().is_image() ? model.classify_images(files, arguments.top_k, options)
                                              : model.classify_sounds(files, arguments.top_k, options);
    };
    return for_each_line(file_arguments(arguments.texts), arguments.batch_tokens, globals, compute, print);
  }
  if (model.can(Task::tag)) return classify_tokens(model, arguments, globals);
  for_each_line(
      text_arguments(arguments.texts, globals.quiet), arguments.batch_tokens, globals,
      [&](const std::vector<std::string>& texts, const TaskOptions& options) {
        for (std::size_t i = 0; i < texts.size(); ++i) {
          if (is_blank(texts[i])) options.warn(i, "an empty text, which gets a label like any other");
        }
        const std::vector<TextPair> inputs = arguments.tab_pairs
                                                 ? split_at_tabs(texts, options)
                                                 : with_pairs(texts, pairs, options.first_index);
        return model.classify(inputs, arguments.top_k, options);
      },
      print);
}

}  // namespace

void add_classify(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("classify", "Label texts, their tokens, images or sounds with a classifier");
  auto a = std::make_shared<ClassifyArguments>();
  add_task_options(*command, *a,
                   "Texts, or image or sound files for a model of those, - for one on stdin; without any, "
                   "the lines of stdin");
  OptionGroup input(*command, "Input"), tokens(*command, "Labels of tokens"), output(*command, "Output");
  input.value("--pair", a->pairs, "TEXT", "Second text of a pair: one for all texts, or one for each");
  input.flag("--tab-pairs", a->tab_pairs, "Each text is a pair: two texts with a tab between them");
  input.value("--labels", a->labels, "TEXT",
              "A label to choose for images, for a model of texts and images; once for each label");
  input
      .value("--template", a->label_template, "TEXT",
             "With --labels: the text around each label, in place of {}")
      ->capture_default_str();
  tokens.choice<Aggregation>(
      "--aggregation", a->tagging.aggregation, tasks::kAggregations,
      "How they become entities: none (a label per token), simple (join equal labels), or "
      "the label of a word from its first token, average, or max score");
  tokens.count("--stride", a->tagging.stride, 0, "Tokens by which the windows of a long text overlap");
  output.count("--top-k", a->top_k, 0, "Number of labels to list for each, the likeliest first; 0 for all");
  command->footer(
      "Examples:\n"
      "  heed classify --model ./sentiment \"What a fine day.\"\n"
      "  heed classify --model ./entailment \"A man sleeps.\" --pair \"Nobody is awake.\" --top-k 0 --json\n"
      "  heed classify --model ./reranker --tab-pairs < queries-and-passages.tsv\n"
      "  heed classify --model ./ner \"Ada Lovelace lived in London.\" --aggregation first\n"
      "  heed classify --model ./vit photo.jpg drawing.png --top-k 5\n"
      "  heed classify --model ./clip photo.jpg --labels \"a cat\" --labels \"a dog\"\n"
      "  curl -s https://example.org/photo.jpg | heed classify --model ./vit -");
  command->callback([a, command, &globals] { run(*a, *command, globals); });
}

}  // namespace heed::cli
