// What readers and writers of the tokenizers in GGUF files share, and the writer.
#pragma once

#include <cstdint>
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

}  // namespace heed
