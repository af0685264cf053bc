// A character map is a double-array trie of the strings that are replaced, as in charsmap.cpp, and the
// replacements. The check visits every unit that a text could lead the library to.
#include "text/sentencepiece_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "heed/error.h"
#include "text/protobuf_fields.h"

namespace heed {
namespace {

constexpr int kMaxPrefixes = 32;                  // capacity of the library's result array
constexpr std::size_t kLongestReplacement = 256;  // bytes; the longest in Unicode's maps has 33

class MapWalk {
 public:
  MapWalk(std::vector<std::uint32_t> units, std::size_t replacement_bytes)
      : units_(std::move(units)), replacement_bytes_(replacement_bytes), nodes_(units_.size()) {}

  /// Returns true if no text leads outside the map, or to more prefixes than the library has room for. A node
  /// is the index that its children's units are relative to: each child is at this index XOR its byte.
  bool sound() {
    const std::uint32_t root = offset(units_[0]);
    if (!enter(root)) return false;
    while (!open_.empty()) {
      const std::uint32_t place = open_.back();
      Node& node = nodes_[place];
      if (node.next_byte == 256) {
        node.state = State::done;
        open_.pop_back();
        continue;
      }
      const std::uint32_t byte = node.next_byte, at = place ^ byte, unit = units_[at];
      const std::uint32_t child = at ^ offset(unit);
      if ((unit & (1u << 31 | 0xFF)) == byte) {
        const bool ends = (unit >> 8 & 1) != 0;
        if (!inside(child) || (ends && (units_[child] & 0x7FFFFFFF) >= replacement_bytes_)) return false;
        if (nodes_[child].state == State::open) return false;  // a cycle
        if (nodes_[child].state == State::unseen) {
          enter(child);
          continue;  // resume at this byte once the child is done
        }
        node.prefixes = std::max(node.prefixes, nodes_[child].prefixes + (ends ? 1 : 0));
        if (node.prefixes > kMaxPrefixes) return false;
      }
      ++node.next_byte;
    }
    return true;
  }

 private:
  enum class State : std::uint8_t { unseen, open, done };
  struct Node {
    State state = State::unseen;
    std::uint16_t next_byte = 0;
    int prefixes = 0;  // on the longest path below the node
  };

  static std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  bool inside(std::uint32_t place) const { return (place | 0xFF) < units_.size(); }
  bool enter(std::uint32_t place) {
    if (!inside(place)) return false;
    nodes_[place].state = State::open;
    open_.push_back(place);
    return true;
  }

  std::vector<std::uint32_t> units_;
  std::size_t replacement_bytes_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> open_;
};

bool is_sound_map(std::string_view map) {
  if (map.empty()) return true;  // nothing is replaced
  std::uint32_t size = 0;
  if (map.size() < sizeof size) return false;
  std::memcpy(&size, map.data(), sizeof size);
  map.remove_prefix(sizeof size);
  if (size == 0 || size % 4 != 0 || size > map.size()) return false;
  std::vector<std::uint32_t> units(size / 4);
  std::memcpy(units.data(), map.data(), size);
  std::string_view replacements = map.substr(size);
  while (!replacements.empty()) {
    const std::size_t length = std::min(replacements.find('\0'), replacements.size());
    if (length > kLongestReplacement) return false;
    replacements.remove_prefix(std::min(length + 1, replacements.size()));
  }
  return MapWalk(std::move(units), map.size() - size).sound();
}

}  // namespace

bool check_character_maps(std::string_view serialized, const std::string& where) {
  constexpr std::uint32_t kNormalizer = 3, kDenormalizer = 5, kMap = 2;  // of sentencepiece_model.proto
  ProtobufFields model(serialized);
  while (const auto field = model.next()) {
    if ((field->number != kNormalizer && field->number != kDenormalizer) || !field->bytes) continue;
    ProtobufFields normalizer(*field->bytes);
    while (const auto inner = normalizer.next()) {
      if (inner->number != kMap || !inner->bytes || is_sound_map(*inner->bytes)) continue;
      throw Error(fmt::format(
          "{}: {}.precompiled_charsmap: expected a character map that stays within its bounds and "
          "replaces by at most {} bytes, got another (get the file again from where it comes from)",
          where, field->number == kNormalizer ? "normalizer_spec" : "denormalizer_spec",
          kLongestReplacement));
    }
    if (normalizer.damaged()) return false;
  }
  return !model.damaged();
}

}  // namespace heed
