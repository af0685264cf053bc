// Vectors of texts, in the forms of OpenAI, of Text Embeddings Inference and of Cohere.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "core/base64.h"
#include "core/pause_point.h"
#include "heed/io/json.h"
#include "serve/inspection.h"
#include "serve/routes/routes.h"
#include "serve/routes/text_inputs.h"

namespace heed::serve {
namespace {

constexpr Need kMakesVectors{"embedding", "makes vectors"},
    kPredictsMasks{"sparse_embedding", "predicts masks"};
constexpr const char *kVectorTopic = "Vectors", *kDimensionsNote = "The first numbers of each vector alone";
const FieldRule kDimensions{.least = 1, .most = 1 << 20};

/// The size and form of vectors.
struct VectorFields : TextInputFields {
  using TextInputFields::TextInputFields;
  explicit VectorFields(const char* key, const ServedModel& model)
      : TextInputFields(key), inspection(model) {}
  void walk(Fields& fields) {
    TextInputFields::walk(fields);
    fields("dimensions", dimensions, kDimensionsNote, kDimensions);
    inspection.walk(fields);
  }
  std::optional<std::int64_t> dimensions;
  InspectionFields inspection;
};

struct OpenAiFields : VectorFields {
  OpenAiFields() : VectorFields("input") {}
  explicit OpenAiFields(const ServedModel& model) : VectorFields("input", model) {}
  void walk(Fields& fields) {
    VectorFields::walk(fields);
    fields("encoding_format", format, "Numbers, or little-endian float32 in base64",
           {.words = {"float", "base64"}});
  }
  std::string format = "float";
};

struct EmbedFields : VectorFields {
  EmbedFields() : VectorFields("inputs") {}
  explicit EmbedFields(const ServedModel& model) : VectorFields("inputs", model) {}
  void walk(Fields& fields) {
    VectorFields::walk(fields);
    fields("normalize", normalize, "Vectors of length 1; else as the model's other modules give them");
  }
  bool normalize = true;
};

struct CohereFields {
  void walk(Fields& fields) {
    fields.array("texts", texts, "Texts", {.items = kMostInputs});
    fields.array("inputs", inputs,
                 "The same as objects: `{\"content\": [{\"type\": \"text\", \"text\": ...}]}`",
                 {.items = kMostInputs});
    fields("input_type", input_type,
           "Chooses the prompt of the model's files that is put before each text, if there is one of this "
           "name, or of `query`, `document` or `passage`",
           {.words = {"search_query", "search_document", "classification", "clustering"}});
    fields("embedding_types", types, "`float` (the default), `base64` of little-endian float32, or both",
           {.items = 8});
    fields("output_dimension", dimensions, kDimensionsNote, kDimensions);
    fields("truncate", truncate, "Which end of a text that is too long is cut; `NONE`: it is refused",
           {.words = {"END", "START", "NONE"}});
    fields.refused("images", "texts are supported");
    fields.refused("max_tokens", "truncate is supported");
  }
  const Json *texts = nullptr, *inputs = nullptr;
  std::string input_type, truncate = "END";
  std::vector<std::string> types;
  std::optional<std::int64_t> dimensions;
};

struct InputsFields : TextInputFields {
  InputsFields() : TextInputFields("inputs") {}
};

std::shared_ptr<EncoderJob> texts_job(const RequestContext& context, EncoderWork work,
                                      const TextInputFields& given, bool normalize) {
  const EmbeddingRecipe& recipe =
      asked_recipe(context.model, given.prompt_name, *context.fields.reads(), normalize);
  if (given.inputs->is_array()) checked_array(*given.inputs, given.key);
  auto job =
      encoder_job(context, work, read_inputs(context, *given.inputs, given.key, given.truncation, recipe));
  if (work == EncoderWork::vectors) job->recipe = &recipe;
  return job;
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

// How many numbers of a vector are asked for (Matryoshka embeddings), by the field of that name.
struct Dimensions {
  std::optional<std::int64_t> count;
  const char* field = "dimensions";
};

// Cuts the vectors to the dimensions that are asked for, with length 1 again if `normalize`, and answers with
// what `text` makes of them, and with the values of an inspection, unless that is null; with 400 if there are
// fewer dimensions.
void answer_vectors(Call& call, std::vector<EncoderResult> vectors, const Dimensions& dimensions,
                    bool normalize, const Inspection* inspection,
                    const std::function<std::string(const std::vector<EncoderResult>&)>& text) {
  for (EncoderResult& vector : vectors) {
    if (!dimensions.count) break;
    if (*dimensions.count > vector.width)
      return call.fail(ApiError(ErrorCode::invalid,
                                "request: " + std::string(dimensions.field) + ": expected at most " +
                                    std::to_string(vector.width) + ", got " +
                                    std::to_string(*dimensions.count),
                                dimensions.field));
    vector.numbers.resize(static_cast<std::size_t>(*dimensions.count));
    double squares = 0;
    for (const float x : vector.numbers) squares += static_cast<double>(x) * static_cast<double>(x);
    if (!normalize || squares == 0) continue;
    for (float& x : vector.numbers) x = static_cast<float>(static_cast<double>(x) / std::sqrt(squares));
  }
  if (inspection != nullptr) return inspection->answer(call, text(vectors));
  call.answer(server::HttpResponse{200, text(vectors)});
}

// Computes a job, by itself if it is inspected.
void add(const RequestContext& context, std::shared_ptr<EncoderJob> job,
         const std::shared_ptr<Inspection>& inspection) {
  if (inspection != nullptr) return add_inspected(context, job, inspection);
  context.scheduler.add(std::move(job));
}

void embeddings(const RequestContext& context, OpenAiFields given) {
  auto job = texts_job(context, EncoderWork::vectors, given, true);
  const std::shared_ptr<Inspection> inspection = Inspection::of(context, given.inspection);
  job->done = [call = context.call, &served = context.model, dimensions = given.dimensions,
               base64 = given.format == "base64", tokens = job->tokens,
               inspection](std::vector<EncoderResult> results) {
    answer_vectors(*call, std::move(results), {dimensions}, true, inspection.get(),
                   [&](const std::vector<EncoderResult>& vectors) {
                     JsonWriter json;
                     json.begin_object().field("object", "list").key("data").begin_array();
                     for (std::size_t i = 0; i < vectors.size(); ++i) {
                       pause_point();
                       json.begin_object().field("object", "embedding").field("index", i).key("embedding");
                       base64 ? json.value(base64_of(vectors[i].numbers)) : json.value(vectors[i].numbers);
                       json.end_object();
                     }
                     json.end_array().field("model", served.name).key("usage").begin_object();
                     json.field("prompt_tokens", tokens).field("total_tokens", tokens).end_object();
                     return json.end_object().text();
                   });
  };
  add(context, std::move(job), inspection);
}

void embed(const RequestContext& context, EmbedFields given) {
  auto job = texts_job(context, EncoderWork::vectors, given, given.normalize);
  const std::shared_ptr<Inspection> inspection = Inspection::of(context, given.inspection);
  job->done = [call = context.call, dimensions = given.dimensions, normalize = given.normalize,
               inspection](std::vector<EncoderResult> results) {
    answer_vectors(*call, std::move(results), {dimensions}, normalize, inspection.get(),
                   [&](const std::vector<EncoderResult>& vectors) {
                     JsonWriter json;
                     json.begin_array();
                     for (const EncoderResult& vector : vectors) {
                       pause_point();
                       json.value(vector.numbers);
                     }
                     const std::string list = json.end_array().text();
                     return inspection != nullptr ? "{\"embeddings\":" + list + "}" : list;
                   });
  };
  add(context, std::move(job), inspection);
}

// The texts of a request, each a text or an object that has one.
Json texts_of(const Fields& fields, const CohereFields& given) {
  if ((given.texts == nullptr) == (given.inputs == nullptr)) fields.fail("texts", "either texts or inputs");
  if (given.texts != nullptr) return *given.texts;
  Json texts = Json::array();
  for (std::size_t i = 0; i < given.inputs->size(); ++i) {
    const server::RequestObject input = fields.reads()->element("inputs", i);
    const Json* content = input.array("content");
    if (content == nullptr || content->size() != 1) input.fail("content", "an array of one text");
    const server::RequestObject part = input.element("content", 0);
    if (part.string("type") != "text") part.fail("type", "text");
    texts.push_back(part.string("text").value_or(""));
  }
  return texts;
}

// The first name that the model has a prompt of.
std::optional<std::string> prompt_for(const ServedModel& model, const std::string& input_type) {
  std::vector<std::string> names = {input_type};
  if (input_type == "search_query") names.emplace_back("query");
  if (input_type == "search_document") names.insert(names.end(), {"document", "passage"});
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return model.recipes.contains(name); });
  return found != names.end() ? std::optional(*found) : std::nullopt;
}

void embed_by_type(const RequestContext& context, CohereFields given) {
  const Json texts = texts_of(context.fields, given);
  if (given.types.empty()) given.types = {"float"};
  for (const std::string& type : given.types) {
    if (type != "float" && type != "base64") context.fields.fail("embedding_types", "float or base64 alone");
  }
  TextInputFields read(given.texts != nullptr ? "texts" : "inputs");
  read.inputs = &texts;
  read.truncation = {.truncate = given.truncate != "NONE", .left = given.truncate == "START"};
  read.prompt_name = prompt_for(context.model, given.input_type);
  auto job = texts_job(context, EncoderWork::vectors, read, true);
  job->done = [call = context.call, types = given.types, dimensions = given.dimensions, texts,
               tokens = job->tokens](std::vector<EncoderResult> results) {
    answer_vectors(
        *call, std::move(results), {dimensions, "output_dimension"}, true, nullptr,
        [&](const std::vector<EncoderResult>& vectors) {
          JsonWriter json;
          json.begin_object().field("id", call->record.id).field("response_type", "embeddings_by_type");
          json.key("embeddings").begin_object();
          for (const std::string type : {"float", "base64"}) {
            if (std::ranges::find(types, type) == types.end()) continue;
            json.key(type).begin_array();
            for (const EncoderResult& vector : vectors) {
              pause_point();
              type == "base64" ? json.value(base64_of(vector.numbers)) : json.value(vector.numbers);
            }
            json.end_array();
          }
          json.end_object().key("texts").begin_array();
          for (const Json& text : texts) json.value(text.get_ref<const std::string&>());
          json.end_array().key("meta").begin_object();
          json.key("api_version").begin_object().field("version", "2").end_object();
          json.key("billed_units").begin_object().field("input_tokens", tokens).end_object();
          return json.end_object().end_object().text();
        });
  };
  context.scheduler.add(std::move(job));
}

// Answers with an array of what is written of each text.
template <class Write>
void answer_list(Call& call, const std::vector<EncoderResult>& results, Write write) {
  HttpResponse response{200, "["};
  for (const EncoderResult& text : results) {
    pause_point();
    JsonWriter json;
    json.begin_array();
    write(json, text);
    const std::string& written = json.end_array().text();
    const bool is_first = &text == &results.front();
    if (is_first) response.body.reserve((written.size() + 1) * (results.size() + 1));  // others are alike
    if (!is_first) response.body += ',';
    response.body += written;
  }
  response.body += ']';
  call.answer(std::move(response));
}

void embed_all(const RequestContext& context, InputsFields given) {
  auto job = texts_job(context, EncoderWork::tokens, given, false);
  job->done = [call = context.call](const std::vector<EncoderResult>& results) {
    answer_list(*call, results, [](JsonWriter& json, const EncoderResult& text) {
      const auto width = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(text.width, 1));
      for (auto at = text.numbers.begin(); at != text.numbers.end(); at += width) {
        pause_point();
        json.value(std::vector<float>(at, at + width));
      }
    });
  };
  context.scheduler.add(std::move(job));
}

void embed_sparse(const RequestContext& context, InputsFields given) {
  auto job = texts_job(context, EncoderWork::sparse, given, false);
  job->done = [call = context.call](const std::vector<EncoderResult>& results) {
    answer_list(*call, results, [](JsonWriter& json, const EncoderResult& text) {
      for (std::size_t i = 0; i < text.numbers.size(); ++i)
        json.begin_object().field("index", text.indices[i]).field("value", text.numbers[i]).end_object();
    });
  };
  context.scheduler.add(std::move(job));
}

struct SimilarityFields {
  void walk(Fields& fields) {
    const bool given = fields.members("inputs", "The texts", [&](Fields& texts) {
      texts("source_sentence", source, "A text", {.required = "a text"});
      texts.array("sentences", sentences, "Those that it is compared with",
                  {.required = "an array", .items = kMostInputs});
    });
    if (fields.reads() != nullptr && !given)
      fields.fail("inputs", "an object with source_sentence and sentences");
    fields.members("parameters", "How the texts are read", [&](Fields& parameters) {
      truncation.walk(parameters);
      parameters("prompt_name", prompt_name, "The prompt of the model's files that is put before each text");
    });
  }
  std::string source;
  const Json* sentences = nullptr;
  TruncationFields truncation;
  std::optional<std::string> prompt_name;
};

void similarity(const RequestContext& context, SimilarityFields given) {
  Json all = Json::array({given.source});
  for (const Json& one : checked_array(*given.sentences, "sentences")) all.push_back(one);
  const server::RequestObject& object = *context.fields.reads();
  const EmbeddingRecipe& recipe =
      asked_recipe(context.model, given.prompt_name, object.members("parameters").value_or(object), true);
  auto job = encoder_job(context, EncoderWork::vectors,
                         read_inputs(context, all, "sentences", given.truncation, recipe));
  job->recipe = &recipe;
  job->done = [call = context.call](const std::vector<EncoderResult>& results) {
    Json scores = Json::array();
    const std::vector<float>& source = results.front().numbers;
    for (std::size_t i = 1; i < results.size(); ++i) {
      const double cosine = std::inner_product(source.begin(), source.end(), results[i].numbers.begin(), 0.0);
      scores.push_back(std::clamp(cosine, -1.0, 1.0));  // of unit vectors in float32
    }
    call->answer(scores);
  };
  context.scheduler.add(std::move(job));
}

}  // namespace

Routes vector_routes(Serving* serving) {
  const auto tei = [](const char* path, const char* summary, std::vector<server::AnswerForm> answers) {
    return Route{"POST", {path}, ErrorForm::tei, kVectorTopic, summary, std::move(answers)};
  };
  const std::string values = kValuesShape;
  return {
      to_model(serving,
               {"POST",
                {"/v1/embeddings", "/embeddings"},
                ErrorForm::openai,
                kVectorTopic,
                "Vectors of texts",
                {{R"({"object": "=list", "data": [{"object": "=embedding", "index": "integer",
                 "embedding": {"|": [["number"], "string"]}}], "model": "string", "usage": )" +
                  std::string(kUsageShape) + R"(, "heed?": )" + values + "}"},
                 {.type = kSafetensorsType}}},
               kMakesVectors, embeddings),
      to_model(serving,
               tei("/embed", "Vectors of texts",
                   {{R"([["number"]])"},
                    {R"({"embeddings": [["number"]], "heed?": )" + values + "}"},
                    {.type = kSafetensorsType}}),
               kMakesVectors, embed),
      to_model(serving,
               tei("/v2/embed", "Vectors of texts, by their types",
                   {{R"({"id": "string", "response_type": "=embeddings_by_type",
                         "embeddings": {"float?": [["number"]], "base64?": ["string"]}, "texts": ["string"],
                         "meta": {"api_version": {"version": "string"},
                                  "billed_units": {"input_tokens": "integer"}}})"}}),
               kMakesVectors, embed_by_type),
      to_model(serving, tei("/embed_all", "Vectors of the tokens of texts", {{R"([[["number"]]])"}}),
               kMakesVectors, embed_all),
      to_model(serving,
               tei("/embed_sparse", "Weights of words (SPLADE), of a masked language model",
                   {{R"([[{"index": "integer", "value": "number"}]])"}}),
               kPredictsMasks, embed_sparse),
      to_model(serving, tei("/similarity", "Cosines of a text and others", {{R"(["number"])"}}),
               kMakesVectors, similarity),
  };
}

}  // namespace heed::serve
