// Marian's files: two SentencePiece models, the vocabulary that gives their pieces ids, and what is beside
// them.
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"vocab.json", "tokenizer_config.json", "source.spm", "target.spm", "target_vocab.json",
                    "special_tokens_map.json"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] {
    const auto tokenizer = heed::load_tokenizer(folder.path());
    heed::fuzz::use(*tokenizer);
    tokenizer->encode_target("Bonjour >>fr<< le monde");
  });
  return 0;
}
