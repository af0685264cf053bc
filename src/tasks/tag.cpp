// Labels tokens and merges them to entities.
#include "heed/tasks/tag.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/pause_point.h"
#include "heed/error.h"
#include "heed/io/json.h"
#include "heed/text/unicode.h"
#include "tasks/characters.h"
#include "tasks/scores.h"
#include "tasks/tagging.h"

namespace heed {
namespace {

// One token of the text with its scores, or several merged tokens.
struct Piece {
  std::vector<std::int64_t> ids;
  std::vector<double> scores;  // by label; after the aggregation of a word, only the best
  std::size_t label = 0;
  double score = 0;
  std::string word;  // set if it differs from the decoded ids: an unknown token is shown as its text
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t index = 0;
  bool continues_word = false;
};

// Returns true if the vocabulary marks tokens inside words, as WordPiece does.
bool marks_continuation(const Tokenizer& tokenizer) {
  for (const char* token : {"##s", "##e", "##a", "##1"}) {
    if (tokenizer.token_to_id(token)) return true;
  }
  return false;
}

class Tagger {
 public:
  Tagger(const EncoderModel& model, const Tokenizer& tokenizer, const TagOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options), marked_(marks_continuation(tokenizer)) {}

  // Merges the tokens of a text to entities.
  std::vector<TaggedText> entities(const std::string& text, std::vector<Piece> pieces) const {
    const tasks::Characters characters(text);
    for (Piece& piece : pieces) {
      pause_point();
      describe(piece, characters);
    }
    if (options_.aggregation != Aggregation::none && options_.aggregation != Aggregation::simple)
      pieces = words(pieces);
    std::vector<TaggedText> found;
    for (std::size_t i = 0; i < pieces.size();) {
      pause_point();
      std::size_t end = i + 1;
      while (options_.aggregation != Aggregation::none && end < pieces.size() &&
             joins(pieces[end - 1], pieces[end])) {
        ++end;
      }
      add(found, std::span(pieces).subspan(i, end - i));
      i = end;
    }
    return found;
  }

 private:
  const std::string& name(const Piece& piece) const { return model_.labels()[piece.label]; }

  void describe(Piece& piece, const tasks::Characters& characters) const {
    piece.label = static_cast<std::size_t>(std::max_element(piece.scores.begin(), piece.scores.end()) -
                                           piece.scores.begin());
    piece.score = piece.scores[piece.label];
    const std::int64_t id = piece.ids.front();
    if (id == tokenizer_.unk_id()) {
      piece.word = characters.text(piece.start, piece.end);
    } else if (marked_) {
      piece.continues_word = count_characters(tokenizer_.token(id)) != piece.end - piece.start;
    } else {
      piece.continues_word = piece.start > 0 && !characters.has_space(piece.start - 1, piece.start + 1);
    }
  }

  // Returns a label without B- or I-, and whether it had B-.
  static std::pair<std::string, bool> entity_of(const std::string& label) {
    if (label.starts_with("B-")) return {label.substr(2), true};
    return {label.starts_with("I-") ? label.substr(2) : label, false};
  }

  bool joins(const Piece& before, const Piece& piece) const {
    const auto [entity, begins] = entity_of(name(piece));
    return !begins && entity == entity_of(name(before)).first;
  }

  std::vector<Piece> words(const std::vector<Piece>& pieces) const {
    std::vector<Piece> result;
    for (std::size_t i = 0; i < pieces.size();) {
      std::size_t end = i + 1;
      while (end < pieces.size() && pieces[end].continues_word) ++end;
      result.push_back(word(std::span(pieces).subspan(i, end - i)));
      i = end;
    }
    return result;
  }

  Piece word(std::span<const Piece> parts) const {
    Piece whole = parts.front();
    if (options_.aggregation == Aggregation::max) {
      const auto surest = std::max_element(parts.begin(), parts.end(),
                                           [](const Piece& a, const Piece& b) { return a.score < b.score; });
      whole.label = surest->label;
      whole.score = surest->score;
    } else if (options_.aggregation == Aggregation::average) {
      for (std::size_t l = 0; l < whole.scores.size(); ++l) {
        whole.scores[l] = 0;
        for (const Piece& part : parts) whole.scores[l] += part.scores[l] / static_cast<double>(parts.size());
      }
      whole.label = static_cast<std::size_t>(std::max_element(whole.scores.begin(), whole.scores.end()) -
                                             whole.scores.begin());
      whole.score = whole.scores[whole.label];
    }
    for (const Piece& part : parts.subspan(1))
      whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    const bool as_written =
        std::any_of(parts.begin(), parts.end(), [](const Piece& part) { return !part.word.empty(); });
    whole.word = as_written ? spelled(parts) : "";
    whole.end = parts.back().end;
    return whole;
  }

  // Returns tokens as text: runs of known tokens are decoded together; unknown tokens are copied from the
  // text.
  std::string spelled(std::span<const Piece> parts) const {
    std::string text;
    std::vector<std::int64_t> run;
    const auto append = [&](const std::string& more) {
      if (!more.empty()) text += (text.empty() ? "" : " ") + more;
    };
    for (const Piece& part : parts) {
      if (part.word.empty()) {
        run.insert(run.end(), part.ids.begin(), part.ids.end());
        continue;
      }
      append(tokenizer_.decode(run, false));
      run.clear();
      append(part.word);
    }
    append(tokenizer_.decode(run, false));
    return text;
  }

  void add(std::vector<TaggedText>& found, std::span<const Piece> parts) const {
    const bool single = options_.aggregation == Aggregation::none;
    const std::string& label = name(parts.front());
    const std::size_t dash = label.find('-');
    TaggedText entity{single || dash == label.npos ? label : label.substr(dash + 1), 0, "", 0, 0, 0};
    const auto& ignored = options_.ignored_labels;
    if (std::find(ignored.begin(), ignored.end(), entity.label) != ignored.end()) return;
    for (const Piece& part : parts) entity.score += part.score / static_cast<double>(parts.size());
    entity.word =
        single && parts.front().word.empty() ? tokenizer_.token(parts.front().ids.front()) : spelled(parts);
    entity.start = parts.front().start;
    entity.end = parts.back().end;
    entity.index = parts.front().index;
    found.push_back(std::move(entity));
  }

  const EncoderModel& model_;
  const Tokenizer& tokenizer_;
  const TagOptions& options_;
  bool marked_;
};

// Tokens by which the windows of a text overlap.
std::int64_t overlap(const Tokenizer& tokenizer, std::int64_t longest, const TagOptions& options) {
  return std::min(options.stride, (longest - tokenizer.added_tokens(false)) / 2);
}

std::vector<Piece> pieces_of(const Encoding& window, std::span<const float> logits, std::size_t labels) {
  std::vector<Piece> pieces;
  for (std::size_t t = 0; t < window.ids.size(); ++t) {
    if (window.special_tokens_mask[t] != 0) continue;
    pause_point();
    Piece piece;
    piece.ids = {window.ids[t]};
    piece.scores = tasks::softmax(logits.subspan(t * labels, labels));
    piece.start = window.offsets[t].first;
    piece.end = window.offsets[t].second;
    piece.index = static_cast<std::int64_t>(t);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Appends the pieces of a window to those of the windows before it. Of the tokens in both, the first half is
// taken from the earlier window and the second half from this one, so that each has context on both sides.
void join_window(std::vector<Piece>& pieces, std::vector<Piece> window, std::int64_t stride) {
  std::size_t shared = pieces.empty() ? 0 : static_cast<std::size_t>(stride);
  shared = std::min({shared, pieces.size(), window.size()});
  const std::size_t kept = shared / 2;
  pieces.resize(pieces.size() - (shared - kept));
  const std::int64_t shift = pieces.empty() ? 0 : pieces.back().index + 1;
  for (std::size_t i = kept; i < window.size(); ++i) {
    if (shared > 0 || shift > 0) window[i].index = shift + static_cast<std::int64_t>(i - kept);
    pieces.push_back(std::move(window[i]));
  }
}

}  // namespace

namespace tasks {

std::vector<Encoding> tag_windows(const EncoderModel& model, const Tokenizer& tokenizer,
                                  const std::string& text, const TagOptions& options) {
  Truncation truncation;
  truncation.max_length = longest_input(model, tokenizer);
  truncation.strategy = Truncation::Strategy::only_first;
  truncation.stride = overlap(tokenizer, truncation.max_length, options);
  return tokenizer.encode_windows(text, std::nullopt, truncation);
}

std::vector<TaggedText> tagged_text(const EncoderModel& model, const Tokenizer& tokenizer,
                                    const std::string& text, std::span<const Encoding> windows,
                                    std::span<const std::vector<float>> logits, const TagOptions& options) {
  const std::int64_t stride = overlap(tokenizer, longest_input(model, tokenizer), options);
  std::vector<Piece> pieces;
  for (std::size_t w = 0; w < windows.size(); ++w)
    join_window(pieces, pieces_of(windows[w], logits[w], model.labels().size()), stride);
  return Tagger(model, tokenizer, options).entities(text, std::move(pieces));
}

std::string tagged_json(std::span<const TaggedText> tagged, Aggregation aggregation) {
  const bool tokens = aggregation == Aggregation::none;
  JsonWriter json;
  json.begin_array();
  for (const TaggedText& one : tagged) {
    pause_point();
    json.begin_object().field(tokens ? "entity" : "entity_group", one.label).field("score", one.score);
    if (tokens) json.field("index", one.index);
    json.field("word", one.word).field("start", one.start).field("end", one.end).end_object();
  }
  return json.end_array().text();
}

}  // namespace tasks

std::vector<std::vector<TaggedText>> tag(const EncoderModel& model, const Tokenizer& tokenizer,
                                         std::span<const std::string> texts, const TagOptions& options) {
  tasks::require_head(model, EncoderHead::token, "tag");
  std::vector<Encoding> windows;
  std::vector<std::size_t> first_window = {0};  // of each text; the last is their number
  for (const std::string& text : texts) {
    std::ranges::move(tasks::tag_windows(model, tokenizer, text, options), std::back_inserter(windows));
    first_window.push_back(windows.size());
  }
  std::vector<std::vector<float>> logits(windows.size());
  encode_batches(model, windows, options.task,
                 [&](std::span<const std::size_t> chosen, const Tensor& hidden) {
                   Context context;
                   const Tensor all = model.predict(hidden, {}, context);  // [B, T, L]
                   const std::vector<float> numbers = all.to_vector<float>();
                   const auto row = static_cast<std::size_t>(all.size(1) * all.size(2));
                   for (std::size_t b = 0; b < chosen.size(); ++b) {
                     const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(b * row);
                     const std::int64_t own = windows[chosen[b]].size() * all.size(2);
                     logits[chosen[b]].assign(begin, begin + own);
                   }
                 });
  std::vector<std::vector<TaggedText>> results;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::size_t first = first_window[i], count = first_window[i + 1] - first;
    results.push_back(tasks::tagged_text(model, tokenizer, texts[i], std::span(windows).subspan(first, count),
                                         std::span(logits).subspan(first, count), options));
  }
  return results;
}

}  // namespace heed
