// What each token of a text adds to an output, by gradients or by leaving it out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heed/analyses/analyses.h"
#include "heed/autograd.h"
#include "heed/models/kind.h"
#include "plot/labels.h"

namespace heed {
namespace {

struct MethodName {
  const char* word;
  const char* text;
};
constexpr MethodName kMethods[] = {
    {"gradient", "gradient times input"}, {"integrated", "integrated gradients"}, {"occlusion", "occlusion"}};

const MethodName& method_name(InputMethod method) {
  return kMethods[method == InputMethod::gradient ? 0 : method == InputMethod::integrated ? 1 : 2];
}

// The token whose embedding is the baseline; nothing of zeros.
std::optional<std::int64_t> baseline_token(const AttributeInputOptions& options, const Tokenizer& tokenizer) {
  const auto needed = [](std::optional<std::int64_t> id, const char* word) {
    if (!id) throw OptionError("baseline", fmt::format("the tokenizer has no {} token", word));
    return id;
  };
  switch (options.baseline) {
    case InputBaseline::zero: return std::nullopt;
    case InputBaseline::pad: return needed(tokenizer.pad_id(), "pad");
    case InputBaseline::mask: return needed(tokenizer.mask_id(), "mask");
    case InputBaseline::usual: break;
  }
  if (options.method == InputMethod::gradient) return std::nullopt;
  for (const auto& id : {tokenizer.mask_id(), tokenizer.pad_id(), tokenizer.unk_id()})
    if (id) return id;
  return std::nullopt;
}

// The labels of a classifier; none of other models.
std::vector<std::string> sequence_labels(const AnalyzedModel& model) {
  const auto* encoder = as<EncoderModel>(*model.model);
  return encoder != nullptr && encoder->head() == EncoderHead::sequence ? encoder->labels()
                                                                        : std::vector<std::string>();
}

// A label, or a token as the tokenizer has it.
std::string output_name(const AnalyzedModel& model, std::int64_t id) {
  const std::vector<std::string> labels = sequence_labels(model);
  return labels.empty() ? model.tokens({id}).front() : label_name(labels, id);
}

// What the model predicts, a token or a label.
std::int64_t predicted(const AnalyzedModel& model, const MeasuredInput& input) {
  const NoGradients guard;
  const Tensor logits = model.model->forward(input.inputs).at("logits").contiguous();
  const std::int64_t count = logits.size(-1), rows = logits.numel() / count;
  const std::int64_t row = input.metric.position.value_or(rows - 1);
  check_position_option("position", row, static_cast<std::size_t>(rows));
  const float* begin = logits.data<float>() + row * count;
  return std::max_element(begin, begin + count) - begin;
}

// The metrics, one for each column.
std::vector<MeasuredInput> measured_outputs(const AnalyzedModel& model, const AnalyzedInput& text,
                                            const MetricChoice& choice, bool all_labels) {
  MeasuredInput input{text.inputs, metric_of(choice, model, text, MetricKind::logit)};
  if (input.metric.kind == MetricKind::kl)
    throw OptionError("metric", "expected loss, logit, logit-diff or probability, got kl");
  const std::vector<std::string> labels = sequence_labels(model);
  if (!labels.empty() && choice.position) throw OptionError("position", "expected a model of tokens");
  if (!all_labels) {
    if (!input.metric.token) input.metric.token = predicted(model, input);
    return {input};
  }
  if (labels.empty()) throw OptionError("all-labels", "expected a classifier, got " + kind_of(*model.model));
  if (choice.token.given() || choice.other)
    throw OptionError("all-labels", "expected without --token, --id and --other");
  std::vector<MeasuredInput> inputs(labels.size(), input);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].metric.token = static_cast<std::int64_t>(i);
  return inputs;
}

}  // namespace

Report attribute_to_input(const AnalyzedModel& model, const AnalyzedInput& text, const MetricChoice& choice,
                          const AttributeInputOptions& options) {
  const std::vector<MeasuredInput> outputs = measured_outputs(model, text, choice, options.all_labels);
  InputAttributionOptions own{.method = options.method,
                              .baseline = baseline_token(options, *model.tokenizer())};
  if (options.steps) own.steps = own.max_steps = *options.steps;
  own.progress = [&](std::int64_t done, std::int64_t total) {
    if (options.progress) options.progress(done, total, "passes");
  };
  const MetricKind kind = outputs.front().metric.kind;
  const bool several = outputs.size() > 1, integrated = options.method == InputMethod::integrated;
  const std::string nothing = own.baseline ? model.tokenizer()->token(*own.baseline) : "zeros";
  const auto tokens = [&](std::size_t stack) {
    return model.tokens(stack == 0 ? text.source_ids : text.ids);
  };
  Report report;
  report.found.add("method", method_name(options.method).word).add("metric", name_of(kind));
  report.found.add("baseline", own.baseline);
  ReportTable table{.title = fmt::format(
                        "What each token adds to the {} ({})",
                        several ? name_of(kind) + " of each label" : text_of(outputs.front().metric, model),
                        method_name(options.method).text),
                    .rows_title = "token",
                    .shade_legend = "what a token adds",
                    .subtitle = model.name + ": " + text.title};
  std::vector<InputAttribution> found;
  for (const MeasuredInput& output : outputs) found.push_back(attribute_input(*model.model, output, own));
  const std::vector<TokenAttributions>& stacks = found.front().stacks;
  std::vector<std::string> readers;  // of each row, the stack that reads its token
  for (std::size_t s = 0; s < stacks.size(); ++s) {
    for (const std::string& token : model.shown(tokens(s))) table.rows.push_back(plot::visible(token));
    readers.resize(table.rows.size(), stacks[s].stack);
  }
  if (stacks.size() > 1) {
    table.columns.emplace_back("read by");
    for (const std::string& stack : readers) table.cells.push_back({{stack, 0}});
  }
  ReportValue of_outputs;
  double most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const InputAttribution& one = found[i];
    const std::int64_t id = *outputs[i].metric.token;
    report.finite = report.finite && std::isfinite(one.sum());
    table.legend +=
        fmt::format("{}{} {:.3f}, of {} alone {:.3f}, sum {:.3f}", i > 0 ? "; " : "",
                    text_of(outputs[i].metric, model), one.value, nothing, one.baseline_value, one.sum());
    if (integrated) table.legend += fmt::format(", completeness error {:+.4f}", one.completeness_error());
    if (integrated && std::isfinite(one.sum()) && !one.is_complete())
      report.warnings.push_back(
          fmt::format("{}: expected integrated gradients that add up to {:.3f} within 5 %, got {:.3f} after "
                      "{} steps: they do "
                      "not share out the output (try --baseline {}, more --steps, or --method occlusion)",
                      text_of(outputs[i].metric, model), one.value - one.baseline_value, one.sum(), one.steps,
                      own.baseline ? "zero" : "pad or mask"));
    table.columns.push_back(several ? output_name(model, id) : "adds");
    table.fill_up();
    ReportValue& output = of_outputs.push({}).add("id", id).add("name", output_name(model, id));
    output.add("value", one.value).add("baseline_value", one.baseline_value).add("sum", one.sum());
    if (integrated)
      output.add("completeness_error", one.completeness_error())
          .add("complete", one.is_complete())
          .add("steps", one.steps);
    ReportValue lists;
    std::size_t row = 0;
    for (std::size_t s = 0; s < one.stacks.size(); ++s) {
      const std::vector<double>& values = one.stacks[s].values;
      lists.push({}).add("stack", one.stacks[s].stack).add("tokens", tokens(s)).add("adds", values);
      for (std::size_t t = 0; t < values.size(); ++t, ++row) {
        most = std::max(most, std::abs(values[t]));
        table.cells[row].back() = {fmt::format("{:+.3f}", values[t]), 0,
                                   fmt::format("{} ({}): {:+.5f}", table.rows[row], t, values[t]), values[t]};
      }
    }
    output.add("stacks", std::move(lists));
  }
  table.full_shade = fmt::format("{:.2g}", most);
  for (auto& row : table.cells) {
    for (ReportCell& cell : row) cell.shade = most > 0 ? cell.value.value_or(0) / most : 0;
  }
  report.found.add("outputs", std::move(of_outputs));
  report.tables = {std::move(table)};
  return report;
}

}  // namespace heed
