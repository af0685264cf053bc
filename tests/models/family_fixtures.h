// The table of fixtures: small models of every family, with inputs and what transformers (or PyTorch, for
// heed's own families) computes from them. A new family adds a row.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

namespace heed {

enum class ModelKind {
  decoder,
  encoder,
  encoder_decoder,
  signal,
  dual_encoder
};  // signal: an encoder of images or sound

struct FamilyFixture {
  const char* folder;  // below tests/fixtures
  const char* family;  // model_type
  ModelKind kind;
  std::size_t outputs;  // tensors in expected.safetensors besides gradients
  std::size_t gradients;
  std::uint64_t tensors;  // digest of the names and shapes that a new model is saved with, in order

  std::filesystem::path path() const { return std::filesystem::path(HEED_FIXTURES) / folder; }
  bool is_in(const char* parent) const { return std::string(folder).starts_with(std::string(parent) + "/"); }
};
inline std::ostream& operator<<(std::ostream& out, const FamilyFixture& fixture) {
  return out << fixture.folder;
}

inline const std::vector<FamilyFixture> kFamilyFixtures = {
    {"audio-spectrogram", "audio-spectrogram-transformer", ModelKind::signal, 7, 43, 0x7fc87f90c0a037ed},
    {"audio-spectrogram-model", "audio-spectrogram-transformer", ModelKind::signal, 7, 0, 0xed4dc99e2158f6dd},
    {"bart", "bart", ModelKind::encoder_decoder, 15, 91, 0xab0d163409a99991},
    {"clip", "clip", ModelKind::dual_encoder, 19, 78, 0x7b466e069d4d914},
    {"decoders/bloom", "bloom", ModelKind::decoder, 7, 29, 0xda1159a77d5debd3},
    {"decoders/gemma2", "gemma2", ModelKind::decoder, 9, 35, 0x2df58d6d4c2bf3e0},
    {"decoders/gemma3", "gemma3_text", ModelKind::decoder, 11, 54, 0xf70bec39b421419c},
    {"decoders/gpt-neox", "gpt_neox", ModelKind::decoder, 7, 28, 0xe04d80b1541914c1},
    {"decoders/gpt2", "gpt2", ModelKind::decoder, 7, 28, 0x13329003c24e6106},
    {"decoders/gpt2-inverse-layer-scale", "gpt2", ModelKind::decoder, 7, 28, 0x56352b1f0add0eea},
    {"decoders/granite", "granite", ModelKind::decoder, 7, 20, 0xb3a3ffa4433e5288},
    {"decoders/llama", "llama", ModelKind::decoder, 7, 21, 0xe8f2750007e464ee},
    {"decoders/llama3", "llama", ModelKind::decoder, 7, 20, 0xa2dcfc9330635a27},
    {"decoders/mistral", "mistral", ModelKind::decoder, 7, 21, 0x6b3b5c776c2fe69e},
    {"decoders/mixtral", "mixtral", ModelKind::decoder, 10, 41, 0x68f429312781688f},
    {"decoders/mpt", "mpt", ModelKind::decoder, 7, 14, 0xa33264e2c9d32c14},
    {"decoders/olmo2", "olmo2", ModelKind::decoder, 7, 25, 0xf17cc2fc27cd6369},
    {"decoders/phi3", "phi3", ModelKind::decoder, 7, 15, 0x833423167cc65d48},
    {"decoders/phi3-longrope", "phi3", ModelKind::decoder, 7, 15, 0xdef828be9ccd560e},
    {"decoders/qwen2", "qwen2", ModelKind::decoder, 7, 27, 0xf5c05f17c3573bc5},
    {"decoders/qwen3", "qwen3", ModelKind::decoder, 7, 25, 0x9ea87e4f80af6a5},
    {"decoders/qwen3-moe", "qwen3_moe", ModelKind::decoder, 10, 56, 0x551b759f0dd41470},
    {"decoders/qwen3-moe-mixed", "qwen3_moe", ModelKind::decoder, 11, 55, 0x424214b50f627b48},
    {"decoders/qwen3-tied", "qwen3", ModelKind::decoder, 9, 35, 0x413930632f6b16c4},
    {"decoders/smollm3", "smollm3", ModelKind::decoder, 9, 29, 0x9eac2c550e113ad3},
    {"decoders/transformer-fixed", "heed_transformer", ModelKind::decoder, 7, 37, 0xf8ca00c72848f4cd},
    {"decoders/transformer-linear", "heed_transformer", ModelKind::decoder, 7, 35, 0x761f16510eca90f3},
    {"decoders/transformer-strided", "heed_transformer", ModelKind::decoder, 7, 33, 0x12599e11793c386e},
    {"decoders/transformer-window", "heed_transformer", ModelKind::decoder, 7, 35, 0x761f16510eca90f3},
    {"deit", "deit", ModelKind::signal, 7, 41, 0x492bf60357715b45},
    {"deit-model", "deit", ModelKind::signal, 7, 0, 0x2dabc74629a93c03},
    {"dinov2", "dinov2", ModelKind::signal, 8, 43, 0x31193d0a95a4d5a1},
    {"dinov2-classify", "dinov2_with_registers", ModelKind::signal, 7, 46, 0x66aee793a28e3558},
    {"dinov2-with-registers", "dinov2_with_registers", ModelKind::signal, 8, 44, 0xd9787b03b4bc73f0},
    {"dinov3-vit", "dinov3_vit", ModelKind::signal, 8, 41, 0x3eeed24e893017d5},
    {"encoders/albert-classify", "albert", ModelKind::encoder, 11, 43, 0x890fb2135050b5b9},
    {"encoders/albert-mlm", "albert", ModelKind::encoder, 11, 76, 0xcc74761a9245ef29},
    {"encoders/bert", "bert", ModelKind::encoder, 7, 0, 0xa0322a4711390076},
    {"encoders/bert-classify", "bert", ModelKind::encoder, 7, 41, 0x4af93308fc092d6c},
    {"encoders/bert-mlm", "bert", ModelKind::encoder, 7, 42, 0xdb4d595a3ea870ce},
    {"encoders/bert-qa", "bert", ModelKind::encoder, 8, 39, 0xcc2abf4035e15389},
    {"encoders/bert-tag", "bert", ModelKind::encoder, 7, 39, 0x9f802bbe3ebb8e06},
    {"encoders/camembert-tag", "camembert", ModelKind::encoder, 7, 39, 0x774f7d6c652fd7a8},
    {"encoders/deberta-v2-convolution", "deberta-v2", ModelKind::encoder, 7, 47, 0x2ff3f70c4804ef91},
    {"encoders/deberta-v3-classify", "deberta-v2", ModelKind::encoder, 7, 42, 0x69172eab1dfbc4e5},
    {"encoders/deberta-v3-mlm", "deberta-v2", ModelKind::encoder, 7, 43, 0x63e902e4bd956013},
    {"encoders/deberta-v3-mlm-new-head", "deberta-v2", ModelKind::encoder, 7, 43, 0xa2217d619531d67d},
    {"encoders/distilbert-classify", "distilbert", ModelKind::encoder, 7, 40, 0x31bc8688c75cae0f},
    {"encoders/distilbert-mlm", "distilbert", ModelKind::encoder, 7, 41, 0x6d263c84dba8771e},
    {"encoders/distilbert-qa", "distilbert", ModelKind::encoder, 8, 38, 0x203c77e04c1309ff},
    {"encoders/modernbert-classify", "modernbert", ModelKind::encoder, 11, 30, 0x807773a923fa60a0},
    {"encoders/modernbert-mlm", "modernbert", ModelKind::encoder, 11, 29, 0x516203e4373e166a},
    {"encoders/mpnet-mlm", "mpnet", ModelKind::encoder, 7, 42, 0x582881b3e6d93cd7},
    {"encoders/roberta-classify", "roberta", ModelKind::encoder, 7, 41, 0x818030088017e628},
    {"encoders/roberta-mlm", "roberta", ModelKind::encoder, 7, 42, 0xeee5590443a58d39},
    {"encoders/transformer-encoder", "heed_transformer", ModelKind::encoder, 7, 35, 0xdbd08b102c83ba5b},
    {"encoders/xlm-roberta", "xlm-roberta", ModelKind::encoder, 7, 0, 0x6af4570799fc171},
    {"encoders/xlm-roberta-cross-encoder", "xlm-roberta", ModelKind::encoder, 7, 41, 0x4e20126d65af89b7},
    {"m2m100", "m2m_100", ModelKind::encoder_decoder, 15, 89, 0xdc2530d313934fd},
    {"marian", "marian", ModelKind::encoder_decoder, 15, 85, 0x4b99444fb9d4dfb},
    {"moonshine", "moonshine", ModelKind::encoder_decoder, 15, 60, 0x80137a0e847d6485},
    {"moonshine-masked", "moonshine", ModelKind::encoder_decoder, 15, 79, 0xb35591d84e868e6},
    {"pegasus", "pegasus", ModelKind::encoder_decoder, 12, 63, 0xcf1f51c18a9461c7},
    {"recurrent/additive-gru", "heed_recurrent", ModelKind::encoder_decoder, 9, 17, 0x5c9b9a9fe35044a1},
    {"recurrent/additive-lstm", "heed_recurrent", ModelKind::encoder_decoder, 11, 29, 0x3fb4ad435a6dd09},
    {"recurrent/concat-gru-feeding", "heed_recurrent", ModelKind::encoder_decoder, 9, 18, 0x8d75369060f8e370},
    {"recurrent/concat-lstm", "heed_recurrent", ModelKind::encoder_decoder, 9, 19, 0x928f085908b46d8b},
    {"recurrent/dot-gru", "heed_recurrent", ModelKind::encoder_decoder, 11, 26, 0xa9cfea410b666923},
    {"recurrent/general-lstm-feeding", "heed_recurrent", ModelKind::encoder_decoder, 11, 19,
     0x3a9a84a45b335313},
    {"recurrent/none-gru", "heed_recurrent", ModelKind::encoder_decoder, 9, 22, 0x559fe707c27b61e9},
    {"recurrent/none-lstm", "heed_recurrent", ModelKind::encoder_decoder, 10, 17, 0x43028f983d0b08c5},
    {"siglip", "siglip", ModelKind::dual_encoder, 19, 88, 0xd42246efd75a66f6},
    {"siglip2", "siglip2", ModelKind::dual_encoder, 19, 88, 0xca8329b4a81226eb},
    {"t5", "t5", ModelKind::encoder_decoder, 15, 47, 0xdea0090c438811b3},
    {"t5-v1.1", "t5", ModelKind::encoder_decoder, 15, 52, 0xee73299cbd1d9fcd},
    {"transformer-seq2seq", "heed_transformer", ModelKind::encoder_decoder, 15, 88, 0x8f048998d6ec6243},
    {"transformer-seq2seq-window", "heed_transformer", ModelKind::encoder_decoder, 15, 89,
     0x2de021c7f089621a},
    {"variants/albert-laplace", "albert", ModelKind::encoder, 5, 28, 0xe3a15860031a4006},
    {"variants/bart-common-names", "bart", ModelKind::encoder_decoder, 10, 49, 0x5c7e7d07e2feb9d1},
    {"variants/bert-padding", "bert", ModelKind::encoder, 5, 26, 0xc2f2c2f2195e724b},
    {"variants/bloom-holes", "bloom", ModelKind::decoder, 5, 17, 0xe86a6d252e3dfb7d},
    {"variants/bloom-split", "bloom", ModelKind::decoder, 5, 17, 0xe86a6d252e3dfb7d},
    {"variants/clip-text-old-end", "clip_text_model", ModelKind::encoder, 7, 0, 0xeffef23068b51cc7},
    {"variants/clip-text-projected", "clip_text_model", ModelKind::encoder, 7, 0, 0xd047be94661bc9ff},
    {"variants/clip-vision", "clip_vision_model", ModelKind::signal, 7, 0, 0xcc2e03db0296f846},
    {"variants/clip-vision-projected", "clip_vision_model", ModelKind::signal, 7, 0, 0x66dd85aad3ad7c17},
    {"variants/deit-two-heads", "deit", ModelKind::signal, 8, 0, 0x423797e9a7da0789},
    {"variants/dinov2-other-size", "dinov2", ModelKind::signal, 7, 45, 0x3021c5baac8e3222},
    {"variants/dinov2-registers-other-size", "dinov2_with_registers", ModelKind::signal, 7, 46,
     0x723c6f9f6d1c0f91},
    {"variants/dinov3-gated", "dinov3_vit", ModelKind::signal, 8, 36, 0x38ed79c7ff3af737},
    {"variants/distilbert-common-names", "distilbert", ModelKind::encoder, 5, 25, 0x84544415d706f228},
    {"variants/gpt-neox-no-rotary", "gpt_neox", ModelKind::decoder, 5, 16, 0xe2d8851d06de0011},
    {"variants/gpt-neox-proportional", "gpt_neox", ModelKind::decoder, 5, 16, 0xe2d8851d06de0011},
    {"variants/gpt2-common-names", "gpt2", ModelKind::decoder, 5, 16, 0x3a1dde42d27a902d},
    {"variants/llama-padding", "llama", ModelKind::decoder, 5, 12, 0x1e272469eb4cd166},
    {"variants/m2m100-unscaled", "m2m_100", ModelKind::encoder_decoder, 10, 47, 0xe0f4fd326e610e0d},
    {"variants/marian-bare", "marian", ModelKind::encoder_decoder, 9, 0, 0x393fbee92c98a45},
    {"variants/marian-common-names", "marian", ModelKind::encoder_decoder, 10, 43, 0x393fbee92c98a45},
    {"variants/mixtral-one-expert", "mixtral", ModelKind::decoder, 7, 19, 0xc489837a69f32238},
    {"variants/mpt-common-names", "mpt", ModelKind::decoder, 5, 8, 0x65f12bd636fe3bed},
    {"variants/phi3-partial", "phi3", ModelKind::decoder, 5, 8, 0x6fff76416eeb57fb},
    {"variants/qwen2-last-padding", "qwen2", ModelKind::decoder, 5, 15, 0x59b69ded9d353a03},
    {"variants/qwen3-window-bias", "qwen3", ModelKind::decoder, 7, 32, 0xb02e48b90b2bbb18},
    {"variants/roberta-gelu-10", "roberta", ModelKind::encoder, 5, 26, 0x788b9903401cf6d9},
    {"variants/siglip-text", "siglip_text_model", ModelKind::encoder, 7, 0, 0xbcdb30adb2f7719d},
    {"variants/siglip-vision", "siglip_vision_model", ModelKind::signal, 7, 0, 0xfe97cbf827b38db6},
    {"variants/siglip2-text", "siglip2_text_model", ModelKind::encoder, 7, 0, 0xbcdb30adb2f7719d},
    {"variants/siglip2-vision", "siglip2_vision_model", ModelKind::signal, 7, 0, 0x41eaa2a79050ebd},
    {"variants/t5-bare", "t5", ModelKind::encoder_decoder, 9, 0, 0xb15a6476683d2ee9},
    {"variants/t5-dense-act-fn", "t5", ModelKind::encoder_decoder, 10, 28, 0xb82ee1124db35e4a},
    {"variants/t5-encoder-of-whole", "t5", ModelKind::encoder, 4, 0, 0xc412d6b6b0abde57},
    {"variants/vit-masked", "vit", ModelKind::signal, 6, 0, 0xcb17bf32327ecfb7},
    {"variants/vit-regression", "vit", ModelKind::signal, 7, 40, 0x69f74b2c015a32b0},
    {"vit", "vit", ModelKind::signal, 7, 40, 0x5cd741307545575a},
    {"vit-model", "vit", ModelKind::signal, 7, 0, 0xf04c5a408224e3b9},
    {"wav2vec2-ctc", "wav2vec2", ModelKind::signal, 7, 49, 0x674073c87937def3},
    {"wav2vec2-ctc-large", "wav2vec2", ModelKind::signal, 7, 56, 0x4aefa48d6e204703},
    {"wav2vec2-model", "wav2vec2", ModelKind::signal, 7, 0, 0xa5a3c888539fd082},
    {"whisper", "whisper", ModelKind::encoder_decoder, 15, 88, 0x3d50a2cae4e25dfc},
    {"whisper-untied", "whisper", ModelKind::encoder_decoder, 13, 74, 0xce353e87f8244a2b},
};

/// The fixtures for which `is_wanted` holds.
template <class Predicate>
std::vector<FamilyFixture> family_fixtures(Predicate is_wanted) {
  std::vector<FamilyFixture> fixtures;
  std::copy_if(kFamilyFixtures.begin(), kFamilyFixtures.end(), std::back_inserter(fixtures), is_wanted);
  return fixtures;
}

/// The name of a fixture as that of a test.
inline std::string as_test_name(std::string fixture) {
  for (char& c : fixture) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fixture;
}

}  // namespace heed
