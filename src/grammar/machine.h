// Machine: runs a network over bytes. Which ways through the rules a text has taken is one number, found once
// per byte that can follow: a deterministic automaton that is made as it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/network.h"

namespace heed::grammar {

/// Threads: one at a time.
class Machine {
 public:
  /// What has been read so far, as far as it matters for what may follow. 0 is a text that does not match.
  using Place = std::uint32_t;
  static constexpr Place kNowhere = 0;

  explicit Machine(std::shared_ptr<const Network> network);
  Place start() const { return start_; }
  /// Returns the place after a byte. Throws Fault if a text has more than 20,000 ways through the rules.
  Place step(Place place, unsigned char byte) {
    const std::uint32_t known = next_[place * classes_ + class_of_byte_[byte]];
    return known != kUnknown ? known : find_next(place, byte);
  }
  bool may_end(Place place) const { return places_[place].may_end; }
  /// Whether no byte can follow.
  bool must_end(Place place) const { return places_[place].ways.empty(); }
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
  struct Way {
    State state;
    std::uint32_t stack;
    auto operator<=>(const Way&) const = default;
  };
  struct Known {
    std::vector<Way> ways;  ///< in states that bytes leave, ascending
    bool may_end = false;
  };
  struct FrameHash {
    std::size_t operator()(const Frame& frame) const {
      return (std::size_t{frame.to} << 32 | frame.below) * 0x9E3779B97F4A7C15u;
    }
  };
  struct WayHash {
    std::size_t operator()(const Way& way) const {
      return (std::size_t{way.state} << 32 | way.stack) * 0x9E3779B97F4A7C15u >> 7;
    }
  };

  Place find_next(Place place, unsigned char byte);
  /// Returns the place of these ways and all that are reached from them without a byte.
  Place place_of(std::vector<Way> ways);
  std::uint32_t pushed(const Frame& frame);

  std::shared_ptr<const Network> network_;
  std::array<std::uint8_t, 256> class_of_byte_;
  std::size_t classes_;
  std::vector<Known> places_;
  std::vector<std::uint32_t> next_;  // [places, classes]
  std::unordered_map<std::size_t, std::vector<Place>> by_hash_;
  std::vector<Frame> frames_;  // 0: the bottom
  std::unordered_map<Frame, std::uint32_t, FrameHash> frame_ids_;
  Place start_ = kNowhere;
  std::size_t bytes_ = 0;
};

}  // namespace heed::grammar
