// The fields of requests.
#include "explore/requests.h"

#include "heed/error.h"

namespace heed::explore {
namespace {

using server::FieldRule;

constexpr std::int64_t kMostNewTokens = 1024, kMostCandidates = 1000;
constexpr std::size_t kMostChanges = 4096, kMostLabels = 64;
const FieldRule kNumber{.least = 0, .most = INT32_MAX},
    kNeeded{.least = 0, .most = INT32_MAX, .required = "an integer"}, kNeededText{.required = "a string"},
    kCandidates{.least = 1, .most = kMostCandidates};

[[noreturn]] void refuse(const Fields& fields, const char* name, const std::string& expected) {
  throw Error("request: " + fields.reads()->path_of(name) + ": expected " + expected);
}

// An array of numbers that are given or not.
void walk_ids(Fields& fields, const char* name, std::optional<std::vector<std::int64_t>>& ids,
              const char* note) {
  std::vector<std::int64_t> list;
  fields(name, list, note, kNumber);
  if (fields.reads() != nullptr && fields.reads()->find(name) != nullptr) ids = std::move(list);
}

const char* given_of(int count) { return count > 1 ? "several" : "none"; }

}  // namespace

void RequestedText::walk(Fields& fields) {
  fields("text", text, "A text: of `text`, `ids` and `file`, one");
  fields("pair", pair, "The second text, of an encoder");
  fields("target", target,
         "What the decoder of an encoder-decoder writes; without it and `target_ids`, its own output");
  walk_ids(fields, "ids", ids, "Exact tokens in the place of a text");
  walk_ids(fields, "target_ids", target_ids, "The same of the target");
  fields("file", file, "The number of a file that was sent", kNumber);
  if (fields.reads() == nullptr) return;
  const int given = (text ? 1 : 0) + (ids ? 1 : 0) + (file ? 1 : 0);
  if (given != 1) refuse(fields, "text", std::string("one of text, ids and file, got ") + given_of(given));
  if (target && target_ids) refuse(fields, "target", "either target or target_ids, got both");
  if (pair && ids) refuse(fields, "pair", "no pair beside ids, which hold both texts");
  if (pair && file) refuse(fields, "pair", "no pair beside a file");
}

void HeadChoice::walk(Fields& fields) {
  fields("kind", kind, "Of attention: `encoder`, `decoder`, `cross`, `text`", kNeededText);
  fields("layer", layer, "From 0", kNeeded);
  fields("head", head, "From 0", kNeeded);
}

void HeadChange::walk(Fields& fields) {
  HeadChoice choice;
  choice.walk(fields);
  kind = choice.kind;
  layer = choice.layer;
  head = choice.head;
  std::optional<double> times;
  fields("factor", times, "What its output is multiplied by: of `factor`, `mean` and `patch`, one",
         {.least = -1000, .most = 1000});
  fields("mean", mean, "Its output is replaced by its mean over the positions");
  fields.members("patch", "Its output is replaced by that for another text", [&](Fields& members) {
    RequestedText other;
    other.walk(members);
    patch = std::move(other);
  });
  if (fields.reads() == nullptr) return;
  factor = times.value_or(0);
  const int given = (times ? 1 : 0) + (mean ? 1 : 0) + (patch ? 1 : 0);
  if (given == 1) return;
  const std::string path = fields.reads()->path_of("");
  throw Error("request: " + path.substr(0, path.size() - 1) +
              ": expected one of factor, mean and patch, got " + given_of(given));
}

void RunRequest::walk_text(Fields& fields) {
  std::int64_t number = 0;
  fields("model", number, "The number of a model", kNeeded);
  model = static_cast<std::size_t>(number);
  text.walk(fields);
  fields("labels", labels, "Texts that an image is compared with, by a model of texts and images");
  fields("label", label, "The label whose attention is shown; else the likeliest one's", kNumber);
  fields("max_new_tokens", max_new_tokens, "Of the output of an encoder-decoder; a transcript is whole",
         {.least = 1, .most = kMostNewTokens});
  if (fields.reads() == nullptr) return;
  if (labels.size() > kMostLabels)
    fields.fail("labels", "a list of at most " + std::to_string(kMostLabels) + " texts");
  if (label && *label >= std::ssize(labels))
    fields.fail("label", "a number below that of labels, " + std::to_string(labels.size()));
}

void RunRequest::walk_changes(Fields& fields) {
  fields("steering", steering, "A strength for each of the model's steering vectors",
         {.least = -1e6, .most = 1e6});
  fields.each("changes", "Heads whose output is changed", kMostChanges, [&](Fields& element) {
    HeadChange change;
    change.walk(element);
    changes.push_back(std::move(change));
  });
}

void RunRequest::walk(Fields& fields) {
  walk_text(fields);
  fields("candidates", candidates, "Of each position", kCandidates);
  fields("vectors", vectors, "The answer has queries and keys");
  fields.members("show", "Maps whose chunks come with the answer: those of a layer, or of one head",
                 [&](Fields& members) {
                   ShownMaps maps;
                   members("kind", maps.kind, "Of attention", kNeededText);
                   members("layer", maps.layer, "From 0", kNeeded);
                   members("head", maps.head, "From 0", kNumber);
                   show = std::move(maps);
                 });
  if (fields.reads() == nullptr) show.reset();
  walk_changes(fields);
}

void AblationRequest::walk(Fields& fields) {
  run.walk_text(fields);
  fields("candidates", run.candidates, "No effect", kCandidates);
  fields("vectors", run.vectors, "No effect");
  fields("position", position, "Whose logit is measured", kNumber);
  fields("id", id, "Of the token or label whose logit is measured", kNeeded);
  fields("kind", kind, "Heads of this kind of attention alone");
  fields("layer", layer, "Heads of this layer alone", kNumber);
}

void FlowRequest::walk(Fields& fields) {
  run.walk_text(fields);
  fields("stack", stack, "`encoder` or `decoder`", kNeededText);
  run.walk_changes(fields);
  fields("position", position, "Of the token", kNeeded);
  fields("id", id, "Of the candidate whose logit is taken apart; else the best", kNumber);
}

void StepsRequest::walk(Fields& fields) {
  run.walk_text(fields);
  head.walk(fields);
  run.walk_changes(fields);
  fields("query", query, "The position that attends", kNeeded);
}

void WhyRequest::walk(Fields& fields) {
  run.walk_text(fields);
  head.walk(fields);
  run.walk_changes(fields);
  fields("query", query, "The position that attends", kNeeded);
  fields("key", key, "The position that it attends to; else that with the largest weight", kNumber);
}

void MistakesRequest::walk(Fields& fields) {
  run.walk_text(fields);
  head.walk(fields);
  fields("traps", mistakes, "Of `positions`, `mask`, `softmax-axis`, `scale` and `exchange`");
  fields("candidates", run.candidates, "Of each position", kCandidates);
  walk_ids(fields, "exchange", exchange, "Of `exchange`: the two positions of the text that change places");
  if (exchange && exchange->size() != 2) fields.fail("exchange", "two positions");
}

}  // namespace heed::explore
