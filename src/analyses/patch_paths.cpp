// Path patching as a report.
#include <fmt/format.h>

#include "analyses/means.h"
#include "analyses/patch.h"
#include "heed/inspect/path_patching.h"
#include "inspect/stream_sum.h"

namespace heed {
namespace {

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
    throw OptionError("path", "expected LAYER.HEAD:q, :k or :v, LAYER.ff, or logits, got " + text);
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

std::string sender_column(const StreamPart& part) {
  const std::string kind = part.name == "cross_attn" ? "cross " : part.name == "self_attn" ? "head " : "";
  if (part.head >= 0) return kind + std::to_string(part.head);
  return part.name == "feed_forward" ? "ff" : part.name;
}

std::vector<PathResult> results_of(const PatchRun& run, const PathName& path) {
  std::vector<PathResult> results;
  const std::int64_t count = std::ssize(run.pairs);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    PathOptions options{.receiver = path.receiver, .input = path.input, .metric = run.pairs[at].metric};
    options.progress = [&, i](std::int64_t done, std::int64_t total) {
      if (run.options.progress) run.options.progress(i * total + done, count * total, "senders");
    };
    results.push_back(patch_paths(*run.model.model, run.base(at), run.donor(at), options));
  }
  return results;
}

}  // namespace

Report patch_path_report(const PatchRun& run, const std::string& stack, const std::string& part) {
  const PathName path = path_named(run.options.path, stack, part);
  const std::vector<PathResult> results = results_of(run, path);
  const PathResult& first = results.front();
  Report report;
  report.found.add("path", run.options.path).add("metric", name_of(run.pairs.front().metric.kind));
  report.found.add("into", run.into_clean() ? "clean" : "corrupted").add("prompts", results.size());
  if (results.size() == 1) report.found.add("base", first.base).add("donor", first.donor);
  ReportTable table{.title = "What reaches " + path.text + " directly", .rows_title = "layer"};
  ReportValue senders{ReportValue::List()};
  std::string embeddings;
  for (std::size_t i = 0; i < first.senders.size(); ++i) {
    const StreamPart& sender = first.senders[i];
    PatchedEffects effects;
    for (const PathResult& result : results) effects.add(result.effect(i), result.donor - result.base);
    const Estimate effect = effects.estimate();
    ReportValue& record = add_part(senders, sender).add("effect", effect.mean);
    if (results.size() > 1) record.add("error", effect.error);
    if (results.size() == 1) record.add("patched", first.patched[i]);
    if (sender.layer < 0) {
      embeddings = "; embeddings " + effects.cell("").text;
    } else {
      table.cell(std::to_string(sender.layer), sender_column(sender)) =
          effects.cell(inspect::part_label(sender));
    }
  }
  table.fill_up();
  double donor = 0, base = 0;
  for (const PathResult& result : results) donor += result.donor, base += result.base;
  const auto count = static_cast<double>(results.size());
  table.legend = run.legend(donor / count, base / count) + embeddings;
  report.found.add("senders", std::move(senders));
  report.tables = {std::move(table)};
  run.check(report, first.donor, first.base);
  return report;
}

}  // namespace heed
