// Rerankers: lists of documents are scored, and the scores compared with their labels.
#include "train/tasks/reranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>

#include "core/stop_scope.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/models/registry.h"
#include "heed/ops/shape.h"
#include "heed/score/ranking.h"
#include "heed/tasks/batches.h"
#include "heed/tasks/embed.h"
#include "models/labels.h"
#include "train/tasks/comparison_losses.h"
#include "train/tasks/labeled_task.h"

namespace heed {
namespace {

// Owns what the reader's thread needs to make batches.
struct ListsMaker {
  std::int64_t pad_id = 0;
  bool type_ids = false;

  ListsBatch operator()(const SpilledRecords<TokenizedList>& lists,
                        std::span<const std::int64_t> rows) const {
    ListsBatch batch;
    std::vector<Encoding> pairs;
    for (const std::int64_t row : rows) {
      TokenizedList list = lists[row];
      batch.counts.push_back(std::ssize(list.ids));
      batch.labels.insert(batch.labels.end(), list.labels.begin(), list.labels.end());
      for (std::size_t i = 0; i < list.ids.size(); ++i) {
        pairs.emplace_back();
        pairs.back().ids = std::move(list.ids[i]);
        pairs.back().type_ids = std::move(list.type_ids[i]);
      }
    }
    std::vector<std::size_t> all(pairs.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (!pairs.empty()) batch.inputs = padded_batch(pairs, all, pad_id, type_ids);
    return batch;
  }
};

// A row takes the tokens of all its documents.
std::vector<ExampleLength> lengths_of(const SpilledRecords<TokenizedList>& lists) {
  std::vector<ExampleLength> lengths;
  for (std::int64_t i = 0; i < lists.size(); ++i) {
    const TokenizedList list = lists[i];
    std::int64_t longest = 0;
    for (const auto& ids : list.ids) longest = std::max(longest, std::ssize(ids));
    const std::int64_t size = longest * std::ssize(list.ids);
    lengths.push_back({size, size});
  }
  return lengths;
}

// Without labels, the first text is the one that belongs to the query.
void label_positive(ComparedTexts& row) {
  if (!row.labels.empty()) return;
  row.labels.assign(row.texts.size(), 0);
  row.labels.front() = 1;
}

void check_row(const ComparedTexts& row, const std::string& where, const std::string& loss) {
  const auto in = [&](double low, double high) {
    return std::all_of(row.labels.begin(), row.labels.end(),
                       [&](double label) { return label >= low && label <= high; });
  };
  constexpr double kLargestGrade = 30;
  if (loss == "bce" && !in(0, 1))
    throw Error(where + ": expected labels from 0 to 1 for task.loss = \"bce\", got others");
  if (loss == "lambda" && !in(0, kLargestGrade))
    throw Error(where + ": expected labels from 0 to 30 for task.loss = \"lambda\", got others");
  if (loss != "bce" && row.texts.size() < 2)
    throw Error(
        fmt::format("{}: expected a list of documents to rank for task.loss = \"{}\", got one", where, loss));
}

// One label, and the function that turns its logit into a score, unless the model has one.
std::string head_members(const std::filesystem::path& from) {
  const std::string labels = label_members({"LABEL_0"}, "");
  if (!from.empty() && score_activation_setting(load_model_config(from))) return labels;
  return labels.substr(0, labels.rfind('}')) +
         R"(, "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}})";
}

}  // namespace

RerankingTask::RerankingTask(const Recipe& recipe, const TrainOptions& options,
                             const std::filesystem::path& checkpoint)
    : recipe_(recipe), options_(options) {
  const auto message = [&](const std::string& text) {
    if (options_.on_message) options_.on_message(text);
  };
  const auto [all, train, dev,
              test] = read_parts(recipe.data, "queries", message, [&](const std::filesystem::path& path) {
    ComparedEntries found = read_compared(path, recipe.data, true, options.output);
    if (found.control_bytes > 0)
      message(fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(found.control_bytes)));
    for (std::int64_t i = 0; i < found.size(); ++i) {
      ComparedTexts row = found[i];
      label_positive(row);
      if (path != recipe.data.dev && path != recipe.data.test)
        check_row(row, found.where(row), recipe.task.loss);
    }
    return found;
  });
  message(fmt::format("{} rows to train on, {} for development, {} for the test", train.size(), dev.size(),
                      test.size()));
  const std::filesystem::path source = model_source(options_, checkpoint);
  const std::filesystem::path from = source.empty() ? source : transformer_directory(source);
  tokenizer_ = tokenizer_for(recipe_, options_, from, texts_of(train));
  model_ = encoder_for(recipe_, *tokenizer_, from, "ForSequenceClassification", head_members(from));
  check_fits(*tokenizer_, *model_);
  parameters_ = trained_parameters(*model_, recipe_);
  message(describe_model(*model_, *tokenizer_));
  DataCounts counts("rows", "tokens", static_cast<double>(longest()));
  dev_ = tokenize(dev, "development", counts);
  test_ = tokenize(test, "test", counts);
  train_ = std::make_shared<const Lists>(tokenize(train, "training", counts));
  data_ = counts.finish();
  if (train_->empty()) return;  // an evaluation
  begin(BatchPlan(lengths_of(*train_), plan_options(recipe, options)),
        [lists = train_, make = ListsMaker{model_->pad_id(), model_->type_vocab_size() > 1}](
            const BatchPlan::Rows& batch) { return make(*lists, batch.rows); });
}

std::int64_t RerankingTask::longest() const {
  const std::int64_t most = std::min(longest_input(*model_, *tokenizer_), recipe_.train.batch_tokens);
  return recipe_.data.max_tokens > 0 ? std::min(most, recipe_.data.max_tokens) : most;
}

RerankingTask::Lists RerankingTask::tokenize(const ChosenRecords<ComparedEntries>& rows, const char* set,
                                             DataCounts& counts) const {
  counts.begin(set);
  Lists lists(options_.output);
  const Truncation truncation{.max_length = longest()};
  const bool learns_order = recipe_.task.loss == "lambda" && set == std::string_view("training");
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    throw_if_stopped();
    ComparedTexts row = rows[i];
    label_positive(row);
    TokenizedList list;
    list.labels.assign(row.labels.begin(), row.labels.end());
    list.query = content_key(row);
    std::uint64_t key = list.query;
    std::int64_t most = 0;
    bool truncated = false;
    for (const std::string& text : row.texts) {
      bool shortened = false;
      Encoding pair = tokenizer_->encode_truncated(row.query, text, truncation, true, &shortened);
      most = std::max(most, shortened ? tokenizer_->encode_pair(row.query, text).size() : pair.size());
      truncated |= shortened;
      key = key * 31 + std::hash<std::string>()(text);
      list.ids.push_back(std::move(pair.ids));
      list.type_ids.push_back(std::move(pair.type_ids));
    }
    counts.add(key);
    counts.add_length(static_cast<double>(most));
    counts.set().truncated += truncated;
    const std::int64_t count = std::ssize(row.texts);
    if (learns_order && count_unequal(list.labels, {&count, 1}) == 0) {
      ++counts.set().left_out;  // equal labels have no order
    } else {
      lists.add(list);
    }
  }
  lists.finish();
  return lists;
}

Tensor RerankingTask::logits_of(const ListsBatch& batch, Context& context) const {
  const Tensor hidden = model_->encode(batch.inputs, context);
  const Tensor logits = model_->predict(hidden, batch.inputs.mask, context);
  return reshape(logits, {logits.size(0)});
}

SummedLoss RerankingTask::loss_of(const Tensor& logits, const ListsBatch& batch) const {
  if (recipe_.task.loss == "list-net")
    return {list_net_loss(logits, batch.labels, batch.counts), std::ssize(batch.counts)};
  if (recipe_.task.loss == "lambda")
    return {lambda_loss(logits, batch.labels, batch.counts), count_unequal(batch.labels, batch.counts)};
  return {pair_loss(logits, batch.labels), std::ssize(batch.labels)};
}

SummedLoss RerankingTask::next_loss(Context& context) {
  const ListsBatch batch = next_batch();
  if (batch.counts.empty()) return {};
  return loss_of(logits_of(batch, context), batch);
}

std::optional<Evaluation> RerankingTask::test() {
  if (test_.empty()) return std::nullopt;
  return evaluate(test_);
}

// Documents of equal queries are ranked together; queries without one that fits are left out of the scores.
Evaluation RerankingTask::evaluate(const Lists& lists) const {
  const NoGradients off;
  Communicator& world = processes_of(options_);
  std::vector<std::size_t> first{0};  // document of each row
  for (std::int64_t i = 0; i < lists.size(); ++i) first.push_back(first.back() + lists[i].ids.size());
  std::vector<double> scores(first.back()),
      sums(2);  // 0 for what other processes score; loss and its targets
  BatchPlan plan(lengths_of(lists), {.batch_tokens = recipe_.train.batch_tokens, .shuffle = false});
  const ListsMaker make{model_->pad_id(), model_->type_vocab_size() > 1};
  for (std::int64_t i = 0, count = plan.batches_in_epoch(); i < count; ++i) {
    const BatchPlan::Rows planned = plan.next();
    if (i % world.size() != world.rank()) continue;
    const ListsBatch batch = make(lists, planned.rows);
    Context context;
    const Tensor logits = logits_of(batch, context);
    const SummedLoss loss = loss_of(logits, batch);
    sums[0] += loss.sum.item();
    sums[1] += static_cast<double>(loss.tokens);
    const std::vector<float> values = logits.to(DType::f32).to_vector<float>();
    auto next = values.begin();
    for (const std::int64_t row : planned.rows) {
      for (std::size_t d = first[static_cast<std::size_t>(row)]; d < first[static_cast<std::size_t>(row) + 1];
           ++d)
        scores[d] = static_cast<double>(*next++);
    }
  }
  sums = world.sum(sums);
  scores = world.sum(scores);
  std::map<std::uint64_t, std::vector<std::pair<double, double>>> documents;  // score and label, by query
  for (std::int64_t i = 0; i < lists.size(); ++i) {
    const TokenizedList list = lists[i];
    for (std::size_t d = 0; d < list.labels.size(); ++d)
      documents[list.query].emplace_back(scores[first[static_cast<std::size_t>(i)] + d],
                                         static_cast<double>(list.labels[d]));
  }
  double reciprocal = 0, gain = 0, queries = 0;
  for (auto& [query, ranked] : documents) {
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<double> gains;
    for (const auto& [score, label] : ranked) gains.push_back(label);
    if (std::none_of(gains.begin(), gains.end(), [](double label) { return label > 0; })) continue;
    reciprocal += reciprocal_rank(gains, 10);
    gain += ndcg(gains, gains, 10);
    ++queries;
  }
  const double share = queries == 0 ? 0 : 100 / queries;
  return {sums[0] / std::max(sums[1], 1.0), {{"mrr@10", share * reciprocal}, {"ndcg@10", share * gain}}};
}

void RerankingTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  model_->save(directory, dtype);
}

std::string RerankingTask::fingerprint() const {
  Fingerprint hash;
  for (std::int64_t i = 0; i < train_->size(); ++i) {
    const TokenizedList list = (*train_)[i];
    for (const std::vector<std::int64_t>& ids : list.ids) {
      for (const std::int64_t id : ids) hash.add(static_cast<std::uint64_t>(id));
      hash.add(static_cast<std::uint64_t>(ids.size()) << 32);
    }
    for (const float label : list.labels) hash.add(std::bit_cast<std::uint32_t>(label));
  }
  return hash.text();
}

}  // namespace heed
