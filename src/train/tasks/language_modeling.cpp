// Rows of texts for causal language modeling, and what it shares with masked language modeling.
#include "train/tasks/language_modeling.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/json.h"
#include "data/lines.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/models/registry.h"
#include "heed/text/training.h"

namespace heed {
namespace {

// Texts of the training corpus for a tokenizer: parts, in the order of the files.
SentenceSource parts_of(TextReader& reader) {
  return [&reader](std::string& text) {
    TextPart part;
    if (!reader.next(part)) return false;
    text = std::move(part.text);
    return true;
  };
}

// The lines of these parts: SentencePiece skips long texts.
SentenceSource lines_of(SentenceSource parts) {
  return [parts = std::move(parts), lines = std::make_shared<std::istringstream>()](std::string& line) {
    while (!std::getline(*lines, line)) {
      std::string part;
      if (!parts(part)) return false;
      *lines = std::istringstream(part);
    }
    return true;
  };
}

}  // namespace

void TextTask::load_or_train_tokenizer(const std::filesystem::path& from) {
  const std::filesystem::path& given = from.empty() ? recipe_.tokenizer.from : from;
  if (given.empty() && recipe_.data.format == "chat")
    throw Error("recipe: data.format: expected a model for chats to train (--init), got none for \"chat\"");
  if (!given.empty()) {
    tokenizer_ = load_tokenizer(given);
    report_other_ids(*tokenizer_, from, options_);
    return;
  }
  const TokenizerTraining training = tokenizer_training(recipe_, recipe_.task.context);
  if (options_.on_message) options_.on_message(fmt::format("training a {} tokenizer", training.type));
  TextReader reader(recipe_.data.train, recipe_.data);
  const bool sentencepiece = training.type == "unigram" || training.type == "bpe";
  tokenizer_ = train_tokenizer(training, sentencepiece ? lines_of(parts_of(reader)) : parts_of(reader));
}

void TextTask::load_chat(const std::filesystem::path& from) {
  if (recipe_.data.format != "chat") return;
  chat_ = ModelChat::load((from.empty() ? recipe_.tokenizer.from : from).string(), *tokenizer_);
}

std::shared_ptr<const TextCorpus> TextTask::read(const std::filesystem::path& path, const char* name,
                                                 std::int64_t separator) const {
  if (path.empty()) return nullptr;
  TextReader reader(path, recipe_.data);
  const auto tokenize_chat = [this](const TextPart& part) {
    EncodedChat chat = chat_->encode_answers(part.text, part.where);
    return TokenizedPart{std::move(chat.encoding.ids), std::move(chat.generated)};
  };
  auto corpus = std::make_shared<const TextCorpus>(
      chat_ ? tokenize_texts(reader, tokenize_chat, options_.output)
            : tokenize_texts(reader, *tokenizer_, separator, options_.output));
  if (options_.on_message) {
    options_.on_message(fmt::format("{}: {} tokens in {} document{} for {}", path.string(),
                                    corpus->ids().size(), corpus->ends().size(),
                                    corpus->ends().size() == 1 ? "" : "s", name));
    if (reader.control_bytes() > 0)
      options_.on_message(
          fmt::format("warning: {}: {}", path.string(), data::control_bytes_text(reader.control_bytes())));
  }
  return corpus;
}

void TextTask::read_corpora(std::int64_t separator) {
  train_ = read(recipe_.data.train, "training", separator);
  dev_ = read(recipe_.data.dev, "development", separator);
  test_ = read(recipe_.data.test, "the test", separator);
  if (dev_ == nullptr && recipe_.data.dev_share > 0) {
    const auto size = static_cast<std::int64_t>(train_->ids().size());
    const auto split = static_cast<std::int64_t>(static_cast<double>(size) * (1 - recipe_.data.dev_share));
    dev_ = std::make_shared<const TextCorpus>(train_->slice(split, size));
    train_ = std::make_shared<const TextCorpus>(train_->slice(0, split));
  }
}

void TextTask::keep(std::unique_ptr<Model> model) {
  kept_ = std::move(model);
  check_fits(*tokenizer_, *kept_);
  parameters_ = trained_parameters(*kept_, recipe_);
  if (options_.on_message) options_.on_message(describe_model(*kept_, *tokenizer_));
}

void TextTask::check_context(std::optional<std::int64_t> positions) const {
  if (positions && recipe_.task.context > *positions)
    throw Error(fmt::format("recipe: task.context: expected at most {}, the model's positions, got {}",
                            *positions, recipe_.task.context));
}

CrossEntropyOptions TextTask::loss_options() const {
  return {.label_smoothing = recipe_.train.label_smoothing,
          .ignore_index = kIgnoredLabel,
          .reduction = Reduction::sum};
}

std::optional<Evaluation> TextTask::test() {
  if (test_ == nullptr) return std::nullopt;
  return evaluate(*test_);
}

void TextTask::save(const std::filesystem::path& directory, DType dtype) const {
  tokenizer_->save(directory);
  kept_->save(directory, dtype);
}

std::string TextTask::fingerprint() const {
  Fingerprint hash;
  for (const auto& corpus : {train_, dev_}) {
    if (corpus != nullptr) hash.add(corpus->ids());
  }
  return hash.text();
}

namespace {

// Keeps the documents of a batch's rows apart; row i begins at token first(i) of the corpus.
template <class First>
void separate_documents(const TextCorpus& corpus, const First& first, TokenBatch& batch) {
  const std::int64_t rows = batch.ids.size(0), length = batch.ids.size(1);
  batch.document_starts = Tensor::empty({rows, length}, DType::i64);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = first(row);
    auto end = std::upper_bound(corpus.ends().begin(), corpus.ends().end(), begin);
    std::int64_t start = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t at = row * length + t;
      batch.document_starts.data<std::int64_t>()[at] = start;
      if (begin + t + 1 < *end) continue;
      batch.labels.data<std::int64_t>()[at] = kIgnoredLabel;  // the next document's first token
      --batch.targets;
      start = t + 1;
      if (end + 1 != corpus.ends().end()) ++end;
    }
  }
}

// Ignores the labels outside the answers; row i begins at token first(i) of the corpus.
template <class First>
void keep_answers(const std::vector<TextRow>& answers, const First& first, TokenBatch& batch) {
  const std::int64_t rows = batch.ids.size(0), length = batch.ids.size(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t* labels = batch.labels.data<std::int64_t>() + row * length;
    const std::int64_t begin = first(row) + 1;  // the token that labels[0] is
    auto answer = std::partition_point(answers.begin(), answers.end(),
                                       [begin](const TextRow& a) { return a.second <= begin; });
    for (std::int64_t t = 0; t < length; ++t) {
      if (answer != answers.end() && answer->second == begin + t) ++answer;
      if ((answer != answers.end() && answer->first <= begin + t) || labels[t] == kIgnoredLabel) continue;
      labels[t] = kIgnoredLabel;
      --batch.targets;
    }
  }
}

// `rows` rows of `length` tokens that begin at first(row), and the tokens after each as labels; of these
// only the answers, if there are any.
template <class First>
TokenBatch rows_of(const TextCorpus& corpus, std::int64_t rows, std::int64_t length, const First& first,
                   bool cross_documents, const std::vector<TextRow>& answers) {
  TokenBatch batch{Tensor::empty({rows, length}, DType::i64),
                   {},
                   Tensor::empty({rows, length}, DType::i64),
                   rows * length};
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t* from = corpus.ids().data() + first(row);
    std::copy_n(from, length, batch.ids.data<std::int64_t>() + row * length);
    std::copy_n(from + 1, length, batch.labels.data<std::int64_t>() + row * length);
  }
  if (!cross_documents) separate_documents(corpus, first, batch);
  if (!answers.empty()) keep_answers(answers, first, batch);
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

// Throws Error for a model that cannot keep documents apart.
void check_keeps_apart(const DecoderModel& model) {
  const NoGradients off;
  Context context;
  const Tensor ids = Tensor::zeros({1, 2}, DType::i64),
               starts = Tensor::from(std::vector<std::int64_t>{0, 1}, {1, 2});
  try {
    model.loss({.ids = ids}, ids, {}, context, starts);
  } catch (const Error& error) {
    throw Error("recipe: task.cross_documents: expected true for this " + model.family() +
                " model, got false (" + error.what() + ")");
  }
}

}  // namespace

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
  if (!recipe.task.cross_documents) check_keeps_apart(*model_);

  const std::int64_t context = recipe.task.context, size = static_cast<std::int64_t>(train_->ids().size());
  check_context(model_->max_positions());
  // Rows and the token after each fit behind every offset below `context`.
  const std::int64_t rows = size / context - 1;
  if (rows < 1) {
    throw Error(fmt::format("{}: expected at least {} tokens, two rows of task.context, got {}",
                            recipe.data.train.string(), 2 * context, size));
  }
  auto answers = std::make_shared<const std::vector<TextRow>>(answers_in(*train_, *tokenizer_, recipe));
  for (const auto& held_out : {dev_, test_})
    if (held_out != nullptr) answers_in(*held_out, *tokenizer_, recipe);  // throws before the first step
  const auto seed = static_cast<std::uint64_t>(recipe.train.seed);
  begin(BatchPlan(std::vector<ExampleLength>(static_cast<std::size_t>(rows), {context, context}),
                  plan_options(recipe, options)),
        [corpus = train_, answers, context, seed,
         cross = recipe.task.cross_documents](const BatchPlan::Rows& batch) {
          // The streams of the plan have smaller numbers.
          constexpr std::uint64_t kOffsets = std::uint64_t{1} << 62;
          const RandomStream random{seed, kOffsets};
          const std::uint64_t word = random.word(static_cast<std::uint64_t>(batch.position.epoch));
          const auto offset = static_cast<std::int64_t>(word * static_cast<std::uint64_t>(context) >> 32);
          return rows_of(
              *corpus, static_cast<std::int64_t>(batch.rows.size()), context,
              [&](std::int64_t row) { return offset + batch.rows[static_cast<std::size_t>(row)] * context; },
              cross, *answers);
        });
}

SummedLoss CausalLmTask::next_loss(Context& context) {
  const TokenBatch batch = next_batch();
  if (batch.targets == 0) return {};
  return {model_->loss({.ids = batch.ids}, batch.labels, loss_options(), context, batch.document_starts),
          batch.targets};
}

Evaluation CausalLmTask::evaluate(const TextCorpus& corpus) const {
  const NoGradients off;
  const CrossEntropyOptions options{.ignore_index = kIgnoredLabel, .reduction = Reduction::sum};
  const std::int64_t predicted = static_cast<std::int64_t>(corpus.ids().size()) - 1,
                     length = recipe_.task.context;
  const std::int64_t most_rows = std::max<std::int64_t>(1, recipe_.train.batch_tokens / length);
  const std::vector<TextRow> answers = answers_in(corpus, *tokenizer_, recipe_);
  Communicator& world = processes_of(options_);
  double sum = 0;
  std::int64_t targets = 0, batch_number = 0, rows = 0, width = 0;
  for (std::int64_t first = 0; first < predicted; first += rows * width) {
    const std::int64_t left = predicted - first;
    width = std::min(length, left);
    rows = std::clamp<std::int64_t>(left / width, 1, most_rows);
    if (batch_number++ % world.size() != world.rank()) continue;
    const TokenBatch batch = rows_of(
        corpus, rows, width, [&](std::int64_t row) { return first + row * width; },
        recipe_.task.cross_documents, answers);
    if (batch.targets == 0) continue;
    Context context;
    sum += model_->loss({.ids = batch.ids}, batch.labels, options, context, batch.document_starts).item();
    targets += batch.targets;
  }
  const std::vector<double> total = world.sum({sum, static_cast<double>(targets)});
  return {.loss = total[0] / total[1]};
}

}  // namespace heed
