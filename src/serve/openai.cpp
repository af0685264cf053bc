// Handlers of OpenAI's routes.
#include "serve/openai.h"

#include <bit>
#include <limits>

#include "core/base64.h"
#include "heed/io/json.h"
#include "heed/version.h"
#include "serve/inputs.h"
#include "serve/routes.h"
#include "serve/text_job.h"
#include "serve/vector_answer.h"
#include "server/access.h"

namespace heed::serve::openai {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Of a text that is read, or of a prompt with its answer.
std::int64_t most_tokens(const ServedModel& model) {
  return generates(model) ? model.context() : longest_text(model, &model.recipes.at("").unit);
}

Json model_json(const Services& services, const ServedModel& model) {
  Json json = {{"id", model.name},   {"object", "model"},        {"created", services.created},
               {"owned_by", "heed"}, {"max_model_len", nullptr}, {"capabilities", abilities(model)}};
  const std::int64_t length = model.transcriber ? kUnlimited : most_tokens(model);
  if (length < kUnlimited) json["max_model_len"] = length;
  return json;
}

// The numbers as little-endian float32.
std::string base64_of(const std::vector<float>& numbers) {
  std::string bytes;
  for (const float x : numbers) {
    const auto word = std::bit_cast<std::uint32_t>(x);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(word >> shift & 0xFF);
  }
  return encode_base64(bytes);
}

void generate(const Asked& asked, const ServedModel& served, TextRequest request) {
  std::shared_ptr<Inspection> inspection = Inspection::read(asked, served);
  auto job = std::make_shared<TextJob>(asked.call, served, std::move(request));
  if (inspection != nullptr) job->inspect(std::move(inspection));
  TextJob& text = *job;
  asked.scheduler.add(std::move(job), [&text] { text.begin(); });
}

}  // namespace

void models(const Asked& asked) {
  Json list = Json::array();
  for (const ServedModel& one : asked.services.models) list.push_back(model_json(asked.services, one));
  asked.call->answer(Json{{"object", "list"}, {"data", std::move(list)}});
}

void model(const Asked& asked) {
  const std::string_view path = server::path_of(asked.call->request().target);
  const std::string name = server::percent_decoded(path.substr(path.find("models/") + 7));
  asked.call->answer(model_json(asked.services, named_model(asked.services, name)));
}

void overview(const Asked& asked) {
  Json names = Json::array(), paths = Json::array();
  for (const ServedModel& one : asked.services.models) names.push_back(one.name);
  for (const Route& route : routes()) paths.push_back(std::string(route.method) + " " + route.paths.front());
  asked.call->answer(Json{{"server", std::string("heed ") + version()},
                          {"models", std::move(names)},
                          {"routes", std::move(paths)},
                          {"documentation", "/openapi.json; heed serve --help; docs/serve.md of heed"}});
}

void embeddings(const Asked& asked) {
  const ServedModel& served = chosen_model(asked, makes_vectors, "makes vectors");
  const std::string format = asked.fields.string("encoding_format").value_or("float");
  if (format != "float" && format != "base64") asked.fields.fail("encoding_format", "float or base64");
  const auto dimensions = asked.fields.integer("dimensions", 1, 1 << 20);
  const EmbeddingRecipe& recipe = asked_recipe(served, asked.fields, true);
  Inputs inputs = read_inputs(served, asked.fields, "input", recipe);
  auto job = std::make_shared<EncoderJob>();
  job->call = asked.call;
  job->model = &served;
  job->recipe = &recipe;
  job->tokens = job->call->facts.prompt_tokens = inputs.tokens();
  job->texts = std::move(inputs.texts);
  const std::shared_ptr<Inspection> inspection = Inspection::read(asked, served);
  job->done = [call = asked.call, &served, dimensions, base64 = format == "base64", tokens = job->tokens,
               inspection](std::vector<EncoderResult> results) {
    answer_vectors(*call, std::move(results), dimensions, true, inspection.get(),
                   [&](const std::vector<EncoderResult>& vectors) {
                     JsonWriter json;
                     json.begin_object().field("object", "list").key("data").begin_array();
                     for (std::size_t i = 0; i < vectors.size(); ++i) {
                       json.begin_object().field("object", "embedding").field("index", i).key("embedding");
                       base64 ? json.value(base64_of(vectors[i].numbers)) : json.value(vectors[i].numbers);
                       json.end_object();
                     }
                     json.end_array().field("model", served.name).key("usage").begin_object();
                     json.field("prompt_tokens", tokens).field("total_tokens", tokens).end_object();
                     return json.end_object().text();
                   });
  };
  if (inspection != nullptr) return add_inspected(asked, job, inspection);
  asked.scheduler.add(std::move(job));
}

void completions(const Asked& asked) {
  const ServedModel& served = chosen_model(asked, generates, "continues texts");
  generate(asked, served, read_completion(served, asked.fields));
}

void chat_completions(const Asked& asked) {
  const ServedModel& served = chosen_model(asked, generates, "continues texts");
  generate(asked, served, read_chat(served, asked.fields));
}

}  // namespace heed::serve::openai
