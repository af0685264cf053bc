// One loader per layout of tokenizer files. load_tokenizer() chooses among them. Each reads
// tokenizer_config.json and special_tokens_map.json of the model if they exist, and throws Error naming
// file and field.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heed/files/model_files.h"
#include "heed/text/tokenizer.h"

namespace heed {

/// Loads a tokenizer.json whose file name is `name`.
std::unique_ptr<Tokenizer> load_tokenizer_json(const ModelFiles& from, const char* name);
/// Loads BERT's vocab.txt, which has one token per line.
std::unique_ptr<Tokenizer> load_word_piece(const ModelFiles& from, const char* name);
/// Loads the vocab.json and merges.txt of GPT-2 and RoBERTa, originally called encoder.json and vocab.bpe.
std::unique_ptr<Tokenizer> load_byte_level_bpe(const ModelFiles& from, const char* vocabulary,
                                               const char* merges);
/// Loads the vocab.json of characters of wav2vec 2.0 with a CTC head. Tokens, ids and texts are those of
/// Wav2Vec2CTCTokenizer in transformers 5.24.
std::unique_ptr<Tokenizer> load_ctc_characters(const ModelFiles& from, const char* name);
/// Loads a SentencePiece model whose pieces the family numbers in its own way: XLM-RoBERTa, CamemBERT, mBART
/// and mBART-50 (sentencepiece.bpe.model), ALBERT and T5 (spiece.model). The family follows from config.json
/// or tokenizer_config.json. Throws Error if it does not.
std::unique_ptr<Tokenizer> load_family_sentencepiece(const ModelFiles& from, const char* name);
/// Returns true if a file of this name belongs to one of these families.
bool is_of_family(std::string_view name);
/// Loads M2M100's SentencePiece model, vocab.json and, if they exist, the configuration files and
/// added_tokens.json. The result is that of M2M100Tokenizer in transformers 5.12.1, except that the tokens of
/// all languages are matched in a text.
std::unique_ptr<Tokenizer> load_m2m100(const ModelFiles& from, const char* name);
/// Loads any other SentencePiece model, such as LLaMA's.
std::unique_ptr<Tokenizer> load_sentencepiece(const ModelFiles& from, const char* name);
/// Makes the files of a tokenizer in Hugging Face layout of a GGUF file. The maker throws Error naming the
/// file and the key, also for a kind of tokenizer, or a way to split texts, that heed does not have.
ModelFiles::Maker gguf_tokenizer_maker();

// The chat templates among a model's files.

/// The name of the template for chats without tools.
inline constexpr const char* kDefaultTemplate = "default";

/// A template as its file has it.
struct NamedTemplate {
  std::string name;   // default, tool_use, rag, ...
  std::string text;   // Jinja
  std::string where;  // the file, and where in it
};

/// Reads the templates of a model: those of chat_template.jinja (`default`) and
/// additional_chat_templates/NAME.jinja; else tokenizer_config.json's chat_template, a text (`default`) or a
/// list of {name, template}; else chat_template.json's. Returns none if there is no such file or key. Throws
/// Error naming file and key if a value has the wrong type.
std::vector<NamedTemplate> read_chat_templates(const ModelFiles& model);

/// The names of the files that hold nothing but chat templates; chat_template.jinja is the first.
std::vector<std::string> chat_template_files(const ModelFiles& model);

/// The one of that name, or null.
const NamedTemplate* find_template(const std::vector<NamedTemplate>& templates, std::string_view name);

}  // namespace heed
