// How many processors the process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace heed::detail {

/// Returns the minimum processor quota, in processors, of the process's control groups (versions 1 and 2), or
/// nullopt if they set no limit. `root` is "/" except in tests.
std::optional<double> processor_quota(const std::filesystem::path& root);

/// Returns the processors on which the scheduler may run the calling thread, those of one core side by side;
/// empty if that is not known.
std::vector<int> allowed_processors();

/// Keeps the calling thread, and the threads that it starts, to these processors.
void bind_to(const std::vector<int>& processors);

/// Returns the number of processors on which the scheduler may run the calling thread, but at most the quota,
/// rounded up.
int available_processors();

/// If OMP_PROC_BIND requests it, binds this thread to one processor: number `index` of those available to the
/// first caller.
void bind_if_asked(int index);

/// Returns the first number of OMP_NUM_THREADS if that is set, otherwise available_processors().
int default_threads();

}  // namespace heed::detail
