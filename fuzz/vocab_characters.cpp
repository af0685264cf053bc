// wav2vec 2.0's vocab.json of characters, and the three files beside it.
#include "reader.h"
#include "tokenizing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"vocab.json", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"},
                   heed::fuzz::text_of(data, size));
  heed::fuzz::check(folder, [] { heed::fuzz::use(*heed::load_tokenizer(folder.path())); });
  return 0;
}
