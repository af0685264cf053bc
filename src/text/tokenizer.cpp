#include "heed/text/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/strings.h"
#include "files/gguf_file.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/text/marian.h"
#include "text/loaders.h"

namespace heed {
namespace {

bool has(const std::filesystem::path& directory, const char* name) { return has_entry(directory / name); }

[[noreturn]] void refuse_marian(const std::filesystem::path& directory) {
  std::vector<std::string> missing;
  for (const char* name : {"source.spm", "target.spm", "vocab.json"}) {
    if (!has(directory, name)) missing.emplace_back(name);
  }
  throw Error(
      fmt::format("{}: {} not found, beside the other files of a Marian tokenizer (copy what is missing from "
                  "where the model comes from)",
                  directory.string(), joined(missing)));
}

std::unique_ptr<Tokenizer> load_model(const std::filesystem::path& directory, const char* name) {
  return is_of_family(name) ? load_family_sentencepiece(directory, name)
                            : load_sentencepiece(directory, name);
}

std::unique_ptr<Tokenizer> load_directory(const std::filesystem::path& directory) {
  const auto there = [&directory](const char* name) { return has(directory, name); };
  if (there("source.spm") && there("target.spm") && there("vocab.json"))
    return load_marian_tokenizer(directory);
  if (there("tokenizer.json")) return load_tokenizer_json(directory, "tokenizer.json");
  if (there("source.spm") || there("target.spm")) refuse_marian(directory);
  for (const char* name : {"sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"}) {
    if (there(name)) return load_model(directory, name);
  }
  if (there("vocab.txt")) return load_word_piece(directory, "vocab.txt");
  if (there("vocab.json") && there("merges.txt"))
    return load_byte_level_bpe(directory, "vocab.json", "merges.txt");
  if (there("encoder.json") && there("vocab.bpe"))
    return load_byte_level_bpe(directory, "encoder.json", "vocab.bpe");
  if (there("vocab.json")) return load_ctc_characters(directory, "vocab.json");
  throw Error(fmt::format(
      "{}: no tokenizer found (tokenizer.json; source.spm, target.spm and vocab.json; tokenizer.model; "
      "spiece.model; spm.model; sentencepiece.bpe.model; vocab.txt; vocab.json and merges.txt; or vocab.json "
      "of characters)",
      directory.string()));
}

std::unique_ptr<Tokenizer> load_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string(), extension = file.extension().string();
  const std::filesystem::path directory = file.parent_path().empty() ? "." : file.parent_path();
  if (extension == ".json") return load_tokenizer_json(directory, name.c_str());
  if (extension == ".model" || extension == ".spm") return load_model(directory, name.c_str());
  if (extension == ".txt") return load_word_piece(directory, name.c_str());
  throw Error(fmt::format(
      "{}: expected a tokenizer.json, a .model, .spm or .gguf file, or a vocab.txt, got another file",
      file.string()));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return load_directory(path);
  if (path.empty() || !has_entry(path)) {
    throw Error(fmt::format("\"{}\": not found (name the directory of a model, or a tokenizer's file)",
                            path.string()));
  }
  return is_gguf(path) ? load_gguf_tokenizer(path) : load_file(path);
}

}  // namespace heed
