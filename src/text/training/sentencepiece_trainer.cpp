// Training of SentencePiece models by the library.
#include "heed/text/training.h"

#include <fmt/format.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/algorithms/sentencepiece_model.h"

namespace heed {
namespace {

constexpr const char* kWhere = "SentencePiece training";
// Sums over sentences are split by thread, so the result depends on the number of threads. It is fixed to be
// independent of the machine.
constexpr const char* kThreads = "16";
// The trainer uses this character for unknown ones and skips sentences that contain it.
constexpr std::string_view kReserved = "\xE2\x96\x85";
// Above this size the trainer's suffix array, which has 32-bit indices, aborts the process.
constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int32_t>::max() / 2;

/// The unigram trainer aborts the process if all sentences are empty after normalization, which maps U+2581
/// and U+FFFD to spaces.
bool normalizes_to_nothing(std::string sentence) {
  for (const std::string_view space : {"\xE2\x96\x81", "\xEF\xBF\xBD"}) {
    for (std::size_t at = sentence.find(space); at != std::string::npos; at = sentence.find(space, at)) {
      sentence.erase(at, space.size());
    }
  }
  return is_blank(sentence);
}

/// Passes the trainer the sentences it can use and counts the others.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  Sentences(const SentenceSource& source, std::int64_t max_bytes, SentencePieceReport& report)
      : source_(source), max_bytes_(max_bytes), report_(report) {
    Next();
  }
  bool done() const override { return done_; }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override {
    while (source_(sentence_)) {
      if (!usable()) continue;
      ++report_.used;
      bytes_ += static_cast<std::int64_t>(sentence_.size());
      if (bytes_ > kMaxBytes) {
        throw Error(fmt::format("{}: expected at most {} bytes of text, got more (train on a sample)", kWhere,
                                kMaxBytes));
      }
      return;
    }
    done_ = true;
  }

 private:
  bool usable() const {
    std::int64_t* reason = nullptr;
    if (normalizes_to_nothing(sentence_)) {
      reason = &report_.blank;
    } else if (static_cast<std::int64_t>(sentence_.size()) > max_bytes_) {
      reason = &report_.too_long;
    } else if (first_invalid_utf8(sentence_)) {
      reason = &report_.invalid_utf8;
    } else if (sentence_.find(kReserved) != std::string::npos) {
      reason = &report_.reserved_character;
    }
    if (reason != nullptr) ++*reason;
    return reason == nullptr;
  }

  const SentenceSource& source_;
  std::int64_t max_bytes_;
  SentencePieceReport& report_;
  std::string sentence_;
  std::int64_t bytes_ = 0;
  bool done_ = false;
};

void check(const SentencePieceOptions& options) {
  const auto refuse = [](const char* option, const char* expected, const std::string& got) {
    throw Error(fmt::format("{}: {}: expected {}, got {}", kWhere, option, expected, got));
  };
  if (options.model_type != "unigram" && options.model_type != "bpe") {
    refuse("model_type", "unigram or bpe", options.model_type);
  }
  if (options.vocab_size < 1 || options.vocab_size > std::numeric_limits<std::int32_t>::max()) {
    refuse("vocab_size", "a positive number below 2^31", std::to_string(options.vocab_size));
  }
  if (!(options.character_coverage >= 0.98 && options.character_coverage <= 1.0)) {
    refuse("character_coverage", "0.98 to 1", fmt::format("{}", options.character_coverage));
  }
  if (options.max_sentence_bytes < 1 || options.max_sentence_bytes > kMaxBytes) {
    refuse("max_sentence_bytes", "a positive number below 2^30", std::to_string(options.max_sentence_bytes));
  }
  const auto& n = options.normalization;
  if (n != "nmt_nfkc" && n != "nfkc" && n != "nmt_nfkc_cf" && n != "nfkc_cf" && n != "identity") {
    refuse("normalization", "nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity", n);
  }
  for (const std::string& symbol : options.user_defined_symbols) {
    if (symbol.empty() || symbol.find_first_of("\r\n") != std::string::npos || first_invalid_utf8(symbol)) {
      refuse("user_defined_symbols", "text of one line in UTF-8", '"' + replace_invalid_utf8(symbol) + '"');
    }
  }
}

/// Joins values to one line of comma-separated values, the form in which the trainer takes lists.
std::string comma_separated(const std::vector<std::string>& values) {
  std::string line;
  for (const std::string& value : values) {
    if (!line.empty()) line += ',';
    line += '"';
    for (const char c : value) {
      if (c == '"') line += c;
      line += c;
    }
    line += '"';
  }
  return line;
}

std::unordered_map<std::string, std::string> arguments(const SentencePieceOptions& options,
                                                       std::int64_t pieces) {
  std::unordered_map<std::string, std::string> result{
      {"model_type", options.model_type},
      {"vocab_size", std::to_string(pieces)},
      {"character_coverage", fmt::format("{}", options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"max_sentence_length", std::to_string(options.max_sentence_bytes)},
      {"normalization_rule_name", options.normalization},
      {"num_threads", kThreads},
      {"bos_id", "-1"},
      {"eos_id", "0"},
      {"unk_id", "1"},
      {"pad_id", "-1"},
      {"minloglevel", "3"}};
  if (!options.user_defined_symbols.empty()) {
    result["user_defined_symbols"] = comma_separated(options.user_defined_symbols);
  }
  return result;
}

/// Returns the number that follows `phrase` in the trainer's message.
std::optional<std::int64_t> number_after(std::string_view message, std::string_view phrase) {
  const std::size_t begin = message.find(phrase);
  if (begin == std::string_view::npos) return std::nullopt;
  std::int64_t number = 0;
  bool found = false;
  for (const char c : message.substr(begin + phrase.size())) {
    if (c < '0' || c > '9') break;
    number = number * 10 + (c - '0');
    found = true;
  }
  return found ? std::optional(number) : std::nullopt;
}

[[noreturn]] void explain(std::string_view message, const SentencePieceOptions& options,
                          std::int64_t ids_outside) {
  if (const auto most = number_after(message, "set it to a value <= ")) {
    throw Error(
        fmt::format("{}: vocab_size: expected at most {} for this text, got {} (lower it or give more text)",
                    kWhere, *most + ids_outside, options.vocab_size));
  }
  if (const auto least = number_after(message, " vs ")) {
    throw Error(
        fmt::format("{}: vocab_size: expected at least {} for the characters of this text, got {} (raise it "
                    "or lower character_coverage)",
                    kWhere, *least + ids_outside, options.vocab_size));
  }
  throw Error(fmt::format("{}: training failed: {}", kWhere, message));
}

[[noreturn]] void no_memory(const SentencePieceReport& counts) {
  throw Error(fmt::format("{}: expected memory and threads for {} sentences, got too few (train on a sample)",
                          kWhere, counts.used));
}

}  // namespace

std::string train_sentencepiece_model(const SentencePieceOptions& options, std::int64_t ids_outside,
                                      const SentenceSource& source, SentencePieceReport* report) {
  check(options);
  silence_sentencepiece();
  SentencePieceReport counts;
  Sentences sentences(source, options.max_sentence_bytes, counts);
  const bool none = sentences.done();
  std::string model;
  sentencepiece::util::Status status;
  if (!none) {
    const std::int64_t pieces = std::max<std::int64_t>(options.vocab_size - ids_outside, 1);
    try {
      status = sentencepiece::SentencePieceTrainer::Train(arguments(options, pieces), &sentences, &model);
    } catch (const std::bad_alloc&) {
      no_memory(counts);
    } catch (const std::system_error&) {  // the system refused to start a thread
      no_memory(counts);
    }
  }
  if (report != nullptr) *report = counts;
  if (none) {
    throw Error(
        fmt::format("{}: no usable sentences ({} blank, {} too long, {} not UTF-8, "
                    "{} with U+2585)",
                    kWhere, counts.blank, counts.too_long, counts.invalid_utf8, counts.reserved_character));
  }
  if (!status.ok()) explain(status.message(), options, ids_outside);
  return model;
}

std::string train_sentencepiece(const SentencePieceOptions& options, const SentenceSource& sentences,
                                SentencePieceReport* report) {
  return train_sentencepiece_model(options, 0, sentences, report);
}

SentenceSource sentences_of(const std::vector<std::string>& sentences) {
  return [&sentences, next = std::size_t{0}](std::string& sentence) mutable {
    if (next == sentences.size()) return false;
    sentence = sentences[next++];
    return true;
  };
}

}  // namespace heed
