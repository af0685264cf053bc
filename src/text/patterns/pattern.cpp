// Searches for strings and regular expressions. Expressions use Oniguruma's (Ruby's) syntax, which is
// translated where ICU's differs. Expressions that ICU cannot execute are rejected.
#include "text/patterns/pattern.h"

#include <fmt/format.h>
#include <unicode/regex.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/json_field.h"
#include "core/utf8.h"
#include "heed/error.h"

namespace heed {
namespace {

constexpr std::int32_t kTimeLimit = 1000;       // in ICU's units of some thousands of steps each
constexpr std::int32_t kStackLimit = 64 << 20;  // bytes of backtracking

class StringPattern final : public Pattern {
 public:
  explicit StringPattern(std::string text) : text_(std::move(text)) {}
  std::unique_ptr<PatternSearch> search() const override {
    class Search final : public PatternSearch {
     public:
      explicit Search(const std::string& wanted) : wanted_(wanted) {}
      void find(std::string_view text, MatchVisitor visit) override {
        if (wanted_.empty()) return;
        for (std::size_t at = text.find(wanted_); at != text.npos;
             at = text.find(wanted_, at + wanted_.size())) {
          visit(at, at + wanted_.size());
        }
      }

     private:
      const std::string& wanted_;
    };
    return std::make_unique<Search>(text_);
  }

 private:
  std::string text_;
};

class ScannerPattern final : public Pattern {
 public:
  explicit ScannerPattern(Scanner scanner) : scanner_(scanner) {}
  bool splits_at_word_ends() const override { return true; }
  std::unique_ptr<PatternSearch> search() const override {
    class Search final : public PatternSearch {
     public:
      explicit Search(Scanner scanner) : scanner_(scanner) {}
      void find(std::string_view text, MatchVisitor visit) override {
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = scanner_(text, at);
          if (end > at) visit(at, end);
          at = end > at ? end : at + utf8_length(text[at]);
        }
      }

     private:
      Scanner scanner_;
    };
    return std::make_unique<Search>(scanner_);
  }

 private:
  Scanner scanner_;
};

/// Executes an expression on UTF-8 text. ICU works on UTF-16, so positions are mapped back.
class RegexSearch final : public PatternSearch {
 public:
  explicit RegexSearch(const icu::RegexPattern& pattern, const std::string& expression)
      : expression_(expression) {
    UErrorCode status = U_ZERO_ERROR;
    matcher_.reset(pattern.matcher(status));
    matcher_->setTimeLimit(kTimeLimit, status);
    matcher_->setStackLimit(kStackLimit, status);
    check(status);
  }

  void find(std::string_view text, MatchVisitor visit) override {
    if (text.size() > 1u << 30)
      throw Error("regular expression: expected a text below 1 GiB, got more (split it)");
    widen(text);
    subject_.setTo(false, units_.data(), static_cast<std::int32_t>(units_.size()) - 1);
    matcher_->reset(subject_);
    UErrorCode status = U_ZERO_ERROR;
    for (std::int32_t last = -1; matcher_->find(status);) {
      const std::int32_t begin = matcher_->start(status), end = matcher_->end(status);
      if (begin == end && begin == last) continue;  // callers of Oniguruma skip it
      last = end;
      visit(bytes_[static_cast<std::size_t>(begin)], bytes_[static_cast<std::size_t>(end)]);
    }
    check(status);
  }

 private:
  /// Converts the text to UTF-16 with a terminating zero, and records the byte at which each unit begins.
  void widen(std::string_view text) {
    units_.clear();
    bytes_.clear();
    for (std::size_t at = 0; at < text.size();) {
      const auto begin = static_cast<std::uint32_t>(at);
      const char32_t c = next_character(text, at);
      bytes_.push_back(begin);
      if (c < 0x10000) {
        units_.push_back(static_cast<char16_t>(c));
      } else {
        units_.push_back(U16_LEAD(c));
        units_.push_back(U16_TRAIL(c));
        bytes_.push_back(begin);
      }
    }
    bytes_.push_back(static_cast<std::uint32_t>(text.size()));
    units_.push_back(0);
  }

  void check(UErrorCode status) const {
    if (U_SUCCESS(status)) return;
    throw Error(
        fmt::format("regular expression {}: the search took too much time or memory ({}; use a simpler "
                    "expression, or shorter texts)",
                    expression_, u_errorName(status)));
  }

  const std::string& expression_;
  std::unique_ptr<icu::RegexMatcher> matcher_;
  icu::UnicodeString subject_;
  std::vector<char16_t> units_;
  std::vector<std::uint32_t> bytes_;
};

class RegexPattern final : public Pattern {
 public:
  RegexPattern(std::unique_ptr<icu::RegexPattern> pattern, std::string expression)
      : pattern_(std::move(pattern)), expression_(std::move(expression)) {}
  std::unique_ptr<PatternSearch> search() const override {
    return std::make_unique<RegexSearch>(*pattern_, expression_);
  }

 private:
  std::unique_ptr<icu::RegexPattern> pattern_;
  std::string expression_;
};

}  // namespace

std::unique_ptr<const Pattern> Pattern::regex(std::string_view expression, const JsonField& field,
                                              bool scanner) {
  if (const Scanner known = scanner ? known_scanner(expression) : nullptr; known != nullptr) {
    return std::make_unique<ScannerPattern>(known);
  }
  const icu::UnicodeString translated(regex_for_icu(expression).c_str());
  UErrorCode status = U_ZERO_ERROR;
  UParseError place;
  std::unique_ptr<icu::RegexPattern> pattern(
      icu::RegexPattern::compile(translated, UREGEX_MULTILINE | UREGEX_UNIX_LINES, place, status));
  if (U_FAILURE(status)) {
    field.fail(fmt::format("a regular expression ({} at character {})", u_errorName(status), place.offset));
  }
  return std::make_unique<RegexPattern>(std::move(pattern), std::string(expression));
}

std::unique_ptr<const Pattern> Pattern::parse(const JsonField& field) {
  if (field.value().is_object() && field.value().size() == 1) {
    if (const auto text = field.find("String")) return std::make_unique<StringPattern>(text->string());
    if (const auto expression = field.find("Regex")) return regex(expression->string(), *expression);
  }
  field.fail("an object with either String or Regex");
}

std::function<bool(std::string_view)> full_match(const std::string& expression, const std::string& where) {
  const nlohmann::ordered_json value(expression);
  const std::shared_ptr<const Pattern> pattern =
      Pattern::regex("^(?:" + expression + ")$", JsonField(value, where), false);
  // The search refers to the pattern.
  return [pattern, search = std::shared_ptr<PatternSearch>(pattern->search()), where](std::string_view text) {
    bool whole = false;
    try {
      search->find(text, [&](std::size_t begin, std::size_t end) {
        whole = whole || (begin == 0 && end == text.size());
      });
    } catch (const Error& error) {
      throw Error(where + ": " + error.what());
    }
    return whole;
  };
}

}  // namespace heed
