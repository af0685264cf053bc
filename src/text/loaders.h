// One function per layout of tokenizer files; load_tokenizer() chooses among them.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "heed/text/tokenizer.h"

namespace heed {

/// A tokenizer.json; `name` is that of the file. All of these read tokenizer_config.json and
/// special_tokens_map.json beside it where they are there, and throw Error naming file and field.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& directory, const char* name);
/// BERT's vocab.txt, a token a line.
std::unique_ptr<Tokenizer> load_word_piece(const std::filesystem::path& directory, const char* name);
/// GPT-2's and RoBERTa's vocab.json and merges.txt, first called encoder.json and vocab.bpe.
std::unique_ptr<Tokenizer> load_byte_level_bpe(const std::filesystem::path& directory, const char* vocabulary,
                                               const char* merges);
/// A SentencePiece model whose pieces a family numbers in a way of its own: XLM-RoBERTa, CamemBERT, mBART and
/// mBART-50 (sentencepiece.bpe.model), ALBERT and T5 (spiece.model). config.json or tokenizer_config.json
/// beside it tell which; throws Error where they do not.
std::unique_ptr<Tokenizer> load_family_sentencepiece(const std::filesystem::path& directory,
                                                     const char* name);
/// Whether a file of this name is one of these.
bool is_of_family(std::string_view name);
/// Any other SentencePiece model, as LLaMA comes with.
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& directory, const char* name);

}  // namespace heed
