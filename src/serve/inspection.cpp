// Taps by request, and their values in answers.
#include "serve/inspection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/io/json.h"
#include "heed/models/steering.h"
#include "heed/nn/stack.h"
#include "heed/ops/elementwise.h"
#include "io/safetensors_header.h"
#include "models/steering.h"

namespace heed::serve {
namespace {

constexpr std::int64_t kMostInspected = 1024;                             // tokens
constexpr std::int64_t kMostJsonNumbers = 4'000'000;                      // of an answer
constexpr std::int64_t kMostFileNumbers = (std::int64_t{256} << 20) / 4;  // of a safetensors file
constexpr std::size_t kMostPatterns = 256;
constexpr double kMostStrength = 1e4;

[[noreturn]] void refuse_member(const std::string& message) {
  throw ApiError(ErrorCode::invalid, "request: heed: " + message, "heed");
}

inspect::TapRequest tap_in(const std::string& text) {
  try {
    return inspect::parse_tap(text);
  } catch (const Error& error) {
    refuse_member(error.what());
  }
}

// Of the kinds of attention that a request may ask for.
std::vector<AttentionKind> asked_kinds(const ServedModel& model) {
  std::vector<AttentionKind> kinds = attention_kinds(model.model());
  if (model.encoder_decoder() != nullptr)  // its encoder alone reads texts
    std::erase_if(kinds, [](const AttentionKind& kind) { return kind.stack != "encoder"; });
  return kinds;
}

// The weights of all layers, or of some, and of all heads, or of some.
std::vector<inspect::TapRequest> attention_taps(const ServedModel& model, const InspectionFields& given) {
  inspect::TapRequest request;
  request.selection.heads = given.heads;
  std::sort(request.selection.heads.begin(), request.selection.heads.end());
  if (!given.heads.empty())
    request.brackets =
        "[heads=" +
        joined(request.selection.heads, ",", [](std::int64_t head) { return std::to_string(head); }) + "]";
  std::vector<std::string> layers;
  for (const std::int64_t layer : given.layers) layers.push_back(std::to_string(layer));
  if (layers.empty()) layers.emplace_back("*");
  std::vector<inspect::TapRequest> requests;
  for (const AttentionKind& kind : asked_kinds(model)) {
    for (const std::string& layer : layers) {
      request.pattern = kind.stack + ".layers." + layer + "." + kind.part + ".weights";
      requests.push_back(request);
    }
  }
  return requests;
}

// The vectors of a name.
const TensorMap& vectors_named(const ServedModel& model, const std::string& name, const Fields& fields) {
  const auto found = model.steering.find(name);
  if (found == model.steering.end())
    fields.fail("name", model.steering.empty() ? "none, as the server has no vectors for this model (--steer)"
                                               : "one of " + joined_keys(model.steering));
  return found->second;
}

}  // namespace

std::int64_t last_layer(const ServedModel& model, const std::vector<AttentionKind>& kinds) {
  std::size_t count = 0;
  for (const AttentionKind& kind : kinds) {
    const Stack* stack = model.model().stack_named(kind.stack);
    if (stack != nullptr) count = std::max(count, stack->layers.size());
  }
  return count > 0 ? static_cast<std::int64_t>(count) - 1 : 1 << 16;
}

void InspectionFields::walk(Fields& fields) {
  const server::FieldRule of_heads{.least = 0, .most = 1 << 16};
  server::FieldRule of_layers{.least = 0};
  if (model != nullptr) of_layers.most = static_cast<double>(last_layer(*model, asked_kinds(*model)));
  const auto attention = [&](Fields& members) {
    members("layers", layers, "From 0; else all", of_layers);
    members("heads", heads, "From 0; else all", of_heads);
  };
  const auto steered = [&](Fields& members) {
    std::string name;
    double strength = 1;
    members(
        "name", name,
        "Vectors that the server was given by `--steer NAME=FILE` ([`heed steer`](commands.md#heed-steer))");
    members("strength", strength, "Times this", {.least = -kMostStrength, .most = kMostStrength});
    if (model != nullptr) steering.emplace_back(&vectors_named(*model, name, members), strength);
  };
  is_given = fields.members(
      "heed", "Values of the model in the answer, and changed ones, for this request alone",
      [&](Fields& members) {
        if (members.reads() != nullptr) {
          for (const auto& [name, value] : members.reads()->items()) {
            if (name != "taps" && name != "attention" && name != "steering" && name != "replace")
              refuse_member("expected taps, attention, steering and replace, got " + json_shown(name));
          }
        }
        members("taps", taps,
                "Names of values, in which `*` stands for any characters, with a selection in brackets as "
                "`heed forward --taps` takes it ([names and shapes](attention.md))");
        has_attention = members.members(
            "attention", "The weights of all layers and heads, or of these: the same as the tap `….weights`",
            attention);
        members.each("steering", "Vectors that are added", kMostPatterns, steered);
        members.object("replace", replace,
                       "From taps to a factor that their values are multiplied by, or to `\"zeros\"`");
      });
}

std::shared_ptr<Inspection> Inspection::of(const RequestContext& context, const InspectionFields& given) {
  if (!given.is_given) return nullptr;
  const bool file = context.call->request().accept.find(kSafetensorsType) != std::string::npos;
  const std::shared_ptr<Inspection> inspection(new Inspection(file));
  const NoGradients guard;
  for (const auto& [vectors, strength] : given.steering) {
    for (const auto& [tap, vector] : *vectors)
      inspection->taps().listen(tap, replace_by_sum(vector * strength));
  }
  if (given.replace != nullptr) inspection->replace(*given.replace);
  inspection->show(context.model, given);
  return inspection;
}

void Inspection::replace(const Json& given) {
  const server::RequestObject values(given, "heed.replace");
  if (given.size() > kMostPatterns)
    throw ApiError(
        ErrorCode::invalid,
        fmt::format("request: heed.replace: expected at most {}, got {}", kMostPatterns, json_shown(given)),
        "heed.replace");
  for (const auto& [name, value] : given.items()) {
    const inspect::TapRequest request = tap_in(name);
    if (!request.selection.queries.all() || !request.selection.keys.all())
      refuse_member("replace: expected a selection of heads alone, got " + json_shown(name));
    const bool zeros = value == "zeros";
    if (!zeros && !value.is_number()) values.fail(name, "a factor or \"zeros\"");
    taps().listen(request.pattern, request.selection,
                  zeros ? replace_by_zeros()
                        : replace_by_scaled(values.number(name, -kMostStrength, kMostStrength).value_or(1)));
    changes_ = true;
  }
}

void Inspection::show(const ServedModel& model, const InspectionFields& given) {
  std::vector<inspect::TapRequest> requests;
  for (const std::string& text : given.taps) requests.push_back(tap_in(text));
  if (given.has_attention) {
    for (inspect::TapRequest& one : attention_taps(model, given)) requests.push_back(std::move(one));
  }
  if (requests.size() > kMostPatterns)
    refuse_member(fmt::format("expected at most {} taps and layers, got {}", kMostPatterns, requests.size()));
  shows_ = !requests.empty();
  taps_.record(requests);
  for (const inspect::TapRequest& one : requests) {
    taps().listen(one.pattern, {.heads = one.selection.heads, .queries = {}, .keys = {}},
                  [this](const std::string&, Tensor&) { require_numbers(taps_.numbers()); });
  }
}

void Inspection::require_numbers(std::int64_t numbers) const {
  const std::int64_t most = file_ ? kMostFileNumbers : kMostJsonNumbers;
  if (numbers <= most) return;
  throw ApiError(ErrorCode::too_large,
                 fmt::format("request: heed: expected values of at most {} numbers, got {} or more (choose "
                             "layers and heads{})",
                             most, numbers, file_ ? "" : std::string(", or accept ") + kSafetensorsType),
                 "heed");
}

void Inspection::require_room(std::int64_t tokens) const {
  if ((shows_ || changes_) && tokens > kMostInspected)
    throw ApiError(ErrorCode::too_large,
                   fmt::format("request: heed: expected at most {} tokens, prompt and new ones, got {}",
                               kMostInspected, tokens),
                   "heed");
}

void Inspection::require_fired() const {
  try {
    taps_.taps().require_all_fired();
  } catch (const Error& error) {
    refuse_member(error.what());
  }
}

void Inspection::answer(Call& call, std::string object) const {
  require_fired();
  if (!shows_) return call.answer(server::HttpResponse{200, std::move(object)});
  const TensorMap values = taps_.recorded();
  std::int64_t numbers = 0;
  for (const auto& [name, value] : values) numbers += value.numel();
  require_numbers(numbers);
  if (file_) {
    std::vector<NamedTensor> tensors;
    for (const auto& [name, value] : values) tensors.push_back({name, value});
    std::string bytes;
    io::write_safetensors("request: heed", tensors, {{"format", "pt"}, {"answer", object}},
                          [&](std::span<const std::byte> part) {
                            bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
                          });
    return call.answer(server::HttpResponse{200, std::move(bytes), kSafetensorsType});
  }
  JsonWriter json;
  json.begin_object();
  for (const auto& [name, value] : values) {
    json.key(name).begin_object();
    json.field("shape", std::vector<std::int64_t>(value.shape().begin(), value.shape().end()));
    json.field("dtype", "F32").field("data", value.to(DType::f32).contiguous().to_vector<float>());
    json.end_object();
  }
  object.pop_back();  // its closing brace
  call.answer(server::HttpResponse{200, object + ",\"heed\":" + json.end_object().text() + "}"});
}

void add_inspected(const RequestContext& context, const std::shared_ptr<EncoderJob>& job,
                   const std::shared_ptr<Inspection>& inspection) {
  if (job->texts.size() != 1)
    refuse_member(fmt::format("expected one text with it, got {}", job->texts.size()));
  inspection->require_room(job->tokens);
  auto pass = std::make_shared<PassJob>();
  pass->call = job->call;
  pass->model = job->model;
  pass->tokens = job->tokens;
  pass->failure = ErrorCode::invalid;  // of heads, for example, that the model does not have
  pass->pass = [job, inspection] {
    job->done(run_batch(*job->model, job->work, job->recipe, job->texts, &inspection->taps()));
    return false;
  };
  context.scheduler.add(std::move(pass));
}

void offer_steering(const std::vector<ServedModel*>& models, const std::string& name,
                    const std::filesystem::path& file) {
  std::string reason;
  bool fits = false;
  for (ServedModel* model : models) {
    if (model->decoder() == nullptr && !model->recipes.contains("")) continue;
    try {
      model->steering[name] = steering_by_taps(model->model(), {file, 1.0, {}});
      fits = true;
    } catch (const Error& error) {
      model->steering.erase(name);
      reason = error.what();
    }
  }
  if (!fits) throw Error(reason.empty() ? file.string() + ": expected a model of texts to steer" : reason);
}

}  // namespace heed::serve
