// Reads the texts that a tokenizer is trained on, and counts their words.
#include "text/training_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include "heed/error.h"
#include "heed/text/unicode.h"
#include "text/pipeline_tokenizer.h"

namespace heed {

SentenceSource counted(const SentenceSource& texts, TokenizerTrainingReport& report) {
  return [&texts, &report](std::string& text) {
    if (!texts(text)) return false;
    ++report.texts;
    report.bytes += static_cast<std::int64_t>(text.size());
    if (first_invalid_utf8(text)) {
      std::size_t replaced = 0;
      text = replace_invalid_utf8(text, &replaced);
      report.replaced_in_utf8 += static_cast<std::int64_t>(replaced);
    }
    return true;
  };
}

void read_texts(const SentenceSource& texts, TokenizerTrainingReport& report,
                FunctionRef<void(const std::string&)> use) {
  const SentenceSource source = counted(texts, report);
  for (std::string text; source(text);) use(text);
  if (report.bytes == 0) throw Error(fmt::format("{}: expected a corpus, got no text", kTrained));
}

std::vector<CountedWord> count_words(const SentenceSource& texts, const nlohmann::ordered_json& document,
                                     TokenizerTrainingReport& report) {
  const JsonField fields(document, kTrained);
  std::unique_ptr<const Normalizer> normalizer;
  if (const auto section = fields.find("normalizer")) normalizer = parse_normalizer(*section);
  const auto pre_tokenizer = parse_pre_tokenizer(fields.at("pre_tokenizer"));
  std::unordered_map<std::string, std::int64_t> counts;
  std::string word;
  read_texts(texts, report, [&](const std::string& text) {
    NormalizedText normalized(text, 0, nullptr);
    if (normalizer) normalizer->apply(normalized);
    const auto size = static_cast<std::uint32_t>(normalized.text().size());
    if (size == 0) return;
    Pieces pieces{std::move(normalized), {{0, size, 0}}};
    pre_tokenizer->apply(pieces);
    for (const Pieces::Piece& piece : pieces.list) {
      word.assign(pieces.view(piece));
      ++counts[word];
    }
  });
  report.words = static_cast<std::int64_t>(counts.size());
  std::vector<CountedWord> words;
  words.reserve(counts.size());
  for (auto& [text, count] : counts) words.push_back({text, count});
  std::sort(words.begin(), words.end(),
            [](const CountedWord& a, const CountedWord& b) { return a.word < b.word; });
  return words;
}

SentenceSource lines_of_file(const std::filesystem::path& file) {
  auto in = std::make_shared<std::ifstream>(file, std::ios::binary);
  if (!*in) throw Error(fmt::format("{}: cannot be read", file.string()));
  return [in, file](std::string& line) {
    if (!std::getline(*in, line)) {
      if (in->bad()) throw Error(fmt::format("{}: cannot be read to its end", file.string()));
      return false;
    }
    if (!in->eof()) line += '\n';
    return true;
  };
}

}  // namespace heed
