// LazyDfa: runs a network over bytes and special tokens as a deterministic automaton whose states are made
// when they are first reached. A state is the set of configurations (a state of the network, and a stack)
// that a text has led to.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/network.h"

namespace heed::grammar {

/// Threads: one at a time.
class LazyDfa {
 public:
  /// A state of the automaton: the configurations that a text has led to. 0: the text does not match.
  using DfaState = std::uint32_t;
  static constexpr DfaState kDead = 0;

  explicit LazyDfa(std::shared_ptr<const Network> network);
  DfaState start() const { return start_; }
  /// To be called before the steps of each token or text: their work is limited.
  void begin_steps() { work_ = 0; }
  /// Returns the state after a byte. Throws GrammarError if a text has more than 20,000 configurations, or
  /// the steps since begin_steps() reached more than 5,000,000.
  DfaState step(DfaState state, unsigned char byte) {
    const std::uint32_t known = next_[state * classes_ + class_of_byte_[byte]];
    return known != kUnknown ? known : find_next(state, byte);
  }
  /// The same after a special token. Bytes take no edge of a token, and tokens none of bytes.
  DfaState step_token(DfaState state, std::int64_t id);
  /// The special tokens that can follow.
  std::vector<std::uint32_t> tokens(DfaState state) const;
  bool may_end(DfaState state) const { return dfa_states_[state].may_end; }
  /// Whether nothing can follow.
  bool must_end(DfaState state) const { return dfa_states_[state].configurations.empty(); }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  /// Where to go on after the end of a rule, and the stack below.
  struct Frame {
    State to;
    std::uint32_t below;
    bool operator==(const Frame&) const = default;
  };
  /// A state and its stack, the index of a frame.
  struct Configuration {
    State state;
    std::uint32_t stack;
    auto operator<=>(const Configuration&) const = default;
  };
  struct Known {
    std::vector<Configuration> configurations;  ///< in states that bytes or tokens leave, ascending
    bool may_end = false;
  };
  struct FrameHash {
    std::size_t operator()(const Frame& frame) const {
      return (std::size_t{frame.to} << 32 | frame.below) * 0x9E3779B97F4A7C15u;
    }
  };
  struct ConfigurationHash {
    std::size_t operator()(const Configuration& configuration) const {
      return (std::size_t{configuration.state} << 32 | configuration.stack) * 0x9E3779B97F4A7C15u >> 7;
    }
  };

  DfaState find_next(DfaState state, unsigned char byte);
  /// Returns the state of the configurations to which the edges lead that `takes` says yes to.
  template <class Takes>
  DfaState after_edges(DfaState state, const Takes& takes);
  /// Returns the state of these configurations and all that they reach without a byte or token.
  DfaState state_of(std::vector<Configuration> configurations);
  std::uint32_t pushed(const Frame& frame);

  std::shared_ptr<const Network> network_;
  std::array<std::uint8_t, 256> class_of_byte_;
  std::size_t classes_;
  std::vector<Known> dfa_states_;
  std::vector<std::uint32_t> next_;  // [places, classes]
  std::unordered_map<std::size_t, std::vector<DfaState>> by_hash_;
  std::vector<Frame> frames_;  // 0: the bottom
  std::unordered_map<Frame, std::uint32_t, FrameHash> frame_ids_;
  DfaState start_ = kDead;
  std::size_t bytes_ = 0;
  std::size_t work_ = 0;  // configurations that were reached since begin_steps()
};

}  // namespace heed::grammar
