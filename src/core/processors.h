// How many processors the process may keep busy.
#pragma once

#include <filesystem>
#include <optional>

namespace heed::detail {

/// Processors' worth of time that the process's control groups (versions 1 and 2) grant it, the least of
/// them; nothing where they set no limit. `root` is "/" except in tests.
std::optional<double> processor_quota(const std::filesystem::path& root);

/// The processors that the scheduler may place the calling thread on, and no more than the quota, rounded up.
int available_processors();

/// Where OMP_PROC_BIND asks for it, has this thread keep to one processor, number `index` of those that the
/// first caller had.
void bind_if_asked(int index);

/// The first number of OMP_NUM_THREADS where that is set, else available_processors().
int default_threads();

}  // namespace heed::detail
