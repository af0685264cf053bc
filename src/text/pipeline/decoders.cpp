// The decoders of tokenizer files, one class each.
#include "text/pipeline/stages.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "core/strings.h"
#include "core/utf8.h"
#include "heed/text/unicode.h"
#include "text/patterns/pattern.h"
#include "text/pipeline/byte_level.h"

namespace heed {
namespace {

using DecoderPointer = std::unique_ptr<const TokenDecoder>;
using Tokens = std::vector<std::string>;

template <class Function>
class SimpleDecoder final : public TokenDecoder {
 public:
  explicit SimpleDecoder(Function function) : function_(std::move(function)) {}
  void apply(Tokens& tokens) const override { function_(tokens); }

 private:
  Function function_;
};

template <class Function>
DecoderPointer simple_decoder(Function function) {
  return std::make_unique<SimpleDecoder<Function>>(std::move(function));
}

/// Converts characters of the byte alphabet back to bytes. A token with any other character is kept as it is.
void undo_byte_level(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::size_t before = bytes.size();
    for (std::size_t at = 0; at < token.size();) {
      const int byte = byte_of_character(next_character(token, at));
      if (byte < 0) {
        bytes.resize(before);
        bytes += token;
        break;
      }
      bytes += static_cast<char>(byte);
    }
  }
  tokens = {replace_invalid_utf8(bytes)};
}

/// Removes the spaces that WordPiece's clean-up removes.
void clean_word(std::string& token) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& rule : kRules) replace_all(token, rule.first, rule.second);
}

DecoderPointer parse_word_piece_decoder(const JsonField& field) {
  return simple_decoder(
      [prefix = field.string("prefix", "##"), clean = field.boolean("cleanup", true)](Tokens& tokens) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          std::string& token = tokens[i];
          if (i > 0) {
            if (token.compare(0, prefix.size(), prefix) == 0) {
              token.erase(0, prefix.size());
            } else {
              token.insert(0, 1, ' ');
            }
          }
          if (clean) clean_word(token);
        }
      });
}

DecoderPointer parse_metaspace_decoder(const JsonField& field) {
  return simple_decoder([settings = parse_metaspace(field)](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool dropped = i == 0 && settings.prepend != MetaspaceSettings::Prepend::never;
      replace_all(tokens[i], settings.replacement, dropped ? "" : " ");
    }
  });
}

DecoderPointer parse_bpe_decoder(const JsonField& field) {
  return simple_decoder([suffix = field.string("suffix", "</w>")](Tokens& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  });
}

/// Returns the byte of a token <0xNN>, or -1 for other tokens.
int byte_token(const std::string& token) {
  if (token.size() != 6 || token.compare(0, 3, "<0x") != 0 || token[5] != '>') return -1;
  int byte = -1;
  const auto parsed = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return parsed.ec == std::errc() && parsed.ptr == token.data() + 5 && byte >= 0 ? byte : -1;
}

/// Replaces each run of byte tokens by the text of its bytes, or by one U+FFFD per byte if they are not valid
/// UTF-8.
void byte_fallback(Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (!first_invalid_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), std::string(kReplacementCharacter));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = byte_token(token); byte >= 0) {
      bytes += static_cast<char>(byte);
    } else {
      flush();
      result.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(result);
}

DecoderPointer parse_strip_decoder(const JsonField& field) {
  std::string content;
  append_utf8(content, field.at("content").character());
  const std::int64_t start = field.at("start").integer(0, INT32_MAX),
                     stop = field.at("stop").integer(0, INT32_MAX);
  return simple_decoder([content, start, stop](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::size_t begin = 0, end = token.size();
      for (std::int64_t i = 0; i < start && token.compare(begin, content.size(), content) == 0; ++i) {
        begin += content.size();
      }
      for (std::int64_t i = 0; i < stop && end >= begin + content.size() &&
                               token.compare(end - content.size(), content.size(), content) == 0;
           ++i) {
        end -= content.size();
      }
      token = token.substr(begin, end - begin);
    }
  });
}

class ReplaceDecoder final : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const JsonField& field)
      : pattern_(Pattern::parse(field.at("pattern"))), content_(field.at("content").string()) {}
  void apply(Tokens& tokens) const override {
    const auto search = pattern_->search();
    for (std::string& token : tokens) {
      std::string result;
      std::size_t last = 0;
      search->find(token, [&](std::size_t begin, std::size_t end) {
        result.append(token, last, begin - last).append(content_);
        last = end;
      });
      if (last > 0 || !result.empty()) token = result.append(token, last);
    }
  }

 private:
  std::unique_ptr<const Pattern> pattern_;
  std::string content_;
};

/// Connectionist temporal classification: drops repetitions and padding, and replaces word delimiters by
/// spaces.
DecoderPointer parse_ctc(const JsonField& field) {
  return simple_decoder([pad = field.string("pad_token", "<pad>"),
                         delimiter = field.string("word_delimiter_token", "|"),
                         clean = field.boolean("cleanup", true)](Tokens& tokens) {
    Tokens result;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i] == tokens[i - 1]) continue;
      std::string token = tokens[i];
      replace_all(token, pad, "");
      if (clean) {
        clean_word(token);
        replace_all(token, delimiter, " ");
      }
      if (!token.empty()) result.push_back(std::move(token));
    }
    tokens = std::move(result);
  });
}

class DecoderSequence final : public TokenDecoder {
 public:
  DecoderSequence(const JsonField& field, int depth) {
    const JsonField list = field.at("decoders");
    for (std::size_t i = 0; i < list.array_size(); ++i)
      parts_.push_back(parse_decoder(list.at(i), depth + 1));
  }
  void apply(Tokens& tokens) const override {
    for (const auto& part : parts_) part->apply(tokens);
  }

 private:
  std::vector<DecoderPointer> parts_;
};

}  // namespace

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::size_t at = from.empty() ? std::string::npos : text.find(from);
  if (at == std::string::npos) return;
  std::string result;
  std::size_t begin = 0;
  for (; at != std::string::npos; at = text.find(from, begin)) {
    result.append(text, begin, at - begin).append(to);
    begin = at + from.size();
  }
  text = result.append(text, begin);
}

DecoderPointer parse_decoder(const JsonField& field, int depth) {
  const JsonField type = field.at("type");
  const std::string& name = type.string();
  if (depth > kMaxNesting) type.fail(fmt::format("sequences nested at most {} deep", kMaxNesting));
  if (name == "Sequence") return std::make_unique<DecoderSequence>(field, depth);
  if (name == "ByteLevel") return simple_decoder(undo_byte_level);
  if (name == "WordPiece") return parse_word_piece_decoder(field);
  if (name == "Metaspace") return parse_metaspace_decoder(field);
  if (name == "BPEDecoder") return parse_bpe_decoder(field);
  if (name == "ByteFallback") return simple_decoder(byte_fallback);
  if (name == "Fuse") return simple_decoder([](Tokens& tokens) { tokens = {joined(tokens, "")}; });
  if (name == "Strip") return parse_strip_decoder(field);
  if (name == "Replace") return std::make_unique<ReplaceDecoder>(field);
  if (name == "CTC") return parse_ctc(field);
  type.fail(
      "a decoder (BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, Metaspace, Replace, Sequence, Strip or "
      "WordPiece)");
}

}  // namespace heed
