// What all communicators share, and one process alone.
#include "heed/distributed/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heed/error.h"

namespace heed {
namespace {

class Done final : public PendingOperation {
 public:
  void wait() override {}
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The first lines in which two texts differ.
std::pair<std::string, std::string> first_difference(const std::string& a, const std::string& b) {
  std::vector<std::string> first = lines_of(a), second = lines_of(b);
  const std::size_t count = std::max(first.size(), second.size());
  first.resize(count, "nothing");
  second.resize(count, "nothing");
  std::size_t i = 0;
  while (i + 1 < count && first[i] == second[i]) ++i;
  return {first[i], second[i]};
}

}  // namespace

std::vector<double> Communicator::sum(const std::vector<double>& values) {
  if (size() == 1) return values;
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  std::vector<double> total(values.size());
  for (const std::string& part : gather(bytes)) {
    if (part.size() != bytes.size())
      throw Error(
          fmt::format("processes: expected {} numbers from each, got {} bytes", values.size(), part.size()));
    std::vector<double> theirs(values.size());
    std::memcpy(theirs.data(), part.data(), part.size());
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += theirs[i];
  }
  return total;
}

std::string Communicator::broadcast_text(const std::string& text) {
  if (size() == 1) return text;
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)));
  std::string result = text;
  result.resize(length);
  broadcast(std::as_writable_bytes(std::span(result)));
  return result;
}

std::pair<std::int64_t, std::int64_t> part_of(std::int64_t count, int rank, int size) {
  const std::int64_t least = count / size, more = count % size;
  const std::int64_t begin = rank * least + std::min<std::int64_t>(rank, more);
  return {begin, begin + least + (rank < more ? 1 : 0)};
}

std::vector<std::string> gather_texts(Communicator& world, const std::vector<std::string>& texts) {
  if (world.size() == 1) return texts;
  std::vector<std::uint64_t> lengths;
  std::string joined;
  for (const std::string& text : texts) {
    lengths.push_back(text.size());
    joined += text;
  }
  std::string all;
  for (const std::string& part : world.gather(joined)) all += part;
  std::vector<std::string> result;
  std::size_t at = 0;
  for (const std::uint64_t length : gather_values(world, lengths)) {
    result.push_back(all.substr(at, length));
    at += length;
  }
  return result;
}

std::unique_ptr<PendingOperation> SingleProcess::start_sum(SharedFloats) { return std::make_unique<Done>(); }
std::unique_ptr<PendingOperation> SingleProcess::start_sum_of_part(SharedFloats) {
  return std::make_unique<Done>();
}
std::unique_ptr<PendingOperation> SingleProcess::start_gather_of_parts(SharedFloats) {
  return std::make_unique<Done>();
}

void check_same(Communicator& world, const std::string& where, const std::string& what,
                const std::string& text) {
  const std::vector<std::string> texts = world.gather(text);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto [first, other] = first_difference(texts[0], texts[rank]);
    throw Error(
        fmt::format("{}: expected the same {} in all processes, got {} in process 0 and {} in process {}",
                    where, what, first, other, rank));
  }
}

}  // namespace heed
