// heed patch: activation patching between two texts, images or sounds.
#include <fmt/core.h>

#include <cmath>

#include "cli/cli.h"
#include "cli/input/input.h"
#include "cli/input/prompts.h"
#include "cli/options/option_values.h"
#include "cli/options/task_arguments.h"
#include "cli/results/patch.h"
#include "cli/terminal/terminal.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::cli {
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
  throw UsageError("--site: expected residual, attention, feed-forward or heads, got " + name);
}

// Which layers, and which of their attentions.
struct PatchedKind {
  const char* name;
  const char* stack;
  const char* part;
  const char* attention;
};
constexpr PatchedKind kKinds[] = {{"encoder", "encoder", "self_attn", "the encoder's self-attention"},
                                  {"decoder", "decoder", "self_attn", "the decoder's self-attention"},
                                  {"cross", "decoder", "cross_attn", "cross-attention"}};

// By default the encoder of an encoder-decoder: there the two texts differ.
const PatchedKind& chosen_patch_kind(const PatchArguments& a, const Model& model) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  if (dynamic_cast<const EncoderModel*>(&model) != nullptr && model.input().kind != InputKind::tokens)
    return kKinds[index_of_kind(a.kind.value_or("encoder"), {"encoder"})];
  if (both == nullptr) {
    if (dynamic_cast<const DecoderModel*>(&model) != nullptr)
      index_of_kind(a.kind.value_or("decoder"), {"decoder"});
    return kKinds[1];
  }
  std::vector<std::string> names{"encoder", "decoder"};
  if (both->has_cross_attention()) names.emplace_back("cross");
  return kKinds[index_of_kind(a.kind.value_or("encoder"), names)];
}

// By default the residual stream, of cross-attention what it adds, of files the heads: of residual streams
// there are as many as patches.
const SiteName& chosen_site(const PatchArguments& a, const PatchedKind& kind, const Model& model) {
  const auto* both = dynamic_cast<const EncoderDecoderModel*>(&model);
  const bool recurrent = both != nullptr && !both->has_self_attention();
  const bool cross = kind.name == std::string("cross");
  const bool files = model.input().kind != InputKind::tokens;
  const SiteName& site = site_named(a.site.value_or(files       ? "heads"
                                                    : !cross    ? "residual"
                                                    : recurrent ? "heads"
                                                                : "attention"));
  const bool attention = site.site == PatchSite::attention || site.site == PatchSite::heads;
  if (cross && !attention)
    throw UsageError(std::string("--site: expected attention or heads with --kind cross, got ") + site.name);
  if (recurrent && site.site != (cross ? PatchSite::heads : PatchSite::residual))
    throw UsageError("--site: expected " + std::string(cross ? "heads" : "residual") +
                     " of a recurrent model, got " + site.name);
  return site;
}

// The results of all pairs, cell by cell.
struct PatchCells {
  std::vector<PatchResult> results;
  std::vector<PatchResult> estimates = {};  // of --attribution, beside true ones

  PatchedEffects of(std::size_t row, std::size_t column) const {
    PatchedEffects effects;
    for (const PatchResult& result : results)
      effects.add(result.effect(row, column), result.clean - result.corrupted);
    return effects;
  }
};

HeatTable patch_table(const PatchCells& cells, const SiteName& site, const PatchedKind& kind,
                      const PatchRun& run) {
  const PatchResult& first = cells.results.front();
  HeatTable table{.title = (run.arguments.attribution && cells.estimates.empty() ? "Estimated by gradients: "
                                                                                 : "Patched: ") +
                           fmt::format(fmt::runtime(site.title), kind.attention, kind.stack),
                  .rows_title = "layer",
                  .legend = "",
                  .rows = {},
                  .columns = {},
                  .cells = {}};
  for (std::size_t i = 0; i < first.patched.front().size(); ++i)
    table.columns.push_back(site.site == PatchSite::heads ? fmt::format("head {}", i)
                            : run.pairs.size() > 1        ? std::to_string(i)
                                                   : fmt::format("{} {}", i, plot::visible(run.shown[i])));
  double clean = 0, corrupted = 0;
  for (const PatchResult& result : cells.results) clean += result.clean, corrupted += result.corrupted;
  table.legend = run.legend(clean / static_cast<double>(cells.results.size()),
                            corrupted / static_cast<double>(cells.results.size()));
  for (std::size_t i = 0; i < cells.estimates.size(); ++i) {
    const PatchAgreement agreement = agreement_of(cells.estimates[i], cells.results[i]);
    if (i < 1)
      table.legend += fmt::format("; estimates by gradients: correlation {:.3f}, largest difference {:.3f}",
                                  agreement.correlation, agreement.largest);
  }
  for (std::size_t r = 0; r < first.patched.size(); ++r) {
    table.rows.push_back(std::to_string(first.layers[r]));
    std::vector<HeatCell>& row = table.cells.emplace_back();
    for (std::size_t i = 0; i < first.patched[r].size(); ++i)
      row.push_back(cells.of(r, i).cell(fmt::format("layer {}, {}", table.rows[r], table.columns[i])));
  }
  return table;
}

void write_effects(JsonWriter& json, const char* name, const PatchResult& result) {
  json.key(name).begin_array();
  for (std::size_t layer = 0; layer < result.patched.size(); ++layer) {
    json.begin_array();
    for (std::size_t i = 0; i < result.patched[layer].size(); ++i) json.value(result.effect(layer, i));
    json.end_array();
  }
  json.end_array();
}

std::string patch_json(const PatchCells& cells, const SiteName& site, const PatchedKind& kind,
                       const PatchRun& run) {
  JsonWriter json;
  const PatchResult& first = cells.results.front();
  json.begin_object().field("kind", kind.name).field("site", site.name);
  json.field("metric", name_of(run.pairs.front().metric.kind)).field("layers", first.layers);
  if (run.pairs.size() > 1) {
    json.field("prompts", run.pairs.size()).key("effects").begin_array();
    for (const char* what : {"effects", "errors"}) {
      if (what == std::string("errors")) json.end_array().key("errors").begin_array();
      for (std::size_t r = 0; r < first.patched.size(); ++r) {
        json.begin_array();
        for (std::size_t i = 0; i < first.patched[r].size(); ++i) {
          const Estimate one = cells.of(r, i).estimate();
          json.value(what == std::string("errors") ? one.error : one.mean);
        }
        json.end_array();
      }
    }
    return json.end_array().end_object().text();
  }
  json.field("tokens", run.tokens).field("into", run.into_clean() ? "clean" : "corrupted");
  json.field("clean", run.into_clean() ? first.corrupted : first.clean)
      .field("corrupted", run.into_clean() ? first.clean : first.corrupted);
  json.field("patched", first.patched);
  write_effects(json, "effects", first);
  if (!cells.estimates.empty()) {
    const PatchAgreement agreement = agreement_of(cells.estimates.front(), first);
    write_effects(json, "estimated", cells.estimates.front());
    json.field("correlation", agreement.correlation).field("largest_difference", agreement.largest);
  }
  return json.end_object().text();
}

// Patching exchanges values position by position.
void check_lengths(const AnalyzedText& clean, const AnalyzedText& corrupted, const Tokenizer& tokenizer) {
  const auto tokens = [&](const AnalyzedText& text) {
    std::string list;
    for (const std::string& token : inspect::shown_tokens(tokens_of(text.source_ids, tokenizer), &tokenizer))
      list += (list.empty() ? "" : " ") + plot::visible(token);
    return list;
  };
  if (clean.source_ids.size() == corrupted.source_ids.size()) return;
  throw Error(fmt::format(
      "patch: expected two texts with the same number of tokens, got {} and {} (\"{}\" and \"{}\")",
      clean.source_ids.size(), corrupted.source_ids.size(), tokens(clean), tokens(corrupted)));
}

// The labels of two files: by default those that the model predicts for them.
LogitMetric metric_of_files(const PatchArguments& a, const AnalyzedModel& loaded, const PatchPair& pair) {
  LogitMetric metric = chosen_metric(a.metric, loaded, MetricKind::logit_difference);
  if (a.metric.chosen.given() && !a.metric.metric && !a.metric.other)
    metric.kind = MetricKind::logit_difference;
  if (metric.kind == MetricKind::kl) return metric;
  if (!metric.token) metric.token = predicted_label(loaded, pair.clean);
  if (metric.kind != MetricKind::logit_difference) return metric;
  if (!metric.other) metric.other = predicted_label(loaded, pair.corrupted);
  if (*metric.token == *metric.other)
    throw Error(fmt::format("patch: expected two labels, got {} for both {}s (choose them: --token, --other)",
                            label_name(labels_of(loaded, "patch"), *metric.token), loaded.reads()));
  return metric;
}

void add_files(PatchRun& run, const Globals&) {
  const PatchArguments& a = run.arguments;
  refuse_text_option(run.loaded, "--target", a.target.has_value());
  refuse_text_option(run.loaded, "--prompts", !a.prompts.empty());
  labels_of(run.loaded, "patch");
  const std::vector<std::string> files = file_arguments({*a.clean, *a.corrupted});
  const AnalyzedFile clean = analyzed_file(run.loaded, files[0]),
                     corrupted = analyzed_file(run.loaded, files[1]);
  if (clean.parts.size() != corrupted.parts.size()) {
    throw Error(fmt::format("patch: expected two {}s of as many parts, got {} and {}", run.loaded.reads(),
                            clean.parts.size(), corrupted.parts.size()));
  }
  PatchPair pair{clean.inputs, corrupted.inputs, {}};
  pair.metric = metric_of_files(a, run.loaded, pair);
  run.pairs.push_back(std::move(pair));
  run.tokens = run.shown = clean.parts;
}

// One pair of texts; `source` says whose tokens the columns are.
void add_texts(PatchRun& run, const Prompt& prompt, bool source, const Globals& globals) {
  const PatchArguments& a = run.arguments;
  const std::optional<std::string> target = prompt.target ? prompt.target : a.target;
  const AnalyzedText clean =
                         analyzed_text(run.loaded, valid_text(prompt.clean, "patch", globals.quiet), target),
                     corrupted = analyzed_text(run.loaded,
                                               valid_text(*prompt.corrupted, "patch", globals.quiet), target);
  check_lengths(clean, corrupted, *run.loaded.tokenizer);
  PatchPair pair{clean.inputs, corrupted.inputs,
                 prompt.where.empty()
                     ? chosen_metric(a.metric, run.loaded, MetricKind::logit_difference)
                     : metric_of(prompt, a.metric, run.loaded, MetricKind::logit_difference)};
  if (pair.metric.kind != MetricKind::kl && !pair.metric.token)
    throw UsageError("--token: missing (the token that the text should predict)");
  if (pair.metric.kind == MetricKind::logit_difference && !pair.metric.other)
    throw UsageError("--other: missing (the token that --token is compared with)");
  if (!pair.metric.position) pair.metric.position = usual_position(run.loaded, corrupted.ids);
  run.pairs.push_back(std::move(pair));
  run.tokens = tokens_of(source ? corrupted.source_ids : corrupted.ids, *run.loaded.tokenizer);
  run.shown = inspect::shown_tokens(run.tokens, run.loaded.tokenizer.get());
}

void add_pairs(PatchRun& run, bool source, const Globals& globals) {
  const PatchArguments& a = run.arguments;
  if (run.loaded.reads_files()) return add_files(run, globals);
  if (a.prompts.empty())
    return add_texts(run, {.where = "", .clean = *a.clean, .corrupted = a.corrupted}, source, globals);
  for (const Prompt& prompt : read_prompts(a.prompts)) {
    if (!prompt.corrupted) throw Error(prompt.where + ": corrupted: expected a text, got none");
    try {
      add_texts(run, prompt, source, globals);
    } catch (const UsageError& e) {
      throw Error(prompt.where + ": " + e.what());
    } catch (const Error& e) {
      if (std::string(e.what()).starts_with(prompt.where)) throw;
      throw Error(prompt.where + ": " + e.what());
    }
  }
}

// Positions are columns, so all prompts have the same ones.
void check_columns(const PatchCells& cells, const SiteName& site) {
  for (const PatchResult& result : cells.results) {
    if (result.patched.front().size() == cells.results.front().patched.front().size()) continue;
    throw Error(
        fmt::format("--site {}: expected prompts with the same number of tokens, got {} and {} "
                    "(--site heads takes all)",
                    site.name, cells.results.front().patched.front().size(), result.patched.front().size()));
  }
}

void run_sites(const PatchRun& run, const SiteName& site, const PatchedKind& kind, const Globals& globals) {
  const PatchArguments& a = run.arguments;
  Progress progress(globals.quiet);
  PatchCells cells;
  for (std::size_t i = 0; i < run.pairs.size(); ++i) {
    PatchOptions options{
        .site = site.site, .stack = kind.stack, .part = kind.part, .metric = run.pairs[i].metric};
    options.progress = [&](std::int64_t done, std::int64_t total) {
      progress.show(static_cast<std::int64_t>(i) * total + done, std::ssize(run.pairs) * total, "values");
    };
    const auto patch = a.attribution && !a.compare ? attribute_patches : patch_activations;
    cells.results.push_back(patch(*run.loaded.model, run.donor(i), run.base(i), options));
    if (a.compare)
      cells.estimates.push_back(attribute_patches(*run.loaded.model, run.donor(i), run.base(i), options));
  }
  progress.finish();
  check_columns(cells, site);
  run.warn_of(cells.results.front().clean, cells.results.front().corrupted, globals);
  HeatTable table = patch_table(cells, site, kind, run);
  table.subtitle = run.subtitle();
  show_table(table, patch_json(cells, site, kind, run), a.output, globals);
}

void check_arguments(const PatchArguments& a) {
  check_table_output(a.output);
  if (a.site) site_named(*a.site);
  if (a.prompts.empty() ? !a.clean || !a.corrupted : a.clean.has_value())
    throw UsageError("patch: expected two texts, or --prompts FILE");
  if (!a.path.empty() && a.site) throw UsageError("--site: cannot be combined with --path");
  if (!a.path.empty() && (a.attribution || a.compare))
    throw UsageError("--attribution: cannot be combined with --path");
}

void run(const PatchArguments& given, const Globals& globals) {
  PatchArguments a = given;
  a.attribution = a.attribution || a.compare;
  check_arguments(a);
  PatchRun run{.arguments = a, .loaded = load_analyzed(a.model, globals)};
  if (!a.path.empty()) {
    const PatchedKind& kind = chosen_patch_kind(a, *run.loaded.model);
    add_pairs(run, kind.stack == std::string("encoder"), globals);
    return show_paths(run, kind.stack, kind.part, globals);
  }
  const PatchedKind& kind = chosen_patch_kind(a, *run.loaded.model);
  const SiteName& site = chosen_site(a, kind, *run.loaded.model);
  add_pairs(run, kind.stack == std::string("encoder"), globals);
  run_sites(run, site, kind, globals);
}

}  // namespace

void add_patch(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "patch", "Show where two texts or images differ for a model: values of one run instead of the other's");
  auto a = std::make_shared<PatchArguments>();
  command->add_option("clean", a->clean, "The text, image or sound whose values are taken");
  command->add_option("corrupted", a->corrupted,
                      "The one that gets them, with the same number of tokens, patches or frames");
  command
      ->add_option("--prompts", a->prompts,
                   "Instead of two texts: rows with clean, corrupted, and A and B for --token and --other; "
                   "cells are means with a standard error")
      ->type_name("FILE.jsonl|.tsv|.csv")
      ->group("Input");
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command
      ->add_option("--kind", a->kind,
                   "Whose layers, or cross-attention (default: the decoder's; the encoder's of an "
                   "encoder-decoder, where the texts differ)")
      ->type_name("encoder|decoder|cross")
      ->group("Output");
  command
      ->add_option(
          "--site", a->site,
          "What is patched (default: the residual stream before each layer; of cross-attention, what "
          "it adds; of files, the heads)")
      ->type_name("residual|attention|feed-forward|heads")
      ->group("Output");
  command
      ->add_option("--path", a->path,
                   "Instead of a site: what each earlier head, feed-forward network and the embeddings do "
                   "through the queries, keys or values of a head (5.1:q), a feed-forward network (5.ff), "
                   "or the logits, directly")
      ->type_name("L.H:q|k|v, L.ff or logits")
      ->group("Output");
  add_choice(*command, "--into", a->into,
             {{"corrupted", PatchInto::corrupted}, {"clean", PatchInto::clean}, {"auto", PatchInto::usual}},
             "Which run gets values of the other (default: the corrupted one; with --path, the clean one)")
      ->group("Output");
  command
      ->add_flag("--attribution", a->attribution,
                 "Estimate all cells by one gradient instead of a pass for each (attribution patching)")
      ->group("Output");
  command->add_flag("--compare", a->compare, "Patch, and say how near the estimates of --attribution are")
      ->group("Output");
  add_metric_options(*command, a->metric,
                     "the difference of --token and --other; of files, the predicted labels");
  add_table_output(*command, a->output, kTableOutput);
  command->footer(
      "Examples:\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2\n"
      "  heed patch \"He is\" \"She is\" --token \" his\" --other \" her\" --model gpt2 --site heads "
      "--output "
      "heads.svg\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2 --path 9.8:v\n"
      "  heed patch --prompts prompts.jsonl --model gpt2 --site heads --compare --output heads.csv\n"
      "  heed patch cat.jpg dog.jpg --model ./vit\n"
      "  heed patch \"I like tea.\" \"I like milk.\" --target \"J'aime le\" --token \"▁thé\" --other "
      "\"▁lait\" --kind cross");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
