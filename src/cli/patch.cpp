// heed patch: activation patching between two texts.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/analysis_input.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"

namespace heed::cli {
namespace {

struct PatchArguments {
  std::string clean, corrupted, token, other, site = "residual";
  std::optional<std::string> target;
  ModelChoice model;
  std::filesystem::path output;
};

struct SiteName {
  const char* name;
  PatchSite site;
  const char* title;
};
constexpr SiteName kSites[] = {
    {"residual", PatchSite::residual, "the residual stream before each layer"},
    {"attention", PatchSite::attention, "what self-attention adds"},
    {"feed-forward", PatchSite::feed_forward, "what feed-forward adds"},
    {"heads", PatchSite::heads, "each head's output, at all positions"},
};

const SiteName& site_named(const std::string& name) {
  for (const SiteName& site : kSites) {
    if (name == site.name) return site;
  }
  throw UsageError("--site: expected residual, attention, feed-forward or heads, got " + name);
}

HeatTable patch_table(const PatchResult& result, const SiteName& site,
                      const std::vector<std::string>& tokens) {
  HeatTable table{
      .title = fmt::format("Patched: {}", site.title),
      .rows_title = "layer",
      .legend = fmt::format("logit difference: clean {:.3f}, corrupted {:.3f}; cells: 0 as corrupted, 1 "
                            "as clean",
                            result.clean, result.corrupted),
      .rows = {},
      .columns = {},
      .cells = {}};
  for (std::size_t i = 0; i < result.patched.front().size(); ++i)
    table.columns.push_back(site.site == PatchSite::heads ? fmt::format("head {}", i)
                                                          : fmt::format("{} {}", i, tokens[i]));
  for (std::size_t layer = 0; layer < result.patched.size(); ++layer) {
    table.rows.push_back(std::to_string(layer));
    std::vector<HeatCell>& row = table.cells.emplace_back();
    for (std::size_t i = 0; i < result.patched[layer].size(); ++i) {
      const double effect = result.effect(layer, i);
      row.push_back({fmt::format("{:.2f}", effect), effect,
                     fmt::format("layer {}, {}: {:.4f}, logit difference {:.4f}", layer, table.columns[i],
                                 effect, result.patched[layer][i])});
    }
  }
  return table;
}

std::string patch_json(const PatchResult& result, const SiteName& site,
                       const std::vector<std::string>& tokens) {
  JsonWriter json;
  json.begin_object().field("site", site.name).field("tokens", tokens);
  json.field("clean", result.clean).field("corrupted", result.corrupted).field("patched", result.patched);
  json.key("effects").begin_array();
  for (std::size_t layer = 0; layer < result.patched.size(); ++layer) {
    json.begin_array();
    for (std::size_t i = 0; i < result.patched[layer].size(); ++i) json.value(result.effect(layer, i));
    json.end_array();
  }
  return json.end_array().end_object().text();
}

void run(const PatchArguments& a, const Globals& globals) {
  check_svg_file(a.output);
  const SiteName& site = site_named(a.site);
  const AnalysedModel loaded = load_analysed(a.model, globals);
  const AnalysedText clean = analysed_text(loaded, valid_text(a.clean, "patch", globals.quiet), a.target),
                     corrupted =
                         analysed_text(loaded, valid_text(a.corrupted, "patch", globals.quiet), a.target);
  Progress progress(globals.quiet);
  PatchOptions options{.site = site.site,
                       .token = single_token(*loaded.tokenizer, a.token, "--token"),
                       .other = single_token(*loaded.tokenizer, a.other, "--other"),
                       .progress = {}};
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "passes"); };
  const PatchResult result = patch_activations(*loaded.model, clean.inputs, corrupted.inputs, options);
  progress.finish();
  const std::vector<std::string> tokens = corrupted.tokens(*loaded.tokenizer);
  show_table(patch_table(result, site, tokens), patch_json(result, site, tokens), a.output, globals);
}

}  // namespace

void add_patch(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "patch", "Show where two texts differ for a model: values of one run in the place of the other's");
  auto a = std::make_shared<PatchArguments>();
  command->add_option("clean", a->clean, "The text whose values are taken")->required();
  command->add_option("corrupted", a->corrupted, "The text that gets them, of as many tokens")->required();
  command->add_option("--token", a->token, "The token that the clean text should predict")
      ->required()
      ->type_name("TOKEN")
      ->group("Input");
  command->add_option("--other", a->other, "The token that the corrupted text should predict")
      ->required()
      ->type_name("TOKEN")
      ->group("Input");
  command->add_option("--target", a->target, "Target text, for the decoder of an encoder-decoder")
      ->type_name("TEXT")
      ->group("Input");
  add_model_option(*command, a->model)->required();
  command->add_option("--site", a->site, "What is patched")
      ->capture_default_str()
      ->type_name("residual|attention|feed-forward|heads")
      ->group("Output");
  command->add_option("--output,-o", a->output, "Write a figure")->type_name("FILE.svg")->group("Output");
  command->footer(
      "Examples:\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2\n"
      "  heed patch \"He is\" \"She is\" --token \" his\" --other \" her\" --model gpt2 --site heads "
      "--output "
      "heads.svg");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
