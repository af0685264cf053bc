// Labels and ranks of texts, in the forms of Text Embeddings Inference, Jina and Cohere; labels of tokens, in
// that of Hugging Face.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "core/pause_point.h"
#include "heed/tasks/classify.h"
#include "serve/routes/routes.h"
#include "serve/routes/text_inputs.h"
#include "tasks/tagging.h"

namespace heed::serve {
namespace {

constexpr Need kClassifies{"classification", "classifies texts"}, kRanks{"reranking", "ranks texts"},
    kTags{"token_classification", "labels tokens"};
constexpr const char *kLabelTopic = "Labels and ranks", *kRawNote = "Logits in place of probabilities",
                     *kParametersNote = "As clients of an endpoint with one model send them";

std::shared_ptr<EncoderJob> pairs_job(const RequestContext& context, const std::vector<TextPair>& pairs,
                                      const TruncationFields& truncation) {
  return encoder_job(context, EncoderWork::logits, encode_pairs(context, pairs, truncation));
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The scores of labels, from their logits.
std::vector<double> label_scores_of(const EncoderModel& model, const std::vector<float>& logits, bool raw) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (raw) return scores;
  const LabelFunction function = label_function(model);
  if (function == LabelFunction::sigmoid) {
    for (double& score : scores) score = sigmoid(score);
  } else if (function == LabelFunction::softmax) {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (double& score : scores) score /= sum;
  }
  return scores;
}

std::vector<std::size_t> best_first(const std::vector<double>& scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  return order;
}

Json labels_json(const EncoderModel& model, const std::vector<double>& scores,
                 std::optional<std::int64_t> most) {
  Json labels = Json::array();
  for (const std::size_t i : best_first(scores)) {
    if (std::ssize(labels) == most) break;
    labels.push_back({{"score", scores[i]}, {"label", model.labels()[i]}});
  }
  return labels;
}

TextPair text_or_pair(const Fields& fields, const Json& one) {
  const bool good = one.is_array() && (one.size() == 1 || one.size() == 2) &&
                    std::all_of(one.begin(), one.end(), [](const Json& text) { return text.is_string(); });
  if (one.is_string()) return {one.get<std::string>(), std::nullopt};
  if (!good) fields.fail("inputs", "texts and pairs of texts");
  if (one.size() == 1) return {one[0].get<std::string>(), std::nullopt};
  return {one[0].get<std::string>(), one[1].get<std::string>()};
}

struct PredictFields {
  void walk(Fields& fields) {
    fields.any("inputs", inputs, "A text, a pair, or an array of arrays of these",
               {.required = kForm, .items = kMostInputs});
    fields("raw_scores", raw, kRawNote);
    truncation.walk(fields);
    fields.members("parameters", kParametersNote, [&](Fields& more) {
      more("top_k", most, "The best labels alone", {.least = 1, .most = 1 << 20});
      more.refused("function_to_apply", "raw_scores is supported", "");
    });
  }
  static constexpr const char* kForm = "a text, a pair of texts, or an array of arrays of these";
  const Json* inputs = nullptr;
  bool raw = false;
  std::optional<std::int64_t> most;
  TruncationFields truncation;
};

void predict(const RequestContext& context, PredictFields given) {
  const Json& inputs = *given.inputs;
  if (!inputs.is_string() && !inputs.is_array()) context.fields.fail("inputs", PredictFields::kForm);
  // An array of strings is one text or a pair; many are an array of arrays.
  const bool is_list = inputs.is_array() && !checked_array(inputs, "inputs").front().is_string();
  std::vector<TextPair> pairs;
  if (!is_list) pairs.push_back(text_or_pair(context.fields, inputs));
  if (is_list) {
    for (const Json& one : inputs) pairs.push_back(text_or_pair(context.fields, one));
  }
  auto job = pairs_job(context, pairs, given.truncation);
  // At the address of the server, one text gets an array of one, as at an endpoint with one model.
  const bool is_array = is_list || server::path_of(context.call->request().target) == "/";
  job->done = [call = context.call, &model = context.model, raw = given.raw, most = given.most,
               is_array](const std::vector<EncoderResult>& results) {
    Json all = Json::array();
    for (const EncoderResult& one : results) {
      pause_point();
      all.push_back(labels_json(*model.encoder(), label_scores_of(*model.encoder(), one.numbers, raw), most));
    }
    call->answer(is_array ? all : all.front());
  };
  context.scheduler.add(std::move(job));
}

struct RankFields {
  void walk(Fields& fields) {
    fields("query", query, "What is searched", {.required = "a text"});
    fields.array("texts", texts, "Texts, of the form of Text Embeddings Inference", {.items = kMostInputs});
    fields.array("documents", documents, "Texts or objects with a text, of the form of Jina and Cohere",
                 {.items = kMostInputs});
    fields("top_n", most, "The best alone", {.least = 1, .most = kMostInputs});
    fields("raw_scores", raw, kRawNote);
    fields("return_text", shows_text, "Tell each text, too");
    fields("return_documents", shows_documents, "The same for documents");
    truncation.walk(fields);
  }
  std::string query;
  const Json *texts = nullptr, *documents = nullptr;
  std::optional<std::int64_t> most;
  bool raw = false, shows_text = false, shows_documents = false;
  TruncationFields truncation;
};

// A text of `documents`: a string, or an object with a text.
std::string document_text(const Fields& fields, const char* key, const Json& one) {
  if (one.is_string()) return one.get<std::string>();
  const auto text = one.is_object() ? one.find("text") : one.end();
  if (!one.is_object() || text == one.end() || !text->is_string()) fields.fail(key, "texts alone");
  return text->get<std::string>();
}

struct Ranking {
  std::vector<std::string> documents;
  bool raw = false, shows_text = false, is_tei = false;
  std::size_t most = 0;
};

Ranking ranking_of(const Fields& fields, const RankFields& given) {
  Ranking ranking;
  ranking.is_tei = given.documents == nullptr;
  const char* key = ranking.is_tei ? "texts" : "documents";
  const Json* list = ranking.is_tei ? given.texts : given.documents;
  if (list == nullptr) fields.fail(key, "an array");
  for (const Json& one : checked_array(*list, key))
    ranking.documents.push_back(document_text(fields, key, one));
  ranking.raw = given.raw;
  ranking.shows_text = ranking.is_tei ? given.shows_text : given.shows_documents;
  ranking.most = static_cast<std::size_t>(given.most.value_or(std::ssize(ranking.documents)));
  return ranking;
}

Json ranking_json(const Ranking& ranking, const std::string& model, const std::vector<double>& scores,
                  std::int64_t tokens) {
  Json list = Json::array();
  for (const std::size_t i : best_first(scores)) {
    if (list.size() == ranking.most) break;
    Json one = {{"index", i}, {ranking.is_tei ? "score" : "relevance_score", scores[i]}};
    if (ranking.shows_text && ranking.is_tei) one["text"] = ranking.documents[i];
    if (ranking.shows_text && !ranking.is_tei) one["document"] = {{"text", ranking.documents[i]}};
    list.push_back(std::move(one));
  }
  if (ranking.is_tei) return list;
  return {{"model", model},
          {"object", "list"},
          {"results", std::move(list)},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

void rerank(const RequestContext& context, RankFields given) {
  const Ranking ranking = ranking_of(context.fields, given);
  std::vector<TextPair> pairs;
  for (const std::string& document : ranking.documents) pairs.push_back({given.query, document});
  auto job = pairs_job(context, pairs, given.truncation);
  job->done = [call = context.call, &model = context.model, ranking,
               tokens = job->tokens](const std::vector<EncoderResult>& results) {
    std::vector<double> scores;
    for (const EncoderResult& one : results) {
      const auto logit = static_cast<double>(one.numbers.front());
      scores.push_back(ranking.raw ? logit : sigmoid(logit));
    }
    call->answer(ranking_json(ranking, model.name, scores, tokens));
  };
  context.scheduler.add(std::move(job));
}

struct TagFields {
  void walk(Fields& fields) {
    fields("inputs", texts, "A text, or an array of texts",
           {.required = "a text, or an array of texts", .items = kMostInputs});
    walk_options(fields);
    fields.members("parameters", kParametersNote, [&](Fields& more) { walk_options(more); });
  }
  void walk_options(Fields& fields) {
    FieldRule names;
    for (const auto& [name, aggregation] : tasks::kAggregations) names.words.push_back(name.c_str());
    fields(
        "aggregation_strategy", aggregation,
        "How tokens become entities: `none` (a label of each token), `simple` (equal labels are joined), or "
        "the label of a word from its first token, its average or largest score",
        names);
    fields("ignore_labels", options.ignored_labels, "Labels that the answer leaves out; else `O`",
           {.items = kMostInputs});
    fields("stride", options.stride, "Tokens by which the windows of a long text overlap",
           {.least = 0, .most = 1 << 20});
  }
  std::vector<std::string> texts;
  std::string aggregation = "simple";
  TagOptions options;
};

void tag_texts(const RequestContext& context, TagFields given) {
  const Json& inputs = *context.fields.reads()->find("inputs");
  if (inputs.is_array()) checked_array(inputs, "inputs");
  const ServedModel& model = context.model;
  TagOptions options = std::move(given.options);
  options.aggregation =
      std::ranges::find(tasks::kAggregations, given.aggregation, &std::pair<std::string, Aggregation>::first)
          ->second;
  std::vector<Encoding> windows;
  std::vector<std::size_t> first_window = {0};  // of each text; the last is their number
  for (const std::string& text : given.texts) {
    require_bytes(model, "inputs", text, longest_text(model, nullptr), true);
    std::ranges::move(tasks::tag_windows(*model.encoder(), model.tokenizer(), text, options),
                      std::back_inserter(windows));
    first_window.push_back(windows.size());
  }
  auto job = encoder_job(context, EncoderWork::token_logits, std::move(windows));
  job->done = [call = context.call, &model, &encodings = job->texts, first_window, texts = given.texts,
               options, is_list = inputs.is_array()](std::vector<EncoderResult> results) {
    std::vector<std::vector<float>> logits;
    for (EncoderResult& one : results) logits.push_back(std::move(one.numbers));
    std::string list;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::size_t first = first_window[i], count = first_window[i + 1] - first;
      const std::vector<TaggedText> tagged = tasks::tagged_text(
          *model.encoder(), model.tokenizer(), texts[i], std::span(encodings).subspan(first, count),
          std::span(logits).subspan(first, count), options);
      list += (i > 0 ? "," : "") + tasks::tagged_json(tagged, options.aggregation);
    }
    call->answer(HttpResponse{200, is_list ? "[" + list + "]" : list});
  };
  context.scheduler.add(std::move(job));
}

}  // namespace

Routes label_routes(Serving* serving) {
  const std::string labels = R"({"score": "number", "label": "string"})",
                    place = R"("score": "number", "word": "string", "start": "integer", "end": "integer"})",
                    token = R"({"entity": "string", "index": "integer", )" + place,
                    entity = R"({"entity_group": "string", )" + place;
  return {
      to_model(serving,
               {"POST",
                {"/predict"},
                ErrorForm::tei,
                kLabelTopic,
                "Labels of texts and pairs of texts",
                {{"[" + labels + "]"}, {"[[" + labels + "]]"}}},
               kClassifies, predict),
      to_model(serving,
               {"POST",
                {"/rerank", "/reranking", "/v1/rerank", "/v2/rerank"},
                ErrorForm::tei,
                kLabelTopic,
                "How well texts answer a query, best first",
                {{R"([{"index": "integer", "score": "number", "text?": "string"}])"},
                 {R"({"model": "string", "object": "=list", "results": [{"index": "integer",
                      "relevance_score": "number", "document?": {"text": "string"}}], "usage": )" +
                  std::string(kUsageShape) + "}"}}},
               kRanks, rerank),
      to_model(serving,
               {"POST",
                {"/tag"},
                ErrorForm::tei,
                kLabelTopic,
                "Labels of the tokens of texts, and the entities that these form",
                {{"[" + token + ", " + entity + "]"}, {"[[" + token + ", " + entity + "]]"}}},
               kTags, tag_texts),
  };
}

}  // namespace heed::serve
