// What readers and writers of the tokenizers in GGUF files share, and the writer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf_output.h"
#include "heed/files/model_files.h"
#include "text/loading/tokenizer_config.h"

namespace heed {

namespace gguf_keys {
inline constexpr const char *kTokens = "tokenizer.ggml.tokens", *kTypes = "tokenizer.ggml.token_type",
                            *kScores = "tokenizer.ggml.scores", *kChat = "tokenizer.chat_template",
                            *kChats = "tokenizer.chat_templates";
/// Of a chat template with a name.
inline std::string chat(std::string_view name) { return std::string(kChat) + "." + std::string(name); }
inline constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, a space in SentencePiece
}  // namespace gguf_keys

/// The kinds of tokens, as those of SentencePiece are numbered.
enum class GgufToken { normal = 1, unknown, control, user_defined, unused, byte };

/// tokenizer.ggml.ROLE_token_id.
struct GgufRole {
  const char* gguf;
  SpecialRole role;
};
inline constexpr GgufRole kGgufRoles[] = {{"bos", SpecialRole::bos},      {"eos", SpecialRole::eos},
                                          {"unknown", SpecialRole::unk},  {"padding", SpecialRole::pad},
                                          {"mask", SpecialRole::mask},    {"cls", SpecialRole::cls},
                                          {"seperator", SpecialRole::sep}};

/// Adds the metadata of the tokenizer of a model whose
/// table has `rows` tokens. `ends`: the tokens that end a text; those that are not the tokenizer's eos are
/// named as ends of a turn and of a message. Tokenizers of byte pairs are written: of bytes (tokenizer.json),
/// and SentencePiece's (tokenizer.model, or a tokenizer.json with bytes for what has no token). Throws Error
/// naming the file for others, for a way to split texts or to frame them that llama.cpp does not have, and
/// for more tokens than rows.
void put_gguf_tokenizer(const ModelFiles& model, std::int64_t rows, const std::vector<std::int64_t>& ends,
                        GgufValues& to);

// How llama.cpp's names of pre-tokenizers (tokenizer.ggml.pre) split a text before byte pair encoding.

/// One way to split.
struct GgufPreTokenizer {
  std::string_view names;  ///< of the models that have it, separated by spaces
  /// Applied one after the other: what a pattern matches and what is between become pieces.
  std::span<const std::string_view> patterns;
  bool adds_bos = false;           ///< unless the file says otherwise
  bool ignores_merges = false;     ///< a piece that is a token needs no merges
  bool composes = false;           ///< Unicode's form NFC first, as these models' own files have it
  bool joins_pairs_twice = false;  ///< RoBERTa: two separators between the texts of a pair
};

/// The one of that name, or null.
const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name);
/// The name of one that splits by these patterns, or nothing if there is none.
std::string_view gguf_pre_tokenizer_name(std::span<const std::string> patterns, bool composes,
                                         bool ignores_merges);

}  // namespace heed
