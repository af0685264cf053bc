// Maps of one forward pass.
#include "serve/attend.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "heed/nn/stack.h"
#include "heed/ops/loss.h"
#include "heed/plot/picture.h"
#include "inspect/attention_heads.h"
#include "inspect/recorded_picture.h"
#include "inspect/token_input.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostAttended = 512;            // tokens
constexpr std::int64_t kMostWeights = 4'000'000;       // of an answer in JSON
constexpr std::int64_t kMostPageWeights = 40'000'000;  // of a page

void require_size(const char* key, std::size_t tokens) {
  if (tokens == 0)
    throw ApiError(Problem::empty, fmt::format("request: {}: expected a text with tokens, got none", key),
                   key);
  if (tokens > kMostAttended)
    throw ApiError(Problem::too_large,
                   fmt::format("request: {}: expected at most {} tokens, got {}", key, kMostAttended, tokens),
                   key);
}

inspect::TokenInput attended_input(const ServedModel& model, const Fields& fields) {
  const auto text = fields.string("text"), target = fields.string("target");
  if (!text) fields.fail("text", "a text");
  if (target && model.encoder_decoder() == nullptr)
    fields.fail("target", "none, as the model has no decoder of its own");
  const Encoding encoding = model.tokenizer->encode(*text);
  require_size("text", encoding.ids.size());
  if (model.decoder() != nullptr)
    return {{{"input_ids", inspect::one_row(encoding.ids)}},
            {{"decoder", {encoding.tokens, encoding.tokens}}}};
  const EncoderDecoderModel* both = model.encoder_decoder();
  if (both == nullptr) return inspect::encoder_input(*model.model, encoding);
  if (!target) fields.fail("target", "a text for the decoder");
  const std::vector<std::int64_t> produced = model.tokenizer->encode_target(*target).ids;
  require_size("target", produced.size());
  const Tensor fed = both->decoder_inputs(inspect::one_row(produced), CrossEntropyOptions().ignore_index);
  const Tokenizer* names = model.tokenizer.get();
  return {{{"input_ids", inspect::one_row(encoding.ids)}, {"decoder_input_ids", fed}},
          inspect::encoder_decoder_tokens(encoding.tokens, inspect::token_names(names, produced),
                                          inspect::token_names(names, fed.to_vector<std::int64_t>()))};
}

RecordOptions attended_parts(const ServedModel& model, const Fields& fields) {
  RecordOptions options;
  options.kinds = attention_kinds(*model.model);
  if (const auto kind = fields.string("kind")) {
    const std::string names = joined(options.kinds, ", ", &AttentionKind::name);
    std::erase_if(options.kinds, [&](const AttentionKind& one) { return one.name != *kind; });
    if (options.kinds.empty()) fields.fail("kind", "one of " + names);
  }
  options.layers = asked_layers(model, options.kinds, fields);
  options.heads = fields.integers("heads", 0, 1 << 16);
  std::sort(options.heads.begin(), options.heads.end());
  return options;
}

[[noreturn]] void refuse_layers() {
  throw ApiError(Problem::invalid, "request: layers: expected layers that the model has", "layers");
}

// Before the pass. Recurrent models have one head, whose weights are always few enough.
void require_weights(const ServedModel& model, const inspect::TokenInput& input, const RecordOptions& options,
                     bool page) {
  std::int64_t weights = 0;
  bool has_stacks = false;
  for (const AttentionKind& kind : options.kinds) {
    const std::vector<std::int64_t> heads = inspect::attention_heads(*model.model, kind);
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
        Problem::too_large,
        fmt::format("request: expected at most {} weights, got {} (choose layers and heads)", most, weights));
}

server::HttpResponse attention_answer(const ServedModel& model, const inspect::TokenInput& input,
                                      const RecordOptions& options, bool page) {
  const AttentionRecord record = record_attention(*model.model, input.tensors, options);
  AttentionPicture picture;
  picture.title = model.name;
  picture.model.name = model.name;
  picture.model.task = inspect::task_of(*model.model);
  picture.model.sizes = inspect::attention_sizes(*model.model, options.kinds);
  if (record.layers.empty()) refuse_layers();  // of a recurrent model
  for (const RecordedLayer& layer : record.layers) {
    inspect::add_heads(picture, layer, layer.weights, "weights");
    const auto tokens = input.tokens.find(layer.kind);
    picture.tokens[layer.kind] = {inspect::shown_tokens(tokens->second.queries, model.tokenizer.get()),
                                  inspect::shown_tokens(tokens->second.keys, model.tokenizer.get())};
  }
  for (AttentionMap& map : picture.maps) {
    if (!options.heads.empty()) map.head = options.heads[static_cast<std::size_t>(map.head)];
  }
  if (page) return {200, attention_html(picture), "text/html; charset=utf-8"};
  return {200, attention_json(picture)};
}

}  // namespace

std::vector<std::int64_t> asked_layers(const ServedModel& model, const std::vector<AttentionKind>& kinds,
                                       const Fields& fields) {
  std::size_t count = 0;
  for (const AttentionKind& kind : kinds) {
    const Stack* stack = model.model->stack_named(kind.stack);
    if (stack != nullptr) count = std::max(count, stack->layers.size());
  }
  return fields.integers("layers", 0, count > 0 ? static_cast<std::int64_t>(count) - 1 : 1 << 16);
}

bool attends(const ServedModel& model) {
  const EncoderDecoderModel* both = model.encoder_decoder();
  if (!makes_vectors(model)) return false;
  return both == nullptr || both->has_self_attention() || both->has_cross_attention();
}

void attend(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, attends, "attends");
  auto job = std::make_shared<PassJob>();
  job->call = asked.call;
  job->model = &model;
  inspect::TokenInput input = attended_input(model, asked.fields);
  job->tokens = job->call->facts.prompt_tokens = input.tensors.at("input_ids").numel();
  const bool page = asked.call->request().accept.find("text/html") != std::string::npos;
  RecordOptions options = attended_parts(model, asked.fields);
  require_weights(model, input, options, page);
  job->pass = [call = asked.call, &model, input = std::move(input), options = std::move(options), page] {
    try {
      call->answer(attention_answer(model, input, options, page));
    } catch (const ApiError& error) {
      call->fail(error);
    } catch (const Error& error) {  // of heads, for example, that the model does not have
      call->fail(ApiError(Problem::invalid, error.what()));
    }
    return false;
  };
  asked.scheduler.add(std::move(job));
}

}  // namespace heed::serve
