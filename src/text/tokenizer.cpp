#include "heed/text/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "heed/error.h"
#include "heed/text/marian.h"

namespace heed {
namespace {

constexpr std::array kMarianFiles = {"source.spm", "target.spm", "vocab.json"};
// What other kinds of tokenizers are kept in; named in the message, so that the reader sees what was found.
constexpr std::array kOtherFiles = {
    "tokenizer.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model",
    "vocab.txt",      "merges.txt",   "vocab.json"};

bool has(const std::filesystem::path& directory, const char* name) {
  std::error_code error;
  return std::filesystem::exists(directory / name, error);
}

void append(std::string& list, const char* name) { list += list.empty() ? name : std::string(", ") + name; }

[[noreturn]] void refuse(const std::filesystem::path& directory) {
  const bool some_marian = has(directory, "source.spm") || has(directory, "target.spm");
  std::string missing, found;
  for (const char* name : kMarianFiles) {
    if (!has(directory, name)) append(missing, name);
  }
  for (const char* name : kOtherFiles) {
    if (has(directory, name)) append(found, name);
  }
  if (some_marian) {
    throw Error(
        fmt::format("{}: expected source.spm, target.spm and vocab.json, got no {} (copy what is missing "
                    "from where the model comes from)",
                    directory.string(), missing));
  }
  throw Error(
      fmt::format("{}: expected the tokenizer files source.spm, target.spm and vocab.json (Marian; no other "
                  "kind is read by this version), got {}",
                  directory.string(), found.empty() ? "none" : "only " + found));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    throw Error(fmt::format("{}: expected the directory of a model, got {}", directory.string(),
                            std::filesystem::exists(directory, error) ? "a file" : "nothing there"));
  }
  for (const char* name : kMarianFiles) {
    if (!has(directory, name)) refuse(directory);
  }
  return load_marian_tokenizer(directory);
}

}  // namespace heed
