// Makes the states of the automaton: the subset construction over configurations of state and stack.
#include "grammar/lazy_dfa.h"

#include <algorithm>
#include <unordered_set>

namespace heed::grammar {
namespace {

using Kind = NetworkEdge::Kind;

constexpr std::size_t kMostConfigurations = 20'000, kMostReached = 5'000'000,
                      kMostDfaBytes = std::size_t{128} << 20;

}  // namespace

LazyDfa::LazyDfa(std::shared_ptr<const Network> network)
    : network_(std::move(network)),
      class_of_byte_(network_->class_of_byte()),
      classes_(network_->byte_classes()),
      dfa_states_(1),
      next_(classes_, kDead),
      frames_(1) {
  start_ = state_of({{network_->start(network_->main()), 0}});
}

std::uint32_t LazyDfa::pushed(const Frame& frame) {
  const auto [found, added] = frame_ids_.try_emplace(frame, static_cast<std::uint32_t>(frames_.size()));
  if (added) {
    frames_.push_back(frame);
    bytes_ += 64;
  }
  return found->second;
}

template <class Takes>
LazyDfa::DfaState LazyDfa::after_edges(DfaState state, const Takes& takes) {
  std::vector<Configuration> configurations;
  work_ += dfa_states_[state].configurations.size();
  for (const Configuration& configuration : dfa_states_[state].configurations) {
    for (const NetworkEdge& edge : network_->edges(configuration.state)) {
      if (takes(edge)) configurations.push_back({edge.to, configuration.stack});
    }
  }
  return configurations.empty() ? kDead : state_of(std::move(configurations));
}

LazyDfa::DfaState LazyDfa::find_next(DfaState state, unsigned char byte) {
  const DfaState next = after_edges(state, [byte](const NetworkEdge& edge) {
    return edge.kind == Kind::bytes && edge.first <= byte && byte <= edge.last;
  });
  next_[state * classes_ + class_of_byte_[byte]] = next;
  return next;
}

LazyDfa::DfaState LazyDfa::step_token(DfaState state, std::int64_t id) {
  return after_edges(state,
                     [id](const NetworkEdge& edge) { return edge.kind == Kind::token && edge.id == id; });
}

std::vector<std::uint32_t> LazyDfa::tokens(DfaState state) const {
  std::vector<std::uint32_t> ids;
  for (const Configuration& configuration : dfa_states_[state].configurations) {
    for (const NetworkEdge& edge : network_->edges(configuration.state)) {
      if (edge.kind == Kind::token) ids.push_back(edge.id);
    }
  }
  return ids;
}

LazyDfa::DfaState LazyDfa::state_of(std::vector<Configuration> todo) {
  Known found;
  std::unordered_set<Configuration, ConfigurationHash> seen(todo.begin(), todo.end());
  const auto reach = [&](const Configuration& configuration) {
    if (!seen.insert(configuration).second) return;
    if (seen.size() > kMostConfigurations)
      throw GrammarError("expected a text with at most " + std::to_string(kMostConfigurations) +
                         " ways through the grammar, got more");
    todo.push_back(configuration);
  };
  while (!todo.empty()) {
    const Configuration configuration = todo.back();
    todo.pop_back();
    if (network_->is_end(configuration.state)) {
      if (configuration.stack == 0) {
        found.may_end = true;
      } else {
        const Frame frame = frames_[configuration.stack];
        reach({frame.to, frame.below});
      }
      continue;
    }
    bool reads = false;
    for (const NetworkEdge& edge : network_->edges(configuration.state)) {
      if (edge.kind == Kind::bytes || edge.kind == Kind::token) {
        reads = true;
      } else if (edge.kind == Kind::free) {
        reach({edge.to, configuration.stack});
      } else {
        const bool last = network_->is_end(edge.to);  // nothing follows in this rule: its frame is not needed
        reach(
            {network_->start(edge.id), last ? configuration.stack : pushed({edge.to, configuration.stack})});
      }
    }
    if (reads) found.configurations.push_back(configuration);
  }
  work_ += seen.size();
  if (work_ > kMostReached)
    throw GrammarError(
        "expected a grammar of less work, got one that reaches more than " + std::to_string(kMostReached) +
        " configurations for a token (shorten its repetitions, or the alternatives before them)");
  std::sort(found.configurations.begin(), found.configurations.end());
  std::size_t hash = found.may_end ? 1 : 0;
  for (const Configuration& configuration : found.configurations)
    hash = hash * 0x100000001B3u ^ ConfigurationHash()(configuration);
  std::vector<DfaState>& same_hash = by_hash_[hash];
  for (const DfaState known : same_hash) {
    if (dfa_states_[known].configurations == found.configurations &&
        dfa_states_[known].may_end == found.may_end)
      return known;
  }
  if (bytes_ > kMostDfaBytes)
    throw GrammarError("expected a grammar that needs less memory, got one that needs more");
  const auto state = static_cast<DfaState>(dfa_states_.size());
  bytes_ += found.configurations.size() * sizeof(Configuration) + classes_ * 4 + 128;
  same_hash.push_back(state);
  dfa_states_.push_back(std::move(found));
  next_.resize(next_.size() + classes_, kUnknown);
  return state;
}

}  // namespace heed::grammar
