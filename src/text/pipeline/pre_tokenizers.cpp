// The pre-tokenizers of tokenizer files, one class each.
#include "text/pipeline/stages.h"

#include <fmt/format.h>
#include <unicode/uscript.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/utf8.h"
#include "heed/error.h"
#include "text/patterns/pattern.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

using PreTokenizerPointer = std::unique_ptr<const PreTokenizer>;

/// What happens to the matches of a split.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

struct Span {
  std::size_t begin;
  std::size_t end;
  bool match;
};

/// Merges the parts of one piece as `behavior` requires. Empty ones are dropped later.
void join(std::vector<Span>& parts, SplitBehavior behavior) {
  std::vector<Span> joined;
  bool previous = false;
  const auto add = [&](const Span& part, bool merge) {
    previous = part.match;
    if (merge && !joined.empty()) {
      joined.back() = {std::min(joined.back().begin, part.begin), std::max(joined.back().end, part.end),
                       false};
    } else {
      joined.push_back(part);
    }
  };
  if (behavior == SplitBehavior::merged_with_next) {
    for (std::size_t i = parts.size(); i-- > 0;) add(parts[i], parts[i].match && !previous);
    parts.assign(joined.rbegin(), joined.rend());
    return;
  }
  const bool contiguous = behavior == SplitBehavior::contiguous;
  for (const Span& part : parts) add(part, contiguous ? part.match == previous : part.match && !previous);
  parts = std::move(joined);
}

/// Splits every piece at the ranges that `find(view, visit)` visits.
template <class Find>
void split_pieces(Pieces& pieces, SplitBehavior behavior, bool invert, Find find) {
  const bool joins = behavior != SplitBehavior::removed && behavior != SplitBehavior::isolated;
  std::vector<Pieces::Piece> list;
  std::vector<Span> parts;  // of one piece, if they are joined
  list.reserve(pieces.list.size() + pieces.text.text().size() / 5);
  for (const Pieces::Piece& piece : pieces.list) {
    const std::string_view view = pieces.view(piece);
    const auto take = [&](const Span& part) {
      if (part.begin == part.end || (behavior == SplitBehavior::removed && part.match)) return;
      const std::size_t begin = piece.begin + part.begin;
      list.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(piece.begin + part.end),
                      pieces.text.origin_of(begin)});
    };
    const auto add = [&](const Span& part) { joins ? parts.push_back(part) : take(part); };
    std::size_t last = 0;
    find(view, [&](std::size_t begin, std::size_t end) {
      if (begin > last) add({last, begin, invert});
      add({begin, end, !invert});
      last = end;
    });
    if (last < view.size()) add({last, view.size(), invert});
    if (!joins) continue;
    join(parts, behavior);
    for (const Span& part : parts) take(part);
    parts.clear();
  }
  pieces.list = std::move(list);
}

/// Splits every piece at each character for which `matches` is true.
template <class Matches>
void split_characters(Pieces& pieces, SplitBehavior behavior, Matches matches) {
  split_pieces(pieces, behavior, false, [&](std::string_view view, MatchVisitor visit) {
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t begin = at;
      if (matches(next_character(view, at))) visit(begin, at);
    }
  });
}

/// Rewrites every piece by `write(rewrite, view)`, which must consume the whole piece.
template <class Write>
void rewrite_pieces(Pieces& pieces, Write write) {
  Rewrite rewrite(pieces.text);
  for (Pieces::Piece& piece : pieces.list) {
    rewrite.skip_to(piece.begin);
    const std::string_view view = pieces.view(piece);
    piece.begin = static_cast<std::uint32_t>(rewrite.written());
    write(rewrite, view, piece);
    piece.end = static_cast<std::uint32_t>(rewrite.written());
  }
  pieces.text = rewrite.finish();
}

using WordEnd = PreTokenizer::WordEnd;

/// `cutter`: the space at which it splits words, or 0 if it does not split them.
template <class Function>
class SimplePreTokenizer final : public PreTokenizer {
 public:
  SimplePreTokenizer(Function function, std::optional<char32_t> cutter)
      : function_(std::move(function)), cutter_(cutter) {}
  void apply(Pieces& pieces) const override { function_(pieces); }
  WordEnd at_word_end(char32_t space) const override {
    return !cutter_ ? WordEnd::unknown : *cutter_ == space ? WordEnd::cut : WordEnd::kept;
  }

 private:
  Function function_;
  std::optional<char32_t> cutter_;
};

template <class Function>
PreTokenizerPointer simple_pre_tokenizer(Function function, std::optional<char32_t> cutter) {
  return std::make_unique<SimplePreTokenizer<Function>>(std::move(function), cutter);
}

class Split final : public PreTokenizer {
 public:
  Split(std::unique_ptr<const Pattern> pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    const auto search = pattern_->search();
    split_pieces(pieces, behavior_, invert_,
                 [&search](std::string_view view, MatchVisitor visit) { search->find(view, visit); });
  }
  WordEnd at_word_end(char32_t space) const override {
    const bool cuts =
        behavior_ == SplitBehavior::isolated || (behavior_ == SplitBehavior::removed && invert_);
    return space == ' ' && cuts && pattern_->splits_at_word_ends() ? WordEnd::cut : WordEnd::unknown;
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonField& field) : prefix_space_(field.boolean("add_prefix_space", true)) {
    if (field.boolean("use_regex", true)) {
      split_ =
          std::make_unique<Split>(Pattern::regex(kGpt2Expression, field), SplitBehavior::isolated, false);
    }
  }

  void apply(Pieces& pieces) const override {
    if (prefix_space_) {
      rewrite_pieces(pieces, [](Rewrite& rewrite, std::string_view view, const Pieces::Piece&) {
        if (view[0] != ' ') rewrite.prepend(" ");
        rewrite.keep_bytes(view.size());
      });
    }
    if (split_) split_->apply(pieces);
    rewrite_pieces(pieces, [](Rewrite& rewrite, std::string_view view, const Pieces::Piece&) {
      rewrite.spell_bytes(view.size());
    });
  }
  WordEnd at_word_end(char32_t space) const override {
    return split_ ? split_->at_word_end(space) : WordEnd::unknown;
  }

 private:
  bool prefix_space_;
  std::unique_ptr<const Split> split_;
};

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceSettings settings) : settings_(std::move(settings)) {}

  void apply(Pieces& pieces) const override {
    std::size_t at = 0;
    const std::string& mark = settings_.replacement;
    const char32_t character = next_character(mark, at);
    rewrite_pieces(pieces, [&](Rewrite& rewrite, std::string_view view, const Pieces::Piece& piece) {
      const bool wanted = settings_.prepend == MetaspaceSettings::Prepend::always ||
                          (settings_.prepend == MetaspaceSettings::Prepend::first && piece.origin == 0);
      if (wanted && view[0] != ' ' && view.substr(0, mark.size()) != mark) rewrite.prepend(mark);
      for (std::size_t begin = 0; begin < view.size();) {
        const std::size_t space = std::min(view.find(' ', begin), view.size());
        rewrite.keep_bytes(space - begin);
        if (space < view.size()) rewrite.replace(character);
        begin = space + 1;
      }
    });
    if (!settings_.split) return;
    split_pieces(pieces, SplitBehavior::merged_with_next, false,
                 [&mark](std::string_view view, MatchVisitor visit) {
                   for (std::size_t found = view.find(mark); found != view.npos;
                        found = view.find(mark, found + mark.size())) {
                     visit(found, found + mark.size());
                   }
                 });
  }
  WordEnd at_word_end(char32_t space) const override {
    std::size_t at = 0;
    const bool marked = space == ' ' || space == next_character(settings_.replacement, at);
    return marked && settings_.split ? WordEnd::cut : WordEnd::unknown;
  }

 private:
  MetaspaceSettings settings_;
};

/// Runs of word characters, and runs of characters that are neither word characters nor white space.
void whitespace(Pieces& pieces) {
  split_pieces(pieces, SplitBehavior::isolated, false, [](std::string_view view, MatchVisitor visit) {
    int last = -1;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t here = at;
      const char32_t c = next_character(view, at);
      const int kind = is_word(c) ? 1 : is_white_space(c) ? 0 : 2;
      if (kind == last) continue;
      if (last > 0) visit(begin, here);
      last = kind;
      begin = here;
    }
    if (last > 0) visit(begin, view.size());
  });
}

void bert(Pieces& pieces) {
  split_characters(pieces, SplitBehavior::removed, is_white_space);
  split_characters(pieces, SplitBehavior::isolated, is_punctuation);
}

constexpr int kAnyScript = -1;

/// Kana counts as Han. The space, and characters without a script, join the text before them.
int script_of(char32_t c) {
  if (c == ' ') return kAnyScript;
  if (c == 0x30FC) return USCRIPT_HAN;
  UErrorCode status = U_ZERO_ERROR;
  const int script = uscript_getScript(static_cast<UChar32>(c), &status);
  if (script == USCRIPT_UNKNOWN) return kAnyScript;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

/// Splits where the script changes. Text before the first character that has a script is dropped.
void unicode_scripts(Pieces& pieces) {
  split_pieces(pieces, SplitBehavior::removed, true, [](std::string_view view, MatchVisitor visit) {
    std::vector<std::size_t> cuts;
    int last = USCRIPT_INVALID_CODE - 1;
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t here = at;
      const int script = script_of(next_character(view, at));
      if (script == kAnyScript) continue;
      if (script != last) cuts.push_back(here);
      last = script;
    }
    cuts.push_back(view.size());
    for (std::size_t i = 1; i < cuts.size(); ++i) visit(cuts[i - 1], cuts[i]);
  });
}

void fixed_length(Pieces& pieces, std::int64_t length) {
  split_pieces(pieces, SplitBehavior::isolated, false, [length](std::string_view view, MatchVisitor visit) {
    for (std::size_t at = 0; at < view.size();) {
      const std::size_t begin = at;
      for (std::int64_t i = 0; i < length && at < view.size(); ++i) at += utf8_length(view[at]);
      visit(begin, at);
    }
  });
}

class PreTokenizerSequence final : public PreTokenizer {
 public:
  PreTokenizerSequence(const JsonField& field, int depth) {
    const JsonField list = field.at("pretokenizers");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      parts_.push_back(parse_pre_tokenizer(list.at(i), depth + 1));
  }
  void apply(Pieces& pieces) const override {
    for (const auto& part : parts_) part->apply(pieces);
  }
  WordEnd at_word_end(char32_t space) const override {
    for (const auto& part : parts_) {
      if (const WordEnd here = part->at_word_end(space); here != WordEnd::kept) return here;
    }
    return WordEnd::kept;
  }

 private:
  std::vector<PreTokenizerPointer> parts_;
};

SplitBehavior parse_behavior(const JsonField& field) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  const std::string& name = field.string();
  for (const auto& known : kNames) {
    if (name == known.first) return known.second;
  }
  field.fail("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

PreTokenizerPointer parse_punctuation(const JsonField& field) {
  const auto given = field.find("behavior");
  const SplitBehavior behavior = given ? parse_behavior(*given) : SplitBehavior::isolated;
  return simple_pre_tokenizer(
      [behavior](Pieces& pieces) { split_characters(pieces, behavior, is_punctuation); }, 0);
}

PreTokenizerPointer parse_digits(const JsonField& field) {
  const SplitBehavior behavior =
      field.boolean("individual_digits", false) ? SplitBehavior::isolated : SplitBehavior::contiguous;
  return simple_pre_tokenizer([behavior](Pieces& pieces) { split_characters(pieces, behavior, is_number); },
                              0);
}

PreTokenizerPointer parse_character_split(const JsonField& field) {
  const char32_t delimiter = field.at("delimiter").character();
  return simple_pre_tokenizer(
      [delimiter](Pieces& pieces) {
        split_characters(pieces, SplitBehavior::removed, [delimiter](char32_t c) { return c == delimiter; });
      },
      delimiter);
}

}  // namespace

MetaspaceSettings parse_metaspace(const JsonField& field) {
  MetaspaceSettings settings{"\xE2\x96\x81", MetaspaceSettings::Prepend::always,
                             field.boolean("split", true)};
  if (const auto replacement = field.find("replacement")) {
    static_cast<void>(replacement->character());
    settings.replacement = replacement->string();
  }
  const bool prefix = field.boolean("add_prefix_space", true);
  if (!prefix) settings.prepend = MetaspaceSettings::Prepend::never;
  if (const auto scheme = field.find("prepend_scheme")) {
    const std::string& name = scheme->string();
    if (name != "first" && name != "always" && name != "never") scheme->fail("first, always or never");
    if (!prefix && name != "never") scheme->fail("never, as add_prefix_space is false");
    settings.prepend = name == "first"    ? MetaspaceSettings::Prepend::first
                       : name == "always" ? MetaspaceSettings::Prepend::always
                                          : MetaspaceSettings::Prepend::never;
  }
  return settings;
}

PreTokenizerPointer parse_pre_tokenizer(const JsonField& field, int depth) {
  const JsonField type = field.at("type");
  const std::string& name = type.string();
  if (depth > kMaxNesting) type.fail(fmt::format("sequences nested at most {} deep", kMaxNesting));
  if (name == "Sequence") return std::make_unique<PreTokenizerSequence>(field, depth);
  if (name == "ByteLevel") return std::make_unique<ByteLevel>(field);
  if (name == "Metaspace") return std::make_unique<Metaspace>(parse_metaspace(field));
  if (name == "BertPreTokenizer") return simple_pre_tokenizer(bert, U' ');
  if (name == "Whitespace") {
    return simple_pre_tokenizer(
        [](Pieces& pieces) {
          whitespace(pieces);
          split_characters(pieces, SplitBehavior::removed, is_white_space);
        },
        U' ');
  }
  if (name == "WhitespaceSplit") {
    return simple_pre_tokenizer(
        [](Pieces& pieces) { split_characters(pieces, SplitBehavior::removed, is_white_space); }, U' ');
  }
  if (name == "Punctuation") return parse_punctuation(field);
  if (name == "Digits") return parse_digits(field);
  if (name == "CharDelimiterSplit") return parse_character_split(field);
  if (name == "UnicodeScripts") return simple_pre_tokenizer(unicode_scripts, std::nullopt);
  if (name == "FixedLength") {
    const std::int64_t length = field.integer("length", 1, INT32_MAX, 5);
    return simple_pre_tokenizer([length](Pieces& pieces) { fixed_length(pieces, length); }, std::nullopt);
  }
  if (name == "Split") {
    return std::make_unique<Split>(Pattern::parse(field.at("pattern")), parse_behavior(field.at("behavior")),
                                   field.boolean("invert", false));
  }
  type.fail(
      "a pre-tokenizer (BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
      "Punctuation, Sequence, Split, UnicodeScripts, Whitespace or WhitespaceSplit)");
}

}  // namespace heed
