// What language modeling on texts shares: tokenizer, corpora, conversations.
#include "train/tasks/language_modeling.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <sstream>

#include "chat/conversation.h"
#include "core/json.h"
#include "data/chat_forms.h"
#include "data/lines.h"
#include "heed/error.h"
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

// The lines of a chat file, which several threads read.
class ChatReader {
 public:
  ChatReader(const ModelChat& chat, const Tokenizer& tokenizer) : chat_(chat), tokenizer_(tokenizer) {}

  // What is learned of a line.
  std::vector<TokenizedPart> read(const TextPart& part) {
    try {
      ChatLine line = read_chat_line(parse_json(part.text, part.where), part.where);
      std::vector<TokenizedPart> documents = line.form == ChatForm::text
                                                 ? text(line.conversation["text"])
                                                 : chat(std::move(line.conversation), part.where);
      for (TokenizedPart& document : documents) weigh(document, line.weight);
      ++lines_[static_cast<std::size_t>(line.form)];
      return documents;
    } catch (const Error& error) {
      const std::string message = error.what();
      throw Error(message.starts_with(part.where) ? message : part.where + ": " + message);
    }
  }
  // The forms of the lines, if not all are messages.
  std::string forms() const {
    std::vector<std::string> names;
    for (std::size_t form = 0; form < kChatForms; ++form)
      if (lines_[form] > 0)
        names.push_back(
            fmt::format("{} as {}", lines_[form].load(), chat_form_name(static_cast<ChatForm>(form))));
    const bool plain = names.size() == 1 && lines_[static_cast<std::size_t>(ChatForm::messages)] > 0;
    return plain ? "" : fmt::format("{}", fmt::join(names, ", "));
  }

 private:
  // A document of weight 0 has nothing to learn.
  static void weigh(TokenizedPart& document, double weight) {
    if (weight == 1) return;
    if (weight == 0) document.answers.clear();
    document.weights.resize(document.answers.size(), 1);
    for (double& own : document.weights) own *= weight;
  }
  std::vector<TokenizedPart> text(const std::string& text) const {
    TokenizedPart document{tokenizer_.encode(text, false).ids};
    if (const auto end = tokenizer_.eos_id()) document.ids.push_back(*end);
    document.answers = {{0, std::ssize(document.ids)}};
    return {std::move(document)};
  }
  std::vector<TokenizedPart> chat(Json conversation, const std::string& where) const {
    std::vector<TokenizedPart> documents;
    for (EncodedChat& chat : chat_.encode_answers(chat::Conversation(std::move(conversation), where)))
      documents.push_back({std::move(chat.encoding.ids), std::move(chat.generated), std::move(chat.weights)});
    return documents;
  }

  const ModelChat& chat_;
  const Tokenizer& tokenizer_;
  std::array<std::atomic<std::int64_t>, kChatForms> lines_{};
};

}  // namespace

void report_unusable(const UnusableParts& bad, const std::string& things, const std::filesystem::path& path,
                     const Recipe& recipe, const TrainOptions& options) {
  if (bad.unusable == 0) return;
  const std::string count = fmt::format("{} of {} {}", bad.unusable, bad.parts, things);
  if (static_cast<double>(bad.unusable) > recipe.data.bad_share * static_cast<double>(bad.parts))
    throw Error(fmt::format("{} (so are {}: data.bad_share, {}, is the share that is skipped)",
                            bad.first_message, count, recipe.data.bad_share));
  if (options.on_message)
    options.on_message(fmt::format("warning: {}: {} cannot be used and {} skipped, the first for {}",
                                   path.string(), count, bad.unusable == 1 ? "is" : "are",
                                   bad.first_message));
}

void check_context(const Recipe& recipe, std::optional<std::int64_t> positions) {
  if (positions && recipe.task.context > *positions)
    throw Error(fmt::format("recipe: task.context: expected at most {}, the model's positions, got {}",
                            *positions, recipe.task.context));
}

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
                                                 std::int64_t separator) {
  if (path.empty()) return nullptr;
  TextReader reader(path, recipe_.data);
  UnusableParts bad;
  std::shared_ptr<const TextCorpus> corpus;
  if (chat_) {
    ChatReader chats(*chat_, *tokenizer_);
    corpus = std::make_shared<const TextCorpus>(tokenize_texts(
        reader, [&](const TextPart& part) { return chats.read(part); }, options_.output, &bad));
    if (const std::string forms = chats.forms(); !forms.empty() && options_.on_message)
      options_.on_message(fmt::format("{}: {}", path.string(), forms));
  } else {
    corpus =
        std::make_shared<const TextCorpus>(tokenize_texts(reader, *tokenizer_, separator, options_.output));
  }
  report_unusable(bad, "conversations", path, recipe_, options_);
  lossy_lines_[path] = reader.lossy_lines();
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
  if (dev_ == nullptr && recipe_.data.dev_share > 0) hold_out();
  count();
}

void TextTask::count() {
  DataCounts counts(recipe_.data.format == "chat" ? "conversations" : "documents", "tokens",
                    static_cast<double>(recipe_.task.context));
  const auto add = [&](const char* name, const TextCorpus* corpus, const std::filesystem::path& path) {
    if (corpus == nullptr) return;
    counts.begin(name);
    counts.set().replaced = path.empty() ? 0 : lossy_lines_.at(path);
    std::int64_t begin = 0;
    for (const std::int64_t end : corpus->ends()) {
      const auto ids = std::as_bytes(
          corpus->ids().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      counts.add(std::hash<std::string_view>()({reinterpret_cast<const char*>(ids.data()), ids.size()}));
      counts.add_length(static_cast<double>(end - begin));
      begin = end;
    }
  };
  add("training", train_.get(), recipe_.data.train);
  add("development", dev_.get(), recipe_.data.dev);
  add("test", test_.get(), recipe_.data.test);
  data_ = counts.finish();
}

// Documents that are lines or paragraphs stay whole; a text that is one file is cut anywhere.
void TextTask::hold_out() {
  const auto size = static_cast<std::int64_t>(train_->ids().size());
  auto split = static_cast<std::int64_t>(static_cast<double>(size) * (1 - recipe_.data.dev_share));
  if (recipe_.data.documents != "file") {
    const std::vector<std::int64_t>& ends = train_->ends();
    if (ends.size() < 2)
      throw Error(fmt::format("recipe: data.dev_share: expected at least 2 documents in {}, got {}",
                              recipe_.data.train.string(), ends.size()));
    const auto above = std::lower_bound(ends.begin(), ends.end() - 1, split);
    const bool below_is_nearer =
        above != ends.begin() && (above == ends.end() - 1 || split - *(above - 1) < *above - split);
    split = below_is_nearer ? *(above - 1) : *above;
  }
  dev_ = std::make_shared<const TextCorpus>(train_->slice(split, size));
  train_ = std::make_shared<const TextCorpus>(train_->slice(0, split));
}

void TextTask::keep(std::unique_ptr<Model> model) {
  kept_ = std::move(model);
  check_fits(*tokenizer_, *kept_);
  parameters_ = trained_parameters(*kept_, recipe_);
  if (options_.on_message) options_.on_message(describe_model(*kept_, *tokenizer_));
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

}  // namespace heed
