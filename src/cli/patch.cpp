// heed patch: activation patching between two texts, images or sounds.
#include <fmt/core.h>

#include <cmath>

#include "cli/analysis_input.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/task_arguments.h"
#include "cli/terminal.h"
#include "heed/inspect/analysis.h"
#include "heed/io/json.h"
#include "inspect/token_input.h"
#include "plot/labels.h"

namespace heed::cli {
namespace {

struct PatchArguments {
  std::string clean, corrupted;
  std::optional<std::string> token, other, target, kind, site;
  ModelChoice model;
  std::filesystem::path output;
};

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

// Two decimals, and no sign for what they round to zero.
std::string rounded(double effect) {
  const std::string text = fmt::format("{:.2f}", effect);
  return text == "-0.00" ? "0.00" : text;
}

HeatTable patch_table(const PatchResult& result, const SiteName& site, const PatchedKind& kind,
                      const std::vector<std::string>& tokens) {
  HeatTable table{
      .title = "Patched: " + fmt::format(fmt::runtime(site.title), kind.attention, kind.stack),
      .rows_title = "layer",
      .legend = fmt::format("logit difference: clean {:.3f}, corrupted {:.3f}; cells: 0 as corrupted, 1 "
                            "as clean",
                            result.clean, result.corrupted),
      .rows = {},
      .columns = {},
      .cells = {}};
  for (std::size_t i = 0; i < result.patched.front().size(); ++i)
    table.columns.push_back(site.site == PatchSite::heads
                                ? fmt::format("head {}", i)
                                : fmt::format("{} {}", i, plot::visible(tokens[i])));
  for (std::size_t r = 0; r < result.patched.size(); ++r) {
    table.rows.push_back(std::to_string(result.layers[r]));
    std::vector<HeatCell>& row = table.cells.emplace_back();
    for (std::size_t i = 0; i < result.patched[r].size(); ++i) {
      const double effect = result.effect(r, i);
      row.push_back({rounded(effect), effect,
                     fmt::format("layer {}, {}: {:.4f}, logit difference {:.4f}", table.rows[r],
                                 table.columns[i], effect, result.patched[r][i])});
    }
  }
  return table;
}

std::string patch_json(const PatchResult& result, const SiteName& site, const PatchedKind& kind,
                       const std::vector<std::string>& tokens) {
  JsonWriter json;
  json.begin_object().field("kind", kind.name).field("site", site.name);
  json.field("layers", result.layers).field("tokens", tokens);
  json.field("clean", result.clean).field("corrupted", result.corrupted).field("patched", result.patched);
  json.key("effects").begin_array();
  for (std::size_t layer = 0; layer < result.patched.size(); ++layer) {
    json.begin_array();
    for (std::size_t i = 0; i < result.patched[layer].size(); ++i) json.value(result.effect(layer, i));
    json.end_array();
  }
  return json.end_array().end_object().text();
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

std::int64_t token_of(const std::optional<std::string>& token, const char* option,
                      const Tokenizer& tokenizer) {
  if (!token) throw UsageError(std::string(option) + ": missing (the token that the text should predict)");
  return single_token(tokenizer, *token, option);
}

// A label by its name or number; by default the one that the model predicts.
std::int64_t label_of(const std::optional<std::string>& given, const char* option,
                      const std::vector<std::string>& labels, std::int64_t predicted) {
  if (!given) return predicted;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == *given || std::to_string(i) == *given) return static_cast<std::int64_t>(i);
  }
  throw UsageError(std::string(option) + ": expected a label of the model or its number, got " + *given +
                   " (heed info lists them)");
}

void run_on_files(const PatchArguments& a, const AnalyzedModel& loaded, const Globals& globals) {
  refuse_text_option(loaded, "--target", a.target.has_value());
  const std::vector<std::string>& labels = labels_of(loaded, "patch");
  const PatchedKind& kind = chosen_patch_kind(a, *loaded.model);
  const SiteName& site = chosen_site(a, kind, *loaded.model);
  const std::vector<std::string> files = file_arguments({a.clean, a.corrupted});
  const AnalyzedFile clean = analyzed_file(loaded, files[0]), corrupted = analyzed_file(loaded, files[1]);
  if (clean.parts.size() != corrupted.parts.size()) {
    throw Error(fmt::format("patch: expected two {}s of as many parts, got {} and {}", loaded.reads(),
                            clean.parts.size(), corrupted.parts.size()));
  }
  Progress progress(globals.quiet);
  PatchOptions options{
      .site = site.site,
      .stack = kind.stack,
      .part = kind.part,
      .token = label_of(a.token, "--token", labels, predicted_label(loaded, clean.inputs)),
      .other = label_of(a.other, "--other", labels, predicted_label(loaded, corrupted.inputs)),
      .progress = {}};
  if (options.token == options.other) {
    throw Error(fmt::format("patch: expected two labels, got {} for both {}s (choose them: --token, --other)",
                            label_name(labels, options.token), loaded.reads()));
  }
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "passes"); };
  const PatchResult result = patch_activations(*loaded.model, clean.inputs, corrupted.inputs, options);
  progress.finish();
  warn_of_non_finite(*loaded.model, std::isfinite(result.clean) && std::isfinite(result.corrupted), globals);
  HeatTable table = patch_table(result, site, kind, clean.parts);
  table.legend =
      fmt::format("{} − {}: ", label_name(labels, options.token), label_name(labels, options.other)) +
      table.legend;
  table.subtitle = subtitle_of(a.model, a.clean + " → " + a.corrupted);
  show_table(table, patch_json(result, site, kind, clean.parts), a.output, globals);
}

void run(const PatchArguments& a, const Globals& globals) {
  check_svg_file(a.output);
  if (a.site) site_named(*a.site);
  const AnalyzedModel loaded = load_analyzed(a.model, globals);
  if (loaded.reads_files()) return run_on_files(a, loaded, globals);
  const PatchedKind& kind = chosen_patch_kind(a, *loaded.model);
  const SiteName& site = chosen_site(a, kind, *loaded.model);
  const AnalyzedText clean = analyzed_text(loaded, valid_text(a.clean, "patch", globals.quiet), a.target),
                     corrupted =
                         analyzed_text(loaded, valid_text(a.corrupted, "patch", globals.quiet), a.target);
  check_lengths(clean, corrupted, *loaded.tokenizer);
  Progress progress(globals.quiet);
  PatchOptions options{.site = site.site,
                       .stack = kind.stack,
                       .part = kind.part,
                       .token = token_of(a.token, "--token", *loaded.tokenizer),
                       .other = token_of(a.other, "--other", *loaded.tokenizer),
                       .progress = {}};
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.show(done, total, "passes"); };
  const PatchResult result = patch_activations(*loaded.model, clean.inputs, corrupted.inputs, options);
  progress.finish();
  warn_of_non_finite(*loaded.model, std::isfinite(result.clean) && std::isfinite(result.corrupted), globals);
  const bool source = kind.stack == std::string("encoder");
  const std::vector<std::string> tokens =
      tokens_of(source ? corrupted.source_ids : corrupted.ids, *loaded.tokenizer);
  HeatTable table = patch_table(result, site, kind, inspect::shown_tokens(tokens, loaded.tokenizer.get()));
  table.subtitle = subtitle_of(a.model, a.clean + " → " + a.corrupted);
  show_table(table, patch_json(result, site, kind, tokens), a.output, globals);
}

}  // namespace

void add_patch(CLI::App& app, const Globals& globals) {
  CLI::App* command = app.add_subcommand(
      "patch", "Show where two texts or images differ for a model: values of one run instead of the other's");
  auto a = std::make_shared<PatchArguments>();
  command->add_option("clean", a->clean, "The text, image or sound whose values are taken")->required();
  command
      ->add_option("corrupted", a->corrupted,
                   "The one that gets them, with the same number of tokens, patches or frames")
      ->required();
  command
      ->add_option(
          "--token", a->token,
          "The token that the clean text should predict; of files, a label (default: the predicted one)")
      ->type_name("TOKEN")
      ->group("Input");
  command
      ->add_option(
          "--other", a->other,
          "The token that the corrupted text should predict; of files, a label (default: the predicted "
          "one)")
      ->type_name("TOKEN")
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
  command->add_option("--output,-o", a->output, "Write a figure")->type_name("FILE.svg")->group("Output");
  command->footer(
      "Examples:\n"
      "  heed patch \"The capital of France is\" \"The capital of Spain is\" --token \" Paris\" --other \" "
      "Madrid\" --model gpt2\n"
      "  heed patch \"He is\" \"She is\" --token \" his\" --other \" her\" --model gpt2 --site heads "
      "--output "
      "heads.svg\n"
      "  heed patch cat.jpg dog.jpg --model ./vit\n"
      "  heed patch \"I like tea.\" \"I like milk.\" --target \"J'aime le\" --token \"▁thé\" --other "
      "\"▁lait\" --kind cross");
  command->callback([a, &globals] { run(*a, globals); });
}

}  // namespace heed::cli
