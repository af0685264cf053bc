// Trains character, byte-level BPE and WordPiece tokenizers: counts the words of a corpus, trains the
// vocabulary, and writes the tokenizer.json that describes it, which is then loaded.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <unordered_map>

#include "heed/error.h"
#include "heed/text/training.h"
#include "heed/text/unicode.h"
#include "text/bpe_trainer.h"
#include "text/byte_level.h"
#include "text/pipeline_tokenizer.h"
#include "text/utf8.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTrained = "tokenizer training";
constexpr const char *kEndOfText = "<|endoftext|>", *kUnknownCharacter = "<unk>";
constexpr std::array kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

/// Reads all texts. Calls `use` for each, as valid UTF-8.
void read_texts(const SentenceSource& texts, TokenizerTrainingReport& report,
                FunctionRef<void(const std::string&)> use) {
  for (std::string text; texts(text);) {
    ++report.texts;
    report.bytes += static_cast<std::int64_t>(text.size());
    if (first_invalid_utf8(text)) {
      std::size_t replaced = 0;
      text = replace_invalid_utf8(text, &replaced);
      report.replaced_in_utf8 += static_cast<std::int64_t>(replaced);
    }
    use(text);
  }
  if (report.bytes == 0) throw Error(fmt::format("{}: expected a corpus, got no text", kTrained));
}

/// Returns the words that a normalizer (or null) and a pre-tokenizer make of the texts, sorted.
std::vector<CountedWord> count_words(const SentenceSource& texts, const Json& document,
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

Json bpe_model(const TrainedBpe& trained, const char* unknown) {
  Json merges = Json::array();
  for (const auto& [left, right] : trained.merges)
    merges.push_back(Json::array(
        {trained.tokens[static_cast<std::size_t>(left)], trained.tokens[static_cast<std::size_t>(right)]}));
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown != nullptr ? Json(unknown) : Json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", token_ids(trained.tokens)},
          {"merges", std::move(merges)}};
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
        {"id", token}, {"ids", Json::array({vocabulary.at(token)})}, {"tokens", Json::array({token})}};
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
  trained.tokens.emplace_back(kUnknownCharacter);
  Json document = empty_document();
  document["decoder"] = {{"type", "Fuse"}};
  document["model"] = bpe_model(trained, kUnknownCharacter);
  return document;
}

Json byte_bpe_document(const TokenizerTraining& training, const SentenceSource& texts,
                       TokenizerTrainingReport& report) {
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
  bpe.vocab_size = training.vocab_size;
  bpe.min_frequency = training.min_frequency;
  bpe.special_tokens = {kEndOfText};
  bpe.alphabet.assign(kByteCharacters.begin(), kByteCharacters.end());
  document["model"] = bpe_model(train_bpe(count_words(texts, document, report), bpe, kTrained), nullptr);
  document["post_processor"] = training.append_end
                                   ? framing_template(nullptr, kEndOfText, document["model"]["vocab"], 0)
                                   : byte_level(true, false);
  return document;
}

Json wordpiece_document(const TokenizerTraining& training, const SentenceSource& texts,
                        TokenizerTrainingReport& report) {
  Json document = empty_document();
  document["normalizer"] = {{"type", "BertNormalizer"},
                            {"clean_text", true},
                            {"handle_chinese_chars", true},
                            {"strip_accents", nullptr},
                            {"lowercase", training.lower_case}};
  document["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  document["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  BpeTraining bpe;
  bpe.vocab_size = training.vocab_size;
  bpe.min_frequency = training.min_frequency;
  bpe.special_tokens.assign(kBertTokens.begin(), kBertTokens.end());
  bpe.most_characters = static_cast<std::size_t>(training.most_characters);
  bpe.prefix = "##";
  const TrainedBpe trained = train_bpe(count_words(texts, document, report), bpe, kTrained);
  document["model"] = {{"type", "WordPiece"},
                       {"unk_token", "[UNK]"},
                       {"continuing_subword_prefix", "##"},
                       {"max_input_chars_per_word", 100},
                       {"vocab", token_ids(trained.tokens)}};
  document["post_processor"] = framing_template("[CLS]", "[SEP]", document["model"]["vocab"], 1);
  return document;
}

/// The tokens with a role, as pairs of the key in tokenizer_config.json and the token.
using Roles = std::vector<std::pair<SpecialRole, const char*>>;

Roles roles_of(const std::string& type) {
  if (type == "character") return {{SpecialRole::unk, kUnknownCharacter}};
  if (type == "byte_bpe") return {{SpecialRole::bos, kEndOfText}, {SpecialRole::eos, kEndOfText}};
  return {{SpecialRole::unk, "[UNK]"},
          {SpecialRole::sep, "[SEP]"},
          {SpecialRole::pad, "[PAD]"},
          {SpecialRole::cls, "[CLS]"},
          {SpecialRole::mask, "[MASK]"}};
}

Json added_tokens(const Roles& roles, const Json& vocabulary) {
  std::map<std::int64_t, std::string> special;
  for (const auto& [role, token] : roles) special[vocabulary.at(token).get<std::int64_t>()] = token;
  Json list = Json::array();
  for (const auto& [id, token] : special)
    list.push_back({{"id", id},
                    {"content", token},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  return list;
}

void check(const TokenizerTraining& training) {
  const auto refuse = [](const char* option, const char* expected, std::int64_t got) {
    throw Error(fmt::format("{}: {}: expected {}, got {}", kTrained, option, expected, got));
  };
  constexpr std::int64_t kMost = 1 << 24;
  if (training.type != "character" && training.type != "byte_bpe" && training.type != "wordpiece")
    throw Error(
        fmt::format("{}: type: expected character, byte_bpe or wordpiece, got {}", kTrained, training.type));
  if (training.vocab_size < 1 || training.vocab_size > kMost)
    refuse("vocab_size", "1 to 16777216", training.vocab_size);
  if (training.min_frequency < 0) refuse("min_frequency", "a number from 0", training.min_frequency);
  if (training.most_characters < 1) refuse("most_characters", "a positive number", training.most_characters);
  if (training.model_max_length && *training.model_max_length < 1)
    refuse("model_max_length", "a positive number", *training.model_max_length);
}

}  // namespace

std::unique_ptr<Tokenizer> train_tokenizer(const TokenizerTraining& training, const SentenceSource& texts,
                                           TokenizerTrainingReport* report) {
  check(training);
  TokenizerTrainingReport counts;
  Json document = training.type == "character"  ? character_document(texts, counts)
                  : training.type == "byte_bpe" ? byte_bpe_document(training, texts, counts)
                                                : wordpiece_document(training, texts, counts);
  if (report != nullptr) *report = counts;
  const Roles roles = roles_of(training.type);
  document["added_tokens"] = added_tokens(roles, document["model"]["vocab"]);

  TokenizerConfig config;
  Json map = Json::object();
  for (const auto& [role, token] : roles) {
    config.roles[static_cast<std::size_t>(role)] = token;
    map[role_key(role)] = token;
  }
  config.names_roles = true;
  config.model_max_length = training.model_max_length;
  Json config_json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"clean_up_tokenization_spaces", false}};
  if (training.model_max_length) config_json["model_max_length"] = *training.model_max_length;
  if (training.type == "wordpiece") config_json["do_lower_case"] = training.lower_case;
  config_json.update(map);

  Pipeline pipeline = parse_pipeline(JsonField(document, kTrained));
  TokenizerFiles files;
  files.contents = {{"tokenizer.json", document.dump(2) + "\n"},
                    {"tokenizer_config.json", config_json.dump(2) + "\n"},
                    {"special_tokens_map.json", map.dump(2) + "\n"}};
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
