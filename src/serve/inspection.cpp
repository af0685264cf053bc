// Taps by request, and their values in answers.
#include "serve/inspection.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/inspect/record.h"
#include "heed/io/json.h"
#include "heed/models/steering.h"
#include "heed/ops/elementwise.h"
#include "io/safetensors_bytes.h"
#include "models/steering.h"
#include "serve/attend.h"

namespace heed::serve {
namespace {

constexpr const char* kSafetensorsType = "application/vnd.safetensors";
constexpr std::int64_t kMostInspected = 1024;                             // tokens
constexpr std::int64_t kMostJsonNumbers = 4'000'000;                      // of an answer
constexpr std::int64_t kMostFileNumbers = (std::int64_t{256} << 20) / 4;  // of a safetensors file
constexpr std::size_t kMostPatterns = 256;
constexpr double kMostStrength = 1e4;

[[noreturn]] void refuse_member(const std::string& message) {
  throw ApiError(Problem::invalid, "request: heed: " + message, "heed");
}

inspect::TapRequest tap_in(const std::string& text) {
  try {
    return inspect::parse_tap(text);
  } catch (const Error& error) {
    refuse_member(error.what());
  }
}

// The weights of all layers, or of some, and of all heads, or of some.
std::vector<inspect::TapRequest> attention_taps(const ServedModel& model, const Fields& attention) {
  inspect::TapRequest request;
  request.selection.heads = attention.integers("heads", 0, 1 << 16);
  std::sort(request.selection.heads.begin(), request.selection.heads.end());
  for (const std::int64_t head : request.selection.heads)
    request.brackets += (request.brackets.empty() ? "[heads=" : ",") + std::to_string(head);
  if (!request.brackets.empty()) request.brackets += "]";
  std::vector<AttentionKind> kinds = attention_kinds(*model.model);
  if (model.encoder_decoder() != nullptr)  // its encoder alone reads texts
    std::erase_if(kinds, [](const AttentionKind& kind) { return kind.stack != "encoder"; });
  std::vector<std::string> layers;
  for (const std::int64_t layer : asked_layers(model, kinds, attention))
    layers.push_back(std::to_string(layer));
  if (layers.empty()) layers.emplace_back("*");
  std::vector<inspect::TapRequest> requests;
  for (const AttentionKind& kind : kinds) {
    for (const std::string& layer : layers) {
      request.pattern = kind.stack + ".layers." + layer + "." + kind.part + ".weights";
      requests.push_back(request);
    }
  }
  return requests;
}

}  // namespace

std::shared_ptr<Inspection> Inspection::read(const Asked& asked, const ServedModel& model) {
  const auto members = asked.fields.members("heed");
  if (!members) return nullptr;
  for (const auto& [name, value] : asked.fields.object("heed")->items()) {
    if (name != "taps" && name != "attention" && name != "steering" && name != "replace")
      refuse_member("expected taps, attention, steering and replace, got " + json_shown(name));
  }
  const bool file = asked.call->request().accept.find(kSafetensorsType) != std::string::npos;
  const std::shared_ptr<Inspection> inspection(new Inspection(file));
  inspection->steer(model, *members);
  inspection->replace(*members);
  inspection->show(model, *members);
  return inspection;
}

void Inspection::steer(const ServedModel& model, const Fields& members) {
  const Json* list = members.array("steering");
  if (list == nullptr) return;
  if (list->size() > kMostPatterns) members.fail("steering", fmt::format("at most {}", kMostPatterns));
  const NoGradients guard;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& one = (*list)[i];
    if (!one.is_object()) members.fail("steering", "objects with name and strength");
    const Fields fields(one, members.path_of("steering") + "." + std::to_string(i));
    const auto found = model.steering.find(fields.string("name").value_or(""));
    if (found == model.steering.end())
      fields.fail("name", model.steering.empty()
                              ? "none, as the server has no vectors for this model (--steer)"
                              : "one of " + joined_keys(model.steering));
    const double strength = fields.number("strength", -kMostStrength, kMostStrength).value_or(1);
    for (const auto& [tap, vector] : found->second) taps().listen(tap, replace_by_sum(vector * strength));
  }
}

void Inspection::replace(const Fields& members) {
  const auto values = members.members("replace");
  if (!values) return;
  const Json* given = members.object("replace");
  if (given->size() > kMostPatterns) members.fail("replace", fmt::format("at most {}", kMostPatterns));
  for (const auto& [name, value] : given->items()) {
    const inspect::TapRequest request = tap_in(name);
    if (!request.selection.queries.all() || !request.selection.keys.all())
      refuse_member("replace: expected a selection of heads alone, got " + json_shown(name));
    const bool zeros = value == "zeros";
    if (!zeros && !value.is_number()) values->fail(name, "a factor or \"zeros\"");
    taps().listen(request.pattern, request.selection,
                  zeros ? replace_by_zeros()
                        : replace_by_scaled(values->number(name, -kMostStrength, kMostStrength).value_or(1)));
    changes_ = true;
  }
}

void Inspection::show(const ServedModel& model, const Fields& members) {
  std::vector<inspect::TapRequest> requests;
  for (const std::string& text : members.strings("taps")) requests.push_back(tap_in(text));
  if (const auto attention = members.members("attention")) {
    for (inspect::TapRequest& one : attention_taps(model, *attention)) requests.push_back(std::move(one));
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
  throw ApiError(Problem::too_large,
                 fmt::format("request: heed: expected values of at most {} numbers, got {} or more (choose "
                             "layers and heads{})",
                             most, numbers, file_ ? "" : std::string(", or accept ") + kSafetensorsType),
                 "heed");
}

void Inspection::require_room(std::int64_t tokens) const {
  if ((shows_ || changes_) && tokens > kMostInspected)
    throw ApiError(Problem::too_large,
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

void add_inspected(const Asked& asked, const std::shared_ptr<EncoderJob>& job,
                   const std::shared_ptr<Inspection>& inspection) {
  if (job->texts.size() != 1)
    refuse_member(fmt::format("expected one text with it, got {}", job->texts.size()));
  inspection->require_room(job->tokens);
  auto pass = std::make_shared<PassJob>();
  pass->call = job->call;
  pass->model = job->model;
  pass->tokens = job->tokens;
  pass->failure = Problem::invalid;  // of heads, for example, that the model does not have
  pass->pass = [job, inspection] {
    job->done(run_batch(*job->model, job->work, job->recipe, job->texts, &inspection->taps()));
    return false;
  };
  asked.scheduler.add(std::move(pass));
}

void offer_steering(std::vector<ServedModel>& models, const std::string& name,
                    const std::filesystem::path& file) {
  std::string reason;
  bool fits = false;
  for (ServedModel& model : models) {
    if (model.decoder() == nullptr && !model.recipes.contains("")) continue;
    try {
      model.steering[name] = steering_by_taps(*model.model, {file, 1.0, {}});
      fits = true;
    } catch (const Error& error) {
      model.steering.erase(name);
      reason = error.what();
    }
  }
  if (!fits) throw Error(reason.empty() ? file.string() + ": expected a model of texts to steer" : reason);
}

}  // namespace heed::serve
