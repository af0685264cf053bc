#include "text/marian_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/text/marian.h"
#include "text/files.h"
#include "text/sentencepiece_trainer.h"
#include "text/word_ends.h"

namespace heed {
namespace {

/// Returns a copy of `text` with every `from` replaced by `to`.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t begin = 0;;) {
    const std::size_t at = text.find(from, begin);
    result += text.substr(begin, at - begin);
    if (at == std::string_view::npos) return result;
    result += to;
    begin = at + from.size();
  }
}

/// Returns the end of a language code `>>xx<<` at the start of a text, or 0 if there is none.
std::size_t language_code_end(std::string_view text) {
  if (text.substr(0, 2) != ">>") return 0;
  const std::size_t close = text.find("<<");
  return close == std::string_view::npos ? 0 : close + 2;
}

}  // namespace

MarianSide::MarianSide(std::shared_ptr<const SentencePieceModel> model,
                       std::shared_ptr<const Vocabulary> vocabulary, const MarianTokenizerConfig& config,
                       const std::string& where)
    : model_(std::move(model)), vocabulary_(std::move(vocabulary)) {
  const auto require = [&](const std::string& token, const char* what) {
    const auto id = vocabulary_->find(token);
    if (!id) throw Error(fmt::format("{}: {} token {} not found", where, what, token));
    return *id;
  };
  eos_ = require(config.eos, "end");
  unk_ = require(config.unk, "unknown");
  pad_ = vocabulary_->find(config.pad);

  special_.resize(static_cast<std::size_t>(vocabulary_->size()), false);
  const auto add_marker = [&](const std::string& token, bool special) {
    markers_.push_back(token);
    marker_starts_ += token[0];
    if (spans_word_end(token)) markers_keep_words_ = false;
    const auto id = vocabulary_->find(token);
    if (id && special) special_[static_cast<std::size_t>(*id)] = true;
  };
  for (const std::string& token : {config.eos, config.unk, config.pad}) add_marker(token, true);
  for (const MarianTokenizerConfig::AddedToken& token : config.added)
    add_marker(token.content, token.special);
  std::stable_sort(markers_.begin(), markers_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });

  for (int piece = 0; piece < model_->size(); ++piece) ids_.push_back(id_of(model_->piece(piece)));
}

std::pair<std::size_t, std::string_view> MarianSide::find_marker(std::string_view text,
                                                                 std::size_t from) const {
  for (std::size_t at = text.find_first_of(marker_starts_, from); at != std::string_view::npos;
       at = text.find_first_of(marker_starts_, at + 1)) {
    for (const std::string& marker : markers_) {
      if (text.substr(at, marker.size()) == marker) return {at, marker};
    }
  }
  return {text.size(), {}};
}

void MarianSide::encode_segment(std::string_view text, std::size_t begin, std::size_t end,
                                const CharacterOffsets& characters, Encoding& encoding) const {
  const std::size_t code = language_code_end(text.substr(begin, end - begin));
  if (code > 0) {
    const std::string_view token = text.substr(begin, code);
    encoding.push(id_of(token), std::string(token), {characters[begin], characters[begin + code]});
    begin += code;
  }
  model_->encode(text.substr(begin, end - begin), [&](std::string_view piece, int id, std::size_t piece_begin,
                                                      std::size_t piece_end) {
    // An unknown piece is the text itself, which may be in vocab.json nevertheless.
    const bool unknown = model_->is_unknown(id);
    encoding.push(unknown ? id_of(piece) : ids_[static_cast<std::size_t>(id)], std::string(piece),
                  {characters[begin + piece_begin], characters[begin + piece_end]});
  });
}

Encoding MarianSide::cut(std::string_view text) const {
  const CharacterOffsets characters(text);
  Encoding encoding;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto [end, marker] = find_marker(text, begin);
    if (end > begin) encode_segment(text, begin, end, characters, encoding);
    begin = end + marker.size();
    if (!marker.empty())
      encoding.push(id_of(marker), std::string(marker), {characters[end], characters[begin]});
  }
  return encoding;
}

Encoding MarianSide::cut_beginning(std::string_view text, std::int64_t count) const {
  for (std::size_t bytes = first_bytes(text, count);; bytes *= 4) {
    const std::size_t end = markers_keep_words_ ? model_->safe_end(text, bytes) : text.size();
    const std::string_view beginning = text.substr(0, end);
    // An open language code may end anywhere in the rest.
    const std::size_t open = beginning.rfind(">>");
    if (open != beginning.npos && beginning.find("<<", open) == beginning.npos) return cut(text);
    Encoding encoding = cut(beginning);
    if (end == text.size() || encoding.size() >= count) return encoding;
  }
}

std::string MarianSide::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string text;
  std::vector<std::string_view> pieces;
  const auto flush = [&] {
    if (!pieces.empty()) text += model_->decode(pieces);
    pieces.clear();
  };
  for (const std::int64_t id : ids) {
    const std::string& token = vocabulary_->token(id, "decode");
    if (!special_[static_cast<std::size_t>(id)]) {
      pieces.push_back(token);
    } else if (!skip_special_tokens) {
      flush();
      text += token + " ";
    }
  }
  flush();
  return std::string(strip(replace_all(text, "\xE2\x96\x81", " ")));
}

MarianTokenizer::MarianTokenizer(MarianTokenizerConfig config, MarianSide source, MarianSide target)
    : config_(std::move(config)), source_(std::move(source)), target_(std::move(target)) {}

Encoding MarianTokenizer::assemble(Encoding first, std::optional<Encoding> second,
                                   bool add_special_tokens) const {
  if (second) first.append(*second);
  if (add_special_tokens) first.push_special(source_.eos(), config_.eos);
  return first;
}

Encoding MarianTokenizer::assemble_target(Encoding text, bool add_special_tokens) const {
  if (add_special_tokens) text.push_special(target_.eos(), config_.eos);
  return text;
}

std::string MarianTokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string text = target_.decode(ids, skip_special_tokens);
  return config_.clean_up_spaces ? clean_up_spaces(std::move(text)) : text;
}

void MarianTokenizer::save(const std::filesystem::path& directory) const {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(fmt::format("{}: cannot be created: {}", directory.string(), error.message()));

  nlohmann::ordered_json config = config_.json;
  config["tokenizer_class"] = "MarianTokenizer";
  config["separate_vocabs"] = config_.separate_vocabs;
  config["clean_up_tokenization_spaces"] = config_.clean_up_spaces;
  nlohmann::ordered_json tokens;
  for (const auto& [key, token] : {std::pair("eos_token", config_.eos), std::pair("unk_token", config_.unk),
                                   std::pair("pad_token", config_.pad)}) {
    config[key] = token;
    tokens[key] = token;
  }
  write_file(directory / "source.spm", source_.model().serialized());
  write_file(directory / "target.spm", target_.model().serialized());
  source_.vocabulary().save(directory / "vocab.json");
  if (config_.separate_vocabs) target_.vocabulary().save(directory / "target_vocab.json");
  write_file(directory / "tokenizer_config.json", json_text(config, 2) + "\n");
  write_file(directory / "special_tokens_map.json", json_text(tokens, 2) + "\n");
}

std::unique_ptr<Tokenizer> load_marian_tokenizer(const std::filesystem::path& directory) {
  MarianTokenizerConfig config = MarianTokenizerConfig::load(directory);
  const std::string where = (directory / "tokenizer_config.json").string();
  const auto vocab_path = directory / "vocab.json", target_vocab_path = directory / "target_vocab.json";
  auto source_model =
      std::make_shared<const SentencePieceModel>(SentencePieceModel::load(directory / "source.spm"));
  auto target_model = source_model;
  const auto target_path = directory / "target.spm";
  if (std::string bytes = read_regular_file(target_path, file_limits::kTokenizer);
      bytes != source_model->serialized()) {
    target_model = std::make_shared<const SentencePieceModel>(std::move(bytes), target_path.string());
  }
  auto vocabulary = std::make_shared<const Vocabulary>(config.extend(Vocabulary::load(vocab_path), where));
  MarianSide source(source_model, vocabulary, config, vocab_path.string());
  auto target_vocabulary = config.separate_vocabs
                               ? std::make_shared<const Vocabulary>(Vocabulary::load(target_vocab_path))
                               : vocabulary;
  MarianSide target(target_model, target_vocabulary, config,
                    (config.separate_vocabs ? target_vocab_path : vocab_path).string());
  return std::make_unique<MarianTokenizer>(std::move(config), std::move(source), std::move(target));
}

std::unique_ptr<Tokenizer> train_marian_tokenizer(const MarianTokenizerOptions& options,
                                                  const SentenceSource& sentences,
                                                  SentencePieceReport* report) {
  MarianTokenizerConfig config;
  config.json["source_lang"] = replace_invalid_utf8(options.source_language);
  config.json["target_lang"] = replace_invalid_utf8(options.target_language);
  config.json["model_max_length"] = options.model_max_length;
  for (const std::string& symbol : options.sentencepiece.user_defined_symbols) {
    if (symbol == config.pad) {
      throw Error(
          fmt::format("Marian tokenizer: user_defined_symbols: expected tokens other than {}, got it "
                      "(it is always added)",
                      config.pad));
    }
  }
  auto model = std::make_shared<const SentencePieceModel>(
      train_sentencepiece_model(options.sentencepiece, 1, sentences, report), "trained model");
  std::vector<std::string> tokens;
  for (int piece = 0; piece < model->size(); ++piece) tokens.push_back(model->piece(piece));
  tokens.push_back(config.pad);
  auto vocabulary = std::make_shared<const Vocabulary>(std::move(tokens), "trained vocabulary");
  MarianSide side(std::move(model), std::move(vocabulary), config, "trained vocabulary");
  MarianSide target = side;
  return std::make_unique<MarianTokenizer>(std::move(config), std::move(side), std::move(target));
}

}  // namespace heed
