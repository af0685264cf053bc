// heed patch --path, and what all tables of effects share.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/options/option_values.h"
#include "cli/results/patch.h"
#include "cli/terminal/terminal.h"
#include "heed/inspect/path_patching.h"
#include "heed/io/json.h"
#include "inspect/stream_sum.h"

namespace heed::cli {
namespace {

// Two decimals, and no sign for what they round to zero.
std::string rounded(double effect) {
  const std::string text = fmt::format("{:.2f}", effect);
  return text == "-0.00" ? "0.00" : text;
}

struct PathName {
  Component receiver;
  PathInput input = PathInput::query;
  std::string text;  // "the queries of head 5.1"
};

// "5.1:q", "5.ff" or "logits"
PathName path_named(const std::string& text, const std::string& stack, const std::string& part) {
  PathName path{.receiver = {.stack = stack, .part = part, .layer = -1, .head = -1}, .text = ""};
  if (text == "logits") {
    path.input = PathInput::logits;
    path.text = "the logits";
    return path;
  }
  const std::size_t colon = text.find(':');
  const std::string input = colon == std::string::npos ? "" : text.substr(colon + 1);
  const std::optional<LayerPart> receiver = parse_layer_part(text.substr(0, colon));
  const bool feeds = receiver && receiver->head < 0;
  if (!receiver || (feeds ? colon != std::string::npos : input != "q" && input != "k" && input != "v"))
    throw UsageError("--path: expected LAYER.HEAD:q, :k or :v, LAYER.ff, or logits, got " + text);
  path.receiver.layer = receiver->layer;
  path.receiver.head = receiver->head;
  path.input = feeds          ? PathInput::feed_forward
               : input == "q" ? PathInput::query
               : input == "k" ? PathInput::key
                              : PathInput::value;
  if (feeds) path.receiver.part = "feed_forward";
  path.text = feeds ? fmt::format("feed-forward {}", path.receiver.layer)
                    : fmt::format("the {} of head {}.{}",
                                  input == "q"   ? "queries"
                                  : input == "k" ? "keys"
                                                 : "values",
                                  path.receiver.layer, path.receiver.head);
  return path;
}

PatchedEffects effects_of(const std::vector<PathResult>& results, std::size_t sender) {
  PatchedEffects effects;
  for (const PathResult& result : results) effects.add(result.effect(sender), result.donor - result.base);
  return effects;
}

std::string column_of_sender(const StreamPart& part) {
  const std::string kind = part.name == "cross_attn" ? "cross " : part.name == "self_attn" ? "head " : "";
  if (part.head >= 0) return kind + std::to_string(part.head);
  return part.name == "feed_forward" ? "ff" : part.name;
}

HeatTable paths_table(const std::vector<PathResult>& results, const PathName& path, const PatchRun& run) {
  HeatTable table{.title = "What reaches " + path.text + " directly",
                  .rows_title = "layer",
                  .legend = "",
                  .rows = {},
                  .columns = {},
                  .cells = {}};
  const PathResult& first = results.front();
  std::map<std::string, std::size_t> columns;
  std::map<std::int64_t, std::size_t> rows;
  std::string embeddings;
  for (std::size_t i = 0; i < first.senders.size(); ++i) {
    const StreamPart& sender = first.senders[i];
    if (sender.layer < 0) {
      embeddings = "; embeddings " + effects_of(results, i).cell("").text;
      continue;
    }
    const std::string column = column_of_sender(sender);
    if (columns.emplace(column, table.columns.size()).second) table.columns.push_back(column);
    if (rows.emplace(sender.layer, table.rows.size()).second)
      table.rows.push_back(std::to_string(sender.layer));
  }
  table.cells.assign(table.rows.size(), std::vector<HeatCell>(table.columns.size()));
  for (std::size_t i = 0; i < first.senders.size(); ++i) {
    const StreamPart& sender = first.senders[i];
    if (sender.layer < 0) continue;
    table.cells[rows.at(sender.layer)][columns.at(column_of_sender(sender))] =
        effects_of(results, i).cell(inspect::part_label(sender));
  }
  double donor = 0, base = 0;
  for (const PathResult& result : results) donor += result.donor, base += result.base;
  const auto count = static_cast<double>(results.size());
  table.legend = run.legend(donor / count, base / count) + embeddings;
  return table;
}

std::string paths_json(const std::vector<PathResult>& results, const PatchRun& run) {
  const PathResult& first = results.front();
  JsonWriter json;
  json.begin_object()
      .field("path", run.arguments.path)
      .field("metric", name_of(run.pairs.front().metric.kind));
  json.field("into", run.into_clean() ? "clean" : "corrupted").field("prompts", results.size());
  if (results.size() == 1) json.field("base", first.base).field("donor", first.donor);
  json.key("senders").begin_array();
  const auto number = [](std::int64_t n) { return n < 0 ? std::optional<std::int64_t>() : n; };
  for (std::size_t i = 0; i < first.senders.size(); ++i) {
    const Estimate effect = effects_of(results, i).estimate();
    json.begin_object()
        .field("name", first.senders[i].name)
        .field("layer", number(first.senders[i].layer))
        .field("head", number(first.senders[i].head))
        .field("effect", effect.mean);
    if (results.size() > 1) {
      json.field("error", effect.error);
    } else {
      json.field("patched", first.patched[i]);
    }
    json.end_object();
  }
  return json.end_array().end_object().text();
}

}  // namespace

bool PatchRun::into_clean() const {
  return arguments.into == PatchInto::clean ||
         (arguments.into == PatchInto::usual && !arguments.path.empty());
}

std::string PatchRun::legend(double donor, double base) const {
  const LogitMetric& metric = pairs.front().metric;
  const std::string what =
      pairs.size() == 1 ? text_of(metric, loaded)
                        : text_of({.kind = metric.kind}, loaded) + fmt::format(", mean of {}", pairs.size());
  const double clean = into_clean() ? base : donor, corrupted = into_clean() ? donor : base;
  return fmt::format("{}: clean {:.3f}, corrupted {:.3f}; cells: 0 as {}, 1 as {}", what, clean, corrupted,
                     into_clean() ? "clean" : "corrupted", into_clean() ? "corrupted" : "clean");
}

std::string PatchRun::subtitle() const {
  return subtitle_of(arguments.model, !arguments.prompts.empty()
                                          ? arguments.prompts.string()
                                          : *arguments.clean + " → " + *arguments.corrupted);
}

void PatchRun::warn_of(double donor, double base, const Globals& globals) const {
  warn_of_non_finite(*loaded.model, std::isfinite(donor) && std::isfinite(base), globals);
  const MetricKind kind = pairs.front().metric.kind;
  const double clean = into_clean() ? base : donor, corrupted = into_clean() ? donor : base;
  if (!globals.quiet && kind != MetricKind::kl && sign_of_harm(kind) * (clean - corrupted) > 0)
    warn(fmt::format(
        "the {} is {:.3f} for the clean text and {:.3f} for the corrupted one: is --token what the clean "
        "text should predict?",
        text_of(pairs.front().metric, loaded), clean, corrupted));
}

void PatchedEffects::add(double effect, double difference) {
  effects_.push_back(effect);
  weights_.push_back(difference);
}

HeatCell PatchedEffects::cell(const std::string& name) const {
  const Estimate one = estimate();
  const bool several = effects_.size() > 1;
  const std::string text =
      several ? fmt::format("{} ± {:.2f}", rounded(one.mean), one.error) : rounded(one.mean);
  HeatCell cell{text, one.mean, fmt::format("{}: {:.4f}", name, one.mean), one.mean};
  if (several) cell.error = one.error;
  return cell;
}

void show_paths(const PatchRun& run, const std::string& stack, const std::string& part,
                const Globals& globals) {
  const PathName path = path_named(run.arguments.path, stack, part);
  Progress progress(globals.quiet);
  std::vector<PathResult> results;
  for (std::size_t i = 0; i < run.pairs.size(); ++i) {
    PathOptions options{.receiver = path.receiver, .input = path.input, .metric = run.pairs[i].metric};
    options.progress = [&](std::int64_t done, std::int64_t total) {
      progress.show(static_cast<std::int64_t>(i) * total + done, std::ssize(run.pairs) * total, "senders");
    };
    results.push_back(patch_paths(*run.loaded.model, run.base(i), run.donor(i), options));
  }
  progress.finish();
  run.warn_of(results.front().donor, results.front().base, globals);
  HeatTable table = paths_table(results, path, run);
  table.subtitle = run.subtitle();
  show_table(table, paths_json(results, run), run.arguments.output, globals);
}

}  // namespace heed::cli
