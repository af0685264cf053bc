// Vectors of texts are trained by comparing those of a batch.
#include "train/tasks/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <unordered_map>

#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/registry.h"
#include "heed/ops/reduce.h"
#include "heed/ops/shape.h"
#include "heed/score/labels.h"
#include "heed/score/ranking.h"
#include "heed/tasks/similarity.h"
#include "tasks/text_vectors.h"
#include "train/tasks/comparison_losses.h"
#include "train/tasks/labeled_task.h"

namespace heed {
namespace {

// The tokens as embed() takes them.
Encoding encoding_of(std::vector<std::int64_t> ids) {
  Encoding encoding;
  encoding.ids = std::move(ids);
  return encoding;
}

std::uint64_t key_of(const std::string& text) { return std::hash<std::string>()(text); }

// The rows of a batch in the order of gathered values: those of process 0, then of 1, ...
std::vector<std::int64_t> rows_by_process(const std::vector<std::int64_t>& all, int processes) {
  std::vector<std::int64_t> ordered;
  for (std::size_t process = 0; process < static_cast<std::size_t>(processes); ++process) {
    for (std::size_t i = process; i < all.size(); i += static_cast<std::size_t>(processes))
      ordered.push_back(all[i]);
  }
  return ordered;
}

// The numbers of the first texts of all rows, of the second ones, and of the others.
struct TextOrder {
  std::vector<std::int64_t> queries, positives, negatives;
  explicit TextOrder(const std::vector<std::int64_t>& counts) {
    std::int64_t at = 0;
    for (const std::int64_t count : counts) {
      queries.push_back(at);
      positives.push_back(at + 1);
      for (std::int64_t i = 2; i < count; ++i) negatives.push_back(at + i);
      at += count;
    }
  }
};

Tensor rows_of(const Tensor& vectors, const std::vector<std::int64_t>& rows) {
  return gather(vectors, 0, Tensor::from(rows, {std::ssize(rows)}));
}

// The vectors of all processes, one after the other. The gradient of its own is that of the loss of all,
// which each process computes whole.
Tensor gather_vectors(Communicator& world, const Tensor& own, std::int64_t texts) {
  if (world.size() == 1) return own;
  const std::int64_t mine = own.defined() ? own.size(0) : 0;
  const std::vector<double> counts = [&] {
    std::vector<double> all(static_cast<std::size_t>(world.size()));
    all[static_cast<std::size_t>(world.rank())] = static_cast<double>(mine);
    return world.sum(all);
  }();
  const std::vector<float> numbers =
      gather_values(world, own.defined() ? own.detach().to_vector<float>() : std::vector<float>());
  Tensor all = Tensor::from(numbers, {texts, std::ssize(numbers) / texts});
  if (!own.defined() || !needs_gradient({own})) return all;
  const auto before =
      static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.begin() + world.rank(), 0.0));
  record(all, "gather_vectors", {own}, [before, mine](const Tensor& dy) {
    return std::vector<Tensor>{slice(dy, 0, before, before + mine).contiguous()};
  });
  return all;
}

}  // namespace

EmbeddingTask::EmbeddingTask(const Recipe& recipe, const TrainOptions& options,
                             const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  const auto message = [&](const std::string& text) {
    if (options_.on_message) options_.on_message(text);
  };
  const auto [all, train, dev,
              test] = read_parts(recipe.data, "queries", message, [&](const std::filesystem::path& path) {
    ComparedEntries found = read_compared(path, recipe.data, scored(), options.output);
    if (found.control_bytes > 0)
      message(fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(found.control_bytes)));
    for (std::int64_t i = 0; i < found.size(); ++i) {
      const ComparedTexts row = found[i];
      if (scored() ? row.labels.size() == 1 : row.labels.empty()) continue;
      throw Error(fmt::format("{}: expected {} for task.loss = \"{}\", got {}", found.where(row),
                              scored() ? "two texts and a score" : "a positive without a score",
                              recipe.task.loss,
                              row.labels.empty()       ? "no score"
                              : row.labels.size() == 1 ? "a score"
                                                       : "several"));
    }
    return found;
  });
  message(fmt::format("{} rows to train on, {} for development, {} for the test", train.size(), dev.size(),
                      test.size()));
  load_or_make(checkpoint, texts_of(train));
  if (!recipe.data.corpus.empty()) {
    data::Lines lines(recipe.data.corpus);
    for (std::string line; lines.next(line);) {
      std::int64_t whole = 0;
      corpus_.ids.push_back(encode(line, false, whole).ids);
      corpus_.keys.push_back(key_of(line));
    }
  }
  DataCounts counts("rows", "tokens", static_cast<double>(*recipe_of_model_.max_length));
  dev_ = tokenize(dev, "development", counts);
  test_ = tokenize(test, "test", counts);
  train_ = std::make_shared<const Rows>(tokenize(train, "training", counts));
  data_ = counts.finish();
  if (train_->empty()) return;  // an evaluation
  begin(BatchPlan(texts_apart(*train_), recipe.train.batch_rows, plan_options(recipe, options)),
        [rows = train_, processes = processes_of(options).size()](const BatchPlan::Rows& planned) {
          TextsBatch batch;
          for (const std::int64_t i : rows_by_process(planned.all, processes)) {
            const TokenizedTexts row = (*rows)[i];
            batch.counts.push_back(std::ssize(row.ids));
            batch.labels.insert(batch.labels.end(), row.labels.begin(), row.labels.end());
          }
          for (const std::int64_t i : planned.rows) {
            TokenizedTexts row = (*rows)[i];
            for (std::size_t text = 0; text < row.ids.size(); ++text) {
              batch.texts.push_back(encoding_of(std::move(row.ids[text])));
              batch.queries.push_back(text == 0);
            }
          }
          return batch;
        });
}

void EmbeddingTask::load_or_make(const std::filesystem::path& checkpoint, const SentenceSource& texts) {
  const std::filesystem::path from = model_source(options_, checkpoint);
  const auto message = [&](const std::string& text) {
    if (options_.on_message) options_.on_message(text);
  };
  tokenizer_ = tokenizer_for(recipe_, options_, from.empty() ? from : transformer_directory(from), texts);
  if (from.empty()) {
    model_ = encoder_for(recipe_, *tokenizer_, from, "Model", "{}");
  } else {
    WeightOptions weights;
    weights.head = false;
    model_ = load_model(transformer_directory(from), weights);
  }
  check_fits(*tokenizer_, *model_);
  EmbeddingRecipe& recipe = recipe_of_model_;
  if (from.empty()) {
    recipe.poolings = {Pooling::mean};
  } else {
    recipe = load_embedding_recipe(from, *model_);
  }
  const bool adapter = recipe_.lora.rank > 0;
  const bool has_layers = std::any_of(recipe.steps.begin(), recipe.steps.end(),
                                      [](const EmbeddingStep& step) { return step.dense || step.norm; });
  parameters_ = trained_parameters(
      *model_, recipe_, has_layers && !adapter ? step_parameters(recipe) : std::vector<Parameter>());
  message(describe_model(*model_, *tokenizer_));
  if (has_layers && adapter) message("the layers behind the pooling are used as they are, beside an adapter");
  if (recipe.similarity == "dot")
    message("warning: the model compares vectors by dot products; its losses here compare cosines");
  recipe.max_length = std::min(longest_input(*model_, *tokenizer_),
                               recipe.max_length.value_or(std::numeric_limits<std::int64_t>::max()));
  if (recipe_.data.max_tokens > 0) recipe.max_length = std::min(*recipe.max_length, recipe_.data.max_tokens);
  recipe.max_length = std::min(*recipe.max_length, recipe_.train.batch_tokens);
  const std::string& query = recipe_.task.query_prompt;
  const std::string& document = recipe_.task.document_prompt;
  if (!query.empty()) recipe.prompts["query"] = query;
  if (!document.empty()) recipe.prompts["document"] = document;
  // Of scored pairs, neither text searches for the other.
  queries_ = scored() && query.empty() ? recipe : for_queries(recipe);
  documents_ = scored() && document.empty() ? recipe : for_documents(recipe);

  const std::vector<std::string> probe{"a"};
  width_ = embed_tokens(*model_, *tokenizer_, probe, recipe).front().vectors.size(1);
  const std::int64_t size = embed(*model_, *tokenizer_, probe, recipe).size(1);
  for (const std::int64_t wanted : recipe_.task.matryoshka) {
    if (wanted > size)
      throw Error(
          fmt::format("recipe: task.matryoshka: expected at most {}, the size of the model's vectors, got {}",
                      size, wanted));
  }
}

Encoding EmbeddingTask::encode(const std::string& text, bool query, std::int64_t& whole) const {
  bool warned = false;
  TaskOptions options;
  options.on_warning = [&](std::size_t, const std::string&) { warned = true; };
  Encoding encoding = std::move(encode_texts(*model_, *tokenizer_, {&text, 1}, how(query), options).front());
  whole = warned ? tokenizer_->encode(how(query).prompt + text).size() : encoding.size();
  return encoding;
}

EmbeddingTask::Rows EmbeddingTask::tokenize(const ChosenRecords<ComparedEntries>& rows, const char* set,
                                            DataCounts& counts) const {
  counts.begin(set);
  Rows tokenized(options_.output);
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    throw_if_stopped();
    const ComparedTexts row = rows[i];
    TokenizedTexts texts;
    std::int64_t longest = 0;
    std::uint64_t key = 0;
    bool truncated = false;
    const auto add = [&](const std::string& text, bool query) {
      std::int64_t whole = 0;
      texts.ids.push_back(encode(text, query, whole).ids);
      texts.keys.push_back(key_of(text));
      key = key * 31 + texts.keys.back();
      longest = std::max(longest, whole);
      truncated |= whole > std::ssize(texts.ids.back());
    };
    add(row.query, true);
    for (const std::string& text : row.texts) add(text, false);
    texts.labels.assign(row.labels.begin(), row.labels.end());
    counts.add(key);
    counts.add_length(static_cast<double>(longest));
    counts.set().truncated += truncated;
    tokenized.add(texts);
  }
  tokenized.finish();
  return tokenized;
}

std::vector<RowTexts> EmbeddingTask::texts_apart(const Rows& rows) const {
  std::vector<RowTexts> texts(static_cast<std::size_t>(rows.size()));
  if (scored()) return texts;  // equal texts do no harm
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::uint64_t> keys = rows[i].keys;
    texts[static_cast<std::size_t>(i)] = {{keys.begin(), keys.begin() + 2}, {keys.begin() + 2, keys.end()}};
  }
  return texts;
}

SummedLoss EmbeddingTask::next_loss(Context& context) {
  const TextsBatch batch = next_batch();
  // Queries and documents may have different prompts, so no mini-batch has both.
  std::vector<std::vector<std::size_t>> parts;
  std::vector<std::int64_t> order(batch.texts.size());
  std::int64_t at = 0;
  for (const bool queries : {true, false}) {
    std::vector<std::size_t> texts;
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < batch.texts.size(); ++i) {
      if (batch.queries[i] != queries) continue;
      texts.push_back(i);
      lengths.push_back(batch.texts[i].size());
    }
    for (std::vector<std::size_t>& part : text_batches(*model_, lengths, recipe_.train.batch_tokens)) {
      for (std::size_t& i : part) {
        i = texts[i];
        order[i] = at++;
      }
      parts.push_back(std::move(part));
    }
  }
  Communicator& world = processes_of(options_);
  const std::int64_t all = std::accumulate(batch.counts.begin(), batch.counts.end(), std::int64_t{0});
  const auto loss = [&](const Tensor& vectors) {
    const Tensor own = vectors.defined() ? rows_of(vectors, order) : Tensor();
    return loss_of(gather_vectors(world, own, all), batch.counts, batch.labels);
  };
  if (parts.empty()) {  // this process has no row of the batch
    static_cast<void>(loss({}));
    return {};
  }
  const Tensor sum = cached_loss(
      parts.size(),
      [&](std::size_t i) {
        return text_vectors(*model_, *tokenizer_, batch.texts, parts[i], how(batch.queries[parts[i].front()]),
                            context);
      },
      loss, context.generator);
  if (world.is_first()) return {sum, std::ssize(batch.counts)};
  return {sum - sum.detach(), 0};  // the first process counts what all have computed
}

Tensor EmbeddingTask::loss_of(const Tensor& vectors, const std::vector<std::int64_t>& counts,
                              const std::vector<float>& labels) const {
  const TextOrder order(counts);
  return matryoshka_loss(vectors, recipe_.task.matryoshka, [&](const Tensor& cut) {
    const Tensor queries = rows_of(cut, order.queries), positives = rows_of(cut, order.positives);
    if (recipe_.task.loss == "cosent") return cosent_loss(queries, positives, labels, recipe_.task.scale);
    if (recipe_.task.loss == "cosine") return cosine_loss(queries, positives, labels);
    const Tensor texts =
        order.negatives.empty() ? positives : concat({positives, rows_of(cut, order.negatives)}, 0);
    return multiple_negatives_loss(queries, texts,
                                   {.scale = recipe_.task.scale,
                                    .symmetric = recipe_.task.symmetric,
                                    .label_smoothing = recipe_.train.label_smoothing});
  });
}

Tensor EmbeddingTask::embed_all(const std::vector<Encoding>& texts, bool query) const {
  Communicator& world = processes_of(options_);
  const auto [begin, end] = part_of(std::ssize(texts), world.rank(), world.size());
  TaskOptions options;
  options.batch_tokens = recipe_.train.batch_tokens;
  Tensor own;
  if (begin < end) {
    own = embed(
        *model_, *tokenizer_,
        std::span(texts).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
        how(query), options);
  }
  const NoGradients off;
  return gather_vectors(world, own, std::ssize(texts));
}

std::vector<std::string> EmbeddingTask::metrics() const {
  if (scored()) return {"spearman", "pearson"};
  return {"recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10"};
}

std::optional<Evaluation> EmbeddingTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

Evaluation EmbeddingTask::evaluate(const Rows& rows) const {
  std::vector<Encoding> queries, different;                 // of each row its query; other texts once
  std::unordered_map<std::uint64_t, std::int64_t> numbers;  // of different texts, by their keys
  std::vector<std::int64_t> documents;                      // of each row its other texts
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    TokenizedTexts row = rows[i];
    queries.push_back(encoding_of(std::move(row.ids.front())));
    for (std::size_t text = 1; text < row.ids.size(); ++text) {
      const auto [found, is_new] = numbers.try_emplace(row.keys[text], std::ssize(different));
      if (is_new) different.push_back(encoding_of(std::move(row.ids[text])));
      documents.push_back(found->second);
    }
  }
  const Tensor asked = embed_all(queries, true), texts = rows_of(embed_all(different, false), documents);
  Evaluation evaluation{.loss = mean_loss(rows, asked, texts)};
  if (!scored()) {
    evaluation.metrics = retrieval_metrics(rows, asked, texts);
    return evaluation;
  }
  std::vector<double> found, wanted;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    found.push_back(similarity(slice(asked, 0, i, i + 1), slice(texts, 0, i, i + 1)).item());
    wanted.push_back(static_cast<double>(rows[i].labels.front()));
  }
  evaluation.metrics = {{"spearman", 100 * spearman(found, wanted)},
                        {"pearson", 100 * pearson(found, wanted)}};
  return evaluation;
}

// In batches as in training, but in the order of the file.
double EmbeddingTask::mean_loss(const Rows& rows, const Tensor& queries, const Tensor& documents) const {
  const NoGradients off;
  std::vector<std::int64_t> first{0};  // document of each row
  for (std::int64_t i = 0; i < rows.size(); ++i) first.push_back(first.back() + std::ssize(rows[i].ids) - 1);
  BatchPlan plan(texts_apart(rows), recipe_.train.batch_rows, {.shuffle = false});
  double sum = 0;
  for (std::int64_t batch = 0, batches = plan.batches_in_epoch(); batch < batches; ++batch) {
    std::vector<std::int64_t> counts;
    std::vector<float> labels;
    std::vector<Tensor> vectors;
    for (const std::int64_t i : plan.next().all) {
      const TokenizedTexts row = rows[i];
      const auto at = static_cast<std::size_t>(i);
      counts.push_back(std::ssize(row.ids));
      labels.insert(labels.end(), row.labels.begin(), row.labels.end());
      vectors.push_back(slice(queries, 0, i, i + 1));
      vectors.push_back(slice(documents, 0, first[at], first[at + 1]));
    }
    sum += loss_of(concat(vectors, 0), counts, labels).item();
  }
  return sum / static_cast<double>(rows.size());
}

// Every query searches the different positives of all, and the other texts of the corpus. What belongs to it
// are the positives of all rows with an equal query.
std::vector<Metric> EmbeddingTask::retrieval_metrics(const Rows& rows, const Tensor& queries,
                                                     const Tensor& documents) const {
  std::unordered_map<std::uint64_t, std::int64_t> numbers;                // of searched texts, by their keys
  std::unordered_map<std::uint64_t, std::vector<std::int64_t>> relevant;  // texts, by the keys of queries
  std::vector<std::int64_t> searched;                                     // rows of documents
  std::int64_t document = 0;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::uint64_t> keys = rows[i].keys;
    const auto [found, is_new] = numbers.try_emplace(keys[1], std::ssize(searched));
    if (is_new) searched.push_back(document);
    std::vector<std::int64_t>& own = relevant[keys[0]];
    if (std::find(own.begin(), own.end(), found->second) == own.end()) own.push_back(found->second);
    document += std::ssize(keys) - 1;
  }
  Tensor texts = rows_of(documents, searched);
  std::vector<Encoding> others;
  for (std::size_t i = 0; i < corpus_.ids.size(); ++i) {
    if (numbers.try_emplace(corpus_.keys[i], -1).second) others.push_back(encoding_of(corpus_.ids[i]));
  }
  if (!others.empty()) texts = concat({texts, embed_all(others, false)}, 0);
  const auto nearest_texts = nearest(queries, texts, 10);
  std::vector<double> sums(5);
  for (std::size_t i = 0; i < nearest_texts.size(); ++i) {
    const std::vector<std::int64_t>& own = relevant.at(rows[static_cast<std::int64_t>(i)].keys[0]);
    std::vector<double> gains;
    for (const Match& match : nearest_texts[i])
      gains.push_back(std::count(own.begin(), own.end(), static_cast<std::int64_t>(match.row)) > 0 ? 1 : 0);
    sums[0] += recall(gains, own.size(), 1);
    sums[1] += recall(gains, own.size(), 5);
    sums[2] += recall(gains, own.size(), 10);
    sums[3] += reciprocal_rank(gains, 10);
    sums[4] += ndcg(gains, std::vector<double>(own.size(), 1), 10);
  }
  std::vector<Metric> result;
  const std::vector<std::string> names = metrics();
  for (std::size_t i = 0; i < sums.size(); ++i)
    result.push_back({names[i], 100 * sums[i] / static_cast<double>(rows.size())});
  return result;
}

void EmbeddingTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  model_->save(directory, dtype);
  const bool adapter = recipe_.lora.rank > 0;
  if (!adapter && !recipe_of_model_.poolings.empty())
    save_embedding_recipe(recipe_of_model_, width_, directory);
}

std::string EmbeddingTask::fingerprint() const {
  Fingerprint hash;
  for (std::int64_t i = 0; i < train_->size(); ++i) {
    const TokenizedTexts row = (*train_)[i];
    for (const std::vector<std::int64_t>& ids : row.ids) {
      for (const std::int64_t id : ids) hash.add(static_cast<std::uint64_t>(id));
      hash.add(static_cast<std::uint64_t>(ids.size()) << 32);
    }
    for (const float label : row.labels) hash.add(std::bit_cast<std::uint32_t>(label));
  }
  return hash.text();
}

}  // namespace heed
