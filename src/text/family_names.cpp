#include "text/family_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/json_field.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "text/files.h"

namespace heed {
namespace {

struct FamilyName {
  TokenizerFamily family;
  const char* tokenizer_class;
  const char* model_type;  // as in config.json; empty if another family has it
  const char* file;
};
constexpr FamilyName kFamilies[] = {
    {TokenizerFamily::xlm_roberta, "XLMRobertaTokenizer", "xlm-roberta", kFairseqFile},
    {TokenizerFamily::camembert, "CamembertTokenizer", "camembert", kFairseqFile},
    {TokenizerFamily::mbart, "MBartTokenizer", "mbart", kFairseqFile},
    {TokenizerFamily::mbart50, "MBart50Tokenizer", "", kFairseqFile},
    {TokenizerFamily::m2m100, "M2M100Tokenizer", "m2m_100", kFairseqFile},
    {TokenizerFamily::nllb, "NllbTokenizer", "", kFairseqFile},
    {TokenizerFamily::albert, "AlbertTokenizer", "albert", kPlainFile},
    {TokenizerFamily::t5, "T5Tokenizer", "t5", kPlainFile},
    {TokenizerFamily::t5, "MT5Tokenizer", "mt5", kPlainFile},
    {TokenizerFamily::pegasus, "PegasusTokenizer", "pegasus", kPlainFile},
    {TokenizerFamily::deberta, "DebertaV2Tokenizer", "deberta-v2", kDebertaFile},
};

/// What identifies a directory's family: a tokenizer_class, which takes precedence, or a model_type.
struct FamilyKey {
  const char* key = nullptr;
  std::string value;
};

FamilyKey family_key(const std::filesystem::path& directory) {
  FamilyKey type;
  for (const char* name : {"tokenizer_config.json", "config.json"}) {
    if (!has_entry(directory / name)) continue;
    const nlohmann::ordered_json json = read_json_object(directory / name);
    const JsonField document(json, (directory / name).string());
    std::string given = document.string("tokenizer_class", "");
    if (!given.empty()) return {"tokenizer_class", std::move(given)};
    if (std::string_view(name) == "config.json") type = {"model_type", document.string("model_type", "")};
  }
  return type;
}

std::optional<TokenizerFamily> family_of(const FamilyKey& key, std::string_view file) {
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

}  // namespace

TokenizerFamily detect_family(const std::filesystem::path& directory, const SentencePieceFile& file,
                              std::string_view name) {
  const FamilyKey key = family_key(directory);
  if (const auto family = family_of(key, name)) {
    // M2M100 and NLLB have the same model_type; only M2M100 has its ids in another file.
    const bool by_type = std::string_view(key.key) == "model_type";
    if (*family == TokenizerFamily::m2m100 && by_type && !has_entry(directory / "vocab.json"))
      return TokenizerFamily::nllb;
    return *family;
  }
  const bool plain = name == kPlainFile;
  const bool framed = std::any_of(file.pieces.begin(), file.pieces.end(), [](const auto& piece) {
    return piece.text == "[CLS]" || piece.text == "<cls>";
  });
  if (name == kDebertaFile && key.value.empty()) return TokenizerFamily::deberta;
  if (!plain || framed || !key.value.empty()) refuse_unknown_family(key, (directory / name).string(), name);
  return TokenizerFamily::t5;
}

const char* tokenizer_class_of(TokenizerFamily family) {
  const auto* place = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [family](const FamilyName& name) { return name.family == family; });
  return place->tokenizer_class;
}

}  // namespace heed
