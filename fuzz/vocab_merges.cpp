// GPT-2's and RoBERTa's vocab.json and merges.txt, and the two files beside them.
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::fuzz::use(*heed::load_tokenizer(folder.path())); });
  return 0;
}
