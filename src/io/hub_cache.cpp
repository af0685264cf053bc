#include "heed/io/hub_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "core/strings.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? value : "";
}

// $HOME, or else the home folder in the password database, or else the root folder: never a folder that
// depends on where a command runs.
std::string home() {
  if (std::string folder = environment("HOME"); !folder.empty()) return folder;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> texts{};
  const bool known = ::getpwuid_r(::getuid(), &entry, texts.data(), texts.size(), &found) == 0;
  return known && found != nullptr && *entry.pw_dir != '\0' ? entry.pw_dir : "/";
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Replaces $NAME and ${NAME}. A name that is not set is kept as written.
std::string with_variables(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool braces = text.compare(i, 2, "${") == 0;
    const std::size_t begin = i + (braces ? 2 : 1);
    std::size_t end = begin;
    if (text[i] == '$') {
      while (end < text.size() && is_word(text[end])) ++end;
    }
    const bool whole = end > begin && (!braces || (end < text.size() && text[end] == '}'));
    const std::string name = whole ? text.substr(begin, end - begin) : "";
    if (whole && std::getenv(name.c_str()) != nullptr) {
      result += environment(name);
      i = end + (braces ? 1 : 0);
    } else {
      result += text[i++];
    }
  }
  return result;
}

bool holds_tokenizer(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                           "source.spm", "vocab.txt", "vocab.json"}) {
    if (fs::exists(folder / name, error)) return true;
  }
  return false;
}

// Sentence-transformers may store the transformer in a subfolder.
bool holds_config(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error) || fs::exists(folder / "modules.json", error);
}

std::string pull_command(const std::string& repository, const std::string& revision) {
  return "run: heed pull " + repository + (revision.empty() ? "" : " --revision " + revision);
}

[[noreturn]] void throw_incomplete(const std::string& repository, const std::string& revision,
                                   const fs::path& snapshot) {
  throw Error(snapshot.string() + ": the download is incomplete, " + missing_in_snapshot(snapshot) +
              " is missing (" + pull_command(repository, revision) + ")");
}

// Returns the names under refs, such as main or refs/pr/1, in order.
std::vector<std::string> revisions_in(const fs::path& refs) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator at(refs, error), end; !error && at != end; at.increment(error)) {
    const bool being_written = at->path().filename().native().find(".tmp") != std::string::npos;
    if (at->is_regular_file(error) && !being_written)
      names.push_back(at->path().lexically_relative(refs).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

fs::path newest_snapshot(const fs::path& folder, const std::string& repository) {
  std::error_code error;
  fs::path newest, incomplete;
  fs::file_time_type when{};
  for (const auto& entry : fs::directory_iterator(folder / "snapshots", error)) {
    const bool complete = missing_in_snapshot(entry.path()).empty();
    const auto written = fs::last_write_time(entry.path(), error);
    if (!complete) incomplete = entry.path();
    if (complete && (newest.empty() || written > when)) {
      newest = entry.path();
      when = written;
    }
  }
  if (newest.empty() && !incomplete.empty()) throw_incomplete(repository, "", incomplete);
  return newest;
}

std::string commit_of(const fs::path& ref) {
  constexpr std::size_t kLongest = 256;
  std::string commit = read_file(ref, kLongest);
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) commit.pop_back();
  return commit;
}

}  // namespace

std::string path_in_environment(const char* name) {
  std::string value = with_variables(environment(name));
  if (value == "~" || value.starts_with("~/")) value.replace(0, 1, home());
  return value;
}

fs::path hub_home() {
  if (const std::string home = path_in_environment("HF_HOME"); !home.empty()) return home;
  const std::string cache = path_in_environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(home()) / ".cache" : fs::path(cache)) / "huggingface";
}

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = path_in_environment(name); !folder.empty()) return folder;
  }
  return hub_home() / "hub";
}

bool is_repository_name(std::string_view name) {
  constexpr std::size_t kLongest = 96;
  const std::size_t slash = name.find('/');
  if (name.size() > kLongest || name.find("..") != name.npos || name.find("--") != name.npos ||
      name.ends_with(".git"))
    return false;
  const auto is_part = [](std::string_view part) {
    const auto is_edge = [](char c) { return c == '.' || c == '-'; };
    return !part.empty() && !is_edge(part.front()) && !is_edge(part.back()) &&
           std::all_of(part.begin(), part.end(), [](char c) { return is_word(c) || c == '.' || c == '-'; });
  };
  if (slash == name.npos) return is_part(name);
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

bool is_revision(std::string_view revision) {
  constexpr std::size_t kLongest = 200;
  if (revision.empty() || revision.size() > kLongest || revision.find("..") != revision.npos) return false;
  const auto is_allowed = [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 127 &&
           std::string_view("~^:?*[\\@{}\"'<>|").find(c) == std::string_view::npos;
  };
  if (!std::all_of(revision.begin(), revision.end(), is_allowed)) return false;
  for (std::string_view rest = revision;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part.front() == '.' || part.front() == '-' || part.ends_with(".lock")) return false;
    if (slash == rest.npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

RepositoryRevision split_revision(std::string_view text) {
  const std::size_t at = text.find('@');
  if (at == text.npos) return {std::string(text), ""};
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

fs::path repository_folder(const fs::path& hub, std::string_view repository) {
  std::string folder = "models--";
  for (const char c : repository) folder += c == '/' ? std::string("--") : std::string(1, c);
  return hub / folder;
}

std::string missing_in_snapshot(const fs::path& snapshot) {
  std::error_code error;
  if (!holds_config(snapshot) && !holds_tokenizer(snapshot)) return "config.json";
  const fs::path index = snapshot / "model.safetensors.index.json";
  if (fs::exists(snapshot / "model.safetensors", error) || !fs::exists(index, error)) return "";
  for (const std::string& shard : shards_of_index(index)) {
    if (!fs::exists(snapshot / shard, error)) return shard;
  }
  return "";
}

fs::path find_snapshot(const fs::path& hub, const std::string& repository, const std::string& revision) {
  const fs::path folder = repository_folder(hub, repository);
  std::error_code error;
  if (!fs::is_directory(folder / "snapshots", error)) return {};
  const std::vector<std::string> known = revisions_in(folder / "refs");
  if (known.empty() && revision.empty()) return newest_snapshot(folder, repository);
  const std::string wanted = revision.empty() ? "main" : revision;
  std::string commit = is_commit(wanted) ? wanted : "";
  if (std::find(known.begin(), known.end(), wanted) != known.end())
    commit = commit_of(folder / "refs" / wanted);
  if (commit.empty() || (is_commit(wanted) && !fs::is_directory(folder / "snapshots" / commit, error))) {
    throw Error("model " + repository + ": revision " + wanted + ": not found in " + folder.string() +
                (known.empty() ? "" : ", which has " + joined(known)) + " (" +
                pull_command(repository, revision) +
                (revision.empty() ? ", or write " + repository + "@REVISION" : "") + ")");
  }
  if (!is_commit(commit)) {
    throw Error((folder / "refs" / wanted).string() + ": expected a commit hash, got another text (" +
                pull_command(repository, revision) + ")");
  }
  const fs::path snapshot = folder / "snapshots" / commit;
  if (!missing_in_snapshot(snapshot).empty()) throw_incomplete(repository, revision, snapshot);
  return snapshot;
}

}  // namespace heed
