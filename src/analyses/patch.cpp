// Activation patching between two texts, images or sounds as a report.
#include "analyses/patch.h"

#include <fmt/format.h>

#include <cmath>

#include "core/strings.h"
#include "heed/inspect/patching.h"
#include "heed/models/kind.h"
#include "plot/labels.h"

namespace heed {
namespace {

struct SiteName {
  const char* name;
  PatchSite site;
  const char* title;  // {0}: the attention, {1}: the stack
};
constexpr SiteName kSites[] = {
    {"residual", PatchSite::residual, "the residual stream before each layer of the {1}"},
    {"attention", PatchSite::attention, "what {0} adds"},
    {"feed-forward", PatchSite::feed_forward, "what feed-forward adds in the {1}"},
    {"heads", PatchSite::heads, "each head's output in {0}, at all positions"},
};

const SiteName& site_named(const std::string& name) {
  for (const SiteName& site : kSites) {
    if (name == site.name) return site;
  }
  throw OptionError("site", "expected residual, attention, feed-forward or heads, got " + name);
}

// Which layers, and which of their attentions.
struct PatchedKind {
  const char* name;
  const char* stack;
  const char* part;
  const char* attention;

  bool encodes() const { return stack == std::string("encoder"); }
};
constexpr PatchedKind kKinds[] = {{"encoder", "encoder", "self_attn", "the encoder's self-attention"},
                                  {"decoder", "decoder", "self_attn", "the decoder's self-attention"},
                                  {"cross", "decoder", "cross_attn", "cross-attention"}};

// By default the encoder of an encoder-decoder: there the two texts differ.
const PatchedKind& chosen_kind(const std::string& kind, const Model& model) {
  const auto named = [&](const char* usual, const std::vector<std::string>& names) {
    return index_of_kind(kind.empty() ? usual : kind, names);
  };
  const auto* both = as<EncoderDecoderModel>(model);
  if (as<EncoderModel>(model) != nullptr && model.input().kind != InputKind::tokens)
    return kKinds[named("encoder", {"encoder"})];
  if (both == nullptr) {
    if (as<DecoderModel>(model) != nullptr) named("decoder", {"decoder"});
    return kKinds[1];
  }
  std::vector<std::string> names{"encoder", "decoder"};
  if (both->has_cross_attention()) names.emplace_back("cross");
  return kKinds[named("encoder", names)];
}

// By default the residual stream, of cross-attention what it adds, of files the heads: of residual streams
// there are as many as patches.
const SiteName& chosen_site(const std::optional<std::string>& given, const PatchedKind& kind,
                            const Model& model) {
  const auto* both = as<EncoderDecoderModel>(model);
  const bool recurrent = both != nullptr && !both->has_self_attention();
  const bool cross = kind.name == std::string("cross");
  const bool files = model.input().kind != InputKind::tokens;
  const SiteName& site = site_named(given.value_or(files       ? "heads"
                                                   : !cross    ? "residual"
                                                   : recurrent ? "heads"
                                                               : "attention"));
  const bool attention = site.site == PatchSite::attention || site.site == PatchSite::heads;
  if (cross && !attention)
    throw OptionError("site", std::string("expected attention or heads with --kind cross, got ") + site.name);
  if (recurrent && site.site != (cross ? PatchSite::heads : PatchSite::residual))
    throw OptionError("site", "expected " + std::string(cross ? "heads" : "residual") +
                                  " of a recurrent model, got " + site.name);
  return site;
}

// Two decimals, and no sign for what they round to zero.
std::string rounded(double effect) {
  const std::string text = fmt::format("{:.2f}", effect);
  return text == "-0.00" ? "0.00" : text;
}

// The labels of two files: by default those that the model predicts for them.
LogitMetric metric_of_files(const AnalyzedModel& model, const MetricChoice& choice,
                            const AnalyzedPair& pair) {
  LogitMetric metric = metric_of(choice, model, pair.clean, MetricKind::logit_difference);
  if (choice.token.given() && !choice.kind && !choice.other) metric.kind = MetricKind::logit_difference;
  if (metric.kind == MetricKind::kl) return metric;
  if (!metric.token) metric.token = predicted_label(model, pair.clean.inputs);
  if (metric.kind != MetricKind::logit_difference) return metric;
  if (!metric.other) metric.other = predicted_label(model, pair.corrupted.inputs);
  if (*metric.token == *metric.other)
    throw Error(fmt::format("patch: expected two labels, got {} for both {}s (choose them: --token, --other)",
                            label_name(required_labels(model, "patch"), *metric.token), model.reads()));
  return metric;
}

LogitMetric metric_of_texts(const AnalyzedModel& model, const MetricChoice& choice,
                            const AnalyzedPair& pair) {
  const LogitMetric metric = metric_of(choice, model, pair.corrupted, MetricKind::logit_difference);
  if (metric.kind != MetricKind::kl && !metric.token)
    throw OptionError("token", "missing (the token that the text should predict)");
  if (metric.kind == MetricKind::logit_difference && !metric.other)
    throw OptionError("other", "missing (the token that --token is compared with)");
  return metric;
}

// The results of all pairs, cell by cell.
struct PatchCells {
  std::vector<PatchResult> results = {};
  std::vector<PatchResult> estimates = {};  // by gradients, beside true ones

  PatchedEffects of(std::size_t row, std::size_t column) const {
    PatchedEffects effects;
    for (const PatchResult& result : results)
      effects.add(result.effect(row, column), result.clean - result.corrupted);
    return effects;
  }
  /// A list of `number` of each cell, in a list of rows.
  template <class Number>
  ReportValue lists(const Number& number) const {
    ReportValue rows{ReportValue::List()};
    for (std::size_t r = 0; r < results.front().patched.size(); ++r) {
      ReportValue row{ReportValue::List()};
      for (std::size_t i = 0; i < results.front().patched[r].size(); ++i) row.push(number(r, i));
      rows.push(std::move(row));
    }
    return rows;
  }
};

PatchCells cells_of(const PatchRun& run, const SiteName& site, const PatchedKind& kind) {
  PatchCells cells;
  const std::int64_t count = std::ssize(run.pairs);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    PatchOptions options{
        .site = site.site, .stack = kind.stack, .part = kind.part, .metric = run.pairs[at].metric};
    options.progress = [&, i](std::int64_t done, std::int64_t total) {
      if (run.options.progress) run.options.progress(i * total + done, count * total, "values");
    };
    const auto patch = run.options.method == PatchMethod::gradient ? attribute_patches : patch_activations;
    cells.results.push_back(patch(*run.model.model, run.donor(at), run.base(at), options));
    if (run.options.method == PatchMethod::both)
      cells.estimates.push_back(attribute_patches(*run.model.model, run.donor(at), run.base(at), options));
  }
  const std::size_t columns = cells.results.front().patched.front().size();
  for (const PatchResult& result : cells.results) {  // positions are columns, so all have the same ones
    if (result.patched.front().size() == columns) continue;
    throw Error(
        fmt::format("--site {}: expected prompts with the same number of tokens, got {} and {} "
                    "(--site heads takes all)",
                    site.name, columns, result.patched.front().size()));
  }
  return cells;
}

ReportTable table_of(const PatchCells& cells, const SiteName& site, const PatchedKind& kind,
                     const PatchRun& run) {
  const PatchResult& first = cells.results.front();
  ReportTable table{
      .title = (run.options.method == PatchMethod::gradient ? "Estimated by gradients: " : "Patched: ") +
               fmt::format(fmt::runtime(site.title), kind.attention, kind.stack),
      .rows_title = "layer"};
  const std::vector<std::string> shown = run.model.reads_files() ? run.tokens : run.model.shown(run.tokens);
  for (std::size_t i = 0; i < first.patched.front().size(); ++i)
    table.columns.push_back(site.site == PatchSite::heads ? fmt::format("head {}", i)
                            : run.pairs.size() > 1        ? std::to_string(i)
                                                          : fmt::format("{} {}", i, plot::visible(shown[i])));
  double clean = 0, corrupted = 0;
  for (const PatchResult& result : cells.results) clean += result.clean, corrupted += result.corrupted;
  table.legend = run.legend(clean / static_cast<double>(cells.results.size()),
                            corrupted / static_cast<double>(cells.results.size()));
  if (!cells.estimates.empty()) {
    const PatchAgreement agreement = agreement_of(cells.estimates.front(), first);
    table.legend += fmt::format("; estimates by gradients: correlation {:.3f}, largest difference {:.3f}",
                                agreement.correlation, agreement.largest);
  }
  for (const std::int64_t layer : first.layers) table.rows.push_back(std::to_string(layer));
  table.fill_up();
  for (std::size_t r = 0; r < first.patched.size(); ++r) {
    for (std::size_t i = 0; i < first.patched[r].size(); ++i)
      table.cells[r][i] = cells.of(r, i).cell(fmt::format("layer {}, {}", table.rows[r], table.columns[i]));
  }
  return table;
}

ReportValue values_of(const PatchCells& cells, const SiteName& site, const PatchedKind& kind,
                      const PatchRun& run) {
  const PatchResult& first = cells.results.front();
  ReportValue found;
  found.add("kind", kind.name).add("site", site.name);
  found.add("metric", name_of(run.pairs.front().metric.kind)).add("layers", first.layers);
  if (run.pairs.size() > 1) {
    found.add("prompts", run.pairs.size());
    found.add("effects", cells.lists([&](auto r, auto i) { return cells.of(r, i).estimate().mean; }));
    return found.add("errors", cells.lists([&](auto r, auto i) { return cells.of(r, i).estimate().error; }));
  }
  found.add("tokens", run.tokens).add("into", run.into_clean() ? "clean" : "corrupted");
  found.add("clean", run.into_clean() ? first.corrupted : first.clean)
      .add("corrupted", run.into_clean() ? first.clean : first.corrupted);
  found.add("patched", first.patched);
  found.add("effects", cells.lists([&](auto r, auto i) { return first.effect(r, i); }));
  if (cells.estimates.empty()) return found;
  const PatchResult& estimates = cells.estimates.front();
  const PatchAgreement agreement = agreement_of(estimates, first);
  found.add("estimated", cells.lists([&](auto r, auto i) { return estimates.effect(r, i); }));
  return found.add("correlation", agreement.correlation).add("largest_difference", agreement.largest);
}

}  // namespace

std::string PatchRun::legend(double donor, double base) const {
  const LogitMetric& metric = pairs.front().metric;
  const std::string what =
      pairs.size() == 1 ? text_of(metric, model)
                        : text_of({.kind = metric.kind}, model) + fmt::format(", mean of {}", pairs.size());
  const double clean = into_clean() ? base : donor, corrupted = into_clean() ? donor : base;
  return fmt::format("{}: clean {:.3f}, corrupted {:.3f}; cells: 0 as {}, 1 as {}", what, clean, corrupted,
                     into_clean() ? "clean" : "corrupted", into_clean() ? "corrupted" : "clean");
}

void PatchRun::check(Report& report, double donor, double base) const {
  report.finite = std::isfinite(donor) && std::isfinite(base);
  const MetricKind kind = pairs.front().metric.kind;
  const double clean = into_clean() ? base : donor, corrupted = into_clean() ? donor : base;
  if (kind != MetricKind::kl && sign_of_harm(kind) * (clean - corrupted) > 0)
    report.warnings.push_back(fmt::format(
        "the {} is {:.3f} for the clean text and {:.3f} for the corrupted one: is --token what the clean "
        "text should predict?",
        text_of(pairs.front().metric, model), clean, corrupted));
}

void PatchedEffects::add(double effect, double difference) {
  effects_.push_back(effect);
  weights_.push_back(difference);
}

ReportCell PatchedEffects::cell(const std::string& name) const {
  const Estimate one = estimate();
  const bool several = effects_.size() > 1;
  const std::string text =
      several ? fmt::format("{} ± {:.2f}", rounded(one.mean), one.error) : rounded(one.mean);
  ReportCell cell{text, one.mean, fmt::format("{}: {:.4f}", name, one.mean), one.mean};
  if (several) cell.error = one.error;
  return cell;
}

AnalyzedPair text_pair(const AnalyzedModel& model, const std::string& clean, const std::string& corrupted,
                       const std::optional<std::string>& target) {
  AnalyzedPair pair{text_input(model, clean, target), text_input(model, corrupted, target)};
  const auto list = [&](const AnalyzedInput& text) {
    return joined(model.shown(model.tokens(text.source_ids)), " ", plot::visible);
  };
  if (pair.clean.source_ids.size() == pair.corrupted.source_ids.size()) return pair;
  throw Error(fmt::format(
      "patch: expected two texts with the same number of tokens, got {} and {} (\"{}\" and \"{}\")",
      pair.clean.source_ids.size(), pair.corrupted.source_ids.size(), list(pair.clean),
      list(pair.corrupted)));
}

std::vector<AnalyzedPair> prompt_pairs(const AnalyzedModel& model, std::span<const Prompt> prompts,
                                       const std::optional<std::string>& target) {
  std::vector<AnalyzedPair> pairs;
  for (const Prompt& prompt : prompts) {
    if (!prompt.corrupted) throw Error(prompt.where + ": corrupted: expected a text, got none");
    try {
      pairs.push_back(
          text_pair(model, prompt.clean, *prompt.corrupted, prompt.target ? prompt.target : target));
    } catch (const Error& error) {
      throw Error(prompt.where + ": " + error.what());
    }
    for (AnalyzedInput* input : {&pairs.back().clean, &pairs.back().corrupted}) {
      input->where = prompt.where;
      input->a = prompt.a;
      input->b = prompt.b;
    }
  }
  return pairs;
}

AnalyzedPair file_pair(const AnalyzedModel& model, const std::string& clean, const std::string& corrupted) {
  required_labels(model, "patch");
  AnalyzedPair pair{file_input(model, clean), file_input(model, corrupted)};
  if (pair.clean.parts.size() != pair.corrupted.parts.size()) {
    throw Error(fmt::format("patch: expected two {}s of as many parts, got {} and {}", model.reads(),
                            pair.clean.parts.size(), pair.corrupted.parts.size()));
  }
  return pair;
}

Report patch(const AnalyzedModel& model, std::span<const AnalyzedPair> pairs, const MetricChoice& choice,
             const PatchReportOptions& options, const std::string& title) {
  if (options.site) site_named(*options.site);
  if (!options.path.empty() && options.site) throw OptionError("site", "cannot be combined with --path");
  if (!options.path.empty() && options.method != PatchMethod::passes)
    throw OptionError("attribution", "cannot be combined with --path");
  const PatchedKind& kind = chosen_kind(options.kind, *model.model);
  PatchRun run{.model = model, .options = options};
  for (const AnalyzedPair& pair : pairs) {
    for_each_input(std::span(&pair.corrupted, 1), [&](const AnalyzedInput& input) {
      run.pairs.push_back({pair.clean.inputs, pair.corrupted.inputs,
                           model.reads_files() ? metric_of_files(model, choice, pair)
                                               : metric_of_texts(model, choice, pair)});
      run.tokens = model.reads_files() ? pair.clean.parts
                                       : model.tokens(kind.encodes() ? input.source_ids : input.ids);
    });
  }
  Report report;
  if (!options.path.empty()) {
    report = patch_path_report(run, kind.stack, kind.part);
  } else {
    const SiteName& site = chosen_site(options.site, kind, *model.model);
    const PatchCells cells = cells_of(run, site, kind);
    report.found = values_of(cells, site, kind, run);
    report.tables = {table_of(cells, site, kind, run)};
    run.check(report, cells.results.front().clean, cells.results.front().corrupted);
  }
  report.shown().subtitle = model.name + ": " + title;
  return report;
}

}  // namespace heed
