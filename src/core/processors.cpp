// Processors and quotas as Linux tells them: affinity, control groups, and the topology in /sys.
#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace heed::detail {
namespace {

namespace fs = std::filesystem;

void take_least(std::optional<double>& least, double value) {
  least = std::min(least.value_or(value), value);
}

/// Reads a limit from two files, or from two words of one file: the time granted in each period; "max" and -1
/// mean no limit.
void take_quota(std::istream& quota, std::istream& period, std::optional<double>& least) {
  double granted = 0, length = 0;
  if (quota >> granted && period >> length && granted > 0 && length > 0) take_least(least, granted / length);
}

/// A group is limited by its own settings and those of its ancestors.
void walk_up(const fs::path& mount, const std::string& group, std::optional<double>& least) {
  for (fs::path at = fs::path(group).relative_path();; at = at.parent_path()) {
    std::ifstream both(mount / at / "cpu.max");
    take_quota(both, both, least);
    std::ifstream quota(mount / at / "cpu.cfs_quota_us"), period(mount / at / "cpu.cfs_period_us");
    take_quota(quota, period, least);
    if (at.empty()) return;
  }
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

/// Returns the processors on which the scheduler may run this thread.
std::vector<int> affinity() {
  std::vector<int> processors;
  for (int places = 1024; places <= 1 << 20; places *= 4) {  // machines with more processors need larger sets
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(places));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(places));
    if (sched_getaffinity(0, bytes, set) == 0) {
      for (int i = 0; i < places; ++i) {
        if (CPU_ISSET_S(static_cast<std::size_t>(i), bytes, set)) processors.push_back(i);
      }
    }
    CPU_FREE(set);
    if (!processors.empty()) break;
  }
  return processors;
}

/// A number that the kernel reports of a processor, 0 if it does not.
int topology_of(int processor, const char* what) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/" + what);
  int number = 0;
  return file >> number ? number : 0;
}

}  // namespace

std::optional<double> processor_quota(const fs::path& root) {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // hierarchy:controllers:group
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) walk_up(root / "sys/fs/cgroup", group, least);
    if (names_cpu(controllers)) walk_up(root / "sys/fs/cgroup/cpu", group, least);
  }
  return least;
}

std::vector<int> allowed_processors() {
  std::vector<std::array<int, 3>> order;
  for (const int p : affinity())
    order.push_back({topology_of(p, "physical_package_id"), topology_of(p, "core_id"), p});
  std::sort(order.begin(), order.end());
  std::vector<int> processors;
  for (const auto& [package, core, p] : order) processors.push_back(p);
  return processors;
}

void bind_to(const std::vector<int>& processors) {
  if (processors.empty()) return;
  const auto places = static_cast<std::size_t>(*std::max_element(processors.begin(), processors.end())) + 1;
  cpu_set_t* const set = CPU_ALLOC(places);
  if (set == nullptr) return;
  const std::size_t bytes = CPU_ALLOC_SIZE(places);
  CPU_ZERO_S(bytes, set);
  for (const int p : processors) CPU_SET_S(static_cast<std::size_t>(p), bytes, set);
  sched_setaffinity(0, bytes, set);
  CPU_FREE(set);
}

int available_processors() {
  const std::size_t here = affinity().size();
  const double most =
      here > 0 ? static_cast<double>(here) : std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp(std::ceil(processor_quota("/").value_or(most)), 1.0, most));
}

void bind_if_asked(int index) {
  static const std::vector<int> processors = affinity();
  const char* const asked = std::getenv("OMP_PROC_BIND");
  if (asked == nullptr || std::string_view(asked) == "false" || processors.empty()) return;
  bind_to({processors[static_cast<std::size_t>(index) % processors.size()]});
}

int default_threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    int count = 0;
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), count);
    if (error == std::errc() && count > 0 && (*end == '\0' || *end == ',')) return count;
  }
  return available_processors();
}

}  // namespace heed::detail
