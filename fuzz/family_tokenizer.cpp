// SentencePiece models whose pieces a family numbers, and the files beside them that tell which family and
// what tokens: loading, and texts and ids through what they describe.
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts(
      {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "spiece.model", "vocab.json"},
      heed::fuzz::text_of(data, size));
  const std::filesystem::path albert = folder.path() / "spiece.model",
                              fairseq = folder.path() / "sentencepiece.bpe.model",
                              deberta = folder.path() / "spm.model";
  std::error_code missing;
  for (const auto& other : {fairseq, deberta}) {
    std::filesystem::remove(other, missing);
    std::filesystem::copy_file(albert, other, missing);
  }
  for (const auto& model : {albert, fairseq, deberta})
    heed::fuzz::check(folder, [&] { heed::fuzz::use(*heed::load_tokenizer(model)); });
  return 0;
}
