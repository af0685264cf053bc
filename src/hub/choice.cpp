// Which files of a repository are downloaded: those that heed reads, or those that patterns name.
#include "hub/pull.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <set>

#include "core/strings.h"
#include "heed/io/safetensors.h"

namespace heed::hub {
namespace {

constexpr std::string_view kWeights = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

constexpr std::string_view kNames[] = {
    "config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json",
    // tokenizers
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja", "chat_template.json", "vocab.json", "vocab.txt", "merges.txt", "encoder.json",
    "vocab.bpe", "tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model", "source.spm",
    "target.spm", "target_vocab.json", "normalizer.json",
    // sentence embeddings
    "modules.json", "config_sentence_transformers.json"};

std::string_view folder_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == name.npos ? std::string_view() : name.substr(0, slash);
}

std::string_view base_of(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

// Matches 1_Pooling, 2_Dense, ...: the folders of sentence-transformers' modules.
bool is_module_folder(std::string_view folder) {
  const std::size_t mark = folder.find('_');
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return mark != folder.npos && mark > 0 && mark + 1 < folder.size() &&
         std::all_of(folder.begin(), folder.begin() + static_cast<std::ptrdiff_t>(mark), is_digit) &&
         std::all_of(folder.begin() + static_cast<std::ptrdiff_t>(mark) + 1, folder.end(), is_letter);
}

using Names = std::set<std::string, std::less<>>;

std::string beside(std::string_view name, std::string_view other) {
  const std::string_view folder = folder_of(name);
  return folder.empty() ? std::string(other) : std::string(folder) + "/" + std::string(other);
}

bool is_read_by_heed(const std::string& name, const Names& all) {
  const std::string_view base = base_of(name), folder = folder_of(name);
  if (!folder.empty() && !(is_module_folder(folder) && all.contains("modules.json"))) return false;
  if (base == kWeights || std::find(std::begin(kNames), std::end(kNames), base) != std::end(kNames))
    return true;
  if (base == kIndex) return !all.contains(beside(name, kWeights));
  return base.starts_with("sentence_") && base.ends_with("_config.json");
}

bool matches_one(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&name](const std::string& pattern) { return matches(pattern, name); });
}

// Returns which weights the repository has instead of safetensors, for the message.
std::string other_weights(const std::vector<std::string>& files) {
  constexpr std::string_view kEndings[] = {".bin",     ".pt",   ".pth",         ".gguf", ".onnx", ".h5",
                                           ".msgpack", ".ckpt", ".safetensors", ".ot",   ".npz"};
  constexpr int kMost = 3;
  std::vector<std::string> list;
  int found = 0;
  for (const std::string& file : files) {
    const bool weights = std::any_of(std::begin(kEndings), std::end(kEndings),
                                     [&file](std::string_view ending) { return file.ends_with(ending); });
    if (!weights) continue;
    if (++found <= kMost) list.push_back(file);
  }
  if (found == 0) return "no weights";
  return joined(list) + (found > kMost ? " and " + std::to_string(found - kMost) + " more" : "");
}

void require_a_model(const Repository& repository, const std::vector<std::string>& chosen) {
  const bool weights = std::any_of(chosen.begin(), chosen.end(), [](const std::string& name) {
    return base_of(name) == kWeights || base_of(name) == kIndex;
  });
  if (!weights) {
    throw Error(repository.name + ": expected weights in safetensors (model.safetensors), got " +
                other_weights(repository.files) +
                " (look for a converted copy, or in Python load the model with transformers and call "
                "save_pretrained(DIR))");
  }
  const bool config = std::any_of(chosen.begin(), chosen.end(),
                                  [](const std::string& name) { return base_of(name) == "config.json"; });
  if (!config)
    throw Error(repository.name +
                ": config.json: not found (heed reads models of Hugging Face transformers)");
}

}  // namespace

bool matches(const std::string& pattern, const std::string& name) {
  const std::string whole = pattern.ends_with('/') ? pattern + "*" : pattern;
  return ::fnmatch(whole.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

std::vector<std::string> files_to_download(const Repository& repository, const Patterns& patterns) {
  const Names all(repository.files.begin(), repository.files.end());
  std::vector<std::string> chosen;
  for (const std::string& name : all) {
    const bool wanted =
        patterns.include.empty() ? is_read_by_heed(name, all) : matches_one(patterns.include, name);
    if (wanted) chosen.push_back(name);
  }
  if (patterns.include.empty()) require_a_model(repository, chosen);
  std::erase_if(chosen, [&](const std::string& name) { return matches_one(patterns.exclude, name); });
  if (chosen.empty()) {
    throw Error(repository.name + ": --include and --exclude leave none of its " +
                std::to_string(repository.files.size()) + " files");
  }
  return chosen;
}

std::vector<std::string> indexes_among(const std::vector<std::string>& files, const Patterns& patterns) {
  std::vector<std::string> indexes;
  if (!patterns.include.empty()) return indexes;
  std::copy_if(files.begin(), files.end(), std::back_inserter(indexes),
               [](const std::string& name) { return base_of(name) == kIndex; });
  return indexes;
}

std::vector<std::string> shards_to_download(const Repository& repository, const Patterns& patterns,
                                            const std::string& name, const std::filesystem::path& index) {
  const Names all(repository.files.begin(), repository.files.end());
  std::vector<std::string> shards;
  for (const std::string& shard : shards_of_index(index)) {
    const std::string file = beside(name, shard);
    if (!all.contains(file))
      throw Error(repository.name + ": " + file + ": not found, though " + name + " names it");
    if (!matches_one(patterns.exclude, file)) shards.push_back(file);
  }
  return shards;
}

}  // namespace heed::hub
