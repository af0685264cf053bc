// The table of llama.cpp's pre-tokenizers.
#include "text/loading/gguf_tokenizer.h"

#include <algorithm>

namespace heed {
namespace {

using Texts = std::string_view;

constexpr Texts kLlama3[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kQwen2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kGpt2[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
    R"(|\s+)",
};
constexpr Texts kDigitsGpt2[] = {
    R"(\p{N})",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
    R"(|\s+)",
};
constexpr Texts kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kDeepseekV3[] = {
    R"(\p{N}{1,3})",
    R"([一-龥぀-ゟ゠-ヿ]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
    R"(|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kDeepseekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)",
    R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    R"(\s+$)",
    R"([一-龥ࠀ-一가-퟿]+)",
    R"(\p{N}+)",
};
constexpr Texts kDeepseekCoder[] = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", R"([一-龥ࠀ-一가-퟿]+)", R"(\p{N})",
};
constexpr Texts kBloom[] = {
    R"( ?[^(\s|.,!?…。，、।۔،)]+)",
};
constexpr Texts kViking[] = {
    R"( ?[^(\s|.,!?…。，、।۔،)]+)",
    R"(\p{N})",
};
constexpr Texts kFalcon[] = {
    R"([\p{P}\$\+<=>\^~\|`]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
    R"(|\s+)",
    R"([0-9][0-9][0-9])",
};
constexpr Texts kDefault[] = {
    R"([\p{P}\$\+<=>\^~\|]+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))"
    R"(|\s+)",
    R"(\p{N}+)",
    R"([0-9][0-9][0-9])",
};
constexpr Texts kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)",
};
constexpr Texts kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
};
constexpr Texts kExaoneMoe[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
    R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)",
};
constexpr Texts kJais2[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S))"
    R"(|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S))"
    R"(|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})",
};
constexpr Texts kYoutu[] = {
    R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s)"
    R"(|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)"
    R"(|\s+(?!\S)|\s+)",
};
constexpr Texts kMinicpm5[] = {
    R"(\p{N}{1,3})",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

constexpr GgufPreTokenizer kGgufPreTokenizers[] = {
    {.names = "default", .patterns = kDefault},
    {.names = "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = kLlama3,
     .adds_bos = true,
     .ignores_merges = true},
    {.names = "dbrx smaug-bpe chatglm-bpe", .patterns = kLlama3},
    {.names = "glm4 glm5", .patterns = kLlama3, .ignores_merges = true},
    {.names = "minicpm5", .patterns = kMinicpm5, .ignores_merges = true},
    {.names = "deepseek-llm", .patterns = kDeepseekLlm},
    {.names = "deepseek-coder", .patterns = kDeepseekCoder},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4", .patterns = kDeepseekV3},
    {.names = "youtu", .patterns = kYoutu, .ignores_merges = true},
    {.names = "falcon", .patterns = kFalcon},
    {.names = "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum jais exaone4 "
              "trillion granite-docling",
     .patterns = kGpt2},
    {.names = "mpt olmo modern-bert", .patterns = kGpt2, .composes = true},
    {.names = "jina-v1-en jina-v2-code roberta-bpe", .patterns = kGpt2, .joins_pairs_twice = true},
    // The first of the names is the one that llama.cpp decodes with spaces as they are.
    {.names = "smollm starcoder refact codeshell exaone minerva-7b mellum2", .patterns = kDigitsGpt2},
    {.names = "command-r", .patterns = kDigitsGpt2, .composes = true},
    {.names = "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", .patterns = kQwen2, .composes = true},
    {.names = "stablelm2 hunyuan solar-open grok-2", .patterns = kQwen2},
    {.names = "qwen35", .patterns = kQwen35, .composes = true},
    {.names = "bloom poro-chat gpt3-finnish", .patterns = kBloom},
    {.names = "viking", .patterns = kViking},
    {.names = "tekken", .patterns = kTekken, .adds_bos = true, .ignores_merges = true},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2", .patterns = kGpt4o},
    {.names = "bailingmoe bailingmoe2 llada-moe", .patterns = kBailing},
    {.names = "seed-coder", .patterns = kSeedCoder},
    {.names = "exaone-moe", .patterns = kExaoneMoe},
    {.names = "jais-2", .patterns = kJais2},
};

}  // namespace

const GgufPreTokenizer* gguf_pre_tokenizer(std::string_view name) {
  for (const GgufPreTokenizer& one : kGgufPreTokenizers) {
    for (std::size_t at = one.names.find(name); at != one.names.npos; at = one.names.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const bool whole =
          (at == 0 || one.names[at - 1] == ' ') && (end == one.names.size() || one.names[end] == ' ');
      if (whole && !name.empty()) return &one;
    }
  }
  return nullptr;
}

std::string_view gguf_pre_tokenizer_name(std::span<const std::string> patterns, bool composes,
                                         bool ignores_merges) {
  for (const GgufPreTokenizer& one : kGgufPreTokenizers) {
    const bool same = std::equal(patterns.begin(), patterns.end(), one.patterns.begin(), one.patterns.end());
    if (same && one.composes == composes && one.ignores_merges == ignores_merges)
      return one.names.substr(0, one.names.find(' '));
  }
  return {};
}

}  // namespace heed
