// SentencePiece models whose family numbers the pieces in its own way and adds tokens that are not in the
// file. They are converted to the pipeline that transformers 5.12.1 builds for them, which is then executed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "core/input_file.h"
#include "heed/error.h"
#include "text/family_tokens.h"
#include "text/files.h"
#include "text/loaders.h"
#include "text/pipeline_tokenizer.h"
#include "text/sentencepiece_file.h"

namespace heed {
namespace {

using Json = nlohmann::ordered_json;

enum class Family { xlm_roberta, camembert, mbart, mbart50, albert, t5, deberta };

struct FamilyName {
  Family family;
  const char* tokenizer_class;
  const char* model_type;  // as in config.json
  const char* file;
};
constexpr const char *kFairseqFile = "sentencepiece.bpe.model", *kPlainFile = "spiece.model",
                     *kDebertaFile = "spm.model";
constexpr FamilyName kFamilies[] = {
    {Family::xlm_roberta, "XLMRobertaTokenizer", "xlm-roberta", kFairseqFile},
    {Family::camembert, "CamembertTokenizer", "camembert", kFairseqFile},
    {Family::mbart, "MBartTokenizer", "mbart", kFairseqFile},
    {Family::mbart50, "MBart50Tokenizer", "", kFairseqFile},  // its models have model_type mbart
    {Family::albert, "AlbertTokenizer", "albert", kPlainFile},
    {Family::t5, "T5Tokenizer", "t5", kPlainFile},
    {Family::t5, "MT5Tokenizer", "mt5", kPlainFile},
    {Family::deberta, "DebertaV2Tokenizer", "deberta-v2", kDebertaFile},
};

// By SpecialRole: bos, eos, unk, pad, mask, cls, sep.
constexpr DefaultTokens kRobertaTokens = {{"<s>", "</s>", "<unk>", "<pad>", "<mask>", "<s>", "</s>"}, false};
constexpr DefaultTokens kFairseqTokens = {kRobertaTokens.roles, true};
constexpr DefaultTokens kMbart50Tokens = {{nullptr, "</s>", "<unk>", "<pad>", "<mask>", "<s>", "</s>"}, true};
constexpr DefaultTokens kAlbertTokens = {{"[CLS]", "[SEP]", "<unk>", "<pad>", "[MASK]", "[CLS]", "[SEP]"},
                                         false};
constexpr DefaultTokens kDebertaTokens = {{"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]", "[CLS]", "[SEP]"},
                                          false};
constexpr DefaultTokens kT5Tokens = {{nullptr, "</s>", "<unk>", "<pad>", nullptr, nullptr, nullptr}, false};

// The language codes after the pieces: mBART has the first 25, mBART-50 all.
constexpr std::array kLanguages = {
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT",
    "ja_XX", "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK",
    "tr_TR", "vi_VN", "zh_CN", "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE",
    "km_KH", "mk_MK", "ml_IN", "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN",
    "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"};

std::span<const char* const> languages_of(Family family) {
  const std::span<const char* const> all = kLanguages;
  return all.first(family == Family::mbart50 ? all.size() : family == Family::mbart ? 25 : 0);
}

/// What identifies a directory's family: a tokenizer_class, which takes precedence, or a model_type.
struct FamilyKey {
  const char* key = nullptr;
  std::string value;
};

FamilyKey family_hint(const std::filesystem::path& directory) {
  FamilyKey type;
  for (const char* name : {"tokenizer_config.json", "config.json"}) {
    if (!has_entry(directory / name)) continue;
    const Json json = read_json_object(directory / name);
    const JsonField document(json, (directory / name).string());
    std::string given = document.string("tokenizer_class", "");
    if (!given.empty()) return {"tokenizer_class", std::move(given)};
    if (std::string_view(name) == "config.json") type = {"model_type", document.string("model_type", "")};
  }
  return type;
}

std::optional<Family> family_of(const FamilyKey& hint, std::string_view file) {
  for (const FamilyName& name : kFamilies) {
    const bool fits =
        !hint.value.empty() && (hint.value == name.model_type || hint.value == name.tokenizer_class ||
                                hint.value == name.tokenizer_class + std::string("Fast"));
    if (fits && file == name.file) return name.family;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_unknown_family(const FamilyKey& hint, const std::string& where,
                                        std::string_view file) {
  const char *types = "xlm-roberta, camembert or mbart",
             *classes = "XLMRobertaTokenizer, CamembertTokenizer, MBartTokenizer or MBart50Tokenizer";
  if (file == kPlainFile) types = "t5, mt5 or albert", classes = "T5Tokenizer or AlbertTokenizer";
  if (file == kDebertaFile) types = "deberta-v2", classes = "DebertaV2Tokenizer";
  throw Error(fmt::format(
      "{}: unknown kind of tokenizer: expected config.json with the model_type {}, or tokenizer_config.json "
      "with "
      "the tokenizer_class {} beside it, got {} (add the tokenizer_class to tokenizer_config.json)",
      where, types, classes,
      hint.value.empty() ? "neither" : fmt::format("the {} {}", hint.key, hint.value)));
}

/// Returns the family of a model's file. Without a hint, a spiece.model is T5's unless it has a piece of
/// ALBERT's, and a spm.model is DeBERTa's.
Family detect_family(const FamilyKey& hint, const SentencePieceFile& file, const char* name,
                     const std::string& where) {
  if (const auto family = family_of(hint, name)) return *family;
  const bool plain = std::string_view(name) == kPlainFile;
  const bool framed = std::any_of(file.pieces.begin(), file.pieces.end(), [](const auto& piece) {
    return piece.text == "[CLS]" || piece.text == "<cls>";
  });
  if (std::string_view(name) == kDebertaFile && hint.value.empty()) return Family::deberta;
  if (!plain || framed || !hint.value.empty()) refuse_unknown_family(hint, where, name);
  return Family::t5;
}

/// A JSON file that may be missing, which counts as an empty object.
class OptionalFile {
 public:
  OptionalFile(TokenizerFiles& files, const std::filesystem::path& directory, const char* name)
      : where_((directory / name).string()) {
    if (const std::string* text = files.read_config(directory, name))
      json_ = parse_json(*text, where_, kTokenizerJson);
  }
  JsonField field() const { return JsonField(json_, where_); }

 private:
  std::string where_;
  Json json_ = Json::object();
};

bool has_fairseq_numbers(Family family) {
  return family != Family::albert && family != Family::t5 && family != Family::deberta;
}

/// T5's sentinel tokens for masked spans, whose ids count downwards after the pieces.
std::string sentinel(std::int64_t number) { return fmt::format("<extra_id_{}>", number); }

/// Returns the pieces in the family's numbering, with their scores.
Json vocabulary_of(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
                   std::int64_t sentinels) {
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
  }
  for (std::size_t i = replaced; i < file.pieces.size(); ++i)
    add(file.pieces[i].text, static_cast<double>(file.pieces[i].score));
  for (const char* language : languages_of(family)) add(language);
  if (has_fairseq_numbers(family)) add(*tokens.role(SpecialRole::mask));
  if (family == Family::t5) {
    for (std::int64_t i = sentinels; i-- > 0;) add(sentinel(i));
  }
  return vocabulary;
}

/// Returns the model's own added tokens, which are matched in a text.
std::vector<AddedToken> own_tokens(Family family, const SentencePieceFile& file, std::int64_t sentinels) {
  std::vector<AddedToken> own;
  for (std::int64_t i = 0; family == Family::t5 && i < sentinels; ++i)
    own.push_back(plain_token(sentinel(i), true));
  for (const char* language : languages_of(family)) own.push_back(plain_token(language, true));
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
    case Family::mbart50: {
      const std::vector<std::uint8_t> map(file.charsmap.begin(), file.charsmap.end());
      parts.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", Json::binary(map)}});
      if (family == Family::mbart50) parts.push_back(join_spaces);
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
std::int64_t unknown_id(Family family, const SentencePieceFile& file, const FamilyTokens& tokens) {
  if (family == Family::albert) return 1;
  if (family == Family::t5) return 2;
  if (family != Family::deberta) return 3;
  for (std::size_t i = 0; i < file.pieces.size(); ++i) {
    if (file.pieces[i].text == *tokens.role(SpecialRole::unk) && file.pieces[i].score == 0)
      return static_cast<std::int64_t>(i);
  }
  return 1;
}

Json document_of(Family family, const SentencePieceFile& file, const FamilyTokens& tokens,
                 const JsonField& config, std::int64_t sentinels) {
  const bool prefixed =
      !languages_of(family).empty() || family == Family::t5 || config.boolean("add_prefix_space", true);
  const bool deberta = family == Family::deberta;
  const Json metaspace = {{"type", "Metaspace"},
                          {"add_prefix_space", prefixed || deberta},
                          {"prepend_scheme", prefixed  ? "always"
                                             : deberta ? "first"
                                                       : "never"}};
  Json pieces = Json::array();
  if (deberta && config.boolean("split_by_punct", false))
    pieces.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  if (family != Family::camembert && family != Family::mbart50 && !deberta)
    pieces.push_back({{"type", "WhitespaceSplit"}});
  pieces.push_back(metaspace);
  return {{"normalizer", normalizer_of(family, file, config)},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(pieces)}}},
          {"decoder", metaspace},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", unknown_id(family, file, tokens)},
            {"vocab", vocabulary_of(family, file, tokens, sentinels)}}}};
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

/// T5's `A </s>` and `A </s> B </s>`.
Json end_processing(const Json& end) {
  const Json mark = part("SpecialToken", end[0]), first = part("Sequence", "A"),
             second = part("Sequence", "B");
  return template_processing(Json::array({first, mark}), Json::array({first, mark, second, mark}), {end});
}

/// mBART's `A </s> en_XX` and mBART-50's `en_XX A </s>`. A second text follows the first without a separator.
Json language_processing(Family family, const Json& end, const Json& language) {
  const auto around = [&](std::initializer_list<const char*> texts) {
    Json parts = Json::array();
    const auto add = [&parts](const char* kind, const Json& id) { parts.push_back(part(kind, id)); };
    if (family == Family::mbart50) add("SpecialToken", language[0]);
    for (const char* text : texts) add("Sequence", text);
    add("SpecialToken", end[0]);
    if (family == Family::mbart) add("SpecialToken", language[0]);
    return parts;
  };
  return template_processing(around({"A"}), around({"A", "B"}), {end, language});
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
  if (family == Family::t5) return end_processing(end);
  if (languages_of(family).empty()) {
    return {{"type", "RobertaProcessing"},
            {"cls", numbered(SpecialRole::bos)},
            {"sep", end},
            {"trim_offsets", false}};
  }
  const auto given = config.find("src_lang");
  const std::string language = given ? given->string() : "en_XX";
  const std::int32_t id = vocabulary.find(language);
  if (id < 0) given->fail("the code of one of the model's languages");
  return language_processing(family, end, Json::array({language, id}));
}

}  // namespace

bool is_of_family(std::string_view name) {
  return name == kFairseqFile || name == kPlainFile || name == kDebertaFile;
}

std::unique_ptr<Tokenizer> load_family_sentencepiece(const std::filesystem::path& directory,
                                                     const char* name) {
  const std::string where = (directory / name).string();
  TokenizerFiles files;
  const OptionalFile configuration(files, directory, "tokenizer_config.json"),
      map(files, directory, "special_tokens_map.json"), added(files, directory, "added_tokens.json");
  const JsonField config_field = configuration.field();
  TokenizerConfig config = TokenizerConfig::load(directory);
  const SentencePieceFile file = read_sentencepiece_file(files.read(directory, name), where);
  const Family family = detect_family(family_hint(directory), file, name, where);
  const DefaultTokens& usual = family == Family::albert        ? kAlbertTokens
                               : family == Family::t5          ? kT5Tokens
                               : family == Family::xlm_roberta ? kRobertaTokens
                               : family == Family::mbart50     ? kMbart50Tokens
                               : family == Family::deberta     ? kDebertaTokens
                                                               : kFairseqTokens;
  const FamilyTokens tokens(usual, config_field, map.field(), added.field(), config.added_tokens);

  const Json document = document_of(family, file, tokens, config_field, config.extra_ids);
  Pipeline pipeline = parse_pipeline(JsonField(document, where));
  for (const AddedToken& token : tokens.tokens(own_tokens(family, file, config.extra_ids)))
    pipeline.added.add(token, pipeline.model->vocabulary());
  const Json post_processor = post_processor_of(family, pipeline, tokens, config_field, where);
  if (!post_processor.is_null())
    pipeline.post_processor = parse_post_processor(JsonField(post_processor, where, "post_processor"));
  // The pipeline already has all tokens.
  config.roles = tokens.roles();
  config.names_roles = true;
  config.additional_special_tokens.clear();
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), std::move(config), std::move(files));
}

}  // namespace heed
