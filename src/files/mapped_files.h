// Which files are mapped for a model, so that it is seen when one is overwritten while the model is used.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/fork_safe_mutex.h"
#include "heed/files/file.h"

namespace heed {

/// The files that are mapped for something, such as a model, whether or not it still reads them.
/// Threads: several may use one object at once.
class MappedFiles {
 public:
  /// Calls `open`, and adds every file that this thread maps in it.
  void add_from(const std::function<void()>& open);
  void add(std::weak_ptr<const MappedFile> file);
  /// MappedFile::require_unchanged() for those that are still mapped.
  void require_unchanged() const;

 private:
  mutable ForkSafeMutex mutex_;
  std::vector<std::weak_ptr<const MappedFile>> files_;
};

}  // namespace heed
