// tokenizer_config.json and special_tokens_map.json: the roles of tokens, and settings of tokenizers in
// legacy files.
#pragma once

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "heed/files/model_files.h"
#include "text/pipeline/added_tokens.h"

namespace heed {

enum class SpecialRole { bos, eos, unk, pad, mask, cls, sep };
inline constexpr std::size_t kSpecialRoles = 7;
/// Returns the key of a role in the configuration files, such as bos_token.
const char* role_key(SpecialRole role);

struct TokenizerConfig {
  std::array<std::optional<std::string>, kSpecialRoles> roles;
  bool names_roles = false;   ///< true if any role is named
  bool guesses_roles = true;  ///< if none is named, tokens of the usual names have the roles
  std::vector<std::string> additional_special_tokens;
  std::vector<AddedToken> added_tokens;  ///< from added_tokens_decoder, by id
  std::optional<bool> add_bos, add_eos;
  bool clean_up_spaces = false;
  std::optional<std::int64_t> model_max_length;
  std::string tokenizer_class;
  bool lower_case = true;
  std::optional<bool> strip_accents;
  bool chinese_characters = true;
  bool prefix_space = false;
  std::int64_t extra_ids = 100;
  std::optional<std::string> source_language, target_language;  // src_lang and tgt_lang
  bool legacy_behaviour = false;  // NLLB: the language after a text instead of before it
  std::string word_delimiter;     // of Wav2Vec2CTCTokenizer; empty: another
  std::string where;              // tokenizer_config.json, for messages

  /// Reads both files of a model. Each may be missing. Throws Error naming file and field if a value has
  /// the wrong type.
  static TokenizerConfig load(const ModelFiles& from);
  /// Reads the special tokens of one of the files; those already named stay.
  void read_roles(const JsonField& document);
  const std::optional<std::string>& role(SpecialRole which) const {
    return roles[static_cast<std::size_t>(which)];
  }
  /// Returns all tokens that are named as special.
  std::vector<std::string> special_tokens() const;
  /// Returns true if add_bos_token and add_eos_token define the added tokens instead of the post-processor of
  /// the tokenizer.json (if it `has_one`).
  bool replaces_post_processor(bool has_one) const;
};

/// The files that a tokenizer was loaded from, byte for byte, so that they can be saved again.
struct TokenizerFiles {
  std::vector<std::pair<std::string, std::string>> contents;  // file name and bytes

  /// Reads a file of a model and keeps it. Throws Error if it is missing.
  const std::string& read(const ModelFiles& from, const char* name);
  /// The same for one of the small configuration files. Returns null if it is missing.
  const std::string* read_config(const ModelFiles& from, const char* name);
  /// Reads the files of chat templates that there are.
  void read_chat_templates(const ModelFiles& from);
  void save(const std::filesystem::path& directory) const;
};

/// One of the small configuration files; a missing one counts as an empty object.
class OptionalFile {
 public:
  OptionalFile(TokenizerFiles& files, const ModelFiles& from, const char* name);
  JsonField field() const { return JsonField(json_, where_); }

 private:
  std::string where_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
};

/// The rules of tokenizer files.
inline constexpr JsonRules kTokenizerJson{JsonNumbers::two_roundings, true};

/// Reads the JSON object of a configuration file of a model. Throws Error if the file is malformed or not an
/// object.
Json read_json_object(const ModelFiles& from, std::string_view name);

}  // namespace heed
