// Sorts the pairs of an attributed score.
#include "explore/views/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "heed/error.h"
#include "heed/inspect/stream_attribution.h"
#include "inspect/stream_sum.h"
#include "inspect/taps.h"

namespace heed::explore {
namespace {

using nlohmann::json;

/// Pairs that are sent, the largest first; the others are summed.
constexpr std::size_t kMostPairs = 60;

json parts_of_side(const std::vector<StreamPart>& parts, const std::vector<double>& sums) {
  json list = json::array();
  for (std::size_t i = 0; i < parts.size(); ++i)
    list.push_back({{"label", inspect::part_label(parts[i])},
                    {"name", parts[i].name},
                    {"layer", parts[i].layer},
                    {"head", parts[i].head},
                    {"sum", sums[i]}});
  return list;
}

void add_pairs(json& answer, const ScoreAttribution& score) {
  const std::size_t keys = score.key_parts.size();
  const inspect::ScoreSides sides = inspect::sides_of(score);
  std::vector<double> all;
  for (const auto& row : score.pairs) all.insert(all.end(), row.begin(), row.end());
  double others = std::accumulate(all.begin(), all.end(), 0.0);
  json pairs = json::array();
  for (const std::size_t i : inspect::largest(all, kMostPairs)) {
    pairs.push_back({i / keys, i % keys, all[i]});
    others -= all[i];
  }
  answer["query_parts"] = parts_of_side(score.query_parts, sides.query);
  answer["key_parts"] = parts_of_side(score.key_parts, sides.key);
  answer["others"] = {{"count", all.size() - pairs.size()}, {"sum", others}};
  answer["pairs"] = std::move(pairs);
  answer["magnitude"] = sides.magnitude;
}

/// Without a key in the request, the strongest of those that are shown.
std::int64_t key_of(const ExploredModel& model, const ExploredText& text, const AttentionKind& kind,
                    const WhyRequest& request, Taps& changes, const std::atomic<bool>& stop) {
  const std::int64_t keys = std::ssize(text.tokens.at(kind.name).keys);
  if (request.key) {
    inspect::check_position("key", *request.key, keys);
    return *request.key;
  }
  RecordOptions options{{kind}, {request.head.layer}, {request.head.head}};
  options.taps = &changes;
  options.stop = &stop;
  options.queries = {request.query, request.query + 1};
  const AttentionRecord record = record_attention(model.model(), text.inputs, options);
  const std::vector<float> weights = record.layers.front().weights.to_vector<float>();
  return std::max_element(weights.begin(), weights.begin() + keys) - weights.begin();
}

}  // namespace

json why_json(const ExploredModel& model, const ExploredText& text, const WhyRequest& request, Taps& changes,
              const std::atomic<bool>& stop) {
  check_head(model, request.head, "head");
  const AttentionKind kind = model.kind_named(request.head.kind);
  if (kind.name == "text")
    throw Error("why: expected a head of the tower for images, got one of that for texts");
  inspect::check_position("query", request.query, std::ssize(text.tokens.at(kind.name).queries));
  const ScoreAttribution score = attribute_score(model.model(), text.inputs,
                                                 {.stack = kind.stack,
                                                  .part = kind.part,
                                                  .layer = request.head.layer,
                                                  .head = request.head.head,
                                                  .query = request.query,
                                                  .key = key_of(model, text, kind, request, changes, stop),
                                                  .taps = &changes,
                                                  .added = model.steering_of(request.run.steering),
                                                  .stop = &stop});
  json answer{{"kind", kind.name},         {"layer", request.head.layer},
              {"head", request.head.head}, {"query", request.query},
              {"key", score.key},          {"score", score.score},
              {"weight", score.weight},    {"position_bias", score.position_bias}};
  add_pairs(answer, score);
  return answer;
}

}  // namespace heed::explore
