#include "grammar/machine.h"

#include <algorithm>
#include <unordered_set>

namespace heed::grammar {
namespace {

constexpr std::size_t kMostWays = 20'000, kMostMachineBytes = std::size_t{128} << 20;

}  // namespace

Machine::Machine(std::shared_ptr<const Network> network)
    : network_(std::move(network)),
      class_of_byte_(network_->class_of_byte()),
      classes_(network_->byte_classes()),
      places_(1),
      next_(classes_, kNowhere),
      frames_(1) {
  start_ = place_of({{network_->start(network_->main()), 0}});
}

std::uint32_t Machine::pushed(const Frame& frame) {
  const auto [found, added] = frame_ids_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (added) {
    frames_.push_back(frame);
    bytes_ += 64;
  }
  return found->second;
}

Machine::Place Machine::find_next(Place place, unsigned char byte) {
  std::vector<Way> ways;
  for (const Way& way : places_[place].ways) {
    for (const NetworkEdge& edge : network_->edges(way.state)) {
      if (edge.kind == NetworkEdge::Kind::bytes && edge.first <= byte && byte <= edge.last)
        ways.push_back({edge.to, way.stack});
    }
  }
  const Place next = ways.empty() ? kNowhere : place_of(std::move(ways));
  next_[place * classes_ + class_of_byte_[byte]] = next;
  return next;
}

Machine::Place Machine::place_of(std::vector<Way> todo) {
  Known found;
  std::unordered_set<Way, WayHash> seen(todo.begin(), todo.end());
  const auto reach = [&](const Way& way) {
    if (!seen.insert(way).second) return;
    if (seen.size() > kMostWays)
      throw Fault("expected a text with at most " + std::to_string(kMostWays) +
                  " ways through the grammar, got more");
    todo.push_back(way);
  };
  while (!todo.empty()) {
    const Way way = todo.back();
    todo.pop_back();
    if (network_->is_end(way.state)) {
      if (way.stack == 0) {
        found.may_end = true;
      } else {
        const Frame frame = frames_[way.stack];
        reach({frame.to, frame.below});
      }
      continue;
    }
    bool reads = false;
    for (const NetworkEdge& edge : network_->edges(way.state)) {
      if (edge.kind == NetworkEdge::Kind::bytes) {
        reads = true;
      } else if (edge.kind == NetworkEdge::Kind::free) {
        reach({edge.to, way.stack});
      } else {
        const bool last = network_->is_end(edge.to);  // nothing follows in this rule: its frame is not needed
        reach({network_->start(edge.rule), last ? way.stack : pushed({edge.to, way.stack})});
      }
    }
    if (reads) found.ways.push_back(way);
  }
  std::sort(found.ways.begin(), found.ways.end());
  std::size_t hash = found.may_end ? 1 : 0;
  for (const Way& way : found.ways) hash = hash * 0x100000001B3u ^ WayHash()(way);
  std::vector<Place>& same_hash = by_hash_[hash];
  for (const Place known : same_hash) {
    if (places_[known].ways == found.ways && places_[known].may_end == found.may_end) return known;
  }
  if (bytes_ > kMostMachineBytes)
    throw Fault("expected a grammar that needs less memory, got one that needs more");
  const auto place = static_cast<Place>(places_.size());
  bytes_ += found.ways.size() * sizeof(Way) + classes_ * 4 + 128;
  same_hash.push_back(place);
  places_.push_back(std::move(found));
  next_.resize(next_.size() + classes_, kUnknown);
  return place;
}

}  // namespace heed::grammar
