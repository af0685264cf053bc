// SentencePiece models whose family numbers the pieces in its own way and adds tokens that are not in the
// file. They are converted to the pipeline that transformers 5.12.1 builds for them, which is then executed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "heed/error.h"
#include "text/loading/loaders.h"
#include "text/loading/sentencepiece_file.h"
#include "text/loading/tokenizer_config.h"
#include "text/pipeline/languages.h"
#include "text/pipeline/pipeline_tokenizer.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

enum class Family { xlm_roberta, camembert, mbart, mbart50, nllb, m2m100, albert, t5, pegasus, deberta };

constexpr const char *kFairseqFile = "sentencepiece.bpe.model", *kPlainFile = "spiece.model",
                     *kDebertaFile = "spm.model";

struct FamilyName {
  Family family;
  const char* tokenizer_class;
  const char* model_type;  // as in config.json; empty if another family has it
  const char* file;
};
constexpr FamilyName kFamilies[] = {
    {Family::xlm_roberta, "XLMRobertaTokenizer", "xlm-roberta", kFairseqFile},
    {Family::camembert, "CamembertTokenizer", "camembert", kFairseqFile},
    {Family::mbart, "MBartTokenizer", "mbart", kFairseqFile},
    {Family::mbart50, "MBart50Tokenizer", "", kFairseqFile},
    {Family::m2m100, "M2M100Tokenizer", "m2m_100", kFairseqFile},
    {Family::nllb, "NllbTokenizer", "", kFairseqFile},
    {Family::albert, "AlbertTokenizer", "albert", kPlainFile},
    {Family::t5, "T5Tokenizer", "t5", kPlainFile},
    {Family::t5, "MT5Tokenizer", "mt5", kPlainFile},
    {Family::pegasus, "PegasusTokenizer", "pegasus", kPlainFile},
    {Family::deberta, "DebertaV2Tokenizer", "deberta-v2", kDebertaFile},
};

/// What identifies a directory's family: a tokenizer_class, which takes precedence, or a model_type.
struct FamilyKey {
  const char* key = nullptr;
  std::string value;
};

FamilyKey family_key(const ModelFiles& from) {
  FamilyKey type;
  for (const char* name : {"tokenizer_config.json", "config.json"}) {
    if (!from.has(name)) continue;
    const nlohmann::ordered_json json = read_json_object(from, name);
    const JsonField document(json, from.where(name));
    std::string given = document.string("tokenizer_class", "");
    if (!given.empty()) return {"tokenizer_class", std::move(given)};
    if (std::string_view(name) == "config.json") type = {"model_type", document.string("model_type", "")};
  }
  return type;
}

std::optional<Family> family_of(const FamilyKey& key, std::string_view file) {
  for (const FamilyName& name : kFamilies) {
    const bool fits =
        !key.value.empty() && (key.value == name.model_type || key.value == name.tokenizer_class ||
                               key.value == name.tokenizer_class + std::string("Fast"));
    if (fits && file == name.file) return name.family;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_unknown_family(const FamilyKey& key, const std::string& where,
                                        std::string_view file) {
  const char *types = "xlm-roberta, camembert, mbart or m2m_100",
             *classes =
                 "XLMRobertaTokenizer, CamembertTokenizer, MBartTokenizer, MBart50Tokenizer, M2M100Tokenizer "
                 "or NllbTokenizer";
  if (file == kPlainFile)
    types = "t5, mt5, albert or pegasus", classes = "T5Tokenizer, AlbertTokenizer or PegasusTokenizer";
  if (file == kDebertaFile) types = "deberta-v2", classes = "DebertaV2Tokenizer";
  throw Error(fmt::format(
      "{}: unknown kind of tokenizer: expected config.json with the model_type {}, or tokenizer_config.json "
      "with the tokenizer_class {} beside it, got {} (add the tokenizer_class to tokenizer_config.json)",
      where, types, classes, key.value.empty() ? "neither" : fmt::format("the {} {}", key.key, key.value)));
}

/// Returns the family's tokenizer_class.
const char* tokenizer_class_of(Family family) {
  const auto* place = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [family](const FamilyName& name) { return name.family == family; });
  return place->tokenizer_class;
}

/// Returns the family of a model whose file is `name`. It is named by the tokenizer_class of
/// tokenizer_config.json, else by the tokenizer_class or model_type of config.json. Without these, a
/// spiece.model is T5's unless it has a piece of ALBERT's, and a spm.model is DeBERTa's. Throws Error if no
/// family has these names.
Family detect_family(const ModelFiles& from, const SentencePieceFile& file, std::string_view name) {
  const FamilyKey key = family_key(from);
  if (const auto family = family_of(key, name)) {
    // M2M100 and NLLB have the same model_type; only M2M100 has its ids in another file.
    const bool by_type = std::string_view(key.key) == "model_type";
    if (*family == Family::m2m100 && by_type && !from.has("vocab.json")) return Family::nllb;
    return *family;
  }
  const bool plain = name == kPlainFile;
  const bool framed = std::any_of(file.pieces.begin(), file.pieces.end(), [](const auto& piece) {
    return piece.text == "[CLS]" || piece.text == "<cls>";
  });
  if (name == kDebertaFile && key.value.empty()) return Family::deberta;
  if (!plain || framed || !key.value.empty()) refuse_unknown_family(key, from.where(name), name);
  return Family::t5;
}

/// A family's default special tokens, by SpecialRole; null if it has none.
struct DefaultTokens {
  std::array<const char*, kSpecialRoles> roles;
  bool mask_strips = false;      ///< whether its mask token includes the white space before it
  bool mask_normalized = false;  ///< whether its mask token is matched in the normalized text
};

/// The special and added tokens of such a tokenizer, read as transformers 5.12.1 reads them.
class FamilyTokens {
 public:
  /// Takes the objects of tokenizer_config.json, special_tokens_map.json and added_tokens.json. `decoder` has
  /// the tokens of added_tokens_decoder in tokenizer_config.json; if that key exists, both other files are
  /// ignored. additional_special_tokens of the map is ignored. Throws Error naming file and field.
  FamilyTokens(const DefaultTokens& usual, const JsonField& config, const JsonField& map,
               const JsonField& added, const std::vector<AddedToken>& decoder);

  /// Returns the content of a role's token, or nullopt if neither the family nor the files name one.
  const std::optional<std::string>& role(SpecialRole which) const {
    return contents_[static_cast<std::size_t>(which)];
  }
  const std::array<std::optional<std::string>, kSpecialRoles>& roles() const { return contents_; }

  /// Returns all tokens in the order in which they are added. `own` are the model's own tokens, which a list
  /// of additional tokens in tokenizer_config.json replaces.
  std::vector<AddedToken> tokens(const std::vector<AddedToken>& own) const;

 private:
  void read_role(std::size_t index, const DefaultTokens& usual, const std::optional<JsonField>& given);
  void read_extra(const std::optional<JsonField>& list, bool of_map);
  void read_added(const JsonField& document);

  std::array<std::optional<AddedToken>, kSpecialRoles> roles_;
  std::array<std::optional<std::string>, kSpecialRoles> contents_;
  std::set<std::string, std::less<>> named_;  // tokens that the files name as special
  std::vector<AddedToken> added_;
  std::optional<std::vector<AddedToken>> extra_;
};

struct RoleKey {
  SpecialRole role;
  const char* key;
};
/// In the order in which tokens missing from the vocabulary are added.
constexpr RoleKey kRoles[] = {{SpecialRole::bos, "bos_token"},  {SpecialRole::eos, "eos_token"},
                              {SpecialRole::unk, "unk_token"},  {SpecialRole::sep, "sep_token"},
                              {SpecialRole::pad, "pad_token"},  {SpecialRole::cls, "cls_token"},
                              {SpecialRole::mask, "mask_token"}};

/// Parses a token, given as a string or an object, that is special regardless of its own `special` entry.
AddedToken special_token(const JsonField& field) {
  if (!field.value().is_object()) return plain_token(field.string(), true);
  AddedToken token = parse_added_token(field, 0);
  token.special = true;
  token.normalized = field.boolean("normalized", false);
  return token;
}

FamilyTokens::FamilyTokens(const DefaultTokens& usual, const JsonField& config, const JsonField& map,
                           const JsonField& added, const std::vector<AddedToken>& decoder) {
  const bool decoded = config.find("added_tokens_decoder").has_value();
  for (const RoleKey& entry : kRoles) {
    auto given = decoded ? std::nullopt : map.find(entry.key);
    if (!given) given = config.find(entry.key);
    read_role(static_cast<std::size_t>(entry.role), usual, given);
  }
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
    if (!extra_) read_extra(config.find(key), false);
  }
  if (decoded) {
    added_ = decoder;
  } else {
    read_extra(map.find("extra_special_tokens"), true);
    read_added(added);
  }
}

void FamilyTokens::read_role(std::size_t index, const DefaultTokens& usual,
                             const std::optional<JsonField>& given) {
  if (!given && usual.roles[index] == nullptr) return;
  AddedToken token = given ? special_token(*given) : plain_token(usual.roles[index], true);
  if (given) named_.insert(token.content);
  const bool described = given && given->value().is_object();
  if (index == static_cast<std::size_t>(SpecialRole::mask) && !described) {
    token.lstrip = usual.mask_strips;
    token.normalized = usual.mask_normalized;
  }
  contents_[index] = token.content;
  roles_[index] = std::move(token);
}

void FamilyTokens::read_extra(const std::optional<JsonField>& list, bool of_map) {
  if (!list || list->value().is_object()) return;  // named tokens: special through their own keys
  if (!extra_) extra_.emplace();
  for (std::size_t i = 0; i < list->array_size(); ++i) {
    const JsonField field = list->at(i);
    const bool as_described = field.value().is_object() && !of_map;
    extra_->push_back(as_described ? parse_added_token(field, 0) : special_token(field));
    named_.insert(extra_->back().content);
  }
}

void FamilyTokens::read_added(const JsonField& document) {
  document.each_member([this](const std::string& content, const JsonField& id) {
    added_.push_back(plain_token(content, named_.count(content) > 0));
    added_.back().id = static_cast<std::int32_t>(id.integer(0, INT32_MAX));
  });
  std::stable_sort(added_.begin(), added_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

std::vector<AddedToken> FamilyTokens::tokens(const std::vector<AddedToken>& own) const {
  std::vector<AddedToken> all = added_;
  std::set<std::string_view> known;
  for (const AddedToken& token : added_) known.insert(token.content);
  const auto append = [&](const AddedToken& token) {
    if (known.count(token.content) == 0) all.push_back(token);
  };
  for (const RoleKey& entry : kRoles) {
    const auto& token = roles_[static_cast<std::size_t>(entry.role)];
    if (token) append(*token);
  }
  for (const AddedToken& token : extra_ ? *extra_ : own) append(token);
  return all;
}

// By SpecialRole: bos, eos, unk, pad, mask, cls, sep.
constexpr DefaultTokens kRobertaTokens = {{"<s>", "</s>", "<unk>", "<pad>", "<mask>", "<s>", "</s>"}, false};
constexpr DefaultTokens kFairseqTokens = {kRobertaTokens.roles, true};
constexpr DefaultTokens kNllbTokens = {kRobertaTokens.roles, true, true};
constexpr DefaultTokens kMbart50Tokens = {{nullptr, "</s>", "<unk>", "<pad>", "<mask>", "<s>", "</s>"}, true};
constexpr DefaultTokens kAlbertTokens = {{"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]", "[CLS]", "[SEP]"},
                                         false};
constexpr DefaultTokens kDebertaTokens = {{"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", "[CLS]", "[SEP]"},
                                          false};
constexpr DefaultTokens kPegasusTokens = {{nullptr, "</s>", "<unk>", "<pad>", "<mask_2>", nullptr, nullptr},
                                          false};
constexpr DefaultTokens kT5Tokens = {{nullptr, "</s>", "<unk>", "<pad>", nullptr, nullptr, nullptr}, false};

std::vector<std::string_view> languages_of(Family family) {
  const LanguageRule* rule = language_rule(tokenizer_class_of(family));
  return rule != nullptr ? language_codes(rule->codes) : std::vector<std::string_view>();
}

bool has_fairseq_numbers(Family family) {
  return family != Family::albert && family != Family::t5 && family != Family::deberta &&
         family != Family::pegasus;
}

/// Returns the family's tokens for masked text: T5's, whose ids count downwards after the pieces, or
/// Pegasus's before the pieces: that of masked sentences, then unused ones up to `offset`.
std::vector<std::string> sentinels_of(Family family, const JsonField& config, std::int64_t extra_ids) {
  std::vector<std::string> sentinels;
  if (family == Family::t5) {
    for (std::int64_t i = 0; i < extra_ids; ++i) sentinels.push_back(fmt::format("<extra_id_{}>", i));
  } else if (family == Family::pegasus) {
    const std::int64_t offset = config.integer("offset", 2, 100000, 103);
    const bool named = config.value().contains("mask_token_sent");  // null, for none, is not supported
    sentinels.push_back(named ? config.at("mask_token_sent").string() : "<mask_1>");
    for (std::int64_t i = 2; i < offset; ++i) sentinels.push_back(fmt::format("<unk_{}>", i));
  }
  return sentinels;
}

/// Returns the pieces in the family's numbering, with their scores.
Json vocabulary_of(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
                   const std::vector<std::string>& sentinels) {
  Json vocabulary = Json::array();
  const auto add = [&vocabulary](std::string_view token, double score = 0) {
    Json entry = Json::array({std::string(token)});
    entry.push_back(score);
    vocabulary.push_back(std::move(entry));
  };
  std::size_t replaced = 0;  // pieces that the family replaces by its own
  if (family == Family::camembert) {
    replaced = 1;
    add("<s>NOTUSED");
    add(*tokens.role(SpecialRole::pad));
    add("</s>NOTUSED");
    add(*tokens.role(SpecialRole::unk));
    add("<unk>NOTUSED", -100);
  } else if (has_fairseq_numbers(family)) {
    replaced = 3;
    add(*tokens.role(family == Family::mbart50 ? SpecialRole::cls : SpecialRole::bos));
    add(*tokens.role(SpecialRole::pad));
    add(*tokens.role(SpecialRole::eos));
    add(*tokens.role(SpecialRole::unk));
  } else if (family == Family::pegasus) {
    replaced = 2;
    add(*tokens.role(SpecialRole::pad));
    add(*tokens.role(SpecialRole::eos));
    add(sentinels.front());
    add(*tokens.role(SpecialRole::mask));
    for (std::size_t i = 1; i < sentinels.size(); ++i) add(sentinels[i], -100);
  }
  for (std::size_t i = replaced; i < file.pieces.size(); ++i)
    add(file.pieces[i].text, static_cast<double>(file.pieces[i].score));
  for (const std::string_view language : languages_of(family)) add(language);
  if (has_fairseq_numbers(family)) add(*tokens.role(SpecialRole::mask));
  if (family == Family::t5) {
    for (std::size_t i = sentinels.size(); i-- > 0;) add(sentinels[i]);
  }
  return vocabulary;
}

/// Returns the model's own added tokens, which are matched in a text.
std::vector<AddedToken> own_tokens(Family family, const SentencePieceFile& file,
                                   const std::vector<std::string>& sentinels) {
  std::vector<AddedToken> own;
  for (const std::string& sentinel : sentinels) own.push_back(plain_token(sentinel, true));
  for (const std::string_view language : languages_of(family)) own.push_back(plain_token(language, true));
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    const bool control = piece.kind == SentencePieceFile::Kind::control;
    if (!control && piece.kind != SentencePieceFile::Kind::user_defined) continue;
    own.push_back(plain_token(piece.text, control));
    own.back().normalized = false;
  }
  return own;
}

Json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

/// Returns the family's normalizer. mBART, CamemBERT, ALBERT and DeBERTa ignore the character map of the
/// model.
Json normalizer_of(Family family, const SentencePieceFile& file, const JsonField& config) {
  const Json join_spaces = replace("Regex", " {2,}", " ");
  Json parts = Json::array();
  switch (family) {
    case Family::m2m100:
    case Family::mbart: break;
    case Family::deberta:
    case Family::camembert:
      if (family == Family::deberta && config.boolean("do_lower_case", false))
        parts.push_back({{"type", "Lowercase"}});
      parts.push_back(replace("Regex", R"(\s{2,}|[\n\r\t])", " "));
      if (family == Family::deberta) parts.push_back({{"type", "NFC"}});
      parts.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
      break;
    case Family::t5:
    case Family::xlm_roberta:
    case Family::pegasus:
    case Family::nllb:
    case Family::mbart50: {
      const std::vector<std::uint8_t> map(file.charsmap.begin(), file.charsmap.end());
      parts.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", Json::binary(map)}});
      if (family != Family::t5 && family != Family::xlm_roberta) parts.push_back(join_spaces);
      break;
    }
    case Family::albert:
      // Accents and capitals are removed regardless of do_lower_case and keep_accents, as in transformers.
      for (const char* quotes : {"``", "''"}) parts.push_back(replace("String", quotes, "\""));
      for (const char* type : {"NFKD", "StripAccents", "Lowercase"}) parts.push_back({{"type", type}});
      parts.push_back(join_spaces);
  }
  return {{"type", "Sequence"}, {"normalizers", std::move(parts)}};
}

/// The number of the token for what no piece covers.
std::int64_t unknown_id(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
                        const std::vector<std::string>& sentinels) {
  if (family == Family::albert) return 1;
  if (family == Family::t5) return 2;
  if (has_fairseq_numbers(family)) return 3;
  const bool pegasus = family == Family::pegasus;
  const std::size_t first = pegasus ? 2 : 0, offset = pegasus ? sentinels.size() + 1 : 0;
  for (std::size_t i = first; i < file.pieces.size(); ++i) {
    if (file.pieces[i].text == *tokens.role(SpecialRole::unk) && file.pieces[i].score == 0)
      return static_cast<std::int64_t>(i + offset);
  }
  return static_cast<std::int64_t>(pegasus ? offset + 2 : 1);
}

/// Returns the model of NLLB: byte pair encoding of the pieces.
Json merging_model(const Json& entries, const SentencePieceFile& file, const FamilyTokens& tokens,
                   const std::string& where) {
  Json vocabulary = Json::object(), merges = Json::array();
  for (const Json& entry : entries)
    vocabulary.get_ref<Json::object_t&>().Container::emplace_back(entry[0].get<std::string>(),
                                                                  vocabulary.size());
  for (const auto& [left, right] : piece_merges(file, 3, where))
    merges.push_back(Json::array({std::string(left), std::string(right)}));
  return {{"type", "BPE"},
          {"unk_token", *tokens.role(SpecialRole::unk)},
          {"fuse_unk", true},
          {"vocab", std::move(vocabulary)},
          {"merges", std::move(merges)}};
}

Json model_of(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
              const std::vector<std::string>& sentinels, const std::string& where) {
  Json vocabulary = vocabulary_of(family, file, tokens, sentinels);
  if (family == Family::nllb) return merging_model(vocabulary, file, tokens, where);
  return {{"type", "Unigram"},
          {"unk_id", unknown_id(family, file, tokens, sentinels)},
          {"vocab", std::move(vocabulary)}};
}

Json document_of(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
                 const JsonField& config, const std::vector<std::string>& sentinels,
                 const std::string& where) {
  const bool prefixed = !languages_of(family).empty() || family == Family::t5 || family == Family::pegasus ||
                        config.boolean("add_prefix_space", true);
  const bool deberta = family == Family::deberta;
  const Json metaspace = {{"type", "Metaspace"},
                          {"add_prefix_space", prefixed || deberta},
                          {"prepend_scheme", prefixed  ? "always"
                                             : deberta ? "first"
                                                       : "never"}};
  Json pieces = Json::array();
  if (deberta && config.boolean("split_by_punct", false))
    pieces.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  if (family == Family::xlm_roberta || family == Family::mbart || family == Family::albert ||
      family == Family::t5)
    pieces.push_back({{"type", "WhitespaceSplit"}});
  pieces.push_back(metaspace);
  return {{"normalizer", normalizer_of(family, file, config)},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(pieces)}}},
          {"decoder", metaspace},
          {"model", model_of(family, file, tokens, sentinels, where)}};
}

/// Returns a template; `special` are pairs [token, id].
Json template_processing(Json single, Json pair, std::initializer_list<Json> special) {
  Json tokens = Json::object();
  for (const Json& token : special)
    tokens[token[0].get<std::string>()] = {{"ids", Json::array({token[1]})},
                                           {"tokens", Json::array({token[0]})}};
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(tokens)}};
}

Json part(const char* kind, const Json& id, int type = 0) {
  return {{kind, {{"id", id}, {"type_id", type}}}};
}

/// DeBERTa's `[CLS] A [SEP]` and `[CLS] A [SEP] B [SEP]`, the second text of type 1.
Json typed_processing(const Json& start, const Json& end) {
  const Json first = part("SpecialToken", start[0]), mark = part("SpecialToken", end[0]),
             second_mark = part("SpecialToken", end[0], 1);
  return template_processing(
      Json::array({first, part("Sequence", "A"), mark}),
      Json::array({first, part("Sequence", "A"), mark, part("Sequence", "B", 1), second_mark}), {start, end});
}

/// T5's `A </s>` and `A </s> B </s>`; Pegasus's pair is `A B </s>`.
Json end_processing(const Json& end, bool between) {
  const Json mark = part("SpecialToken", end[0]), first = part("Sequence", "A"),
             second = part("Sequence", "B");
  return template_processing(
      Json::array({first, mark}),
      between ? Json::array({first, mark, second, mark}) : Json::array({first, second, mark}), {end});
}

/// Returns the post-processor, or null if the configuration defines it.
Json post_processor_of(Family family, const Pipeline& pipeline, const FamilyTokens& tokens,
                       const JsonField& config, const std::string& where) {
  const TokenTable& vocabulary = pipeline.model->vocabulary();
  const auto numbered = [&](SpecialRole role, const char* shown = nullptr) {
    const std::string& token = *tokens.role(role);
    const AddedToken* added = pipeline.added.find(token);
    const bool there = vocabulary.find(token) >= 0 || has_fairseq_numbers(family);
    if (added == nullptr || !there)
      throw Error(fmt::format("{}: token {}, which is added around texts, not found", where, token));
    return Json::array({shown != nullptr ? shown : token, added->id});
  };
  if (family == Family::albert) {
    if (config.find("add_bos_token") || config.find("add_eos_token")) return nullptr;
    return {{"type", "BertProcessing"},
            {"cls", numbered(SpecialRole::cls, "[CLS]")},
            {"sep", numbered(SpecialRole::sep, "[SEP]")}};
  }
  if (family == Family::deberta)
    return typed_processing(numbered(SpecialRole::cls), numbered(SpecialRole::sep));
  const Json end = numbered(SpecialRole::eos);
  if (family == Family::t5 || family == Family::pegasus) return end_processing(end, family == Family::t5);
  if (!languages_of(family).empty()) return nullptr;  // PipelineTokenizer makes it
  return {{"type", "RobertaProcessing"},
          {"cls", numbered(SpecialRole::bos)},
          {"sep", end},
          {"trim_offsets", false}};
}

}  // namespace

bool is_of_family(std::string_view name) {
  return name == kFairseqFile || name == kPlainFile || name == kDebertaFile;
}

std::unique_ptr<Tokenizer> load_family_sentencepiece(const ModelFiles& from, const char* name) {
  const std::string where = from.where(name);
  TokenizerFiles files;
  const OptionalFile configuration(files, from, "tokenizer_config.json"),
      map(files, from, "special_tokens_map.json"), added(files, from, "added_tokens.json");
  const JsonField config_field = configuration.field();
  TokenizerConfig config = TokenizerConfig::load(from);
  const SentencePieceFile file = read_sentencepiece_file(files.read(from, name), where);
  const Family family = detect_family(from, file, name);
  if (family == Family::m2m100) return load_m2m100(from, name);
  const DefaultTokens& usual = family == Family::albert        ? kAlbertTokens
                               : family == Family::t5          ? kT5Tokens
                               : family == Family::pegasus     ? kPegasusTokens
                               : family == Family::xlm_roberta ? kRobertaTokens
                               : family == Family::mbart50     ? kMbart50Tokens
                               : family == Family::nllb        ? kNllbTokens
                               : family == Family::deberta     ? kDebertaTokens
                                                               : kFairseqTokens;
  const FamilyTokens tokens(usual, config_field, map.field(), added.field(), config.added_tokens);

  const std::vector<std::string> sentinels = sentinels_of(family, config_field, config.extra_ids);
  const Json document = document_of(family, file, tokens, config_field, sentinels, where);
  Pipeline pipeline = parse_pipeline(JsonField(document, where));
  for (const AddedToken& token : tokens.tokens(own_tokens(family, file, sentinels)))
    pipeline.added.add(token, pipeline.model->vocabulary());
  const Json post_processor = post_processor_of(family, pipeline, tokens, config_field, where);
  if (!post_processor.is_null())
    pipeline.post_processor = parse_post_processor(JsonField(post_processor, where, "post_processor"));
  // The pipeline already has all tokens.
  config.roles = tokens.roles();
  config.names_roles = true;
  config.additional_special_tokens.clear();
  config.tokenizer_class = tokenizer_class_of(family);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

}  // namespace heed
