// A SentencePiece model: loading it, and texts and ids through it.
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put("tokenizer.model", heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::fuzz::use(*heed::load_tokenizer(folder.path())); });
  return 0;
}
