// Finds the loader for the files of a model, by the name of the first file that is there.
#include "heed/text/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/strings.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "text/loading/loaders.h"

namespace heed {
namespace {

[[noreturn]] void refuse_marian(const ModelFiles& from) {
  std::vector<std::string> missing;
  for (const char* name : {"source.spm", "target.spm", "vocab.json"}) {
    if (!from.has(name)) missing.emplace_back(name);
  }
  throw Error(
      fmt::format("{}: {} not found, beside the other files of a Marian tokenizer (copy what is missing from "
                  "where the model comes from)",
                  from.where(), joined(missing)));
}

std::unique_ptr<Tokenizer> load_model(const ModelFiles& from, const char* name) {
  return is_of_family(name) ? load_family_sentencepiece(from, name) : load_sentencepiece(from, name);
}

std::unique_ptr<Tokenizer> load_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string(), extension = file.extension().string();
  const ModelFiles from(file.parent_path().empty() ? "." : file.parent_path());
  if (extension == ".json") return load_tokenizer_json(from, name.c_str());
  if (extension == ".model" || extension == ".spm") return load_model(from, name.c_str());
  if (extension == ".txt") return load_word_piece(from, name.c_str());
  throw Error(fmt::format(
      "{}: expected a tokenizer.json, a .model, .spm or .gguf file, or a vocab.txt, got another file",
      file.string()));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const ModelFiles& from) {
  const auto there = [&from](const char* name) { return from.has(name); };
  if (there("source.spm") && there("target.spm") && there("vocab.json")) return load_marian_tokenizer(from);
  if (there("tokenizer.json")) return load_tokenizer_json(from, "tokenizer.json");
  if (there("source.spm") || there("target.spm")) refuse_marian(from);
  for (const char* name : {"sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"}) {
    if (there(name)) return load_model(from, name);
  }
  if (there("vocab.txt")) return load_word_piece(from, "vocab.txt");
  if (there("vocab.json") && there("merges.txt"))
    return load_byte_level_bpe(from, "vocab.json", "merges.txt");
  if (there("encoder.json") && there("vocab.bpe"))
    return load_byte_level_bpe(from, "encoder.json", "vocab.bpe");
  if (there("vocab.json")) return load_ctc_characters(from, "vocab.json");
  throw Error(fmt::format(
      "{}: no tokenizer found (tokenizer.json; source.spm, target.spm and vocab.json; tokenizer.model; "
      "spiece.model; spm.model; sentencepiece.bpe.model; vocab.txt; vocab.json and merges.txt; or vocab.json "
      "of characters)",
      from.where()));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return load_tokenizer(ModelFiles(path));
  if (path.empty() || !has_entry(path)) {
    throw Error(fmt::format("\"{}\": not found (name the directory of a model, or a tokenizer's file)",
                            path.string()));
  }
  const ModelFiles from(path, {gguf_tokenizer_maker()});
  return from.is_gguf() ? load_tokenizer(from) : load_file(path);
}

}  // namespace heed
