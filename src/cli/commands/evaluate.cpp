// heed evaluate: scores translations by BLEU and chrF as sacreBLEU computes them, summaries by ROUGE as
// rouge-score does, or how well a decoder predicts a text.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/models.h"
#include "cli/options/generation_arguments.h"
#include "cli/options/option_group.h"
#include "cli/options/task_arguments.h"
#include "cli/results/evaluate_labels.h"
#include "cli/terminal/terminal.h"
#include "heed/files/file.h"
#include "heed/generate/perplexity.h"
#include "heed/generate/translate.h"
#include "heed/io/json.h"
#include "heed/plot/chart.h"
#include "heed/score/bleu.h"
#include "heed/score/chrf.h"
#include "heed/score/rouge.h"

namespace heed::cli {
namespace {

struct EvaluateArguments {
  ModelChoice model;
  std::string source;
  std::vector<std::string> hypotheses;
  std::string text;
  std::optional<std::int64_t> window, stride;
  std::vector<std::string> references;
  std::vector<std::string> metrics = {"bleu", "chrf"};
  std::string tokenizer = "13a";
  bool lowercase = false, stemmer = false;
  std::optional<std::string> prefix;
  LanguageChoice languages;
  std::string data, tsv, columns;
  std::vector<std::string> overrides;
  std::optional<std::int64_t> by_length;
  std::string output;
  std::int64_t batch_tokens = 4096;
  WeightArguments weights;
  GenerationArguments generation;

  bool scores(const char* metric) const {
    return std::find(metrics.begin(), metrics.end(), metric) != metrics.end();
  }
};

struct Outputs {
  std::vector<std::string> texts;
  std::optional<std::uint64_t> seed;  // for sampling
};

Outputs translate_lines(const EvaluateArguments& arguments, const std::vector<std::string>& sources,
                        const Globals& globals) {
  LoadedModel model = open_model(arguments.model, globals, arguments.weights, true);
  TranslateOptions options;
  options.generation = arguments.generation.load(model.directory(), globals);
  options.prefix = arguments.prefix.value_or("");
  options.task.batch_tokens = arguments.batch_tokens;
  require_task(model, Task::translate, globals);
  choose_languages(arguments.languages, arguments.generation, model, options.generation);
  check_tokens(arguments.generation, options.generation, model.model().vocab_size(), model.directory(),
               globals.quiet);
  Outputs outputs;
  if (options.generation.do_sample) outputs.seed = options.generation.seed;
  Progress progress(globals.quiet);
  constexpr std::size_t kWindow = 512;
  for (std::size_t begin = 0; begin < sources.size(); begin += kWindow) {
    options.task.first_index = begin;
    options.task.on_warning = [&](std::size_t line, const std::string& message) {
      if (!globals.quiet) warn(arguments.source + ":" + std::to_string(line + 1) + ": " + message);
    };
    const std::size_t count = std::min(kWindow, sources.size() - begin);
    for (const Translation& t : model.translate(std::span(sources).subspan(begin, count), options)) {
      outputs.texts.push_back(t.text());
    }
    progress.show(static_cast<std::int64_t>(outputs.texts.size()), static_cast<std::int64_t>(sources.size()),
                  "lines");
  }
  return outputs;
}

BleuTokenizer tokenizer_named(const std::string& name) {
  try {
    return bleu_tokenizer_from_name(name);
  } catch (const Error&) {
    throw UsageError("--tokenize: expected 13a, intl, char or none, got " + name);
  }
}

// The maximum window for models without a maximum position.
constexpr std::int64_t kDefaultWindow = 1024;

void evaluate_text(const EvaluateArguments& a, const Globals& globals) {
  if (a.model.name.empty()) throw UsageError("evaluate: missing --model, which --texts needs");
  if (!a.source.empty() || !a.hypotheses.empty() || !a.references.empty())
    throw UsageError("evaluate: expected --texts, or --source and --reference, got both");
  const LoadedModel loaded = open_model_to(Task::generate, a.model, a.weights, globals);
  const std::string text = valid_text(read_file(a.text), a.text, globals.quiet);
  const std::vector<std::int64_t> ids = loaded.tokenizer().encode(text).ids;
  if (ids.size() < 2)
    throw Error(fmt::format("{}: expected a text of at least two tokens, got {}", a.text, ids.size()));
  const std::int64_t window = a.window.value_or(loaded.model().max_positions().value_or(kDefaultWindow));
  const std::int64_t stride = a.stride.value_or(window);
  const auto started = std::chrono::steady_clock::now();
  Progress progress(globals.quiet);
  const TextLoss loss = text_loss(
      loaded.decoder(), ids, window, stride,
      [&](std::int64_t done) { progress.show(done, static_cast<std::int64_t>(ids.size()) - 1, "tokens"); },
      a.generation.cache_dtype());
  progress.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const double bits_per_byte = loss.nats / std::log(2.0) / static_cast<double>(text.size());
  if (globals.json) {
    JsonWriter json;
    json.begin_object()
        .field("tokens", ids.size())
        .field("predicted", loss.predicted)
        .field("bytes", text.size())
        .field("loss", loss.loss())
        .field("perplexity", loss.perplexity())
        .field("bits_per_byte", bits_per_byte)
        .field("window", window)
        .field("stride", stride)
        .field("seconds", seconds)
        .end_object();
    print_stdout("{}\n", json.text());
  } else {
    print_stdout("loss = {:.4f} nats per token  perplexity = {:.4f}  bits per byte = {:.4f}\n", loss.loss(),
                 loss.perplexity(), bits_per_byte);
    print_stdout("{} tokens of {} bytes predicted, in windows of {} tokens, one every {} tokens\n",
                 loss.predicted, text.size(), window, stride);
  }
}

void check(const EvaluateArguments& a) {
  if (a.window || a.stride) throw UsageError("--window and --stride: missing --texts");
  if (a.references.empty()) throw UsageError("evaluate: missing --reference (or --texts, --data, or --tsv)");
  if (a.hypotheses.empty() && a.source.empty())
    throw UsageError("evaluate: missing --source (with --model) or --hypothesis");
  if (!a.hypotheses.empty() && !a.source.empty() && !a.by_length)
    throw UsageError(
        "evaluate: expected --source or --hypothesis, got both (they go together with --by-length)");
  if (a.hypotheses.empty() && a.model.name.empty())
    throw UsageError("evaluate: missing --model, which --source needs");
  if (a.by_length && a.source.empty())
    throw UsageError("--by-length: missing --source (the texts whose lengths count)");
  if (!a.output.empty() && !a.by_length) throw UsageError("--output: missing --by-length, which it draws");
  if (a.prefix && !a.hypotheses.empty())
    throw UsageError("--prefix: missing --source (the texts it goes before)");
  if (a.languages.given() != nullptr && !a.hypotheses.empty())
    throw UsageError(std::string(a.languages.given()) + ": expected --source with --model, got --hypothesis");
  for (const std::string& metric : a.metrics) {
    if (metric != "bleu" && metric != "chrf" && metric != "rouge")
      throw UsageError("--scores: expected bleu, chrf or rouge, got " + metric);
  }
  static_cast<void>(tokenizer_named(a.tokenizer));  // throws
  if (a.stemmer && !a.scores("rouge"))
    throw UsageError("--stemmer: missing --scores rouge, whose words it stems");
}

using Streams = std::vector<std::vector<std::string>>;

std::vector<std::string> aligned_lines(const std::string& file, std::size_t count, const std::string& with,
                                       bool quiet) {
  std::vector<std::string> lines = read_lines(file, quiet);
  if (lines.size() != count)
    throw Error(fmt::format("{}: expected {} lines, as {} has, got {}", file, count, with, lines.size()));
  return lines;
}

// One score of the outputs: the members of the JSON object, and a line of text.
struct Score {
  JsonWriter& json;
  std::string& text;
};

void score_bleu(const EvaluateArguments& arguments, const std::vector<std::string>& outputs,
                const Streams& references, const Score& to) {
  BleuOptions options;
  options.tokenizer = tokenizer_named(arguments.tokenizer);
  options.lowercase = arguments.lowercase;
  const BleuScore bleu = corpus_bleu(outputs, references, options);
  const std::string signature = bleu_signature(static_cast<std::int64_t>(references.size()), options);
  to.json
      .field("bleu", std::min(bleu.score, 100.0))  // rounded logarithms may give more
      .field("bleu_signature", signature)
      .field("bleu_details", bleu.format());
  to.text += bleu.format() + "  " + signature + "\n";
}

void score_chrf(const EvaluateArguments& arguments, const std::vector<std::string>& outputs,
                const Streams& references, const Score& to) {
  ChrfOptions options;
  options.lowercase = arguments.lowercase;
  const ChrfScore chrf = corpus_chrf(outputs, references, options);
  const std::string signature = chrf_signature(static_cast<std::int64_t>(references.size()), options);
  to.json.field("chrf", chrf.score).field("chrf_signature", signature);
  to.text += chrf.format() + "  " + signature + "\n";
}

void score_rouge(const EvaluateArguments& arguments, const std::vector<std::string>& outputs,
                 const Streams& references, const Score& to) {
  const RougeOptions options{.stemmer = arguments.stemmer};
  const RougeScores rouge = corpus_rouge(outputs, references, options);
  const std::string signature = rouge_signature(static_cast<std::int64_t>(references.size()), options);
  for (const auto& [name, score] :
       {std::pair("rouge1", rouge.rouge1), std::pair("rouge2", rouge.rouge2),
        std::pair("rougeL", rouge.rougeL), std::pair("rougeLsum", rouge.rougeLsum)}) {
    to.json.field(name, score.f1)
        .field(name + std::string("_precision"), score.precision)
        .field(name + std::string("_recall"), score.recall);
  }
  to.json.field("rouge_signature", signature);
  to.text += rouge.format() + "  " + signature + "\n";
}

// The percentage of the outputs that equal a reference.
double exact_matches(const std::vector<std::string>& outputs, const Streams& references) {
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    exact += std::any_of(references.begin(), references.end(),
                         [&](const auto& stream) { return stream[i] == outputs[i]; });
  }
  return 100.0 * static_cast<double>(exact) / static_cast<double>(outputs.size());
}

struct ScoredLengths {
  std::string name;  // of the translations, in the picture
  std::vector<LengthGroup> groups;
};

// A few lines say nothing about their length.
bool is_rare(const LengthGroup& group, const std::vector<LengthGroup>& groups) {
  std::int64_t lines = 0;
  for (const LengthGroup& other : groups) lines += other.lines;
  return 100 * group.lines < lines;
}

std::string lengths_text(const std::vector<LengthGroup>& groups) {
  std::string text;
  for (const LengthGroup& group : groups) {
    text += fmt::format("BLEU = {:6.2f}  {:3} to {:3} words  {} line{}\n", group.bleu.score, group.from,
                        group.to, group.lines, group.lines == 1 ? "" : "s");
  }
  return text;
}

void lengths_json(JsonWriter& json, const std::vector<LengthGroup>& groups) {
  json.key("by_length").begin_array();
  for (const LengthGroup& group : groups) {
    json.begin_object()
        .field("from", group.from)
        .field("to", group.to)
        .field("lines", group.lines)
        .field("mean_words", group.mean_words)
        .field("bleu", std::min(group.bleu.score, 100.0))
        .end_object();
  }
  json.end_array();
}

void draw_lengths(const std::string& file, const std::vector<ScoredLengths>& scored) {
  LineChart chart{.title = "BLEU by source length", .x_label = "words of the source", .y_label = "BLEU"};
  for (const ScoredLengths& translations : scored) {
    ChartSeries series;
    series.name = translations.name;
    series.marks = true;
    for (const LengthGroup& group : translations.groups) {
      if (is_rare(group, translations.groups)) {
        chart.x_label = "words of the source (lengths of fewer than 1 % of the lines are left out)";
        continue;
      }
      series.x.push_back(group.mean_words);
      series.y.push_back(group.bleu.score);
    }
    chart.series.push_back(std::move(series));
  }
  write_file(file, line_chart_svg(chart));
}

// Prints the scores of one set of outputs. Returns those by length, if asked for.
std::vector<LengthGroup> print_scores(const EvaluateArguments& arguments, const Outputs& produced,
                                      const std::vector<std::string>& sources, const Streams& references,
                                      const std::string& hypothesis, double seconds, const Globals& globals) {
  const std::vector<std::string>& outputs = produced.texts;
  JsonWriter json;
  std::string text;
  json.begin_object();
  if (arguments.hypotheses.size() > 1) {
    json.field("hypothesis", hypothesis);
    text += hypothesis + "\n";
  }
  json.field("lines", outputs.size());
  const Score to{json, text};
  if (arguments.scores("bleu")) score_bleu(arguments, outputs, references, to);
  if (arguments.scores("chrf")) score_chrf(arguments, outputs, references, to);
  if (arguments.scores("rouge")) score_rouge(arguments, outputs, references, to);
  std::vector<LengthGroup> groups;
  if (arguments.by_length) {
    BleuOptions options;
    options.tokenizer = tokenizer_named(arguments.tokenizer);
    options.lowercase = arguments.lowercase;
    groups = bleu_by_length(sources, outputs, references, *arguments.by_length, options);
    lengths_json(json, groups);
    text += lengths_text(groups);
  }
  const double exact = exact_matches(outputs, references);
  if (globals.json) {
    json.field("exact", exact).field("seconds", seconds);
    if (produced.seed) json.field("seed", *produced.seed);
    print_stdout("{}\n", json.end_object().text());
  } else {
    print_stdout("{}exact matches = {:.2f} % of {} line{}\n", text, exact, outputs.size(),
                 outputs.size() == 1 ? "" : "s");
  }
  return groups;
}

void run(const EvaluateArguments& arguments, const Globals& globals) {
  if (!arguments.overrides.empty() && arguments.data.empty())
    throw UsageError("--set: missing --data, which it says how to read");
  if (!arguments.columns.empty() && arguments.tsv.empty())
    throw UsageError("--columns: missing --tsv, whose columns they are");
  if (!arguments.data.empty() && !arguments.tsv.empty())
    throw UsageError("evaluate: expected --data or --tsv, got both");
  if (!arguments.text.empty()) return evaluate_text(arguments, globals);
  if (!arguments.data.empty())
    return evaluate_labels({arguments.model,
                            arguments.data,
                            arguments.overrides,
                            false,
                            {},
                            arguments.batch_tokens,
                            arguments.weights},
                           globals);
  if (!arguments.tsv.empty()) {
    return evaluate_labels({arguments.model,
                            arguments.tsv,
                            {},
                            true,
                            arguments.columns,
                            arguments.batch_tokens,
                            arguments.weights},
                           globals);
  }
  check(arguments);
  const std::string& first = arguments.hypotheses.empty() ? arguments.source : arguments.hypotheses.front();
  const std::vector<std::string> lines = read_lines(first, globals.quiet);
  Streams references;
  for (const std::string& file : arguments.references)
    references.push_back(aligned_lines(file, lines.size(), first, globals.quiet));
  if (arguments.hypotheses.empty()) {
    const auto started = std::chrono::steady_clock::now();
    const Outputs outputs = translate_lines(arguments, lines, globals);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    const auto groups = print_scores(arguments, outputs, lines, references, "", seconds, globals);
    if (!arguments.output.empty()) draw_lengths(arguments.output, {{arguments.model.name, groups}});
    return;
  }
  std::vector<std::string> sources;
  if (arguments.by_length) sources = aligned_lines(arguments.source, lines.size(), first, globals.quiet);
  std::vector<ScoredLengths> by_length;
  for (const std::string& file : arguments.hypotheses) {
    const Outputs outputs{aligned_lines(file, lines.size(), first, globals.quiet), {}};
    by_length.push_back({std::filesystem::path(file).stem().string(),
                         print_scores(arguments, outputs, sources, references, file, 0, globals)});
  }
  if (!arguments.output.empty()) draw_lengths(arguments.output, by_length);
}

}  // namespace

void add_evaluate(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand("evaluate",
                                         "Score translations and summaries (BLEU, chrF, ROUGE), decoders "
                                         "(perplexity), classifiers, taggers, answers");
  auto a = std::make_shared<EvaluateArguments>();
  OptionGroup input(*command, "Input"), scores(*command, "Scores");
  input.value("--source", a->source, "FILE", "Source texts to translate with --model, one per line");
  input.value("--reference", a->references, "FILE", "Reference translations, line by line");
  input.value(
      "--hypothesis", a->hypotheses, "FILE",
      "Finished translations to score, instead of --source and --model; repeat it to compare several");
  input.value("--prefix", a->prefix, "TEXT",
              "Text to put before every source text, e.g. \"summarize: \" for T5");
  add_language_options(*command, a->languages);
  input.value("--texts", a->text, "FILE",
              "A text whose tokens --model, a decoder, predicts: loss, perplexity, bits per byte");
  input.value(
      "--data", a->data, "FILE",
      "Labeled data as heed train reads them: for a classifier lines of LABEL<TAB>TEXT, for a tagger CoNLL, "
      "for a model that answers SQuAD's JSON, for images a folder with a folder for each label, for speech "
      "a folder with metadata.csv");
  input.value(
      "--tsv", a->tsv, "FILE",
      "The same of lines TEXT<TAB>LABEL or TEXT<TAB>TEXT<TAB>LABEL for a classifier; a header may come "
      "first");
  input.value("--columns", a->columns, "NAMES",
              "Columns of --tsv in their order: text, pair, label, or - for others (default: the label "
              "last, or first where only that column has labels)");
  input.value("--set", a->overrides, "SECTION.KEY=VALUE",
              "How --data is read, as in a recipe, e.g. data.format=csv");
  add_model_argument(*command, a->model);
  add_activations_option(*command, a->weights);
  add_batch_tokens_option(*command, a->batch_tokens);
  scores
      .value("--scores", a->metrics, "NAMES",
             "Scores of texts, separated by commas: bleu, chrf, rouge (ROUGE-1, -2, -L, -Lsum)")
      ->delimiter(',')
      ->default_str("bleu,chrf");
  scores.flag("--stemmer", a->stemmer, "Compare the stems of English words in ROUGE");
  scores.value("--tokenize", a->tokenizer, "13a|intl|char|none", "Tokenizer of BLEU, as in sacreBLEU")
      ->capture_default_str();
  scores.flag("--lowercase", a->lowercase, "Ignore case in BLEU and chrF");
  scores.count("--by-length", a->by_length, 1,
               "Also BLEU by the number of words of --source, in groups of N lengths");
  scores.value("--output", a->output, "FILE", "A picture (SVG) of --by-length");
  scores.count("--window", a->window, 1,
               "Tokens of --texts in one window (default: the model's positions, or 1024)");
  scores.count("--stride", a->stride, 1,
               "Tokens from one window to the next (default: the window); less gives more context");
  a->generation.add_to(*command, kLongestTarget);
  command->footer(
      std::string(kGenerationNote) +
      "Examples:\n"
      "  heed evaluate gpt2 --texts book.txt --stride 512\n"
      "  heed evaluate en-fr --source test.en --reference test.fr --num-beams 5\n"
      "  heed evaluate m2m100_418M --source test.fr --reference test.de --source-language fr \\\n"
      "       --target-language de\n"
      "  heed evaluate --hypothesis output.fr --reference test.fr --json\n"
      "  heed evaluate --hypothesis rnn.fr --hypothesis attention.fr --reference test.fr \\\n"
      "       --source test.en --by-length 5 --output lengths.svg\n"
      "  heed evaluate summaries --source texts.txt --reference summaries.txt --scores rouge\n"
      "  heed evaluate ./sentiment --data dev.tsv\n"
      "  heed evaluate ./sentiment --tsv dev.tsv --columns label,-,text\n"
      "  heed evaluate ./sentiment --data dev.csv --set data.format=csv --set data.header=true \\\n"
      "       --set data.text_column=1 --set data.label_column=2\n"
      "  heed evaluate ./names --data test.conll\n"
      "  heed evaluate ./vit --data photos\n"
      "  heed evaluate ./wav2vec2 --data talks");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
