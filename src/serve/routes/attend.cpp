// heed's own route: what a text's tokens attend to, exactly as the model computes it.
#include "serve/routes/routes.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "heed/nn/stack.h"
#include "heed/open/subject.h"
#include "heed/plot/picture.h"
#include "inspect/recorded_picture.h"
#include "inspect/token_input.h"
#include "serve/inspection.h"
#include "serve/routes/text_inputs.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostAttended = 512;            // tokens
constexpr std::int64_t kMostWeights = 4'000'000;       // of an answer in JSON
constexpr std::int64_t kMostPageWeights = 40'000'000;  // of a page

struct AttendFields {
  AttendFields() = default;
  explicit AttendFields(const ServedModel& served) : model(&served) {
    options.kinds = attention_kinds(served.model());
  }
  void walk(Fields& fields);

  const ServedModel* model = nullptr;  // null for a description
  std::string text;
  std::optional<std::string> target;
  RecordOptions options;
};

void AttendFields::walk(Fields& fields) {
  std::optional<std::string> kind;
  fields("text", text, "What the model reads", {.required = "a text"});
  fields("target", target, "What the decoder of an encoder-decoder reads");
  fields("kind", kind, "`cross`, `encoder` or `decoder`; else all that the model has");
  FieldRule of_layers{.least = 0};
  if (model != nullptr) {
    const std::string names = joined(options.kinds, ", ", &AttentionKind::name);
    if (kind) std::erase_if(options.kinds, [&](const AttentionKind& one) { return one.name != *kind; });
    if (options.kinds.empty()) fields.fail("kind", "one of " + names);
    of_layers.most = static_cast<double>(last_layer(*model, options.kinds));
  }
  fields("layers", options.layers, "From 0; else all", of_layers);
  fields("heads", options.heads, "From 0; else all", {.least = 0, .most = 1 << 16});
  std::sort(options.heads.begin(), options.heads.end());
  options.heads.erase(std::unique(options.heads.begin(), options.heads.end()), options.heads.end());
}

void require_size(const char* key, std::size_t tokens) {
  if (tokens == 0)
    throw ApiError(ErrorCode::empty, fmt::format("request: {}: expected a text with tokens, got none", key),
                   key);
  if (tokens > kMostAttended)
    throw ApiError(ErrorCode::too_large,
                   fmt::format("request: {}: expected at most {} tokens, got {}", key, kMostAttended, tokens),
                   key);
}

Subject attended_subject(const ServedModel& model, const Fields& fields, const AttendFields& given) {
  const bool has_decoder = model.encoder_decoder() != nullptr;
  if (given.target && !has_decoder) fields.fail("target", "none, as the model has no decoder of its own");
  require_bytes(model, "text", given.text, kMostAttended, false);
  const Encoding text = model.tokenizer().encode(given.text);
  require_size("text", text.ids.size());
  std::optional<std::vector<std::int64_t>> produced;
  if (has_decoder) {
    if (!given.target) fields.fail("target", "a text for the decoder");
    require_bytes(model, "target", *given.target, kMostAttended, false);
    produced = model.tokenizer().encode_target(*given.target).ids;
    require_size("target", produced->size());
  }
  return subject_of_tokens(parts_of(model.opened), text, produced);
}

[[noreturn]] void refuse_layers() {
  throw ApiError(ErrorCode::invalid, "request: layers: expected layers that the model has", "layers");
}

// Before the pass. Recurrent models have one head, whose weights are always few enough.
void require_weights(const ServedModel& model, const Subject& input, const RecordOptions& options,
                     bool page) {
  std::int64_t weights = 0;
  bool has_stacks = false;
  for (const AttentionKind& kind : options.kinds) {
    const std::vector<std::int64_t> heads = inspect::attention_heads(model.model(), kind);
    has_stacks = has_stacks || !heads.empty();
    const AttentionTokens& tokens = input.tokens.at(kind.name);
    const std::int64_t of_head = std::ssize(tokens.queries) * std::ssize(tokens.keys);
    for (std::int64_t layer = 0; layer < std::ssize(heads); ++layer) {
      const bool asked = options.layers.empty() || std::find(options.layers.begin(), options.layers.end(),
                                                             layer) != options.layers.end();
      if (!asked) continue;
      const std::int64_t of_layer = heads[static_cast<std::size_t>(layer)];
      weights += of_head * (options.heads.empty() ? of_layer : std::min(of_layer, std::ssize(options.heads)));
    }
  }
  if (has_stacks && weights == 0) refuse_layers();
  const std::int64_t most = page ? kMostPageWeights : kMostWeights;
  if (weights > most)
    throw ApiError(
        ErrorCode::too_large,
        fmt::format("request: expected at most {} weights, got {} (choose layers and heads)", most, weights));
}

HttpResponse attention_answer(const ServedModel& model, const Subject& input, const RecordOptions& options,
                              bool page) {
  const AttentionRecord record = record_attention(model.model(), input.inputs, options);
  AttentionPicture picture;
  picture.title = model.name;
  picture.model.name = model.name;
  picture.model.task = inspect::task_of(model.model());
  picture.model.sizes = inspect::attention_sizes(model.model(), options.kinds);
  if (record.layers.empty()) refuse_layers();  // of a recurrent model
  for (const RecordedLayer& layer : record.layers) {
    inspect::add_heads(picture, layer, layer.weights, "weights");
    const auto tokens = input.tokens.find(layer.kind);
    picture.tokens[layer.kind] = {inspect::shown_tokens(tokens->second.queries, &model.tokenizer()),
                                  inspect::shown_tokens(tokens->second.keys, &model.tokenizer())};
  }
  for (AttentionMap& map : picture.maps) {
    if (!options.heads.empty()) map.head = options.heads[static_cast<std::size_t>(map.head)];
  }
  if (page) return {200, attention_html(picture), "text/html; charset=utf-8"};
  return {200, attention_json(picture)};
}

void attend(const RequestContext& context, AttendFields given) {
  const ServedModel& model = context.model;
  auto job = std::make_shared<PassJob>();
  job->call = context.call;
  job->model = &model;
  Subject input = attended_subject(model, context.fields, given);
  job->tokens = job->call->record.prompt_tokens = std::ssize(input.source);
  const bool page = context.call->request().accept.find("text/html") != std::string::npos;
  require_weights(model, input, given.options, page);
  job->pass = [call = context.call, &model, input = std::move(input), options = std::move(given.options),
               page] {
    try {
      call->answer(attention_answer(model, input, options, page));
    } catch (const ApiError& error) {
      call->fail(error);
    } catch (const Error& error) {  // of heads, for example, that the model does not have
      call->fail(ApiError(ErrorCode::invalid, error.what()));
    }
    return false;
  };
  context.scheduler.add(std::move(job));
}

}  // namespace

Routes attention_routes(Serving* serving) {
  return {to_model(serving,
                   {"POST",
                    {"/attend"},
                    ErrorForm::openai,
                    "Attention",
                    "What the tokens of a text attend to, as JSON, or as a page with Accept: text/html",
                    {{R"({"title": "string", "tokens": {"*": {"queries": ["string"], "keys": ["string"]}},
                          "maps": [{"name": "string", "kind": "string", "layer": "integer", "head": "integer",
                                    "queries": "integer", "keys": "integer", "measure": "string",
                                    "weights": [["number|null"]]}]})"},
                     {.type = "text/html"}}},
                   {"attention", "attends"}, attend)};
}

}  // namespace heed::serve
