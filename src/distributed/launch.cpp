// Reads the launcher's environment, and divides processors among the processes of a machine.
#include "distributed/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "core/thread_pool.h"
#include "heed/error.h"
#include "heed/threads.h"

namespace heed {
namespace {

int number_in(const char* variable, int default_value) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return default_value;
  int number = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' ? number : default_value;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

// Tells machines apart: containers and network namespaces may have other host names on the same one.
std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : host_name();
}

// A hash of the executable (FNV-1a over 64-bit words).
std::uint64_t hash_of_executable() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<std::uint64_t> words(1 << 15);
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto bytes = static_cast<std::streamsize>(words.size() * sizeof(std::uint64_t));
  while (file) {
    std::fill(words.begin(), words.end(), 0);
    file.read(reinterpret_cast<char*>(words.data()), bytes);
    for (std::streamsize i = 0; i * 8 < file.gcount(); ++i)
      hash = (hash ^ words[static_cast<std::size_t>(i)]) * 0x100000001b3ull;
  }
  return hash;
}

struct Process {
  std::string machine, host;
  std::vector<int> processors;
};

Process parse_process(const std::string& text) {
  std::istringstream stream(text);
  Process process;
  std::getline(stream, process.machine);
  std::getline(stream, process.host);
  for (int processor = 0; stream >> processor;) process.processors.push_back(processor);
  return process;
}

// The processes of this one's machine, and which of them this one is.
struct Neighbors {
  int index = 0, count = 0;
  bool share_all = true;  // all may use the same processors
};

Neighbors neighbors_of(const std::vector<Process>& all, int rank) {
  const Process& own = all[static_cast<std::size_t>(rank)];
  Neighbors found;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].machine != own.machine) continue;
    if (static_cast<int>(r) < rank) ++found.index;
    ++found.count;
    found.share_all = found.share_all && all[r].processors == own.processors;
  }
  return found;
}

void take_processors(const std::vector<Process>& all, int rank) {
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;  // the user's choice
  const Process& own = all[static_cast<std::size_t>(rank)];
  const Neighbors here = neighbors_of(all, rank);
  const int usable = detail::available_processors();
  if (!here.share_all || here.count == 1) return set_threads(usable);
  if (usable < static_cast<int>(own.processors.size()))  // a quota, which says nothing about which ones
    return set_threads(std::max(1, usable / here.count));
  const std::vector<int> part = processors_of(own.processors, here.index, here.count);
  detail::bind_to(part);
  set_threads(static_cast<int>(part.size()));
}

}  // namespace

Launch current_launch() {
  struct Variables {
    const char *size, *rank;
  };
  for (const Variables& v :
       {Variables{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Variables{"PMI_SIZE", "PMI_RANK"},
        Variables{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const int size = number_in(v.size, 0);
    if (size > 0) return {size, number_in(v.rank, 0), v.size};
  }
  return {};
}

std::string build_identity(const std::string& version) {
  return fmt::format("heed {}\nthe executable with hash {:016x}\n{}-endian numbers", version,
                     hash_of_executable(), std::endian::native == std::endian::little ? "little" : "big");
}

std::vector<int> processors_of(const std::vector<int>& processors, int index, int count) {
  const auto size = static_cast<std::int64_t>(processors.size());
  if (size < count) return {processors[static_cast<std::size_t>(index * size / count)]};
  const auto [begin, end] = part_of(size, index, count);
  return {processors.begin() + begin, processors.begin() + end};
}

std::string divide_processors(Communicator& world, int threads_given) {
  const std::string own =
      fmt::format("{}\n{}\n{}", machine(), host_name(), fmt::join(detail::allowed_processors(), " "));
  std::vector<Process> all;
  for (const std::string& text : world.gather(own)) all.push_back(parse_process(text));
  if (threads_given > 0) {
    set_threads(threads_given);
  } else {
    take_processors(all, world.rank());
  }
  const std::vector<std::string> shares =
      world.gather(fmt::format("{} on {}", threads(), fmt::join(detail::allowed_processors(), ",")));
  std::map<std::string, std::vector<std::size_t>> machines;
  for (std::size_t r = 0; r < all.size(); ++r) machines[all[r].machine].push_back(r);
  std::string report = fmt::format("{} processes on {} machine{}", all.size(), machines.size(),
                                   machines.size() == 1 ? "" : "s");
  for (const auto& [name, ranks] : machines) {
    std::vector<std::string> texts;
    for (const std::size_t r : ranks) texts.push_back(fmt::format("{}: {}", r, shares[r]));
    report += fmt::format("\n  {}: process: threads on processors: {}", all[ranks.front()].host,
                          fmt::join(texts, "; "));
  }
  return report;
}

}  // namespace heed
