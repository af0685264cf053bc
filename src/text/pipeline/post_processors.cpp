// The post-processors of tokenizer files, one class each.
#include "text/pipeline/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "core/utf8.h"
#include "text/pipeline/byte_level.h"
#include "text/unicode/character_class.h"

namespace heed {
namespace {

using PostProcessorPointer = std::unique_ptr<const PostProcessor>;

constexpr std::int64_t kMostRepeats = 64;  // of a text

template <class T>
void insert(std::vector<T>& to, bool front, std::vector<T>& from) {
  to.insert(front ? to.begin() : to.end(), std::make_move_iterator(from.begin()),
            std::make_move_iterator(from.end()));
}

bool is_blank_character(char32_t c) {
  return c == kByteCharacters[static_cast<unsigned char>(' ')] || is_white_space(c);
}

/// Removes the white space at the ends of byte-level tokens from their offsets.
void trim_offsets(Encoding& text, bool prefix_space) {
  for (std::size_t i = 0; i < text.tokens.size(); ++i) {
    const std::string& token = text.tokens[i];
    std::int64_t leading = 0, trailing = 0;
    for (std::size_t at = 0; at < token.size() && is_blank_character(next_character(token, at));) ++leading;
    for (std::size_t end = token.size(); end > 0 && is_blank_character(character_before(token, end));
         ++trailing) {
      do --end;
      while (!is_utf8_start(token[end]));
    }
    auto& [begin, end] = text.offsets[i];
    // A single space at the start is assumed to be the added prefix, which is not in the text.
    if (leading == 1 && prefix_space && (i == 0 || begin == 0)) leading = 0;
    begin = std::min(begin + leading, end);
    if (end >= trailing) end = std::max(end - trailing, begin);
  }
}

class ByteLevelOffsets final : public PostProcessor {
 public:
  explicit ByteLevelOffsets(const JsonField& field)
      : trim_(field.boolean("trim_offsets", true)), prefix_space_(field.boolean("add_prefix_space", true)) {}
  void apply(std::vector<Encoding>& texts, bool) const override {
    for (Encoding& text : texts) {
      if (trim_) trim_offsets(text, prefix_space_);
    }
  }

 private:
  bool trim_, prefix_space_;
};

void set_types(Encoding& text, std::int64_t type_id) {
  std::fill(text.type_ids.begin(), text.type_ids.end(), type_id);
}

void wrap(Encoding& text, const std::vector<EndToken>& before, const std::vector<EndToken>& after,
          std::int64_t type_id) {
  Encoding whole;
  for (const EndToken& token : before) whole.push_special(token.id, token.token, type_id);
  join(whole, std::move(text));
  for (const EndToken& token : after) whole.push_special(token.id, token.token, type_id);
  text = std::move(whole);
}

EndToken parse_end_token(const JsonField& field) {
  if (field.array_size() != 2) field.fail("an array of a token and its id");
  return {field.at(std::size_t{1}).integer(0, INT32_MAX), field.at(std::size_t{0}).string()};
}

/// BERT's and RoBERTa's: `[CLS] A [SEP] B [SEP]` and `<s> A </s></s> B </s>`.
class PairProcessor final : public PostProcessor {
 public:
  PairProcessor(const JsonField& field, bool roberta)
      : first_(parse_end_token(field.at("cls"))),
        last_(parse_end_token(field.at("sep"))),
        roberta_(roberta),
        trim_(roberta && field.boolean("trim_offsets", true)),
        prefix_space_(roberta && field.boolean("add_prefix_space", true)) {}

  void apply(std::vector<Encoding>& texts, bool add_special_tokens) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto type = static_cast<std::int64_t>(roberta_ ? 0 : i);
      if (trim_) trim_offsets(texts[i], prefix_space_);
      if (roberta_) set_types(texts[i], 0);
      if (!add_special_tokens) continue;
      std::vector<EndToken> before;
      if (i == 0) before = {first_};
      if (i == 1 && roberta_) before = {last_};
      wrap(texts[i], before, {last_}, type);
    }
  }

 private:
  EndToken first_, last_;
  bool roberta_, trim_, prefix_space_;
};

/// One item of a template: a text, or special tokens.
struct TemplatePart {
  int text = -1;  // 0 or 1; -1 for tokens
  std::vector<EndToken> tokens;
  std::int64_t type_id = 0;
};
using Template = std::vector<TemplatePart>;

class TemplateProcessor final : public PostProcessor {
 public:
  TemplateProcessor(Template single, Template pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  void apply(std::vector<Encoding>& texts, bool add_special_tokens) const override {
    std::vector<Encoding> result;
    const Template& parts = texts.size() == 1 ? single_ : pair_;
    for (const TemplatePart& part : parts) {
      Encoding piece;
      if (part.text >= 0) {
        const auto text = static_cast<std::size_t>(part.text);
        const bool again =
            std::any_of(&part + 1, parts.data() + parts.size(),
                        [&part](const TemplatePart& later) { return later.text == part.text; });
        piece = again ? texts[text] : std::move(texts[text]);
        set_types(piece, part.type_id);
      } else if (add_special_tokens) {
        for (const EndToken& token : part.tokens) piece.push_special(token.id, token.token, part.type_id);
      }
      result.push_back(std::move(piece));
    }
    texts = std::move(result);
  }
  std::int64_t repeats() const override { return std::max(repeats(single_), repeats(pair_)); }

 private:
  static std::int64_t repeats(const Template& parts) {
    std::int64_t most = 1;
    for (const int text : {0, 1})
      most = std::max<std::int64_t>(
          most, std::count_if(parts.begin(), parts.end(),
                              [text](const TemplatePart& part) { return part.text == text; }));
    return most;
  }

  Template single_, pair_;
};

using SpecialTokens = std::map<std::string, std::vector<EndToken>>;

SpecialTokens parse_special_tokens(const JsonField& field) {
  SpecialTokens special;
  if (!field.value().is_object()) field.fail("an object");
  for (auto entry = field.value().begin(); entry != field.value().end(); ++entry) {
    const JsonField token = field.at(entry.key());
    const JsonField ids = token.at("ids"), tokens = token.at("tokens");
    if (ids.array_size() != tokens.array_size()) ids.fail("as many ids as tokens");
    std::vector<EndToken>& list = special[entry.key()];
    for (std::size_t i = 0; i < ids.array_size(); ++i) {
      list.push_back({ids.at(i).integer(0, INT32_MAX), tokens.at(i).string()});
    }
  }
  return special;
}

Template parse_template(const JsonField& field, const SpecialTokens& special, bool pair) {
  Template parts;
  bool seen[2] = {false, false};
  for (std::size_t i = 0; i < field.array_size(); ++i) {
    const JsonField entry = field.at(i);
    const auto text = entry.find("Sequence"), token = entry.find("SpecialToken");
    if (!text == !token) entry.fail("an object with either Sequence or SpecialToken");
    const JsonField& given = text ? *text : *token;
    TemplatePart part;
    part.type_id = given.integer("type_id", 0, INT32_MAX, 0);
    const JsonField id = given.at("id");
    if (text) {
      part.text = id.string() == "A" ? 0 : 1;
      if (id.string() != "A" && (id.string() != "B" || !pair)) id.fail(pair ? "A or B" : "A");
      seen[part.text] = true;
    } else {
      const auto place = special.find(id.string());
      if (place == special.end()) id.fail("one of special_tokens");
      part.tokens = place->second;
    }
    parts.push_back(std::move(part));
  }
  if (!seen[0] || (pair && !seen[1])) field.fail(pair ? "a template with both A and B" : "a template with A");
  return parts;
}

PostProcessorPointer parse_template_processor(const JsonField& field) {
  const auto given = field.find("special_tokens");
  const SpecialTokens special = given ? parse_special_tokens(*given) : SpecialTokens{};
  Template single = parse_template(field.at("single"), special, false);
  Template pair = parse_template(field.at("pair"), special, true);
  auto processor = std::make_unique<TemplateProcessor>(std::move(single), std::move(pair));
  if (processor->repeats() > kMostRepeats)
    field.fail(fmt::format("a template that repeats a text at most {} times", kMostRepeats));
  return processor;
}

class PostProcessorSequence final : public PostProcessor {
 public:
  PostProcessorSequence(const JsonField& field, int depth) {
    const JsonField list = field.at("processors");
    for (std::size_t i = 0; i < list.array_size(); ++i) {
      parts_.push_back(parse_post_processor(list.at(i), depth + 1));
      repeats_ *= parts_.back()->repeats();
      if (repeats_ > kMostRepeats)
        list.at(i).fail(fmt::format("processors that repeat a text at most {} times", kMostRepeats));
    }
  }
  std::int64_t repeats() const override { return repeats_; }
  void apply(std::vector<Encoding>& texts, bool add_special_tokens) const override {
    for (const auto& part : parts_) part->apply(texts, add_special_tokens);
  }

 private:
  std::vector<PostProcessorPointer> parts_;
  std::int64_t repeats_ = 1;
};

}  // namespace

void join(Encoding& first, Encoding second) {
  const bool front = second.size() > first.size();
  if (front) std::swap(first, second);
  insert(first.ids, front, second.ids);
  insert(first.tokens, front, second.tokens);
  insert(first.offsets, front, second.offsets);
  insert(first.type_ids, front, second.type_ids);
  insert(first.special_tokens_mask, front, second.special_tokens_mask);
  insert(first.sequence_ids, front, second.sequence_ids);
}

Encoding process(const PostProcessor* processor, Encoding first, std::optional<Encoding> second,
                 bool add_special_tokens) {
  std::vector<Encoding> texts;
  texts.push_back(std::move(first));
  if (second) texts.push_back(std::move(*second));
  if (processor != nullptr) processor->apply(texts, add_special_tokens);
  Encoding whole = std::move(texts.front());
  for (std::size_t i = 1; i < texts.size(); ++i) join(whole, std::move(texts[i]));
  return whole;
}

PostProcessorPointer ends_processor(std::optional<EndToken> first, std::optional<EndToken> last) {
  Template pair;
  for (int text = 0; text < 2; ++text) {
    if (first) pair.push_back({-1, {*first}, text});
    pair.push_back({text, {}, text});
    if (last) pair.push_back({-1, {*last}, text});
  }
  Template single(pair.begin(), pair.begin() + static_cast<std::ptrdiff_t>(pair.size() / 2));
  return std::make_unique<TemplateProcessor>(std::move(single), std::move(pair));
}

PostProcessorPointer frame_processor(const std::vector<EndToken>& before, const std::vector<EndToken>& after,
                                     std::int64_t type_of_second) {
  const TemplatePart first{-1, before, 0}, last{-1, after, 0};
  return std::make_unique<TemplateProcessor>(Template{first, {0, {}, 0}, last},
                                             Template{first, {0, {}, 0}, {1, {}, type_of_second}, last});
}

PostProcessorPointer parse_post_processor(const JsonField& field, int depth) {
  const JsonField type = field.at("type");
  const std::string& name = type.string();
  if (depth > kMaxNesting) type.fail(fmt::format("sequences nested at most {} deep", kMaxNesting));
  if (name == "Sequence") return std::make_unique<PostProcessorSequence>(field, depth);
  if (name == "ByteLevel") return std::make_unique<ByteLevelOffsets>(field);
  if (name == "BertProcessing") return std::make_unique<PairProcessor>(field, false);
  if (name == "RobertaProcessing") return std::make_unique<PairProcessor>(field, true);
  if (name == "TemplateProcessing") return parse_template_processor(field);
  type.fail(
      "a post-processor (BertProcessing, ByteLevel, RobertaProcessing, Sequence or TemplateProcessing)");
}

}  // namespace heed
