// The tokenizer of a GGUF file: the files of a Hugging Face tokenizer made of its metadata, which the readers
// of those then load. A vocabulary of byte pair encoding or of BERT becomes a tokenizer.json; one of
// SentencePiece becomes the SentencePiece model that llama.cpp's converter read.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_set>

#include "core/json.h"
#include "files/gguf_file.h"
#include "heed/core/utf8.h"
#include "heed/error.h"
#include "text/loading/gguf_tokenizer.h"
#include "text/loading/loaders.h"

namespace heed {
namespace {

constexpr const char *kTokens = gguf_keys::kTokens, *kTypes = gguf_keys::kTypes,
                     *kScores = gguf_keys::kScores;
constexpr std::string_view kBlank = gguf_keys::kBlank;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    result.append(text.substr(at, found - at));
    if (found == text.npos) return result;
    result.append(to);
    at = found + from.size();
  }
}

// What the metadata under "tokenizer." say.
struct GgufVocabulary {
  explicit GgufVocabulary(const GgufFile& gguf);

  std::optional<std::int64_t> id(const char* role) const;
  std::optional<std::int64_t> special(std::initializer_list<std::string_view> texts) const;
  bool flag(const char* name, bool default_value) const {
    return file.boolean(std::string("tokenizer.ggml.") + name).value_or(default_value);
  }
  std::string text(std::int64_t id) const { return std::string(tokens[static_cast<std::size_t>(id)]); }

  const GgufFile& file;
  std::string model;
  std::vector<std::string_view> tokens;
  std::vector<GgufToken> types;
};

GgufVocabulary::GgufVocabulary(const GgufFile& gguf)
    : file(gguf), model(gguf.string("tokenizer.ggml.model").value_or("")), tokens(gguf.strings(kTokens)) {
  if (tokens.empty())
    file.fail(kTokens, "a vocabulary", "none (the file holds a model without its tokenizer)");
  if (tokens.size() > 1 << 24) file.fail(kTokens, "at most 16777216 tokens", std::to_string(tokens.size()));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (first_invalid_utf8(tokens[i]))
      file.fail(kTokens, "tokens in UTF-8", fmt::format("other bytes in token {}", i));
  }
  const std::vector<std::int64_t> given = file.integers(kTypes);
  if (!given.empty() && given.size() != tokens.size())
    file.fail(kTypes, fmt::format("one for each of {} tokens", tokens.size()), std::to_string(given.size()));
  for (const std::int64_t type : given) {
    if (type < 0 || type > 6) file.fail(kTypes, "types from 1 to 6", std::to_string(type));
    types.push_back(type == 0 ? GgufToken::normal : static_cast<GgufToken>(type));
  }
  types.resize(tokens.size(), GgufToken::normal);
}

// The id of a token with a role, or nothing if there is none.
std::optional<std::int64_t> GgufVocabulary::id(const char* role) const {
  const auto given = file.integer(fmt::format("tokenizer.ggml.{}_token_id", role));
  if (given && *given >= 0 && *given < std::ssize(tokens)) return given;
  return std::nullopt;  // 2^32 - 1 stands for none
}

// The first special token with one of these texts.
std::optional<std::int64_t> GgufVocabulary::special(std::initializer_list<std::string_view> texts) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool fits = types[i] == GgufToken::control || types[i] == GgufToken::unknown;
    if (fits && std::find(texts.begin(), texts.end(), tokens[i]) != texts.end())
      return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

// Which tokens a tokenizer adds around a text.
struct AddedAround {
  std::optional<std::int64_t> first, last;
  bool twice = false;  // the separator of a pair
};

Json added_token(const GgufVocabulary& v, std::size_t id, bool special, bool lstrip = false,
                 bool rstrip = false) {
  return {{"content", std::string(v.tokens[id])},
          {"single_word", false},
          {"lstrip", lstrip},
          {"rstrip", rstrip},
          {"normalized", false},
          {"special", special}};
}

// The tokens that are matched whole in a text, by id.
std::vector<std::pair<std::size_t, Json>> matched_tokens(const GgufVocabulary& v) {
  std::vector<std::pair<std::size_t, Json>> matched;
  const bool phi3 = v.file.string("general.architecture") == "phi3" && v.model == "llama";
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const bool special =
        v.types[i] == GgufToken::control || (v.types[i] == GgufToken::unknown && v.model != "llama");
    const bool own = v.types[i] == GgufToken::user_defined;
    // Runs of spaces are matched by the model itself, after spaces have become U+2581.
    const bool spaces = v.model == "llama" && (v.tokens[i].find(' ') != std::string_view::npos ||
                                               v.tokens[i].find(kBlank) != std::string_view::npos);
    if (v.tokens[i].empty() || !(special || (own && !spaces))) continue;
    const bool mask =
        (v.tokens[i] == "<mask>" && v.model != "llama") || (v.tokens[i] == "[MASK]" && v.model == "gpt2");
    const bool rstrip =
        phi3 && v.tokens[i] != "<s>" && v.tokens[i] != "<unk>" && v.tokens[i] != "<|endoftext|>";
    matched.emplace_back(i, added_token(v, i, special, mask, rstrip));
  }
  return matched;
}

Json post_processor(const GgufVocabulary& v, const AddedAround& around) {
  Json special = Json::object();
  const auto token = [&](std::int64_t id, int type) {
    const std::string text = v.text(id);
    special[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
    return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return Json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  Json single = Json::array(), pair = Json::array();
  if (around.first) single.push_back(token(*around.first, 0));
  single.push_back(sequence("A", 0));
  if (around.last) single.push_back(token(*around.last, 0));
  pair = single;
  const int second = v.model == "bert" ? 1 : 0;
  if (around.twice && around.last) pair.push_back(token(*around.last, 0));
  if (around.first && !around.last) pair.push_back(token(*around.first, second));
  pair.push_back(sequence("B", second));
  if (around.last) pair.push_back(token(*around.last, second));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

Json vocabulary_by_id(const GgufVocabulary& v) {
  Json vocabulary = Json::object();
  auto& members = vocabulary.get_ref<Json::object_t&>();
  members.reserve(v.tokens.size());
  // Appended as they are: looking each up among those before would take quadratic time.
  for (std::size_t i = 0; i < v.tokens.size(); ++i) members.emplace_back(std::string(v.tokens[i]), i);
  return vocabulary;
}

Json tokenizer_json(const GgufVocabulary& v, Json model, const AddedAround& around) {
  Json added = Json::array();
  for (auto& [id, token] : matched_tokens(v)) {
    Json entry = {{"id", id}};
    entry.update(token);
    added.push_back(std::move(entry));
  }
  Json document = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
  document.update(model);
  if (around.first || around.last) document["post_processor"] = post_processor(v, around);
  return document;
}

const GgufPreTokenizer& pre_tokenizer_of(const GgufVocabulary& v) {
  const char* key = "tokenizer.ggml.pre";
  const std::string name = v.file.string(key).value_or("default");
  const GgufPreTokenizer* found = gguf_pre_tokenizer(name);
  if (found == nullptr)
    v.file.fail(key, "a way to split texts that heed has (default, gpt-2, llama-bpe, qwen2, ...)", name);
  return *found;
}

Json byte_level_model(const GgufVocabulary& v, const GgufPreTokenizer& pre) {
  Json merges = Json::array();
  for (const std::string_view merge : v.file.strings("tokenizer.ggml.merges")) {
    if (first_invalid_utf8(merge)) v.file.fail("tokenizer.ggml.merges", "pairs in UTF-8", "other bytes");
    merges.push_back(std::string(merge));
  }
  Json steps = Json::array();
  for (const std::string_view pattern : pre.patterns)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", std::string(pattern)}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  steps.push_back(bytes);
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", pre.ignores_merges},
                {"vocab", vocabulary_by_id(v)},
                {"merges", std::move(merges)}};
  return {{"normalizer", pre.composes ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"post_processor", nullptr},
          {"decoder", bytes},
          {"model", std::move(model)}};
}

// Whether texts are made small: unless the file says so, a vocabulary with capital letters is one of texts
// that have them.
bool lowers(const GgufVocabulary& v) {
  if (const auto given = v.file.boolean("tokenizer.ggml.normalizer.lowercase")) return *given;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const bool capital =
        std::any_of(v.tokens[i].begin(), v.tokens[i].end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (v.types[i] == GgufToken::normal && capital && v.tokens[i].find('[') == std::string_view::npos)
      return false;
  }
  return true;
}

// The converter gave the first piece of a word U+2581 and took ## from the others.
GgufVocabulary with_word_pieces(const GgufVocabulary& v, std::vector<std::string>& own) {
  GgufVocabulary pieces = v;
  own.resize(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const std::string_view token = v.tokens[i];
    const bool whole = v.types[i] == GgufToken::control || v.types[i] == GgufToken::unused;
    own[i] = whole                       ? std::string(token)
             : token.starts_with(kBlank) ? std::string(token.substr(kBlank.size()))
                                         : "##" + std::string(token);
    pieces.tokens[i] = own[i];
  }
  return pieces;
}

Json word_piece_model(const GgufVocabulary& v, std::int64_t unknown) {
  const auto accents = v.file.boolean("tokenizer.ggml.normalizer.strip_accents");
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", accents ? Json(*accents) : Json()},
            {"lowercase", lowers(v)}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", v.text(unknown)},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab", vocabulary_by_id(v)}}}};
}

// A message of a protocol buffer, field by field.
class ProtocolBuffer {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    put((std::uint64_t{field} << 3) | 0);
    put(value);
  }
  void real(std::uint32_t field, float value) {
    put((std::uint64_t{field} << 3) | 5);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }
  void text(std::uint32_t field, std::string_view value) {
    put((std::uint64_t{field} << 3) | 2);
    put(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

// Which piece stands for text that no other matches, as llama.cpp has it: the one that the file names,
// whatever its type; otherwise the one of that type, or the first.
std::size_t unknown_piece(const GgufVocabulary& v, const std::vector<std::size_t>& ids) {
  const auto has = [&](std::size_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  if (const auto named = v.id("unknown"); named && has(static_cast<std::size_t>(*named)))
    return static_cast<std::size_t>(*named);
  const auto typed =
      std::find_if(ids.begin(), ids.end(), [&](std::size_t id) { return v.types[id] == GgufToken::unknown; });
  return typed == ids.end() ? ids.front() : *typed;
}

// A SentencePiece model, which has one unknown piece, of the tokens with these ids. Others of that type only
// fill their places.
std::string sentencepiece_model_of(const GgufVocabulary& v, const std::vector<std::size_t>& ids,
                                   bool unigram) {
  std::vector<double> scores = v.file.numbers(kScores);
  if (scores.size() != v.tokens.size())
    v.file.fail(kScores, fmt::format("one for each of {} tokens", v.tokens.size()),
                std::to_string(scores.size()));
  const std::size_t unknown = unknown_piece(v, ids);
  ProtocolBuffer model;
  std::size_t bytes = 0;
  std::unordered_set<std::string_view> known;
  for (const std::size_t id : ids) {
    const GgufToken type = id == unknown                       ? GgufToken::unknown
                           : v.types[id] == GgufToken::unknown ? GgufToken::unused
                           : v.tokens[id].empty()              ? GgufToken::unused
                                                               : v.types[id];
    bytes += type == GgufToken::byte ? 1 : 0;
    if (!known.insert(v.tokens[id]).second && !v.tokens[id].empty())
      v.file.fail(kTokens, "tokens that differ", fmt::format("\"{}\" twice", v.tokens[id]));
    const bool own = type == GgufToken::user_defined;  // in which the converter wrote spaces
    ProtocolBuffer piece;
    piece.text(1, own                    ? replaced(v.tokens[id], " ", kBlank)
                  : v.tokens[id].empty() ? fmt::format("[EMPTY_{}]", id)
                                         : v.text(static_cast<std::int64_t>(id)));
    piece.real(2, static_cast<float>(scores[id]));
    piece.number(3, static_cast<std::uint64_t>(type));
    model.text(1, piece.bytes());
  }
  if (bytes != 0 && bytes != 256)
    v.file.fail(kTypes, "256 tokens of bytes (type 6), or none", std::to_string(bytes));
  ProtocolBuffer trainer;
  trainer.number(3, unigram ? 1 : 2);
  trainer.number(4, ids.size());
  if (bytes != 0) trainer.number(35, 1);
  model.text(2, trainer.bytes());
  ProtocolBuffer normalizer;
  const std::string_view charsmap = v.file.bytes("tokenizer.ggml.precompiled_charsmap");
  normalizer.text(1, charsmap.empty() ? "identity" : "nmt_nfkc");
  if (!charsmap.empty()) normalizer.text(2, charsmap);
  normalizer.number(3, v.flag("add_space_prefix", true) ? 1 : 0);
  normalizer.number(4, v.flag("remove_extra_whitespaces", false) ? 1 : 0);
  normalizer.number(5, 1);
  model.text(3, normalizer.bytes());
  return model.bytes();
}

// The tokens that are pieces of T5's or XLM-RoBERTa's model: without those that only fill the table at its
// end.
std::vector<std::size_t> unigram_pieces(const GgufVocabulary& v, bool fairseq) {
  std::size_t end = v.tokens.size();
  const auto fills = [&](std::size_t i) {
    return v.tokens[i].starts_with("[PAD") || v.tokens[i].starts_with("<extra_id_") ||
           v.tokens[i] == "<mask>";
  };
  while (end > 4 && fills(end - 1)) --end;
  std::vector<std::size_t> ids;
  // <s> <pad> </s> <unk> in the model's table; <unk> <s> </s> in the file.
  if (fairseq) ids = {3, 0, 2};
  for (std::size_t i = fairseq ? 4 : 0; i < end; ++i) ids.push_back(i);
  return ids;
}

// As tokenizer_config.json has them: one as a text, several as a list.
Json chat_templates(const GgufFile& file) {
  const std::string named = gguf_keys::chat("");
  Json list = Json::array();
  for (const std::string& key : file.keys()) {
    const bool is_default = key == gguf_keys::kChat;
    if (!is_default && !key.starts_with(named)) continue;
    list.push_back({{"name", is_default ? kDefaultTemplate : key.substr(named.size())},
                    {"template", *file.string(key)}});
  }
  const bool one = list.size() == 1 && file.has(gguf_keys::kChat);
  return one ? list[0]["template"] : list;
}

Json tokenizer_config(const GgufVocabulary& v, const char* tokenizer_class) {
  Json config = Json::object();
  for (const GgufRole& role : kGgufRoles) {
    if (const auto id = v.id(role.gguf)) config[role_key(role.role)] = v.text(*id);
  }
  const std::string length = v.file.string("general.architecture").value_or("") + ".context_length";
  if (const auto most = v.file.integer(length); most && *most > 0) config["model_max_length"] = *most;
  config["clean_up_tokenization_spaces"] = false;
  config["tokenizer_class"] = tokenizer_class;
  if (const Json templates = chat_templates(v.file); !templates.empty()) config["chat_template"] = templates;
  return config;
}

void decode_added_tokens(const GgufVocabulary& v, Json& config) {
  Json tokens = Json::object();
  for (auto& [id, token] : matched_tokens(v)) tokens[std::to_string(id)] = std::move(token);
  config["added_tokens_decoder"] = std::move(tokens);
}

using Documents = std::map<std::string, std::string>;

void write_json(Documents& documents, const char* name, const Json& json) {
  documents[name] = json_text(json, 2) + "\n";
}

using Ids = std::initializer_list<std::optional<std::int64_t>>;

std::optional<std::int64_t> first_of(Ids ids) {
  const auto found = std::find_if(ids.begin(), ids.end(), [](const auto& id) { return id.has_value(); });
  return found == ids.end() ? std::nullopt : *found;
}

void make_byte_level(const GgufVocabulary& v, Documents& documents) {
  const GgufPreTokenizer& pre = pre_tokenizer_of(v);
  AddedAround around;
  // Files of encoders add a first and a last token that they do not name as bos and eos.
  if (v.flag("add_bos_token", pre.adds_bos))
    around.first = first_of({v.id("bos"), v.special({"<s>", "[CLS]"})});
  if (v.flag("add_eos_token", false)) around.last = first_of({v.id("eos"), v.id("seperator")});
  around.twice = pre.joins_pairs_twice;
  write_json(documents, "tokenizer.json", tokenizer_json(v, byte_level_model(v, pre), around));
  Json config = tokenizer_config(v, "PreTrainedTokenizerFast");
  if (around.first && v.flag("add_sep_token", false)) config["cls_token"] = v.text(*around.first);
  write_json(documents, "tokenizer_config.json", config);
}

void make_word_pieces(const GgufVocabulary& v, Documents& documents) {
  std::vector<std::string> own;
  const GgufVocabulary pieces = with_word_pieces(v, own);
  const auto needed = [&](const char* text, Ids ids) {
    const auto found = first_of(ids);
    if (!found) v.file.fail(kTokens, std::string("the special token ") + text, "none");
    return *found;
  };
  const AddedAround around{needed("[CLS]", {v.id("cls"), v.id("bos"), v.special({"[CLS]"})}),
                           needed("[SEP]", {v.id("seperator"), v.id("eos"), v.special({"[SEP]"})})};
  const std::int64_t unknown = needed("[UNK]", {v.id("unknown"), v.special({"[UNK]"})});
  write_json(documents, "tokenizer.json", tokenizer_json(pieces, word_piece_model(pieces, unknown), around));
  Json config = tokenizer_config(pieces, "BertTokenizer");
  config["cls_token"] = pieces.text(*around.first);
  config["sep_token"] = pieces.text(*around.last);
  config["unk_token"] = pieces.text(unknown);
  config["do_lower_case"] = lowers(pieces);
  write_json(documents, "tokenizer_config.json", config);
}

void make_sentencepiece(const GgufVocabulary& v, Documents& documents) {
  std::vector<std::size_t> ids(v.tokens.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  documents["tokenizer.model"] = sentencepiece_model_of(v, ids, false);
  const bool gemma = v.file.string("general.architecture").value_or("").starts_with("gemma");
  Json config = tokenizer_config(v, gemma ? "GemmaTokenizer" : "LlamaTokenizer");
  config["add_bos_token"] = v.flag("add_bos_token", true);
  config["add_eos_token"] = v.flag("add_eos_token", false);
  decode_added_tokens(v, config);
  write_json(documents, "tokenizer_config.json", config);
}

void make_unigram(const GgufVocabulary& v, Documents& documents) {
  const bool fairseq = v.tokens.size() > 4 && v.tokens[0] == "<s>" && v.tokens[1] == "<pad>";
  const std::vector<std::size_t> ids = unigram_pieces(v, fairseq);
  const char* name = fairseq ? "sentencepiece.bpe.model" : "spiece.model";
  documents[name] = sentencepiece_model_of(v, ids, true);
  Json config = tokenizer_config(v, fairseq ? "XLMRobertaTokenizer" : "T5Tokenizer");
  config.erase("bos_token");  // T5 has none, and XLM-RoBERTa its own
  if (!fairseq) config["extra_ids"] = std::min<std::size_t>(100, v.tokens.size() - ids.size());
  write_json(documents, "tokenizer_config.json", config);
}

Documents documents_of(const GgufFile& file) {
  const GgufVocabulary vocabulary(file);
  Documents documents;
  if (vocabulary.model == "gpt2") {
    make_byte_level(vocabulary, documents);
  } else if (vocabulary.model == "llama") {
    make_sentencepiece(vocabulary, documents);
  } else if (vocabulary.model == "bert") {
    make_word_pieces(vocabulary, documents);
  } else if (vocabulary.model == "t5") {
    make_unigram(vocabulary, documents);
  } else {
    file.fail("tokenizer.ggml.model", "gpt2, llama, bert or t5",
              vocabulary.model.empty() ? "none" : vocabulary.model);
  }
  return documents;
}

}  // namespace

ModelFiles::Maker gguf_tokenizer_maker() {
  return {{"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "sentencepiece.bpe.model",
           "spiece.model"},
          documents_of,
          "tokenizer.ggml"};
}

}  // namespace heed
