// Reads requests.
#include "explore/run_request.h"

#include <cmath>

#include "heed/error.h"
#include "heed/io/json.h"
#include "plot/labels.h"

namespace heed::explore {
namespace {

constexpr std::int64_t kMostNewTokens = 1024, kMostCandidates = 1000;
constexpr double kMostStrength = 1e6;
constexpr std::size_t kMostChanges = 4096, kMostLabels = 64;

[[noreturn]] void refuse(const std::string& where, const std::string& expected) {
  throw Error(where + ": expected " + expected);
}

std::int64_t check_range(const Config& object, std::string_view name, std::int64_t value, std::int64_t least,
                         std::int64_t most) {
  if (value < least || value > most)
    object.fail(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

std::int64_t required_number(const Config& object, std::string_view name) {
  return check_range(object, name, object.required_integer(name), 0, INT32_MAX);
}

std::optional<std::int64_t> optional_number(const Config& object, std::string_view name) {
  const auto value = object.optional_integer(name);
  return value ? std::optional(check_range(object, name, *value, 0, INT32_MAX)) : value;
}

std::optional<std::vector<std::int64_t>> ids_in(const Config& object, std::string_view name) {
  if (!object.has(name)) return std::nullopt;
  std::vector<std::int64_t> ids = object.integers(name);
  for (const std::int64_t id : ids) {
    if (id < 0 || id > INT32_MAX) object.fail(name, "token ids from 0 to " + std::to_string(INT32_MAX));
  }
  return ids;
}

/// The text in an object; `where` begins messages about it.
RequestedText text_in(const Config& object, const std::string& where) {
  RequestedText text{object.optional_string("text"),   object.optional_string("pair"),
                     object.optional_string("target"), ids_in(object, "ids"),
                     ids_in(object, "target_ids"),     optional_number(object, "file")};
  const int given = (text.text ? 1 : 0) + (text.ids ? 1 : 0) + (text.file ? 1 : 0);
  if (given != 1)
    refuse(where + "text", std::string("one of text, ids and file, got ") + (given > 1 ? "several" : "none"));
  if (text.target && text.target_ids) refuse(where + "target", "either target or target_ids, got both");
  if (text.pair && text.ids) refuse(where + "pair", "no pair beside ids, which hold both texts");
  if (text.pair && text.file) refuse(where + "pair", "no pair beside a file");
  return text;
}

HeadChange change_in(const Config& object, const std::string& where) {
  HeadChange change;
  change.kind = object.required_string("kind");
  change.layer = required_number(object, "layer");
  change.head = required_number(object, "head");
  const auto factor = object.optional_number("factor");
  if (factor && !(std::abs(*factor) <= 1000)) object.fail("factor", "a number from -1000 to 1000");
  change.factor = factor.value_or(0);
  if (const auto patch = object.optional_sub("patch")) change.patch = text_in(*patch, where + ".patch.");
  change.mean = object.boolean("mean", false);
  const int given = (factor ? 1 : 0) + (change.mean ? 1 : 0) + (change.patch ? 1 : 0);
  if (given != 1)
    refuse(where, std::string("one of factor, mean and patch, got ") + (given > 1 ? "several" : "none"));
  return change;
}

RunRequest run_in(const Config& request) {
  RunRequest run;
  run.model = static_cast<std::size_t>(required_number(request, "model"));
  run.text = text_in(request, request.where() + ": ");
  if (request.has("labels")) run.labels = request.strings("labels");
  if (run.labels.size() > kMostLabels)
    request.fail("labels", "a list of at most " + std::to_string(kMostLabels) + " texts");
  run.label = optional_number(request, "label");
  if (run.label && *run.label >= std::ssize(run.labels))
    request.fail("label", "a number below that of labels, " + std::to_string(run.labels.size()));
  run.max_new_tokens = check_range(request, "max_new_tokens",
                                   request.integer("max_new_tokens", run.max_new_tokens), 1, kMostNewTokens);
  return run;
}

void refuse_unknown_keys(const Config& request) {
  for (const std::string& key : request.unused())
    refuse(request.where() + ": " + plot::shorten(plot::visible(key), 80), "a known key");
}

void read_changes(const Config& request, RunRequest& run) {
  run.steering = request.numbers("steering");
  for (const double strength : run.steering) {
    if (!(std::abs(strength) <= kMostStrength)) request.fail("steering", "a list of numbers up to 1e6");
  }
  if (const auto changes = request.optional_sub("changes")) {
    const std::vector<std::string> places = changes->names();
    if (places.size() > kMostChanges)
      request.fail("changes", "a list of at most " + std::to_string(kMostChanges) + " changes");
    for (const std::string& place : places)
      run.changes.push_back(change_in(changes->sub(place), request.where() + ": changes." + place));
  }
}

HeadChoice head_in(const Config& request) {
  return {request.required_string("kind"), required_number(request, "layer"),
          required_number(request, "head")};
}

}  // namespace

RunRequest parse_run_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  RunRequest run = run_in(request);
  run.candidates =
      check_range(request, "candidates", request.integer("candidates", run.candidates), 1, kMostCandidates);
  run.vectors = request.boolean("vectors", run.vectors);
  if (const auto show = request.optional_sub("show")) {
    run.show = {show->required_string("kind"), required_number(*show, "layer"),
                optional_number(*show, "head")};
  }
  read_changes(request, run);
  refuse_unknown_keys(request);
  return run;
}

AblationRequest parse_ablation_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  AblationRequest ablation{.run = run_in(request)};
  request.ignore({"candidates", "vectors"});  // of the run; they change no logit
  ablation.position = optional_number(request, "position").value_or(0);
  ablation.id = required_number(request, "id");  // the token or label whose logit is measured
  ablation.kind = request.optional_string("kind");
  ablation.layer = optional_number(request, "layer");
  refuse_unknown_keys(request);
  return ablation;
}

FlowRequest parse_flow_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  FlowRequest flow{.run = run_in(request), .stack = request.required_string("stack")};
  read_changes(request, flow.run);
  flow.position = required_number(request, "position");
  flow.id = optional_number(request, "id");
  refuse_unknown_keys(request);
  return flow;
}

StepsRequest parse_steps_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  StepsRequest steps{.run = run_in(request), .head = head_in(request)};
  read_changes(request, steps.run);
  steps.query = required_number(request, "query");
  refuse_unknown_keys(request);
  return steps;
}

WhyRequest parse_why_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  WhyRequest why{.run = run_in(request), .head = head_in(request)};
  read_changes(request, why.run);
  why.query = required_number(request, "query");
  why.key = optional_number(request, "key");
  refuse_unknown_keys(request);
  return why;
}

TrapsRequest parse_traps_request(std::string_view text) {
  const Config request = Config::parse(text, "request");
  TrapsRequest traps{.run = run_in(request), .head = head_in(request), .traps = request.strings("traps")};
  traps.run.candidates = check_range(request, "candidates",
                                     request.integer("candidates", traps.run.candidates), 1, kMostCandidates);
  traps.exchange = ids_in(request, "exchange");
  if (traps.exchange && traps.exchange->size() != 2) request.fail("exchange", "two positions");
  refuse_unknown_keys(request);
  return traps;
}

}  // namespace heed::explore
