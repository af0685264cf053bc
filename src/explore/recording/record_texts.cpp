// Asks as the page would.
#include "explore/recording/recording.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "explore/routes.h"
#include "heed/error.h"

namespace heed::explore {
namespace {

constexpr const char* kRecordedMistakes[] = {"positions", "mask", "softmax-axis", "scale", "exchange"};
constexpr std::size_t kFollowedCandidates = 3;
constexpr int kMistakeCandidates = 30;

/// A text in a model: what it was answered, and what runs and other requests about it begin with.
struct RecordedText {
  Json answer, run, request;
};

/// KIND.LAYER.HEAD, or null for "".
Json head_of(const std::string& name) {
  if (name.empty()) return nullptr;
  const std::size_t kind = name.find('.');
  const char* const end = name.data() + name.size();
  std::int64_t layer = 0, head = 0;
  if (kind != name.npos) {
    const auto dot = std::from_chars(name.data() + kind + 1, end, layer);
    if (dot.ec == std::errc() && dot.ptr != end && *dot.ptr == '.') {
      const auto last = std::from_chars(dot.ptr + 1, end, head);
      if (last.ec == std::errc() && last.ptr == end)
        return {{"kind", name.substr(0, kind)}, {"layer", layer}, {"head", head}};
    }
  }
  throw Error("--export-head: expected KIND.LAYER.HEAD such as decoder.0.3, got " + name);
}

bool is_of(const Json& kind, const Json& head) {
  const auto is_same = [&](const Json& map) {
    return map["layer"] == head["layer"] && map["head"] == head["head"];
  };
  return kind["kind"] == head["kind"] && std::any_of(kind["maps"].begin(), kind["maps"].end(), is_same);
}

/// The head that the page shows first of a kind of attention: of cross-attention the first of the last layer
/// (the map is the mean of the layer), of others the one with the largest score `content`.
Json first_head(const Json& kind) {
  Json best{{"kind", kind["kind"]}, {"layer", 0}, {"head", 0}};
  double most = -1;
  for (const Json& map : kind["maps"]) {
    if (!map["head"].is_number() || map["measure"] != "weights") continue;
    if (kind["kind"] == "cross") {
      if (map["layer"] > best["layer"]) best["layer"] = map["layer"];
      continue;
    }
    const Json scores = map.value("scores", Json::object());
    const double score = scores.value("content", scores.value("focus", 0.0));
    if (score <= most) continue;
    most = score;
    best["layer"] = map["layer"];
    best["head"] = map["head"];
  }
  return best;
}

Json with(const Json& request, const Json& more) {
  Json all = request;
  all.update(more);
  return all;
}

class TextRecorder {
 public:
  /// `chosen`: a head that is recorded beside the first of its kind, or null.
  TextRecorder(Explorer& explorer, Recording& recording, const std::atomic<bool>& stop, Json chosen)
      : explorer_(explorer), recording_(recording), stop_(stop), chosen_(std::move(chosen)) {}

  void run(const Json& model, const std::string& text, const std::string* target) {
    Json request{{"model", model["index"]}, {"text", text}};
    if (target != nullptr && !target->empty() && model["takes_target"].get<bool>())
      request["target"] = *target;
    const Json run = with(request, {{"candidates", 10}, {"vectors", true}});
    const std::string answer = answer_to(explorer_, "/api/run", run.dump(), stop_);
    recording_.add("/api/run", run.dump(), answer, explorer_);
    RecordedText& recorded =
        texts_.emplace_back(RecordedText{parse_json(answer, "answer"), request, request});
    const Json& kinds = recorded.answer["data"]["kinds"];
    if (!chosen_.is_null() &&
        std::none_of(kinds.begin(), kinds.end(), [&](const Json& kind) { return is_of(kind, chosen_); }))
      throw Error("--export-head: expected a head of " + model["name"].get<std::string>() + ", got " +
                  chosen_["kind"].get<std::string>() + "." + chosen_["layer"].dump() + "." +
                  chosen_["head"].dump());
    if (recorded.answer["target_ids"].is_null()) return;
    recorded.request.erase("target");  // what it says is known by now
    recorded.request["target_ids"] = recorded.answer["target_ids"];
  }

  void heads() {
    for (const RecordedText& text : texts_) {
      for (const Json& kind : text.answer["data"]["kinds"]) {
        for (const Json& head : heads_of(kind)) {
          mistakes(text, head);
          for (std::size_t query = 0; query < kind["queries"].size(); ++query) {
            const Json request = with(with(text.request, head), {{"query", query}});
            ask("/api/steps", request);
            ask("/api/why", request);
          }
        }
      }
    }
  }

  /// For every token, then for the candidates of each.
  void flows() {
    for (const RecordedText& text : texts_) {
      std::vector<std::pair<Json, Json>> asked;
      for (const Json& kind : text.answer["data"]["kinds"]) {
        if (kind["kind"] != "encoder" && kind["kind"] != "decoder") continue;
        for (const std::int64_t position : positions(kind, !text.answer["target_ids"].is_null())) {
          Json request = with(text.request, {{"stack", kind["kind"]}, {"position", position}});
          Json answer = ask("/api/flow", request);
          asked.emplace_back(std::move(request), std::move(answer));
        }
      }
      for (const auto& [request, answer] : asked) {
        const Json candidates = answer.value("candidates", Json::array());
        for (std::size_t i = 0; i < std::min(kFollowedCandidates, candidates.size()); ++i)
          ask("/api/flow", with(request, {{"id", candidates[i]["id"]}}));
      }
    }
  }

  /// The runs with each steering vector alone, at half and at the whole of its largest strength.
  void steered(const Json& models) {
    for (const RecordedText& text : texts_) {
      const Json& vectors = models[text.run["model"].get<std::size_t>()]["steering"];
      for (std::size_t i = 0; i < vectors.size(); ++i) {
        for (const int step : {-2, -1, 1, 2}) {
          std::vector<double> strengths(vectors.size());
          strengths[i] = vectors[i]["most"].get<double>() / 2 * step;
          ask("/api/run", with(text.run, {{"candidates", 10}, {"steering", strengths}}));
        }
      }
    }
  }

  /// The run without each of these heads.
  void ablations() {
    for (const RecordedText& text : texts_) {
      for (const Json& kind : text.answer["data"]["kinds"]) {
        for (const Json& head : heads_of(kind)) {
          const Json change = with(head, {{"factor", 0}});
          ask("/api/run", with(text.run, {{"candidates", 10}, {"changes", Json::array({change})}}));
        }
      }
    }
  }

 private:
  std::vector<Json> heads_of(const Json& kind) const {
    std::vector<Json> heads{first_head(kind)};
    if (!chosen_.is_null() && chosen_ != heads[0] && is_of(kind, chosen_)) heads.push_back(chosen_);
    return heads;
  }

  /// What the model refuses is recorded too.
  Json ask(const char* path, const Json& request) {
    std::string said;
    try {
      said = answer_to(explorer_, path, request.dump(), stop_);
    } catch (const Error& error) {
      said = Json{{"error", error.what()}}.dump();
    }
    recording_.add(path, request.dump(), said, explorer_);
    return parse_json(said, "answer");
  }

  void mistakes(const RecordedText& text, const Json& head) {
    const Json& kinds = text.answer["data"]["kinds"];
    const Json* source = &kinds.front();
    for (const Json& kind : kinds) {
      if (kind["kind"] == "encoder") source = &kind;
    }
    const Json& tokens = (*source)["queries"];
    std::size_t last = tokens.size() - 1;  // of two that differ, near the middle
    const std::size_t first = last / 2;
    for (std::size_t i = first + 1; i < tokens.size(); ++i) {
      if (tokens[i] != tokens[first]) {
        last = i;
        break;
      }
    }
    for (const char* name : kRecordedMistakes) {
      Json request = with(with(text.request, head),
                          {{"traps", Json::array({name})}, {"candidates", kMistakeCandidates}});
      if (std::strcmp(name, "exchange") == 0) request["exchange"] = {first, last};
      ask("/api/traps", request);
    }
  }

  /// All tokens; first those that the page is likely to open on.
  static std::vector<std::int64_t> positions(const Json& kind, bool translates) {
    std::vector<std::int64_t> all(kind["queries"].size());
    std::iota(all.begin(), all.end(), 0);
    if (kind["kind"] == "decoder" && !translates) std::reverse(all.begin(), all.end());
    if (kind.contains("own"))
      std::rotate(all.begin(), all.begin() + kind["own"].get<std::int64_t>(), all.end());
    return all;
  }

  Explorer& explorer_;
  Recording& recording_;
  const std::atomic<bool>& stop_;
  Json chosen_;
  std::vector<RecordedText> texts_;
};

}  // namespace

void record_texts(Explorer& explorer, Recording& recording, const std::vector<std::string>& texts,
                  const std::vector<std::string>& targets, const std::atomic<bool>& stop,
                  const std::string& head) {
  TextRecorder recorder(explorer, recording, stop, head_of(head));
  const Json models = parse_json(explorer.models(), "models").at("models");
  for (const Json& model : models) {
    if (model["input"] != "text")
      throw Error("--text: expected a model that reads text, got " + model["name"].get<std::string>() +
                  ", which reads " + model["input"].get<std::string>() + "s");
    for (std::size_t i = 0; i < texts.size(); ++i)
      recorder.run(model, texts[i], i < targets.size() ? &targets[i] : nullptr);
  }
  recorder.heads();
  recorder.steered(models);
  recorder.flows();
  recorder.ablations();
}

}  // namespace heed::explore
