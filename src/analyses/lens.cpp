// The logit lens, of tokens and of labels.
#include <fmt/format.h>

#include <cmath>

#include "core/strings.h"
#include "heed/analyses/analyses.h"
#include "heed/inspect/logit_lens.h"
#include "heed/models/kind.h"

namespace heed {
namespace {

bool lens_is_finite(const std::vector<LensLayer>& layers) {
  for (const LensLayer& layer : layers) {
    for (const auto& best : layer.positions) {
      if (!std::isfinite(best.front().probability)) return false;
    }
  }
  return true;
}

// The tokens or labels of one position: `{id, MEMBER, probability}`.
template <class Name>
ReportValue best_of(const std::vector<TokenProbability>& best, const char* member, const Name& name) {
  ReportValue list{ReportValue::List()};
  for (const TokenProbability& one : best)
    list.push({}).add("id", one.id).add(member, name(one.id)).add("probability", one.probability);
  return list;
}

Report token_lens(const AnalyzedModel& model, const AnalyzedInput& input, std::int64_t top_k) {
  const std::vector<LensLayer> layers = logit_lens(*model.model, input.inputs, top_k);
  const std::vector<std::string> tokens = model.tokens(input.ids), shown = model.shown(tokens);
  const bool masked = as<EncoderModel>(*model.model) != nullptr;
  Report report{.finite = lens_is_finite(layers)};
  report.found.add("tokens", tokens);
  ReportTable table{.title = std::string("Logit lens: what each layer would predict ") +
                             (masked ? "in each place" : "next"),
                    .rows_title = "token",
                    .legend = "columns: the input of the first layer, and the output of each",
                    .shade_legend = "probability of the most probable token",
                    .subtitle = model.name + ": " + input.title,
                    .rows = shown};
  ReportValue of_layers;
  for (const LensLayer& layer : layers) {
    ReportValue positions{ReportValue::List()};
    table.columns.push_back(layer.name);
    table.fill_up();
    for (std::size_t t = 0; t < shown.size(); ++t) {
      const std::vector<TokenProbability>& best = layer.positions[t];
      positions.push(best_of(best, "token", [&](std::int64_t id) { return model.tokens({id}).front(); }));
      const std::string list = joined(best, ", ", [&](const TokenProbability& one) {
        return fmt::format("{} {:.3f}", model.shown(one.id), one.probability);
      });
      table.cells[t].back() = {model.shown(best.front().id), best.front().probability,
                               shown[t] + ", " + layer.name + ": " + list, best.front().probability};
    }
    of_layers.push({}).add("name", layer.name).add("positions", std::move(positions));
  }
  report.found.add("layers", std::move(of_layers));
  report.tables = {std::move(table)};
  return report;
}

// What the head reads after each layer: a row for each, the most probable labels from left to right.
Report labels_lens(const AnalyzedModel& model, const AnalyzedInput& input, std::int64_t top_k) {
  const std::vector<std::string> labels = required_labels(model, "lens");
  const std::vector<LensLayer> layers = label_lens(*model.model, input.inputs, top_k);
  Report report{.finite = lens_is_finite(layers)};
  ReportTable table{.title = "Lens: the labels that the head reads after each layer",
                    .rows_title = "layer",
                    .legend = "rows: the input of the first layer, and the output of each",
                    .shade_legend = "probability of the label",
                    .subtitle = model.name + ": " + input.title};
  ReportValue of_layers;
  for (const LensLayer& layer : layers) {
    const auto name = [&](std::int64_t id) { return label_name(labels, id); };
    const std::vector<TokenProbability>& best = layer.positions.front();
    of_layers.push({}).add("name", layer.name).add("labels", best_of(best, "label", name));
    for (std::size_t i = 0; i < best.size(); ++i)
      table.cell(layer.name, i == 0 ? "label" : std::to_string(i + 1) + ".") = {
          fmt::format("{} {:.3f}", name(best[i].id), best[i].probability), best[i].probability,
          fmt::format("{}: {} {:.5f}", layer.name, name(best[i].id), best[i].probability),
          best[i].probability};
  }
  report.found.add("layers", std::move(of_layers));
  report.tables = {std::move(table)};
  return report;
}

}  // namespace

Report lens(const AnalyzedModel& model, const AnalyzedInput& input, std::int64_t top_k) {
  return model.reads_files() ? labels_lens(model, input, top_k) : token_lens(model, input, top_k);
}

}  // namespace heed
