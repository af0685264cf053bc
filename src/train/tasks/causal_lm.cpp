// Rows of texts for causal language modeling: of consecutive tokens, or of whole documents.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "core/json.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/generate/search.h"
#include "heed/models/registry.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce.h"
#include "train/tasks/language_modeling.h"
#include "train/tasks/predictions.h"

namespace heed {
namespace {

std::vector<std::int64_t> ids_of(const TextCorpus& corpus, std::int64_t begin, std::int64_t end) {
  const auto ids =
      corpus.ids().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return {ids.begin(), ids.end()};
}

// `rows` rows of `length` tokens that begin at first(row), and the tokens after each as labels.
template <class First>
TokenBatch rows_of(const TextCorpus& corpus, std::int64_t rows, std::int64_t length, const First& first) {
  TokenBatch batch{Tensor::empty({rows, length}, DType::i64),
                   {},
                   Tensor::empty({rows, length}, DType::i64),
                   rows * length,
                   rows * length};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t* from = corpus.ids().data() + first(row);
    std::copy_n(from, length, batch.ids.data<std::int64_t>() + row * length);
    std::copy_n(from + 1, length, batch.labels.data<std::int64_t>() + row * length);
  }
  return batch;
}

// The tokens that are learned alone: the answers of conversations, or those after task.answers_after, up to
// an end token or the end of the document. Throws Error if a corpus has none.
std::vector<TextRow> answers_in(const TextCorpus& corpus, const Tokenizer& tokenizer, const Recipe& recipe) {
  if (recipe.data.format == "chat") {
    if (!corpus.answers().empty()) return corpus.answers();
    throw Error("recipe: data: expected answers in what is trained on and what is held out, got none in one");
  }
  std::vector<TextRow> answers;
  if (recipe.task.answers_after.empty()) return answers;
  const std::vector<std::int64_t> mark = tokenizer.encode(recipe.task.answers_after, false).ids;
  const std::int64_t end_token = tokenizer.eos_id().value_or(-1);
  auto at = corpus.ids().begin();
  for (const std::int64_t document_end : corpus.ends()) {
    const auto end = corpus.ids().begin() + document_end;
    while ((at = std::search(at, end, mark.begin(), mark.end())) != end) {
      const auto begin = at + std::ssize(mark);
      at = std::find(begin, end, end_token);
      if (at != end) ++at;
      if (begin != at) answers.emplace_back(begin - corpus.ids().begin(), at - corpus.ids().begin());
    }
  }
  if (!answers.empty()) return answers;
  throw Error(
      fmt::format("recipe: task.answers_after: expected a text that is in the documents with tokens "
                  "behind it, got {}, which is in none (`heed tokenize` shows the tokens of both)",
                  json_quoted(recipe.task.answers_after)));
}

// Whether the documents of a row can be kept apart.
bool keeps_apart(const DecoderModel& model) {
  const NoGradients off;
  Context context;
  const Tensor ids = Tensor::zeros({1, 2}, DType::i64),
               starts = Tensor::from(std::vector<std::int64_t>{0, 1}, {1, 2});
  try {
    model.loss({.ids = ids}, ids, {}, context, starts);
    return true;
  } catch (const Error&) {
    return false;
  }
}

LongDocuments long_documents(const std::string& name) {
  if (name == "truncate") return LongDocuments::truncate;
  return name == "skip" ? LongDocuments::skip : LongDocuments::split;
}

}  // namespace

struct CausalLmTask::Documents {
  std::shared_ptr<const TextCorpus> corpus;
  std::vector<TextRow> answers;
  PackedRows rows;
  bool apart;  // several documents in a row
  std::int64_t pad;

  std::vector<ExampleLength> lengths() const {
    std::vector<ExampleLength> all;
    for (std::int64_t row = 0; row < rows.size(); ++row) all.push_back({rows.length(row), rows.length(row)});
    return all;
  }
  TokenBatch batch(std::span<const std::int64_t> chosen) const;
};

TokenBatch CausalLmTask::Documents::batch(std::span<const std::int64_t> chosen) const {
  std::int64_t width = 0;
  for (const std::int64_t row : chosen) width = std::max(width, rows.length(row));
  const Shape shape{std::ssize(chosen), width};
  TokenBatch batch{Tensor::full(shape, static_cast<double>(pad), DType::i64),
                   {},
                   Tensor::full(shape, static_cast<double>(kIgnoredLabel), DType::i64),
                   0};
  if (apart) batch.document_starts = Tensor::empty(shape, DType::i64);
  const bool weighted = !corpus->weights().empty();
  if (weighted) batch.weights = Tensor::zeros(shape);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const std::int64_t first = static_cast<std::int64_t>(i) * width;
    std::int64_t t = 0;
    for (const DocumentPart& part : rows.row(chosen[i])) {
      std::copy_n(corpus->ids().data() + part.begin, part.size(), batch.ids.data<std::int64_t>() + first + t);
      batch.targets += label_part(*corpus, answers, part, batch.labels.data<std::int64_t>() + first + t,
                                  weighted ? batch.weights.data<float>() + first + t : nullptr);
      // The padding behind the last part is a document, too.
      if (apart)
        std::fill(batch.document_starts.data<std::int64_t>() + first + t,
                  batch.document_starts.data<std::int64_t>() + first + width, t);
      t += part.size();
    }
    batch.tokens += t;
  }
  return batch;
}

CausalLmTask::Documents CausalLmTask::documents_of(std::shared_ptr<const TextCorpus> corpus,
                                                   DocumentParts parts, std::vector<TextRow> answers) const {
  return {std::move(corpus), std::move(answers),
          PackedRows(std::move(parts.parts), keeps_apart_ ? recipe_.task.context : 0), keeps_apart_,
          tokenizer_->pad_id().value_or(0)};
}

CausalLmTask::CausalLmTask(const Recipe& recipe, const TrainOptions& options,
                           const std::filesystem::path& checkpoint)
    : TextTask(recipe, options) {
  const std::filesystem::path from = model_source(options, checkpoint);
  load_or_train_tokenizer(from);
  load_chat(from);
  read_corpora(tokenizer_->eos_id().value_or(-1));
  std::unique_ptr<DecoderModel> model;
  if (from.empty()) {
    Generator generator = initial_weights(recipe);
    model = make_as<DecoderModel>(new_model_config(recipe, *tokenizer_, "{}"), generator);
  } else {
    model = load_as<DecoderModel>(from);
  }
  model_ = model.get();
  keep(std::move(model));
  check_context(recipe_, model_->max_positions());
  if (recipe.task.cross_documents) {
    begin_stream();
  } else {
    begin_documents();
  }
}

void CausalLmTask::begin_stream() {
  const std::int64_t context = recipe_.task.context, size = static_cast<std::int64_t>(train_->ids().size());
  // Rows and the token after each fit behind every offset below `context`.
  const std::int64_t rows = size / context - 1;
  if (rows < 1) {
    throw Error(fmt::format("{}: expected at least {} tokens, two rows of task.context, got {}",
                            recipe_.data.train.string(), 2 * context, size));
  }
  const auto seed = static_cast<std::uint64_t>(recipe_.train.seed);
  begin(BatchPlan(std::vector<ExampleLength>(static_cast<std::size_t>(rows), {context, context}),
                  plan_options(recipe_, options_)),
        [corpus = train_, context, seed](const BatchPlan::Rows& batch) {
          // The streams of the plan have smaller numbers.
          constexpr std::uint64_t kOffsets = std::uint64_t{1} << 62;
          const RandomStream random{seed, kOffsets};
          const std::uint64_t word = random.word(static_cast<std::uint64_t>(batch.position.epoch));
          const auto offset = static_cast<std::int64_t>(word * static_cast<std::uint64_t>(context) >> 32);
          return rows_of(
              *corpus, static_cast<std::int64_t>(batch.rows.size()), context,
              [&](std::int64_t row) { return offset + batch.rows[static_cast<std::size_t>(row)] * context; });
        });
}

void CausalLmTask::begin_documents() {
  keeps_apart_ = keeps_apart(*model_);
  for (const auto& held_out : {dev_, test_}) {  // before the first step
    if (held_out == nullptr ||
        !held_out_parts(*held_out, answers_in(*held_out, *tokenizer_, recipe_)).parts.empty())
      continue;
    throw Error(
        "recipe: data: expected held-out documents with something to learn within the model's positions, got "
        "none in one set");
  }
  std::vector<TextRow> answers = answers_in(*train_, *tokenizer_, recipe_);
  DocumentParts parts =
      parts_of_documents(*train_, answers, recipe_.task.context, long_documents(recipe_.data.longer));
  report(parts);
  if (recipe_.data.longer != "split") data_.sets.front().truncated = parts.longer;
  data_.sets.front().left_out = parts.without_targets;
  const auto documents =
      std::make_shared<const Documents>(documents_of(train_, std::move(parts), std::move(answers)));
  std::int64_t tokens = 0;
  for (const ExampleLength& row : documents->lengths()) tokens += row.total;
  if (options_.on_message)
    options_.on_message(fmt::format("rows: {} of at most {} tokens, {:.1f} % filled", documents->rows.size(),
                                    recipe_.task.context,
                                    100.0 * static_cast<double>(tokens) /
                                        static_cast<double>(documents->rows.size() * recipe_.task.context)));
  begin(BatchPlan(documents->lengths(), plan_options(recipe_, options_)),
        [documents](const BatchPlan::Rows& batch) { return documents->batch(batch.rows); });
}

void CausalLmTask::report(const DocumentParts& parts) const {
  const std::string where = recipe_.data.train.string(),
                    things = recipe_.data.format == "chat" ? "conversations" : "documents";
  const bool split = recipe_.data.longer == "split", skipped = recipe_.data.longer == "skip";
  std::string said;
  if (parts.longer > 0)
    said = fmt::format("{} of {} {} have more than {} tokens (task.context) and are {}", parts.longer,
                       parts.documents, things, recipe_.task.context,
                       split     ? "split"
                       : skipped ? "left out"
                                 : "truncated");
  if (parts.without_targets > 0)
    said += fmt::format("{}left out, with nothing to learn{}: {}", said.empty() ? "" : "; ",
                        parts.longer > 0 && !split ? " within these" : "", parts.without_targets);
  if (parts.parts.empty())
    throw Error(
        fmt::format("{}: expected {} to learn from, got none: {} (the longest has {} tokens: raise "
                    "task.context and train.batch_tokens)",
                    where, things, said, parts.longest));
  if (!said.empty() && options_.on_message)
    options_.on_message(fmt::format("{}{}: {}", split ? "" : "warning: ", where, said));
}

// Of conversations the first answers, else parts at even distances, continued greedily.
std::vector<Prediction> CausalLmTask::samples() const {
  constexpr std::int64_t kSamples = 5, kTokens = 32;
  const TextCorpus& corpus = dev_ != nullptr ? *dev_ : *train_;
  const auto size = static_cast<std::int64_t>(corpus.ids().size());
  const std::int64_t part = std::min(kTokens, recipe_.task.context / 2);
  std::vector<std::vector<std::int64_t>> prompts;
  std::vector<Prediction> samples;
  const auto add = [&](std::int64_t begin, std::int64_t middle, std::int64_t end) {
    prompts.push_back(ids_of(corpus, begin, middle));
    samples.push_back({.number = std::ssize(samples),
                       .text = tokenizer_->decode(prompts.back()),
                       .right = text_of(corpus, middle, end)});
  };
  for (std::int64_t i = 0; i < kSamples; ++i) {
    if (corpus.answers().empty()) {
      const std::int64_t begin = i * size / kSamples;
      if (begin + 2 * part <= size) add(begin, begin + part, begin + 2 * part);
    } else if (i < std::ssize(corpus.answers())) {
      const auto [first, last] = corpus.answers()[static_cast<std::size_t>(i)];
      const auto document = std::upper_bound(corpus.ends().begin(), corpus.ends().end(), first);
      const std::int64_t begin = document == corpus.ends().begin() ? 0 : *(document - 1);
      if (first > begin && first - begin + part <= recipe_.task.context)
        add(begin, first, std::min(last, first + part));
    }
  }
  if (prompts.empty()) return {};
  GenerationOptions options;
  options.max_new_tokens = part;
  if (const auto end = tokenizer_->eos_id()) options.eos_token_id = {*end};
  options.pad_token_id = tokenizer_->pad_id().value_or(0);
  const auto found = search_prompts(*model_, prompts, options, recipe_.train.batch_tokens);
  for (std::size_t i = 0; i < found.size(); ++i)
    samples[i].predicted = tokenizer_->decode(found[i].front().ids);
  return samples;
}

std::string CausalLmTask::fingerprint() const {
  if (recipe_.task.cross_documents) return TextTask::fingerprint();
  Fingerprint hash;  // rows follow from the ends of the documents, too
  hash.add(TextTask::fingerprint());
  for (const std::int64_t end : train_->ends()) hash.add(static_cast<std::uint64_t>(end));
  for (const double weight : train_->weights()) hash.add(std::bit_cast<std::uint64_t>(weight));
  return hash.text();
}

SummedLoss CausalLmTask::next_loss(Context& context) {
  const TokenBatch batch = next_batch();
  if (batch.targets == 0) return {};
  SummedLoss loss{.sum = {}, .tokens = batch.targets, .read = batch.tokens};
  CrossEntropyOptions options = loss_options();
  if (batch.weights.defined()) options.reduction = Reduction::none;
  loss.sum = model_->loss({.ids = batch.ids}, batch.labels, options, context, batch.document_starts);
  if (!batch.weights.defined()) return loss;
  loss.sum = sum(loss.sum * batch.weights);
  loss.weight = sum(batch.weights.to(DType::f64)).item();
  return loss;
}

std::vector<float> CausalLmTask::token_losses(const TokenBatch& batch) const {
  Context context;
  return model_
      ->loss({.ids = batch.ids}, batch.labels, {.ignore_index = kIgnoredLabel, .reduction = Reduction::none},
             context, batch.document_starts)
      .to(DType::f32)
      .to_vector<float>();
}

std::string CausalLmTask::text_of(const TextCorpus& corpus, std::int64_t begin, std::int64_t end) const {
  return tokenizer_->decode(ids_of(corpus, begin, end));
}

Evaluation CausalLmTask::evaluate(const TextCorpus& corpus) const {
  return recipe_.task.cross_documents ? evaluate_stream(corpus) : evaluate_documents(corpus);
}

Evaluation CausalLmTask::evaluate_stream(const TextCorpus& corpus) const {
  const NoGradients off;
  const std::int64_t predicted = static_cast<std::int64_t>(corpus.ids().size()) - 1,
                     length = recipe_.task.context;
  const std::int64_t most_rows = std::max<std::int64_t>(1, recipe_.train.batch_tokens / length);
  Communicator& world = processes_of(options_);
  std::int64_t batch_number = 0, rows = 0, width = 0;
  double sum = 0;
  std::vector<Prediction> texts;
  for (std::int64_t first = 0; first < predicted; first += rows * width) {
    const std::int64_t left = predicted - first;
    width = std::min(length, left);
    rows = std::clamp<std::int64_t>(left / width, 1, most_rows);
    if (batch_number++ % world.size() != world.rank()) continue;
    const auto first_of = [&](std::int64_t row) { return first + row * width; };
    const std::vector<float> losses = token_losses(rows_of(corpus, rows, width, first_of));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto own = losses.begin() + row * width;
      const double loss = std::accumulate(own, own + width, 0.0);
      sum += loss;
      texts.push_back({.number = first_of(row),
                       .text = text_of(corpus, first_of(row) + 1, first_of(row) + width + 1),
                       .loss = loss / static_cast<double>(width),
                       .tokens = width});
    }
  }
  return {.loss = world.sum({sum})[0] / static_cast<double>(predicted),
          .predictions = gather_predictions(world, std::move(texts))};
}

// Documents that training truncates or leaves out are read whole, as far as the model has positions.
DocumentParts CausalLmTask::held_out_parts(const TextCorpus& corpus,
                                           const std::vector<TextRow>& answers) const {
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  if (recipe_.data.longer == "split")
    return parts_of_documents(corpus, answers, recipe_.task.context, LongDocuments::split);
  return parts_of_documents(corpus, answers, model_->max_positions().value_or(kAny), LongDocuments::truncate);
}

Evaluation CausalLmTask::evaluate_documents(const TextCorpus& corpus) const {
  const NoGradients off;
  std::vector<TextRow> answers = answers_in(corpus, *tokenizer_, recipe_);
  DocumentParts parts = held_out_parts(corpus, answers);
  const Documents documents =
      documents_of(std::make_shared<const TextCorpus>(corpus), std::move(parts), std::move(answers));
  std::vector<ExampleLength> lengths = documents.lengths();
  for (ExampleLength& length : lengths)  // a longer row is a batch
    length.longest = std::min(length.longest, recipe_.train.batch_tokens);
  double sum = 0, weight = 0;
  std::vector<Prediction> texts;
  for_each_batch(std::move(lengths), recipe_, options_, [&](const std::vector<std::int64_t>& rows) {
    const TokenBatch batch = documents.batch(rows);
    const std::vector<float> losses = token_losses(batch);
    const std::int64_t width = batch.ids.size(1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto at = static_cast<std::int64_t>(i) * width;
      for (const DocumentPart& part : documents.rows.row(rows[i])) {
        Prediction text{.number = part.begin, .text = text_of(corpus, part.begin, part.end), .loss = 0};
        for (const std::int64_t end = at + part.size(); at < end; ++at) {
          if (batch.labels.data<std::int64_t>()[at] == kIgnoredLabel) continue;
          const double loss = losses[static_cast<std::size_t>(at)],
                       own = batch.weights.defined() ? batch.weights.data<float>()[at] : 1;
          text.loss += loss;
          ++text.tokens;
          sum += own * loss;
          weight += own;
        }
        text.loss /= static_cast<double>(text.tokens);
        texts.push_back(std::move(text));
      }
    }
  });
  Communicator& world = processes_of(options_);
  const std::vector<double> total = world.sum({sum, weight});
  return {.loss = total[0] / total[1], .predictions = gather_predictions(world, std::move(texts))};
}

}  // namespace heed
