// The automaton reads digits and keeps whether the number so far is below, equal to or above the bound.
#include "grammar/char_automaton.h"

#include <algorithm>
#include <charconv>
#include <compare>
#include <cstdlib>
#include <map>

namespace heed::grammar {
namespace {

constexpr int kMostDigits = 400;          // of a bound
constexpr std::size_t kMostWritten = 40;  // before and after the point, unless the bound has more

/// How the magnitude of a number may compare with that of a bound.
struct Wanted {
  bool less = false, equal = false, greater = false;
  bool operator()(int comparison) const { return comparison < 0 ? less : comparison > 0 ? greater : equal; }
};

/// Adds the magnitudes that compare with `bound`'s as wanted after state `from`.
class Magnitudes {
 public:
  Magnitudes(CharAutomaton& texts, const Decimal& bound, const Wanted& wanted, bool integers)
      : texts_(texts), bound_(bound), wanted_(wanted), integers_(integers) {}

  void add(std::uint32_t from) {
    const std::uint32_t start = state_of({});
    texts_.states[from].free.push_back(start);
    while (!todo_.empty()) {
      const Position position = todo_.back();
      todo_.pop_back();
      const std::uint32_t state = ids_.at(position);
      for (char digit = '0'; digit <= '9'; ++digit) {
        if (const auto next = after_digit(position, digit)) link(state, digit, *next);
      }
      if (!integers_ && position.digits > 0 && position.part <= Part::zero)
        link(state, '.', {Part::point, 0, whole_comparison(position)});
    }
  }

 private:
  enum class Part { whole, zero, point, fraction };
  /// Where a text is: the digits of this part so far, and how they compare with the bound's.
  struct Position {
    Part part = Part::whole;
    std::size_t digits = 0;
    int comparison = 0;
    auto operator<=>(const Position&) const = default;
  };

  static int compare(char digit, char other) { return digit < other ? -1 : digit > other ? 1 : 0; }
  int whole_comparison(const Position& position) const {
    if (position.digits < bound_.whole.size()) return -1;
    return position.digits > bound_.whole.size() ? 1 : position.comparison;
  }
  bool accepts(const Position& position) const {
    if (position.part == Part::point || (position.part == Part::whole && position.digits == 0)) return false;
    const int compared = position.part == Part::fraction ? position.comparison : whole_comparison(position);
    const std::size_t read = position.part == Part::fraction ? position.digits : 0;
    return wanted_(compared == 0 && read < bound_.fraction.size() ? -1 : compared);
  }
  std::optional<Position> after_digit(const Position& position, char digit) const {
    if (position.part == Part::zero) return std::nullopt;
    if (position.part == Part::whole) {
      const std::size_t size = bound_.whole.size();
      if (position.digits >= std::max(size, kMostWritten)) return std::nullopt;
      const int compared = position.comparison == 0 && position.digits < size
                               ? compare(digit, bound_.whole[position.digits])
                               : position.comparison;
      const bool zero = position.digits == 0 && digit == '0';
      return Position{zero ? Part::zero : Part::whole, position.digits + 1,
                      position.digits >= size ? 1 : compared};
    }
    if (position.digits >= std::max(bound_.fraction.size(), kMostWritten)) return std::nullopt;
    const bool beyond = position.digits >= bound_.fraction.size();
    const int compared = compare(digit, beyond ? '0' : bound_.fraction[position.digits]);
    return Position{Part::fraction, position.digits + 1,
                    position.comparison != 0 ? position.comparison : compared};
  }
  std::uint32_t state_of(const Position& position) {
    const auto [found, added] = ids_.try_emplace(position, 0);
    if (added) {
      found->second = texts_.add_state(accepts(position));
      todo_.push_back(position);
    }
    return found->second;
  }
  void link(std::uint32_t state, char c, const Position& next) {
    const auto character = static_cast<char32_t>(c);
    texts_.add_edge(state, character, character, state_of(next));
  }

  CharAutomaton& texts_;
  const Decimal& bound_;
  Wanted wanted_;
  bool integers_;
  std::map<Position, std::uint32_t> ids_;
  std::vector<Position> todo_;
};

/// The numbers on one side of a bound.
CharAutomaton one_side(const NumberBound& bound, bool at_least, bool integers) {
  const bool equal = !bound.exclusive, zero = bound.value.is_zero();
  Wanted positive, negative;
  if (bound.value.negative && !zero) {
    if (at_least) positive = {true, true, true};
    negative = {at_least, equal, !at_least};
  } else {
    positive = {!at_least, equal, at_least};
    if (!at_least) negative = {true, true, true};
    if (zero) negative = {false, equal, !at_least};
  }
  const Decimal unsigned_zero;
  // A sign that the bound does not limit: everything is compared with 0.
  const auto limited = [](const Wanted& wanted) { return !(wanted.less && wanted.equal && wanted.greater); };
  CharAutomaton texts;
  const std::uint32_t start = texts.add_state(), minus = texts.add_state();
  texts.add_edge(start, '-', '-', minus);
  Magnitudes(texts, limited(positive) ? bound.value : unsigned_zero, positive, integers).add(start);
  Magnitudes(texts, limited(negative) ? bound.value : unsigned_zero, negative, integers).add(minus);
  return texts;
}

}  // namespace

Decimal decimal_of(const Json& number) {
  char digits[64];
  if (number.is_number_unsigned()) return {false, std::to_string(number.get<std::uint64_t>()), ""};
  if (number.is_number_integer()) {
    const std::string text = std::to_string(number.get<std::int64_t>());
    return {text[0] == '-', text[0] == '-' ? text.substr(1) : text, ""};
  }
  const auto end =
      std::to_chars(digits, digits + sizeof digits, number.get<double>(), std::chars_format::scientific);
  std::string text(digits, end.ptr);
  Decimal result;
  result.negative = text[0] == '-';
  if (result.negative) text.erase(0, 1);
  const std::size_t mark = text.find('e');
  const int exponent = std::atoi(text.c_str() + mark + 1);
  text.resize(mark);
  if (text.size() > 1) text.erase(1, 1);
  if (exponent > kMostDigits || exponent < -kMostDigits)
    throw GrammarError("expected a number of at most " + std::to_string(kMostDigits) + " digits, got more");
  const int size = static_cast<int>(text.size());
  if (exponent < 0) text.insert(0, static_cast<std::size_t>(-exponent), '0');
  if (exponent >= size) text.append(static_cast<std::size_t>(exponent - size + 1), '0');
  const auto point = static_cast<std::size_t>(std::max(exponent, 0) + 1);
  result.whole = text.substr(0, point);
  result.fraction = text.substr(point);
  result.fraction.resize(result.fraction.find_last_not_of('0') + 1);
  return result;
}

CharAutomaton numbers_between(const std::optional<NumberBound>& lower,
                              const std::optional<NumberBound>& upper, bool integers) {
  if (!upper) return one_side(*lower, true, integers);
  CharAutomaton below = one_side(*upper, false, integers);
  return lower ? intersection(one_side(*lower, true, integers), below) : below;
}

}  // namespace heed::grammar
