// The normalizers of tokenizer files, one class each.
#include "text/pipeline/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "core/base64.h"
#include "core/pause_point.h"
#include "core/utf8.h"
#include "text/patterns/pattern.h"
#include "text/pipeline/word_ends.h"
#include "text/unicode/character_class.h"
#include "text/unicode/charsmap.h"

namespace heed {
namespace {

using NormalizerPointer = std::unique_ptr<const Normalizer>;

/// A normalizer without settings.
template <class Function>
class Simple final : public Normalizer {
 public:
  explicit Simple(Function function) : function_(std::move(function)) {}
  void apply(NormalizedText& text) const override { function_(text); }

 private:
  Function function_;
};

template <class Function>
NormalizerPointer simple_normalizer(Function function) {
  return std::make_unique<Simple<Function>>(std::move(function));
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

void lowercase(NormalizedText& text) {
  bool lower = true;
  for (const char c : text.text())
    lower = lower && static_cast<unsigned char>(c) < 0x80 && !(c >= 'A' && c <= 'Z');
  if (lower) return;
  Rewrite rewrite(text);
  while (!rewrite.done()) {
    const char32_t c = rewrite.peek();
    if (c == 0x130) {  // the only capital whose lower-case form has two characters
      rewrite.replace('i');
      rewrite.insert(0x307);
    } else {
      rewrite.replace(lower_case(c));
    }
  }
  text = rewrite.finish();
}

void strip_accents(NormalizedText& text) {
  if (is_ascii(text.text())) return;
  filter_characters(text, [](char32_t c) { return !is_combining_mark(c); });
}

bool is_white_space_for_nmt(char32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

bool is_dropped_by_nmt(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

void nmt(NormalizedText& text) {
  filter_characters(text, [](char32_t c) { return !is_dropped_by_nmt(c); });
  Rewrite rewrite(text);
  while (!rewrite.done()) rewrite.replace(is_white_space_for_nmt(rewrite.peek()) ? U' ' : rewrite.peek());
  text = rewrite.finish();
}

void byte_level(NormalizedText& text) {
  Rewrite rewrite(text);
  rewrite.spell_bytes(text.text().size());
  text = rewrite.finish();
}

void strip_ends(NormalizedText& text, bool left, bool right) {
  const std::string_view bytes = text.text();
  std::size_t begin = 0, end = bytes.size();
  while (left && begin < bytes.size()) {
    std::size_t next = begin;
    if (!is_white_space(next_character(bytes, next))) break;
    begin = next;
  }
  while (right && end > begin && is_white_space(character_before(bytes, end))) {
    do --end;
    while (!is_utf8_start(bytes[end]));
  }
  if (begin == 0 && end == bytes.size()) return;
  Rewrite rewrite(text);
  rewrite.skip_to(begin);
  rewrite.keep_bytes(end - begin);
  text = rewrite.finish();
}

void prepend(NormalizedText& text, const std::string& what) {
  if (text.text().empty() || what.empty()) return;
  Rewrite rewrite(text);
  rewrite.prepend(what);
  rewrite.keep_bytes(text.text().size());
  text = rewrite.finish();
}

/// Replaces the matches of a pattern. The whole replacement is aligned to the last replaced character.
class Replace final : public Normalizer {
 public:
  explicit Replace(const JsonField& field)
      : pattern_(Pattern::parse(field.at("pattern"))), content_(field.at("content").string()) {
    const JsonField pattern = field.at("pattern");
    if (const auto text = pattern.find("String")) {
      keeps_word_ends_ = !spans_word_end(text->string());
    } else {
      const std::string& expression = pattern.at("Regex").string();
      constexpr std::string_view kSpaces[] = {" +", " {2,}", R"(\s+)", R"(\s{2,})"};
      keeps_word_ends_ = std::find(std::begin(kSpaces), std::end(kSpaces), expression) != std::end(kSpaces);
    }
  }

  void apply(NormalizedText& text) const override {
    std::vector<std::pair<std::size_t, std::size_t>> matches;
    pattern_->search()->find(text.text(),
                             [&](std::size_t begin, std::size_t end) { matches.emplace_back(begin, end); });
    if (matches.empty()) return;
    Rewrite rewrite(text);
    for (const auto& match : matches) {
      rewrite.keep_bytes(match.first - rewrite.at());
      rewrite.skip_to(match.second);
      for (std::size_t at = 0; at < content_.size();) rewrite.insert(next_character(content_, at));
    }
    rewrite.keep_bytes(text.text().size() - rewrite.at());
    text = rewrite.finish();
  }
  bool preserves_word_ends() const override { return keeps_word_ends_; }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
  bool keeps_word_ends_;
};

/// The map is text in a tokenizer.json, and bytes if it comes from a SentencePiece model.
NormalizerPointer parse_precompiled(const JsonField& field) {
  const JsonField map = field.at("precompiled_charsmap");
  std::optional<std::string> bytes;
  if (map.value().is_binary()) {
    const auto& binary = map.value().get_binary();
    bytes.emplace(binary.begin(), binary.end());
  } else {
    bytes = decode_base64(map.string());
  }
  if (!bytes) map.fail("base64");
  if (bytes->empty()) return simple_normalizer([](NormalizedText&) {});
  std::optional<Charsmap> charsmap = Charsmap::parse(*bytes);
  if (!charsmap) map.fail("a character map whose first four bytes are the size of its array");
  return simple_normalizer([charsmap = *std::move(charsmap)](NormalizedText& text) { charsmap.apply(text); });
}

/// BERT's normalizer: cleaning, spaces around Chinese characters, accents, lower case.
class BertNormalizer final : public Normalizer {
 public:
  explicit BertNormalizer(const JsonField& field)
      : clean_(field.boolean("clean_text", true)),
        chinese_(field.boolean("handle_chinese_chars", true)),
        lowercase_(field.boolean("lowercase", true)),
        strip_accents_(field.boolean("strip_accents", lowercase_)) {}

  void apply(NormalizedText& text) const override {
    if (clean_) clean(text);
    pause_point();
    if (chinese_) set_chinese_apart(text);
    pause_point();
    if (strip_accents_ && !is_ascii(text.text())) {
      normalize_unicode(text, UnicodeForm::nfd);
      pause_point();
      filter_characters(text, [](char32_t c) { return !is_bert_accent(c); });
    }
    if (lowercase_) lowercase(text);
  }

 private:
  static bool is_space(char32_t c) { return c == '\t' || c == '\n' || c == '\r' || is_white_space(c); }
  static bool is_kept(char32_t c) { return (c >= ' ' && c < 0x7F) || !is_bert_control(c); }

  static void clean(NormalizedText& text) {
    bool clean = true;
    for (const char c : text.text()) clean = clean && c >= ' ' && c < 0x7F;
    if (clean) return;
    Rewrite rewrite(text);
    while (!rewrite.done()) {
      const char32_t c = rewrite.peek();
      if (!is_kept(c)) {
        rewrite.drop(1);
      } else {
        rewrite.replace(is_space(c) ? U' ' : c);
      }
    }
    text = rewrite.finish();
  }

  static bool is_chinese(char32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
  }

  static void set_chinese_apart(NormalizedText& text) {
    bool any = false;
    const std::string& bytes = text.text();
    for (std::size_t at = 0; at < bytes.size() && !any;) any = is_chinese(next_character(bytes, at));
    if (!any) return;
    Rewrite rewrite(text);
    while (!rewrite.done()) {
      const char32_t c = rewrite.peek();
      if (!is_chinese(c)) {
        rewrite.keep();
        continue;
      }
      rewrite.replace(' ');
      rewrite.insert(c);
      rewrite.insert(' ');
    }
    text = rewrite.finish();
  }

  bool clean_, chinese_, lowercase_, strip_accents_;
};

class NormalizerSequence final : public Normalizer {
 public:
  NormalizerSequence(const JsonField& field, int depth) {
    const JsonField list = field.at("normalizers");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      parts_.push_back(parse_normalizer(list.at(i), depth + 1));
  }
  explicit NormalizerSequence(std::vector<NormalizerPointer> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedText& text) const override {
    for (const auto& part : parts_) {
      pause_point();
      part->apply(text);
    }
  }
  bool preserves_word_ends() const override {
    return std::all_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->preserves_word_ends(); });
  }

 private:
  std::vector<NormalizerPointer> parts_;
};

}  // namespace

NormalizerPointer lowercase_before(NormalizerPointer rest) {
  std::vector<NormalizerPointer> parts;
  parts.push_back(simple_normalizer(lowercase));
  if (rest) parts.push_back(std::move(rest));
  return std::make_unique<NormalizerSequence>(std::move(parts));
}

NormalizerPointer parse_normalizer(const JsonField& field, int depth) {
  const JsonField type = field.at("type");
  const std::string& name = type.string();
  if (depth > kMaxNesting) type.fail(fmt::format("sequences nested at most {} deep", kMaxNesting));
  if (name == "Sequence") return std::make_unique<NormalizerSequence>(field, depth);
  if (name == "BertNormalizer") return std::make_unique<BertNormalizer>(field);
  if (name == "Replace") return std::make_unique<Replace>(field);
  if (name == "Precompiled") return parse_precompiled(field);
  if (name == "NFC")
    return simple_normalizer([](NormalizedText& text) { normalize_unicode(text, UnicodeForm::nfc); });
  if (name == "NFD")
    return simple_normalizer([](NormalizedText& text) { normalize_unicode(text, UnicodeForm::nfd); });
  if (name == "NFKC")
    return simple_normalizer([](NormalizedText& text) { normalize_unicode(text, UnicodeForm::nfkc); });
  if (name == "NFKD")
    return simple_normalizer([](NormalizedText& text) { normalize_unicode(text, UnicodeForm::nfkd); });
  if (name == "Lowercase") return simple_normalizer(lowercase);
  if (name == "StripAccents") return simple_normalizer(strip_accents);
  if (name == "Nmt") return simple_normalizer(nmt);
  if (name == "ByteLevel") return simple_normalizer(byte_level);
  if (name == "Strip") {
    const bool left = field.boolean("strip_left", true), right = field.boolean("strip_right", true);
    return simple_normalizer([left, right](NormalizedText& text) { strip_ends(text, left, right); });
  }
  if (name == "Prepend") {
    return simple_normalizer(
        [what = field.at("prepend").string()](NormalizedText& text) { prepend(text, what); });
  }
  type.fail(
      "a normalizer (BertNormalizer, ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, "
      "Replace, Sequence, Strip or StripAccents)");
}

}  // namespace heed
