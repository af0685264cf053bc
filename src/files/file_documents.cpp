#include "files/file_documents.h"

#include <mutex>

#include "core/fork_safe_mutex.h"

namespace heed {
namespace {

struct Documents {
  ForkSafeMutex mutex;
  std::map<std::string, std::shared_ptr<const std::string>> by_path;
};

Documents& documents_in_memory() {
  static Documents documents;
  return documents;
}

std::string key_of(const std::filesystem::path& path) { return path.lexically_normal().string(); }

}  // namespace

void keep_documents(const std::filesystem::path& file, const std::map<std::string, std::string>& documents) {
  Documents& kept = documents_in_memory();
  const std::lock_guard lock(kept.mutex);
  for (const auto& [name, text] : documents)
    kept.by_path[key_of(file / name)] = std::make_shared<const std::string>(text);
}

std::shared_ptr<const std::string> kept_document(const std::filesystem::path& path) {
  Documents& kept = documents_in_memory();
  const std::lock_guard lock(kept.mutex);
  if (kept.by_path.empty()) return nullptr;  // mostly
  const auto found = kept.by_path.find(key_of(path));
  return found == kept.by_path.end() ? nullptr : found->second;
}

}  // namespace heed
