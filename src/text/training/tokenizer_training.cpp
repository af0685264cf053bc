// Trains tokenizers: counts the words of a corpus, trains the vocabulary (SentencePiece's library does so
// from the texts), and writes the tokenizer.json that describes it, which is then loaded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <unordered_map>

#include "core/base64.h"
#include "core/stop_scope.h"
#include "core/utf8.h"
#include "heed/error.h"
#include "heed/text/training.h"
#include "heed/text/unicode.h"
#include "text/algorithms/sentencepiece_model.h"
#include "text/loading/sentencepiece_file.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/byte_level.h"
#include "text/pipeline/pipeline_tokenizer.h"
#include "text/training/bpe_trainer.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

/// Where errors of the training of a tokenizer are.
constexpr const char* kTrained = "tokenizer training";
constexpr const char* kSpaceMark = "\xE2\x96\x81";  // U+2581

constexpr const char *kEnd = "</s>", *kPadToken = "<pad>", *kEndOfText = "<|endoftext|>", *kUnknown = "<unk>";
constexpr const char *kBegin = "<s>", *kMask = "<mask>";
constexpr int kSentinels = 100;
constexpr std::array kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// The tokens with a role, as pairs of the key in tokenizer_config.json and the token.
using Roles = std::vector<std::pair<SpecialRole, const char*>>;

/// The special tokens of a vocabulary: its first ids and its last ones, and those before and after a text.
struct SpecialTokens {
  std::vector<std::string> first, last;
  Roles roles;
  const char *begin = nullptr, *end = nullptr;

  std::int64_t size() const { return static_cast<std::int64_t>(first.size() + last.size()); }
};

/// The special tokens of a new vocabulary, by training.special_tokens, else by its type.
SpecialTokens special_tokens_of(const TokenizerTraining& training) {
  const Roles end_and_others = {
      {SpecialRole::eos, kEnd}, {SpecialRole::unk, kUnknown}, {SpecialRole::pad, kPadToken}};
  if (training.special_tokens == "t5") {
    SpecialTokens t5{{kPadToken, kEnd, kUnknown}, {}, end_and_others, nullptr, kEnd};
    for (int i = kSentinels - 1; i >= 0; --i) t5.last.push_back(fmt::format("<extra_id_{}>", i));
    return t5;
  }
  if (training.special_tokens == "bart") {
    SpecialTokens bart{{kBegin, kPadToken, kEnd, kUnknown}, {kMask}, end_and_others, kBegin, kEnd};
    bart.roles.insert(bart.roles.begin(), {SpecialRole::bos, kBegin});
    bart.roles.insert(bart.roles.end(),
                      {{SpecialRole::cls, kBegin}, {SpecialRole::sep, kEnd}, {SpecialRole::mask, kMask}});
    return bart;
  }
  if (training.type == "character") return {{}, {kUnknown}, {{SpecialRole::unk, kUnknown}}};
  if (training.type == "byte_bpe")
    return {{kEndOfText},
            {},
            {{SpecialRole::bos, kEndOfText}, {SpecialRole::eos, kEndOfText}},
            nullptr,
            training.append_end ? kEndOfText : nullptr};
  if (training.type != "wordpiece" && training.type != "word")
    return {{kEnd, kUnknown}, {kPadToken}, end_and_others, nullptr, training.append_end ? kEnd : nullptr};
  return {{kBertTokens.begin(), kBertTokens.end()},
          {},
          {{SpecialRole::unk, "[UNK]"},
           {SpecialRole::sep, "[SEP]"},
           {SpecialRole::pad, "[PAD]"},
           {SpecialRole::cls, "[CLS]"},
           {SpecialRole::mask, "[MASK]"}},
          "[CLS]",
          "[SEP]"};
}

/// Returns a source of the same texts as valid UTF-8, which counts them in `report`. Both must outlive it.
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

/// Calls `use` for each text. Throws Error where there is none.
void read_texts(const SentenceSource& texts, TokenizerTrainingReport& report,
                FunctionRef<void(const std::string&)> use) {
  const SentenceSource source = counted(texts, report);
  for (std::string text; source(text); throw_if_stopped()) use(text);
  if (report.bytes == 0) throw Error(fmt::format("{}: expected a corpus, got no text", kTrained));
}

/// Returns the words that a normalizer (or null) and a pre-tokenizer of tokenizer.json make of the texts,
/// sorted.
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

Json token_ids(const std::vector<std::string>& tokens) {
  Json ids = Json::object();
  // Not by [], which compares the key with all others.
  for (const std::string& token : tokens)
    ids.get_ref<Json::object_t&>().Container::emplace_back(token, ids.size());
  return ids;
}

Json bpe_model(Json vocabulary, Json merges, const char* unknown) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown != nullptr ? Json(unknown) : Json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Json pairs_of(const TrainedBpe& trained) {
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges)
    merges.push_back(Json::array(
        {trained.tokens[static_cast<std::size_t>(left)], trained.tokens[static_cast<std::size_t>(right)]}));
  return merges;
}

/// Returns the id of a token of a model's vocabulary, which must have it.
std::int64_t token_id(const Json& vocabulary, std::string_view token) {
  if (vocabulary.is_object()) return vocabulary.at(std::string(token)).get<std::int64_t>();
  const auto place = std::find_if(vocabulary.begin(), vocabulary.end(),
                                  [token](const Json& entry) { return entry[0] == token; });
  HEED_ASSERT(place != vocabulary.end(), "a special token is in the vocabulary");
  return place - vocabulary.begin();
}

/// A template that adds one token before (unless it is null) and one after each text; the second is of type
/// `second_type`.
Json framing_template(const char* before, const char* after, const Json& vocabulary, int second_type) {
  const auto item = [](const char* kind, const char* id, int type) {
    return Json{{kind, {{"id", id}, {"type_id", type}}}};
  };
  Json single = Json::array(), special = Json::object();
  if (before != nullptr) single.push_back(item("SpecialToken", before, 0));
  single.push_back(item("Sequence", "A", 0));
  single.push_back(item("SpecialToken", after, 0));
  Json pair = single;
  pair.push_back(item("Sequence", "B", second_type));
  pair.push_back(item("SpecialToken", after, second_type));
  for (const char* token : {before, after}) {
    if (token == nullptr) continue;
    special[token] = {
        {"id", token}, {"ids", Json::array({token_id(vocabulary, token)})}, {"tokens", Json::array({token})}};
  }
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

/// The sections of a tokenizer.json, in the order in which the tokenizers library writes them.
Json empty_document() {
  Json document = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  for (const char* section :
       {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"})
    document[section] = nullptr;
  return document;
}

/// Each character is a token: byte pair encoding without pairs.
Json character_document(const SentenceSource& texts, TokenizerTrainingReport& report) {
  std::set<char32_t> characters;
  read_texts(texts, report, [&characters](const std::string& text) {
    for (std::size_t at = 0; at < text.size();) characters.insert(next_character(text, at));
  });
  report.words = static_cast<std::int64_t>(characters.size());
  TrainedBpe trained;
  for (const char32_t c : characters) append_utf8(trained.tokens.emplace_back(), c);
  trained.tokens.emplace_back(kUnknown);
  Json document = empty_document();
  document["decoder"] = {{"type", "Fuse"}};
  document["model"] = bpe_model(token_ids(trained.tokens), Json::array(), kUnknown);
  return document;
}

Json byte_bpe_document(const TokenizerTraining& training, const SpecialTokens& special,
                       const SentenceSource& texts, TokenizerTrainingReport& report) {
  const auto byte_level = [](bool prefix_space, bool trim) {
    return Json{{"type", "ByteLevel"},
                {"add_prefix_space", prefix_space},
                {"trim_offsets", trim},
                {"use_regex", true}};
  };
  Json document = empty_document();
  document["pre_tokenizer"] = byte_level(false, true);
  document["decoder"] = byte_level(true, true);
  BpeTraining bpe;
  bpe.vocab_size = training.vocab_size - static_cast<std::int64_t>(special.last.size());
  bpe.min_frequency = training.min_frequency;
  bpe.special_tokens = special.first;
  bpe.alphabet.assign(kByteCharacters.begin(), kByteCharacters.end());
  TrainedBpe trained = train_bpe(count_words(texts, document, report), bpe, kTrained);
  trained.tokens.insert(trained.tokens.end(), special.last.begin(), special.last.end());
  document["model"] = bpe_model(token_ids(trained.tokens), pairs_of(trained), nullptr);
  document["post_processor"] =
      special.end != nullptr ? framing_template(special.begin, special.end, document["model"]["vocab"], 0)
                             : byte_level(true, false);
  return document;
}

/// BERT's normalizer and pre-tokenizer.
Json bert_document(const TokenizerTraining& training) {
  Json document = empty_document();
  document["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", nullptr},
                            {"lowercase", training.lower_case}};
  document["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  return document;
}

/// Of equally frequent words, the first in the order of bytes comes first.
Json word_document(const TokenizerTraining& training, const SpecialTokens& special,
                   const SentenceSource& texts, TokenizerTrainingReport& report) {
  Json document = bert_document(training);
  std::vector<CountedWord> words = count_words(texts, document, report);
  std::stable_sort(words.begin(), words.end(),
                   [](const CountedWord& a, const CountedWord& b) { return a.count > b.count; });
  std::vector<std::string> tokens = special.first;
  for (const CountedWord& word : words) {
    if (word.count < training.min_frequency || std::ssize(tokens) >= training.vocab_size) break;
    if (std::find(special.first.begin(), special.first.end(), word.word) == special.first.end())
      tokens.push_back(word.word);
  }
  document["model"] = {{"type", "WordLevel"}, {"vocab", token_ids(tokens)}, {"unk_token", "[UNK]"}};
  document["post_processor"] = framing_template(special.begin, special.end, document["model"]["vocab"], 1);
  return document;
}

Json wordpiece_document(const TokenizerTraining& training, const SpecialTokens& special,
                        const SentenceSource& texts, TokenizerTrainingReport& report) {
  Json document = bert_document(training);
  document["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  BpeTraining bpe;
  bpe.vocab_size = training.vocab_size;
  bpe.min_frequency = training.min_frequency;
  bpe.special_tokens = special.first;
  bpe.most_characters = static_cast<std::size_t>(training.most_characters);
  bpe.prefix = "##";
  const TrainedBpe trained = train_bpe(count_words(texts, document, report), bpe, kTrained);
  document["model"] = {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", token_ids(trained.tokens)}};
  document["post_processor"] = framing_template(special.begin, special.end, document["model"]["vocab"], 1);
  return document;
}

/// SentencePiece's model, whose own two special tokens are replaced by `special`.
Json sentencepiece_model(const SentencePieceFile& file, const SpecialTokens& special) {
  std::vector<std::string> tokens = special.first;
  std::vector<double> scores(special.first.size());
  for (std::size_t i = 2; i < file.pieces.size(); ++i) {
    tokens.emplace_back(file.pieces[i].text);
    scores.push_back(static_cast<double>(file.pieces[i].score));
  }
  tokens.insert(tokens.end(), special.last.begin(), special.last.end());
  scores.resize(tokens.size());
  if (file.unigram) {
    Json entries = Json::array();
    for (std::size_t i = 0; i < tokens.size(); ++i) entries.push_back(Json::array({tokens[i], scores[i]}));
    return {{"type", "Unigram"},
            {"unk_id", std::find(tokens.begin(), tokens.end(), kUnknown) - tokens.begin()},
            {"vocab", std::move(entries)},
            {"byte_fallback", file.byte_fallback}};
  }
  Json merges = Json::array();
  for (const auto& [left, right] : piece_merges(file, 2, kTrained))
    merges.push_back(Json::array({std::string(left), std::string(right)}));
  Json model = bpe_model(token_ids(tokens), std::move(merges), kUnknown);
  model["fuse_unk"] = true;
  model["byte_fallback"] = file.byte_fallback;
  return model;
}

/// SentencePiece's handling of spaces: none at the ends, one between words, one before the first word.
Json sentencepiece_document(const TokenizerTraining& training, const SpecialTokens& special,
                            const SentenceSource& texts, TokenizerTrainingReport& report) {
  SentencePieceOptions options = training.sentencepiece;
  options.model_type = training.type;
  options.vocab_size = training.vocab_size;
  SentencePieceReport used;
  const std::string bytes =
      train_sentencepiece_model(options, special.size() - 2, counted(texts, report), &used);
  report.skipped = report.texts - used.used;
  const SentencePieceFile file = read_sentencepiece_file(bytes, kTrained);
  Json normalizers = Json::array();
  if (!file.charsmap.empty())
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(file.charsmap)}});
  normalizers.push_back({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  const Json metaspace = {
      {"type", "Metaspace"}, {"replacement", kSpaceMark}, {"prepend_scheme", "always"}, {"split", true}};
  const Json spaces = {{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}};
  const Json first = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};

  Json document = empty_document();
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}};
  document["pre_tokenizer"] = metaspace;
  document["decoder"] = metaspace;
  if (file.byte_fallback)
    document["decoder"] = {
        {"type", "Sequence"},
        {"decoders", Json::array({spaces, Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}, first})}};
  document["model"] = sentencepiece_model(file, special);
  if (special.end != nullptr)
    document["post_processor"] = framing_template(special.begin, special.end, document["model"]["vocab"], 0);
  return document;
}

/// `symbols` are user-defined ones, which are not special.
Json added_tokens(const SpecialTokens& special, const std::vector<std::string>& symbols,
                  const Json& vocabulary) {
  std::map<std::int64_t, std::pair<std::string, bool>> tokens;
  for (const auto& [role, token] : special.roles) tokens[token_id(vocabulary, token)] = {token, true};
  for (const std::string& token : special.last) tokens[token_id(vocabulary, token)] = {token, true};
  for (const std::string& symbol : symbols) tokens[token_id(vocabulary, symbol)] = {symbol, false};
  Json list = Json::array();
  for (const auto& [id, token] : tokens)
    list.push_back({{"id", id},
                    {"content", token.first},
                    {"single_word", false},
                    {"lstrip", token.first == kMask},  // it stands for what begins with a space
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", token.second}});
  return list;
}

void check(const TokenizerTraining& training) {
  const auto refuse = [](const char* option, const char* expected, std::int64_t got) {
    throw Error(fmt::format("{}: {}: expected {}, got {}", kTrained, option, expected, got));
  };
  constexpr std::int64_t kMost = 1 << 24;
  constexpr std::array kTypes = {"character", "word", "byte_bpe", "wordpiece", "unigram", "bpe"};
  if (std::find(kTypes.begin(), kTypes.end(), training.type) == kTypes.end())
    throw Error(fmt::format("{}: type: expected character, word, byte_bpe, wordpiece, unigram or bpe, got {}",
                            kTrained, training.type));
  if (training.vocab_size < 1 || training.vocab_size > kMost)
    refuse("vocab_size", "1 to 16777216", training.vocab_size);
  if (training.special_tokens != "" && training.special_tokens != "t5" && training.special_tokens != "bart")
    throw Error(
        fmt::format("{}: special_tokens: expected t5 or bart, got {}", kTrained, training.special_tokens));
  if (training.special_tokens != "" &&
      (training.type == "character" || training.type == "word" || training.type == "wordpiece"))
    throw Error(fmt::format("{}: special_tokens: expected a vocabulary of byte_bpe, unigram or bpe, got {}",
                            kTrained, training.type));
  if (training.min_frequency < 0) refuse("min_frequency", "a number from 0", training.min_frequency);
  if (training.most_characters < 1) refuse("most_characters", "a positive number", training.most_characters);
  if (training.model_max_length && *training.model_max_length < 1)
    refuse("model_max_length", "a positive number", *training.model_max_length);
}

/// Throws Error unless vocab_size leaves room beside the special tokens.
void check_room(const TokenizerTraining& training, const SpecialTokens& special) {
  if (training.type == "character") return;
  const bool bytes = training.type == "byte_bpe";
  const auto least = special.size() + static_cast<std::int64_t>(bytes ? kByteCharacters.size() : 1);
  if (training.vocab_size >= least) return;
  throw Error(fmt::format("{}: vocab_size: expected at least {} (special tokens{} and characters), got {}",
                          kTrained, least,
                          training.special_tokens == "" ? "" : fmt::format(" of {}", training.special_tokens),
                          training.vocab_size));
}

}  // namespace

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerTraining& training, const SentenceSource& texts,
                                           TokenizerTrainingReport* report) {
  check(training);
  TokenizerTrainingReport counts;
  const bool sentencepiece = training.type == "unigram" || training.type == "bpe";
  const SpecialTokens special = special_tokens_of(training);
  check_room(training, special);
  Json document = sentencepiece                  ? sentencepiece_document(training, special, texts, counts)
                  : training.type == "character" ? character_document(texts, counts)
                  : training.type == "word"      ? word_document(training, special, texts, counts)
                  : training.type == "byte_bpe"  ? byte_bpe_document(training, special, texts, counts)
                                                 : wordpiece_document(training, special, texts, counts);
  if (report != nullptr) *report = counts;
  const auto symbols =
      sentencepiece ? training.sentencepiece.user_defined_symbols : std::vector<std::string>();
  document["added_tokens"] = added_tokens(special, symbols, document["model"]["vocab"]);

  TokenizerConfig config;
  Json map = Json::object();
  for (const auto& [role, token] : special.roles) {
    config.roles[static_cast<std::size_t>(role)] = token;
    map[role_key(role)] = token;
  }
  config.names_roles = true;
  config.model_max_length = training.model_max_length;
  Json config_json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"clean_up_tokenization_spaces", false}};
  if (training.model_max_length) config_json["model_max_length"] = *training.model_max_length;
  if (training.type == "wordpiece" || training.type == "word")
    config_json["do_lower_case"] = training.lower_case;
  config_json.update(map);

  TokenizerFiles files;
  files.contents = {{"tokenizer.json", json_text(document, 2) + "\n"},
                    {"tokenizer_config.json", json_text(config_json, 2) + "\n"},
                    {"special_tokens_map.json", json_text(map, 2) + "\n"}};
  // From the text, as others will read it: scores may change in their last bit.
  const Json read = parse_json(files.contents.front().second, kTrained, kTokenizerJson);
  Pipeline pipeline = parse_pipeline(JsonField(read, kTrained));
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
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
