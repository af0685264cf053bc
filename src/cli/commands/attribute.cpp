// heed attribute: what each input token adds to an output, by gradients or by leaving it out.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/cli.h"
#include "cli/input/analysis_input.h"
#include "cli/input/input.h"
#include "cli/options/metric_options.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/results/written_model.h"
#include "cli/terminal/terminal.h"
#include "heed/autograd.h"
#include "heed/inspect/attribution.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::cli {
namespace {

enum class BaselineWord : std::uint8_t { usual, zero, pad, mask };

struct AttributeArguments {
  std::string text;
  std::optional<std::string> target;
  ModelChoice model;
  MetricArguments metric;
  InputMethod method = InputMethod::gradient;
  BaselineWord baseline = BaselineWord::usual;
  std::optional<std::int64_t> steps;
  bool all_labels = false;
  TableOutput output;
};

const char* word_of(InputMethod method) {
  return method == InputMethod::gradient     ? "gradient"
         : method == InputMethod::integrated ? "integrated"
                                             : "occlusion";
}

// The token whose embedding is the baseline; nothing of zeros.
std::optional<std::int64_t> baseline_token(const AttributeArguments& a, const Tokenizer& tokenizer) {
  const auto needed = [](std::optional<std::int64_t> id, const char* word) {
    if (!id) throw UsageError(fmt::format("--baseline: the tokenizer has no {} token", word));
    return id;
  };
  switch (a.baseline) {
    case BaselineWord::zero: return std::nullopt;
    case BaselineWord::pad: return needed(tokenizer.pad_id(), "pad");
    case BaselineWord::mask: return needed(tokenizer.mask_id(), "mask");
    case BaselineWord::usual: break;
  }
  if (a.method != InputMethod::occlusion) return std::nullopt;
  for (const auto& id : {tokenizer.mask_id(), tokenizer.pad_id(), tokenizer.unk_id()})
    if (id) return id;
  return std::nullopt;
}

// The labels of a classifier; none of other models.
std::vector<std::string> sequence_labels(const AnalyzedModel& loaded) {
  const auto* encoder = dynamic_cast<const EncoderModel*>(loaded.model);
  return encoder != nullptr && encoder->head() == EncoderHead::sequence ? encoder->labels()
                                                                        : std::vector<std::string>();
}

// A label, or a token as the tokenizer has it.
std::string output_name(const AnalyzedModel& loaded, std::int64_t id) {
  const std::vector<std::string> labels = sequence_labels(loaded);
  return labels.empty() ? loaded.tokenizer->token(id) : label_name(labels, id);
}

// What the model predicts, a token or a label.
std::int64_t predicted(const AnalyzedModel& loaded, const MeasuredInput& input) {
  const NoGradients guard;
  const Tensor logits = loaded.model->forward(input.inputs).at("logits").contiguous();
  const std::int64_t count = logits.size(-1), rows = logits.numel() / count;
  const std::int64_t row = input.metric.position.value_or(rows - 1);
  if (row >= rows)
    throw UsageError(fmt::format("--position: expected a position below {}, got {}", rows, row));
  const float* begin = logits.data<float>() + row * count;
  return std::max_element(begin, begin + count) - begin;
}

// The metrics, one for each column.
std::vector<MeasuredInput> measured_inputs(const AttributeArguments& a, const AnalyzedModel& loaded,
                                           const AnalyzedText& text) {
  MeasuredInput input{text.inputs, chosen_metric(a.metric, loaded, MetricKind::logit)};
  if (input.metric.kind == MetricKind::kl)
    throw UsageError("--metric: expected loss, logit, logit-diff or probability, got kl");
  const bool classifies = !sequence_labels(loaded).empty();
  if (classifies && a.metric.position) throw UsageError("--position: expected a model of tokens");
  if (!input.metric.position) input.metric.position = usual_position(loaded, text.ids);
  if (!a.all_labels) {
    if (!input.metric.token) input.metric.token = predicted(loaded, input);
    return {input};
  }
  if (!classifies) throw UsageError("--all-labels: expected a classifier, got " + kind_of(*loaded.model));
  if (a.metric.chosen.given() || a.metric.other)
    throw UsageError("--all-labels: expected without --token, --id, --label and --other");
  std::vector<MeasuredInput> inputs;
  for (std::size_t i = 0; i < sequence_labels(loaded).size(); ++i) {
    inputs.push_back(input);
    inputs.back().metric.token = static_cast<std::int64_t>(i);
  }
  return inputs;
}

// What the tokens add to each metric, and how that is called.
struct Attributed {
  const AttributeArguments& a;
  const AnalyzedModel& loaded;
  const AnalyzedText& text;
  std::vector<MeasuredInput> inputs;
  std::optional<std::int64_t> baseline;
  std::vector<InputAttribution> found = {};

  std::vector<std::string> tokens(std::size_t stack) const {
    return tokens_of(stack == 0 ? text.source_ids : text.ids, *loaded.tokenizer);
  }
  std::string baseline_name() const {
    return baseline ? loaded.tokenizer->token(*baseline) : std::string("zeros");
  }
};

std::string legend_of(const Attributed& x) {
  std::string legend;
  for (std::size_t i = 0; i < x.found.size(); ++i) {
    const InputAttribution& one = x.found[i];
    legend += fmt::format("{}{} {:.3f}, ", legend.empty() ? "" : "; ", text_of(x.inputs[i].metric, x.loaded),
                          one.value);
    legend += fmt::format("of {} alone {:.3f}, sum {:.3f}", x.baseline_name(), one.baseline_value, one.sum());
    if (x.a.method == InputMethod::integrated)
      legend += fmt::format(", completeness error {:+.4f}", one.completeness_error());
  }
  return legend;
}

HeatTable table_of(const Attributed& x) {
  const char* how = x.a.method == InputMethod::gradient     ? "gradient times input"
                    : x.a.method == InputMethod::integrated ? "integrated gradients"
                                                            : "occlusion";
  const std::string what = x.found.size() > 1
                               ? std::string(name_of(x.inputs.front().metric.kind)) + " of each label"
                               : text_of(x.inputs.front().metric, x.loaded);
  HeatTable table{.title = fmt::format("What each token adds to the {} ({})", what, how),
                  .rows_title = "token",
                  .legend = legend_of(x),
                  .shade_legend = "what a token adds",
                  .subtitle = subtitle_of(x.a.model, x.a.target ? x.a.text + " → " + *x.a.target : x.a.text),
                  .rows = {},
                  .columns = {},
                  .cells = {}};
  const bool both = x.found.front().stacks.size() > 1;
  if (both) table.columns.emplace_back("read by");
  for (const MeasuredInput& input : x.inputs)
    table.columns.push_back(x.found.size() > 1 ? output_name(x.loaded, *input.metric.token) : "adds");
  double most = 0;
  for (const InputAttribution& one : x.found)
    for (const TokenAttributions& stack : one.stacks)
      for (const double value : stack.values) most = std::max(most, std::abs(value));
  table.full_shade = fmt::format("{:.2g}", most);
  for (std::size_t s = 0; s < x.found.front().stacks.size(); ++s) {
    const std::vector<std::string> shown = inspect::shown_tokens(x.tokens(s), x.loaded.tokenizer.get());
    for (std::size_t t = 0; t < shown.size(); ++t) {
      table.rows.push_back(plot::visible(shown[t]));
      std::vector<HeatCell>& row = table.cells.emplace_back();
      if (both) row.push_back({x.found.front().stacks[s].stack, 0});
      for (const InputAttribution& one : x.found) {
        const double value = one.stacks[s].values[t];
        row.push_back({fmt::format("{:+.3f}", value), most > 0 ? value / most : 0,
                       fmt::format("{} ({}): {:+.5f}", table.rows.back(), t, value), value});
      }
    }
  }
  return table;
}

std::string json_of(const Attributed& x) {
  JsonWriter json;
  json.begin_object().field("method", word_of(x.a.method));
  json.field("metric", name_of(x.inputs.front().metric.kind)).field("baseline", x.baseline);
  json.key("outputs").begin_array();
  for (std::size_t i = 0; i < x.found.size(); ++i) {
    const InputAttribution& one = x.found[i];
    json.begin_object().field("id", *x.inputs[i].metric.token);
    json.field("name", output_name(x.loaded, *x.inputs[i].metric.token));
    json.field("value", one.value).field("baseline_value", one.baseline_value).field("sum", one.sum());
    if (x.a.method == InputMethod::integrated) json.field("completeness_error", one.completeness_error());
    json.key("stacks").begin_array();
    for (std::size_t s = 0; s < one.stacks.size(); ++s)
      json.begin_object()
          .field("stack", one.stacks[s].stack)
          .field("tokens", x.tokens(s))
          .field("adds", one.stacks[s].values)
          .end_object();
    json.end_array().end_object();
  }
  return json.end_array().end_object().text();
}

void run(const AttributeArguments& a, const Globals& globals) {
  check_table_output(a.output);
  if (a.steps && a.method != InputMethod::integrated)
    throw UsageError("--steps: expected with --method integrated");
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files())
    throw Error(fmt::format("attribute: expected a model of texts, got one of {}s", loaded.reads()));
  std::optional<std::string> target;
  if (a.target) target = valid_text(*a.target, "--target", globals.quiet);
  const AnalyzedText text = analyzed_text(loaded, valid_text(a.text, "attribute", globals.quiet), target);
  Attributed x{.a = a,
               .loaded = loaded,
               .text = text,
               .inputs = measured_inputs(a, loaded, text),
               .baseline = baseline_token(a, *loaded.tokenizer)};
  InputAttributionOptions options{.method = a.method, .baseline = x.baseline};
  options.steps = a.steps.value_or(options.steps);
  Progress progress(globals.quiet || a.method == InputMethod::gradient);
  options.progress = [&](std::int64_t done, std::int64_t total) {
    stop_if_asked();
    progress.show(done, total, "passes");
  };
  bool finite = true;
  for (const MeasuredInput& input : x.inputs) {
    x.found.push_back(attribute_input(*loaded.model, input, options));
    finite = finite && std::isfinite(x.found.back().sum());
  }
  progress.finish();
  warn_of_non_finite(*loaded.model, finite, globals);
  show_table(table_of(x), json_of(x), a.output, globals);
}

}  // namespace

void add_attribute(CLI::App& app, const Globals& globals) {
  CLI::App* command =
      app.add_subcommand("attribute", "Show what each token of a text adds to what a model predicts");
  auto a = std::make_shared<AttributeArguments>();
  command->add_option("text", a->text, "The text")->required();
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  add_choice<InputMethod>(*command, "--method", a->method,
                          {{"gradient", InputMethod::gradient},
                           {"integrated", InputMethod::integrated},
                           {"occlusion", InputMethod::occlusion}},
                          "Gradient times input, integrated gradients, or the fall of the output without the "
                          "token")
      ->group("Method");
  command->add_option("--steps", a->steps, "Points between baseline and text, for integrated (default: 50)")
      ->transform(whole_number(1))
      ->type_name("N")
      ->group("Method");
  add_choice<BaselineWord>(*command, "--baseline", a->baseline,
                           {{"usual", BaselineWord::usual},
                            {"zero", BaselineWord::zero},
                            {"pad", BaselineWord::pad},
                            {"mask", BaselineWord::mask}},
                           "What stands for no token: a zero embedding, or that of the pad or mask token; "
                           "usual is zero, for occlusion the first of mask, pad and unknown token that the "
                           "tokenizer has")
      ->group("Method");
  add_metric_options(*command, a->metric, "the logit of what the model predicts, or of --token");
  command->add_flag("--all-labels", a->all_labels, "A column for each label of a classifier")
      ->group("Output");
  add_table_output(*command, a->output, kTableOutput);
  command->footer(
      "Examples:\n"
      "  heed attribute \"A dull film with one good joke.\" --model reviews --method integrated\n"
      "  heed attribute \"The cat sat on the\" --model gpt2 --token \" mat\" --method occlusion\n"
      "  heed attribute \"I like tea.\" --model en-fr --target \"J'aime le thé.\" --position 4 --json");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
