// The special tokens of each type of vocabulary, and those of T5 and BART.
#include "text/special_tokens.h"

#include <fmt/format.h>

#include <array>

namespace heed {
namespace {

constexpr const char *kEnd = "</s>", *kPad = "<pad>", *kEndOfText = "<|endoftext|>", *kUnknown = "<unk>";
constexpr const char *kBegin = "<s>", *kMask = "<mask>";
constexpr int kSentinels = 100;
constexpr std::array kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

}  // namespace

SpecialTokens special_tokens_of(const TokenizerTraining& training) {
  const Roles end_and_others = {
      {SpecialRole::eos, kEnd}, {SpecialRole::unk, kUnknown}, {SpecialRole::pad, kPad}};
  if (training.special_tokens == "t5") {
    SpecialTokens t5{{kPad, kEnd, kUnknown}, {}, end_and_others, nullptr, kEnd};
    for (int i = kSentinels - 1; i >= 0; --i) t5.last.push_back(fmt::format("<extra_id_{}>", i));
    return t5;
  }
  if (training.special_tokens == "bart") {
    SpecialTokens bart{{kBegin, kPad, kEnd, kUnknown}, {kMask}, end_and_others, kBegin, kEnd};
    bart.roles.insert(bart.roles.begin(), {SpecialRole::bos, kBegin});
    bart.roles.insert(bart.roles.end(),
                      {{SpecialRole::cls, kBegin}, {SpecialRole::sep, kEnd}, {SpecialRole::mask, kMask}});
    return bart;
  }
  if (training.type == "character") return {{}, {kUnknown}, {{SpecialRole::unk, kUnknown}}};
  if (training.type == "byte_bpe")
    return {{kEndOfText},
            {},
            {{SpecialRole::bos, kEndOfText}, {SpecialRole::eos, kEndOfText}},
            nullptr,
            training.append_end ? kEndOfText : nullptr};
  if (training.type != "wordpiece" && training.type != "word")
    return {{kEnd, kUnknown}, {kPad}, end_and_others, nullptr, training.append_end ? kEnd : nullptr};
  return {{kBertTokens.begin(), kBertTokens.end()},
          {},
          {{SpecialRole::unk, "[UNK]"},
           {SpecialRole::sep, "[SEP]"},
           {SpecialRole::pad, "[PAD]"},
           {SpecialRole::cls, "[CLS]"},
           {SpecialRole::mask, "[MASK]"}},
          "[CLS]",
          "[SEP]"};
}

}  // namespace heed
