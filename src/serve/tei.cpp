// Vectors, labels, ranks and tokens.
#include "serve/tei.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/io/json.h"
#include "heed/tasks/classify.h"
#include "heed/version.h"
#include "serve/inputs.h"
#include "serve/vector_answer.h"

namespace heed::serve::tei {
namespace {

std::shared_ptr<EncoderJob> job_of(const Asked& asked, const ServedModel& model, EncoderWork work,
                                   std::vector<Encoding> texts) {
  auto job = std::make_shared<EncoderJob>();
  job->call = asked.call;
  job->model = &model;
  job->work = work;
  for (const Encoding& text : texts) job->tokens += text.size();
  job->call->facts.prompt_tokens = job->tokens;
  job->texts = std::move(texts);
  return job;
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

Json labels_json(const EncoderModel& model, const std::vector<double>& scores) {
  Json labels = Json::array();
  for (const std::size_t i : best_first(scores))
    labels.push_back({{"score", scores[i]}, {"label", model.labels()[i]}});
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

Ranking read_ranking(const Fields& fields) {
  Ranking ranking;
  ranking.is_tei = fields.find("documents") == nullptr;
  const char* key = ranking.is_tei ? "texts" : "documents";
  for (const Json& one : required_array(fields, key))
    ranking.documents.push_back(document_text(fields, key, one));
  ranking.raw = fields.boolean("raw_scores").value_or(false);
  ranking.shows_text = fields.boolean(ranking.is_tei ? "return_text" : "return_documents").value_or(false);
  ranking.most = static_cast<std::size_t>(fields.integer("top_n", 1, static_cast<std::int64_t>(kMostInputs))
                                              .value_or(std::ssize(ranking.documents)));
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

Json token_json(const ServedModel& model, const Encoding& encoding, std::size_t i) {
  const bool special = encoding.special_tokens_mask[i] != 0;
  Json one = {{"id", encoding.ids[i]},
              {"text", encoding.tokens[i]},
              {"special", special || model.tokenizer->is_special(encoding.ids[i])},
              {"start", nullptr},
              {"stop", nullptr}};
  if (special) return one;
  one["start"] = encoding.offsets[i].first;
  one["stop"] = encoding.offsets[i].second;
  return one;
}

// As TEI calls them; the others are heed's own.
const char* pooling_name(const EmbeddingRecipe& recipe) {
  if (recipe.poolings.size() != 1) return recipe.poolings.empty() ? "model" : "several";
  switch (recipe.poolings.front()) {
    case Pooling::cls: return "cls";
    case Pooling::max: return "max";
    case Pooling::mean: return "mean";
    case Pooling::mean_sqrt: return "mean_sqrt";
    case Pooling::weighted_mean: return "weighted_mean";
    case Pooling::last: return "last_token";
  }
  HEED_ASSERT(false, "unknown pooling");
}

std::string required_string(const Fields& fields, const char* key) {
  const auto text = fields.string(key);
  if (!text) fields.fail(key, "a text");
  return *text;
}

}  // namespace

void embed(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "makes vectors");
  const bool normalize = asked.fields.boolean("normalize").value_or(true);
  const auto dimensions = asked.fields.integer("dimensions", 1, 1 << 20);
  const EmbeddingRecipe& recipe = asked_recipe(model, asked.fields, normalize);
  auto job =
      job_of(asked, model, EncoderWork::vectors, read_inputs(model, asked.fields, "inputs", recipe).texts);
  job->recipe = &recipe;
  const std::shared_ptr<Inspection> inspection = Inspection::read(asked, model);
  job->done = [call = asked.call, dimensions, normalize, inspection](std::vector<EncoderResult> results) {
    answer_vectors(*call, std::move(results), dimensions, normalize, inspection.get(),
                   [&](const std::vector<EncoderResult>& vectors) {
                     JsonWriter json;
                     json.begin_array();
                     for (const EncoderResult& vector : vectors) json.value(vector.numbers);
                     const std::string list = json.end_array().text();
                     return inspection != nullptr ? "{\"embeddings\":" + list + "}" : list;
                   });
  };
  if (inspection != nullptr) return add_inspected(asked, job, inspection);
  asked.scheduler.add(std::move(job));
}

void embed_all(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "makes vectors");
  const EmbeddingRecipe& recipe = asked_recipe(model, asked.fields, false);
  auto job =
      job_of(asked, model, EncoderWork::tokens, read_inputs(model, asked.fields, "inputs", recipe).texts);
  job->done = [call = asked.call](const std::vector<EncoderResult>& results) {
    JsonWriter json;
    json.begin_array();
    for (const EncoderResult& text : results) {
      json.begin_array();
      const auto width = static_cast<std::ptrdiff_t>(std::max<std::int64_t>(text.width, 1));
      for (auto at = text.numbers.begin(); at != text.numbers.end(); at += width)
        json.value(std::vector<float>(at, at + width));
      json.end_array();
    }
    call->answer(server::HttpResponse{200, json.end_array().text()});
  };
  asked.scheduler.add(std::move(job));
}

void embed_sparse(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, predicts_masks, "predicts masks");
  const EmbeddingRecipe& recipe = asked_recipe(model, asked.fields, false);
  auto job =
      job_of(asked, model, EncoderWork::sparse, read_inputs(model, asked.fields, "inputs", recipe).texts);
  job->done = [call = asked.call](const std::vector<EncoderResult>& results) {
    JsonWriter json;
    json.begin_array();
    for (const EncoderResult& text : results) {
      json.begin_array();
      for (std::size_t i = 0; i < text.numbers.size(); ++i)
        json.begin_object().field("index", text.indices[i]).field("value", text.numbers[i]).end_object();
      json.end_array();
    }
    call->answer(server::HttpResponse{200, json.end_array().text()});
  };
  asked.scheduler.add(std::move(job));
}

void predict(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, has_labels, "classifies texts");
  const Json* inputs = asked.fields.find("inputs");
  if (inputs == nullptr || (!inputs->is_string() && !inputs->is_array()))
    asked.fields.fail("inputs", "a text, a pair of texts, or an array of arrays of these");
  // An array of strings is one text or a pair; many are an array of arrays.
  const bool is_list = inputs->is_array() && !required_array(asked.fields, "inputs").front().is_string();
  std::vector<TextPair> pairs;
  if (!is_list) pairs.push_back(text_or_pair(asked.fields, *inputs));
  if (is_list) {
    for (const Json& one : *inputs) pairs.push_back(text_or_pair(asked.fields, one));
  }
  const bool raw = asked.fields.boolean("raw_scores").value_or(false);
  auto job = job_of(asked, model, EncoderWork::logits, encode_pairs(model, asked.fields, pairs));
  job->done = [call = asked.call, &model, raw, is_list](const std::vector<EncoderResult>& results) {
    Json all = Json::array();
    for (const EncoderResult& one : results)
      all.push_back(labels_json(*model.encoder(), label_scores_of(*model.encoder(), one.numbers, raw)));
    call->answer(is_list ? all : all.front());
  };
  asked.scheduler.add(std::move(job));
}

void rerank(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, ranks, "ranks texts");
  const std::string query = required_string(asked.fields, "query");
  const Ranking ranking = read_ranking(asked.fields);
  std::vector<TextPair> pairs;
  for (const std::string& document : ranking.documents) pairs.push_back({query, document});
  auto job = job_of(asked, model, EncoderWork::logits, encode_pairs(model, asked.fields, pairs));
  job->done = [call = asked.call, &model, ranking,
               tokens = job->tokens](const std::vector<EncoderResult>& results) {
    std::vector<double> scores;
    for (const EncoderResult& one : results) {
      const auto logit = static_cast<double>(one.numbers.front());
      scores.push_back(ranking.raw ? logit : sigmoid(logit));
    }
    call->answer(ranking_json(ranking, model.name, scores, tokens));
  };
  asked.scheduler.add(std::move(job));
}

void similarity(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "makes vectors");
  const Json* inputs = asked.fields.object("inputs");
  if (inputs == nullptr) asked.fields.fail("inputs", "an object with source_sentence and sentences");
  const Fields texts(*inputs, "inputs");
  const Json none = Json::object();
  const Fields parameters = asked.fields.members("parameters").value_or(Fields(none));
  Json all = Json::array({required_string(texts, "source_sentence")});
  for (const Json& one : required_array(texts, "sentences")) all.push_back(one);
  const Json together = {{"sentences", std::move(all)},
                         {"truncate", parameters.boolean("truncate").value_or(true)}};
  const EmbeddingRecipe& recipe = asked_recipe(model, parameters, true);
  auto job = job_of(asked, model, EncoderWork::vectors,
                    read_inputs(model, Fields(together), "sentences", recipe).texts);
  job->recipe = &recipe;
  job->done = [call = asked.call](const std::vector<EncoderResult>& results) {
    Json scores = Json::array();
    const std::vector<float>& source = results.front().numbers;
    for (std::size_t i = 1; i < results.size(); ++i)
      scores.push_back(std::inner_product(source.begin(), source.end(), results[i].numbers.begin(), 0.0));
    call->answer(scores);
  };
  asked.scheduler.add(std::move(job));
}

void tokenize(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "reads texts");
  const Fields& fields = asked.fields;
  if (fields.find("inputs") == nullptr) {
    const bool llama = fields.find("content") != nullptr;
    const std::string text = required_string(fields, llama ? "content" : "prompt");
    const bool special = llama ? fields.boolean("add_special").value_or(false)
                               : fields.boolean("add_special_tokens").value_or(true);
    const std::vector<std::int64_t> ids = model.tokenizer->encode(text, special).ids;
    if (llama) return asked.call->answer(Json{{"tokens", ids}});
    return asked.call->answer(
        Json{{"count", ids.size()}, {"max_model_len", model.context()}, {"tokens", ids}});
  }
  const bool special = fields.boolean("add_special_tokens").value_or(true);
  const std::string prompt = asked_recipe(model, fields, false).prompt;
  Json all = Json::array();
  for (const std::string& text : fields.strings("inputs")) {
    const Encoding encoding = model.tokenizer->encode(prompt + text, special);
    Json tokens = Json::array();
    for (std::size_t i = 0; i < encoding.ids.size(); ++i) tokens.push_back(token_json(model, encoding, i));
    all.push_back(std::move(tokens));
  }
  asked.call->answer(all);
}

void decode(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "reads texts");
  const bool llama = asked.fields.find("tokens") != nullptr;
  const char* key = llama ? "tokens" : "ids";
  const Json& given = required_array(asked.fields, key);
  const bool skip = asked.fields.boolean("skip_special_tokens").value_or(true);
  const Json lists = given.front().is_array() ? given : Json::array({given});
  Json texts = Json::array();
  for (const Json& list : lists) {
    std::vector<std::int64_t> ids;
    for (const Json& one : list) {
      const bool known = one.is_number_integer() && one >= 0 && one < model.tokenizer->vocab_size();
      if (!known)
        asked.fields.fail(key, "ids of tokens below " + std::to_string(model.tokenizer->vocab_size()));
      ids.push_back(one.get<std::int64_t>());
    }
    texts.push_back(model.tokenizer->decode_clean(ids, skip));
  }
  asked.call->answer(llama ? Json{{"content", texts.front()}} : texts);
}

void info(const Asked& asked) {
  const ServedModel& model = chosen_model(asked, makes_vectors, "reads texts");
  Json type = {{"embedding", {{"pooling", pooling_name(model.recipes.at("").unit)}}}};
  if (has_labels(model)) {
    Json names = Json::object(), ids = Json::object();
    for (std::size_t i = 0; i < model.encoder()->labels().size(); ++i) {
      names[std::to_string(i)] = model.encoder()->labels()[i];
      ids[model.encoder()->labels()[i]] = i;
    }
    const char* kind = model.encoder()->labels().size() == 1 ? "reranker" : "classifier";
    type = {{kind, {{"id2label", names}, {"label2id", ids}}}};
  }
  asked.call->answer(Json{{"model_id", model.name},
                          {"model_sha", nullptr},
                          {"model_dtype", "float32"},
                          {"model_type", type},
                          {"max_concurrent_requests", asked.services.limits.queue},
                          {"max_input_length", longest_text(model, &model.recipes.at("").unit)},
                          {"max_batch_tokens", asked.services.limits.batch_tokens},
                          {"max_client_batch_size", kMostInputs},
                          {"auto_truncate", true},
                          {"tokenization_workers", 1},
                          {"version", version()}});
}

}  // namespace heed::serve::tei
