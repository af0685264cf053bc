// Ablating, averaging, scaling and patching heads.
#include "explore/views/views.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"

namespace heed::explore {
namespace {

using nlohmann::json;

constexpr std::size_t kMostPatchTexts = 8;

void check_change(const ExploredModel& model, const ExploredText& text, const HeadChange& change,
                  const std::string& where) {
  check_head(model, {change.kind, change.layer, change.head}, where);
  if (change.kind == "text" && text.labels.empty())
    throw Error(where + ".kind: expected labels, whose tokens the head reads, got none");
  if (change.kind == "text" && change.patch)
    throw Error(where + ".patch: expected a head of the tower for images, got one of that for texts");
}

/// The text of patches, and which heads' outputs are taken from it.
struct PatchRun {
  RequestedText text;
  std::vector<std::size_t> changes;  // their indices
};

std::vector<PatchRun> patch_runs(const std::vector<HeadChange>& changes) {
  std::vector<PatchRun> runs;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!changes[i].patch) continue;
    auto run = std::find_if(runs.begin(), runs.end(),
                            [&](const PatchRun& r) { return r.text == *changes[i].patch; });
    if (run == runs.end()) run = runs.insert(runs.end(), {*changes[i].patch, {}});
    run->changes.push_back(i);
  }
  if (runs.size() > kMostPatchTexts)
    throw Error("changes: expected patches from at most " + std::to_string(kMostPatchTexts) + " texts, got " +
                std::to_string(runs.size()));
  return runs;
}

void check_length(const ExploredModel& model, const ExploredText& other, const ExploredText& text,
                  const HeadChange& change, const std::string& where) {
  const bool encodes = change.kind == "encoder";
  const auto compare = [&](std::size_t got, std::size_t wanted, const std::string& what) {
    if (got != wanted)
      throw Error(where + ".patch: expected a " + what + " of as many " +
                  (encodes && text.file ? "parts" : "tokens") + " (" + std::to_string(wanted) + "), got " +
                  std::to_string(got));
  };
  const auto positions = [](const ExploredText& of) { return of.tokens.at("encoder").keys.size(); };
  if (encodes && text.file)
    return compare(positions(other), positions(text), name_of(model.model().input().kind));
  if (encodes) return compare(other.source.size(), text.source.size(), "text");
  compare(other.read.size(), text.read.size(), text.target_ids ? "target" : "text");
}

// What the heads put out for another text, by the index of the change.
std::map<std::size_t, Tensor> values_of(const ExploredModel& model, const ExploredText& text,
                                        const PatchRun& run, const std::vector<HeadChange>& changes,
                                        const std::atomic<bool>& stop) {
  RequestedText requested = run.text;
  if (text.target_ids && !requested.target && !requested.target_ids) requested.target_ids = text.target_ids;
  const ExploredText other = model.text_of(requested, 1, {}, stop);
  std::map<std::size_t, Tensor> values;
  Taps taps;
  for (const std::size_t i : run.changes) {
    check_length(model, other, text, changes[i], "changes." + std::to_string(i));
    taps.listen(heads_tap(model.kind_named(changes[i].kind), changes[i].layer), {.heads = {changes[i].head}},
                [&values, i](const std::string&, Tensor& value) { values[i] = value.clone(); });
  }
  Context context{.taps = &taps, .stop = &stop};
  model.model().forward(other.inputs, {.logits = false}, context);
  taps.require_all_fired();
  return values;
}

// The means over positions of the heads that these replace, by the index of the change.
std::map<std::size_t, Tensor> means_of(const ExploredModel& model, const ExploredText& text,
                                       const std::vector<HeadChange>& changes,
                                       const std::atomic<bool>& stop) {
  std::map<std::size_t, Tensor> means;
  Taps taps;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!changes[i].mean) continue;
    taps.listen(heads_tap(model.kind_named(changes[i].kind), changes[i].layer), {.heads = {changes[i].head}},
                [&means, i](const std::string&, Tensor& value) { means[i] = mean(value, 2, true); });
  }
  if (std::none_of(changes.begin(), changes.end(), [](const HeadChange& one) { return one.mean; }))
    return means;
  Context context{.taps = &taps, .stop = &stop};
  model.model().forward(text.inputs, {.logits = false}, context);
  taps.require_all_fired();
  return means;
}

json text_json(const RequestedText& text) {
  json value = json::object();
  if (text.text) value["text"] = *text.text;
  if (text.pair) value["pair"] = *text.pair;
  if (text.target) value["target"] = *text.target;
  if (text.file) value["file"] = *text.file;
  if (text.ids) value["ids"] = *text.ids;
  if (text.target_ids) value["target_ids"] = *text.target_ids;
  return value;
}

}  // namespace

std::string heads_tap(const AttentionKind& kind, std::int64_t layer) {
  return kind.stack + ".layers." + std::to_string(layer) + "." + kind.part + ".heads";
}

void check_head(const ExploredModel& model, const HeadChoice& head, const std::string& where) {
  const std::vector<std::int64_t>& heads = model.heads(head.kind, where + ".kind");
  const auto layers = static_cast<std::int64_t>(heads.size());
  if (head.layer >= layers)
    throw Error(where + ".layer: expected a layer below " + std::to_string(layers) + ", got " +
                std::to_string(head.layer));
  const std::int64_t count = heads[static_cast<std::size_t>(head.layer)];
  if (count == 0)
    throw Error(where + ".layer: expected a layer with attention, got " + std::to_string(head.layer));
  if (head.head >= count)
    throw Error(where + ".head: expected a head below " + std::to_string(count) + ", got " +
                std::to_string(head.head));
}

bool is_unchanged(const RunRequest& run) {
  return run.changes.empty() &&
         std::all_of(run.steering.begin(), run.steering.end(), [](double strength) { return strength == 0; });
}

void add_changes(Taps& taps, const ExploredModel& model, const ExploredText& text, const RunRequest& run,
                 const std::atomic<bool>& stop) {
  const NoGradients guard;
  const std::vector<HeadChange>& changes = run.changes;
  steer(taps, model.steering_of(run.steering));
  for (std::size_t i = 0; i < changes.size(); ++i)
    check_change(model, text, changes[i], "changes." + std::to_string(i));
  std::map<std::size_t, Tensor> values;
  for (const PatchRun& patch : patch_runs(changes))
    values.merge(values_of(model, text, patch, changes, stop));
  std::map<std::size_t, Tensor> means = means_of(model, text, changes, stop);
  const auto replace_by_mean = [](const Tensor& by) -> Listener {
    return [by](const std::string&, Tensor& value) { value = broadcast_to(by, value.shape()).contiguous(); };
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const HeadChange& change = changes[i];
    taps.listen(heads_tap(model.kind_named(change.kind), change.layer), {.heads = {change.head}},
                change.patch         ? replace_by(values.at(i))
                : change.mean        ? replace_by_mean(means.at(i))
                : change.factor == 0 ? replace_by_zeros()
                                     : replace_by_scaled(change.factor));
  }
}

Tensor shown_keys(const Tensor& x, int dimension, std::int64_t keys) {
  return !x.defined() || x.size(dimension) == keys ? x : slice(x, x.rank() + dimension, 0, keys).contiguous();
}

json changes_json(const std::vector<HeadChange>& changes) {
  json list = json::array();
  for (const HeadChange& change : changes) {
    json one{{"kind", change.kind}, {"layer", change.layer}, {"head", change.head}};
    if (change.patch) {
      one["patch"] = text_json(*change.patch);
    } else if (change.mean) {
      one["mean"] = true;
    } else {
      one["factor"] = change.factor;
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace heed::explore
