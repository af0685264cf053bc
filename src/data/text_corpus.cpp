// Reads and tokenizes texts part by part.
#include "data/text_corpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "core/stop_scope.h"
#include "core/text_lines.h"
#include "core/utf8.h"
#include "data/lines.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/text/unicode.h"
#include "heed/threads.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPartBytes = 64 << 10;  // a long document comes in parts of about this size
constexpr std::size_t kPartsAtOnce = 128;     // tokenized in parallel

// Where a line of more than kPartBytes is cut: before its last space among these, where words begin, or at
// the beginning of a character.
std::size_t cut_of(const std::string& text) {
  const std::size_t space = text.find_last_of(" \t", kPartBytes);
  if (space != std::string::npos && space > kPartBytes / 2) return space;
  std::size_t cut = kPartBytes;
  while (cut > kPartBytes - 4 && !is_utf8_start(text[cut])) --cut;
  return cut;
}

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

}  // namespace

struct TextReader::State {
  fs::path path;
  std::vector<fs::path> files;
  const DataOptions& data;
  std::size_t next_file = 0;
  std::ifstream stream = {};
  fs::path file = {};
  std::string block = {};  // read from the file, of which the bytes from `place` on are yet to come
  std::size_t place = 0;
  std::string left = {};  // what was cut off a long line
  bool within_line = false;
  std::int64_t line_number = 0, control_bytes = 0, lossy_lines = 0;
  bool unfinished = false;  // the last part did not end its document
  bool has_text = false;    // in what was read

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(fmt::format("{}:{}: {}", file.string(), line_number, message));
  }
  bool open_next() {
    if (next_file == files.size()) return false;
    file = files[next_file++];
    line_number = 0;
    stream = std::ifstream(file, std::ios::binary);
    if (!stream) throw Error(file.string() + ": not found, or not readable");
    block.clear();
    place = 0;
    if (fill() && block.starts_with(kByteOrderMark)) place = kByteOrderMark.size();
    return true;
  }
  // Reads a block; false at the end of the file.
  bool fill() {
    block.resize(kPartBytes);
    place = 0;
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    block.resize(static_cast<std::size_t>(stream.gcount()));
    if (stream.bad()) throw Error(file.string() + ": reading failed");
    return !block.empty();
  }
  bool at_end() { return left.empty() && place == block.size() && !fill(); }
  bool is_json() const { return data.format == "jsonl" || data.format == "chat"; }

  // Reads a line with its end, or the next part of a long one, unless it is JSON: `whole` says which.
  bool line(std::string& text, bool& whole);
  std::string text_of(const std::string& json_line) const {
    const Config json = Config::parse(json_line, fmt::format("{}:{}", file.string(), line_number));
    const std::vector<std::string> sentences = json.strings(data.text_key);
    if (sentences.empty()) return json.required_string(data.text_key);
    return fmt::format("{}", fmt::join(sentences, " "));
  }
  // Reads a part of the open file; false at its end.
  bool read(TextPart& part);
};

bool TextReader::State::line(std::string& text, bool& whole) {
  throw_if_stopped();
  text = std::exchange(left, {});
  while (!text.ends_with('\n') && (is_json() || text.size() <= kPartBytes)) {
    if (place == block.size() && !fill()) break;
    const std::size_t end = std::min(block.find('\n', place), block.size() - 1) + 1;
    text.append(block, place, end - place);
    place = end;
  }
  if (text.empty()) return false;
  if (text.ends_with("\r\n")) text.replace(text.size() - 2, 2, "\n");
  const bool begins = !std::exchange(within_line, false);
  line_number += begins;
  if (!is_json() && text.size() > kPartBytes) {
    const std::size_t cut = cut_of(text);
    left = text.substr(cut);
    text.resize(cut);
    within_line = true;
  }
  whole = begins && !within_line;
  std::size_t replaced = 0;
  replace_invalid_utf8(text, &replaced);
  if (replaced > 0) fail("expected UTF-8, got other bytes (convert the file)");
  control_bytes += data::count_control_bytes(text);
  lossy_lines += data::has_lost_characters(text);
  return true;
}

bool TextReader::State::read(TextPart& part) {
  part = {};
  std::string text;
  bool whole = true;
  while (line(text, whole)) {
    const bool blank = whole && is_blank(text);
    if (is_json() || data.documents == "line") {
      if (blank) continue;
      if (data.format == "chat") {
        part.where = fmt::format("{}:{}", file.string(), line_number);
        part.text = std::move(text);
        return true;
      }
      part.text = is_json() ? text_of(text) : text.substr(0, text.find_last_not_of("\r\n") + 1);
      part.ends_document = !within_line;
      return true;
    }
    if (data.documents == "paragraph" && blank) {
      if (part.text.empty() && !unfinished) continue;
      unfinished = false;
      return true;
    }
    part.text += text;
    if (part.text.size() >= kPartBytes || within_line) {
      part.ends_document = at_end();
      unfinished = !part.ends_document;
      return true;
    }
  }
  const bool more = !part.text.empty() || unfinished;
  unfinished = false;
  return more;
}

TextReader::TextReader(fs::path path, const DataOptions& data)
    : state_(std::make_unique<State>(State{path, data::input_files(path), data})) {
  state_->open_next();
}

TextReader::~TextReader() = default;

bool TextReader::next(TextPart& part) {
  do {
    if (!state_->read(part)) continue;
    state_->has_text = state_->has_text || !is_blank(part.text);
    return true;
  } while (state_->open_next());
  if (!state_->has_text) throw Error(state_->path.string() + ": expected text, got none");
  return false;
}

const fs::path& TextReader::path() const { return state_->path; }

std::int64_t TextReader::control_bytes() const { return state_->control_bytes; }

std::int64_t TextReader::lossy_lines() const { return state_->lossy_lines; }

TextCorpus TextCorpus::slice(std::int64_t begin, std::int64_t end) const {
  TextCorpus part;
  part.all_ = all_;
  part.ids_ = ids_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  for (const std::int64_t place : ends_) {
    if (place > begin && place < end) part.ends_.push_back(place - begin);
  }
  part.ends_.push_back(end - begin);
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const auto& [first, last] = answers_[i];
    if (first >= end || last <= begin) continue;
    part.answers_.emplace_back(std::max(first, begin) - begin, std::min(last, end) - begin);
    if (!weights_.empty()) part.weights_.push_back(weights_[i]);
  }
  return part;
}

std::vector<TextRow> rows_of_documents(const TextCorpus& corpus, std::int64_t longest) {
  std::vector<TextRow> rows;
  std::int64_t begin = 0;
  for (const std::int64_t end : corpus.ends()) {
    for (; begin < end; begin = std::min(begin + longest, end))
      rows.emplace_back(begin, std::min(begin + longest, end));
  }
  return rows;
}

class TextCorpusWriter {
 public:
  explicit TextCorpusWriter(const fs::path& folder) : ids_(folder) {}
  void add(const TokenizedPart& part) {
    if (!part.weights.empty() || !corpus_.weights_.empty()) {
      corpus_.weights_.resize(corpus_.answers_.size(), 1);
      corpus_.weights_.insert(corpus_.weights_.end(), part.weights.begin(), part.weights.end());
      corpus_.weights_.resize(corpus_.answers_.size() + part.answers.size(), 1);
    }
    for (const auto& [begin, end] : part.answers)
      corpus_.answers_.emplace_back(count() + begin, count() + end);
    ids_.append(std::vector<std::int32_t>(part.ids.begin(), part.ids.end()));
  }
  void end_document() {
    if (corpus_.ends_.empty() || corpus_.ends_.back() < count()) corpus_.ends_.push_back(count());
  }
  TextCorpus finish() {
    end_document();
    ids_.finish();
    corpus_.all_ = std::make_shared<const SpilledArray<std::int32_t>>(std::move(ids_));
    corpus_.ids_ = corpus_.all_->view();
    return std::move(corpus_);
  }
  std::int64_t count() const { return static_cast<std::int64_t>(ids_.size()); }

 private:
  SpilledArray<std::int32_t> ids_;
  TextCorpus corpus_;
};

TextCorpus tokenize_texts(TextReader& reader,
                          const std::function<std::vector<TokenizedPart>(const TextPart&)>& tokenize,
                          const fs::path& folder, UnusableParts* unusable) {
  struct Result {
    std::vector<TokenizedPart> documents;
    std::string error;
  };
  const auto result_of = [&](const TextPart& part) -> Result {
    if (unusable == nullptr) return {tokenize(part), {}};
    try {
      return {tokenize(part), {}};
    } catch (const Error& error) {
      return {{}, error.what()};
    }
  };
  TextCorpusWriter writer(folder);
  std::vector<TextPart> parts;
  std::vector<Result> results;
  for (bool more = true; more;) {
    parts.clear();
    TextPart part;
    while (parts.size() < kPartsAtOnce && (more = reader.next(part))) parts.push_back(std::move(part));
    results.assign(parts.size(), {});
    parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        results[i] = result_of(parts[i]);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (unusable != nullptr) {
        ++unusable->parts;
        if (!results[i].error.empty() && unusable->unusable++ == 0)
          unusable->first_message = results[i].error;
      }
      for (std::size_t k = 0; k < results[i].documents.size(); ++k) {
        if (k > 0) writer.end_document();
        writer.add(results[i].documents[k]);
      }
      if (parts[i].ends_document) writer.end_document();
    }
  }
  if (writer.count() > 0) return writer.finish();
  throw Error(unusable != nullptr && unusable->unusable > 0
                  ? unusable->first_message
                  : reader.path().string() + ": expected at least one token, got none");
}

TextCorpus tokenize_texts(TextReader& reader, const Tokenizer& tokenizer, std::int64_t separator,
                          const fs::path& folder) {
  const auto tokenize = [&](const TextPart& part) {
    std::vector<TokenizedPart> tokenized{{tokenizer.encode(part.text, false).ids}};
    if (part.ends_document && separator >= 0) tokenized.front().ids.push_back(separator);
    return tokenized;
  };
  return tokenize_texts(reader, tokenize, folder);
}

}  // namespace heed
