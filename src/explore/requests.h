// What the page asks for: the fields of each request, which are read and described by one walk. What depends
// on the model is checked where it is used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/fields.h"

namespace heed::explore {

using server::Fields;

/// A text for a model of any kind: characters, or exact tokens; or the number of a file.
struct RequestedText {
  std::optional<std::string> text, pair, target;
  std::optional<std::vector<std::int64_t>> ids, target_ids;
  std::optional<std::int64_t> file;
  void walk(Fields& fields);
  bool operator==(const RequestedText&) const = default;
};

/// One head's output (before the output projection) is multiplied, or replaced by its mean over all
/// positions, or by what it is for another text.
struct HeadChange {
  std::string kind;  ///< of attention
  std::int64_t layer = 0, head = 0;
  double factor = 0;
  bool mean = false;
  std::optional<RequestedText> patch = std::nullopt;
  void walk(Fields& fields);
  bool operator==(const HeadChange&) const = default;
};

/// Maps of one kind and layer: of all heads, or one.
struct ShownMaps {
  std::string kind;
  std::int64_t layer = 0;
  std::optional<std::int64_t> head = std::nullopt;
  bool operator==(const ShownMaps&) const = default;
};

struct RunRequest {
  std::size_t model = 0;
  RequestedText text;
  std::int64_t max_new_tokens = 32;
  std::vector<std::string> labels = {};              ///< texts to compare an image with
  std::optional<std::int64_t> label = std::nullopt;  ///< whose attention is shown; the likeliest one's
  std::vector<HeadChange> changes = {};
  std::vector<double> steering = {};  ///< strengths of the model's steering vectors, in their order; else 0
  std::int64_t candidates = 10;
  bool vectors = false;
  std::optional<ShownMaps> show = std::nullopt;  ///< whose chunks come with the answer
  void walk(Fields& fields);
  /// What it has in common with other requests: the model and its text.
  void walk_text(Fields& fields);
  /// Steering, and changed heads.
  void walk_changes(Fields& fields);
  bool operator==(const RunRequest&) const = default;
};

struct AblationRequest {
  RunRequest run;
  std::int64_t position = 0, id = 0;
  std::optional<std::string> kind = std::nullopt;    ///< only heads of this kind of attention,
  std::optional<std::int64_t> layer = std::nullopt;  ///< and of this layer
  void walk(Fields& fields);
};

/// The flow through a stack for one of its tokens.
struct FlowRequest {
  RunRequest run;
  std::string stack;  ///< `encoder` or `decoder`: the kind of its self-attention
  std::int64_t position = 0;
  std::optional<std::int64_t> id = std::nullopt;  ///< of the candidate whose logit is taken apart; the best
  void walk(Fields& fields);
};

struct HeadChoice {
  std::string kind;  ///< of attention
  std::int64_t layer = 0, head = 0;
  void walk(Fields& fields);
};

/// The steps of one head for one of its queries.
struct StepsRequest {
  RunRequest run;
  HeadChoice head;
  std::int64_t query = 0;
  void walk(Fields& fields);
};

/// What makes a head attend from a query to a key.
struct WhyRequest {
  RunRequest run;
  HeadChoice head;
  std::int64_t query = 0;
  std::optional<std::int64_t> key = {};  ///< by default, that with the largest weight
  void walk(Fields& fields);
};

/// Mistakes to make in a run.
struct MistakesRequest {
  RunRequest run;
  HeadChoice head;  ///< whose map is shown
  std::vector<std::string> mistakes;
  std::optional<std::vector<std::int64_t>> exchange = {};  ///< two positions of the (source) text
  void walk(Fields& fields);
};

/// Reads a request from JSON, in which every key must be known. Throws Error: `request: changes.0.layer:
/// expected …`.
template <class Request>
Request read_request(std::string_view text) {
  const Json body = server::parse_body(text);
  const server::RequestObject object(body);
  Fields fields(object, true);
  Request request;
  request.walk(fields);
  fields.require_known();
  return request;
}

}  // namespace heed::explore
