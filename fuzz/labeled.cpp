// Labeled texts, texts to compare and recordings for training, in every format: a file's bytes read as each
// of them.
#include "data/corpora.h"
#include "data/labeled_data.h"
#include "reader.h"

namespace {

// Reads the entries again as training does, from where they were spilled.
template <class List>
void read_all(const List& list) {
  for (std::int64_t i = 0; i < list.size(); ++i) list[i];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  const std::filesystem::path file = folder.path() / "labelled";
  folder.put("labelled", heed::fuzz::text_of(data, size));
  heed::DataOptions options;
  for (const char* format : {"tsv", "csv", "jsonl", "labelled"}) {
    for (const bool multi_label : {false, true}) {
      options.format = format;
      heed::fuzz::check(folder,
                        [&] { read_all(heed::read_labeled(file, options, multi_label, folder.path())); });
    }
  }
  for (const char* format : {"tsv", "csv", "jsonl"}) {
    options.format = format;
    heed::fuzz::check(folder, [&] { read_all(heed::read_recordings(file, options, folder.path())); });
    for (const bool scored : {false, true})
      heed::fuzz::check(folder, [&] { read_all(heed::read_compared(file, options, scored, folder.path())); });
  }
  options.format = "folders";
  std::filesystem::copy_file(file, folder.path() / "metadata.csv",
                             std::filesystem::copy_options::overwrite_existing);
  heed::fuzz::check(folder, [&] { read_all(heed::read_recordings(folder.path(), options, folder.path())); });
  heed::fuzz::check(folder, [&] { read_all(heed::read_conll(file, options, folder.path())); });
  heed::fuzz::check(folder, [&] { read_all(heed::read_squad(file, folder.path())); });
  return 0;
}
