// Files of sentence pairs: columns of one file, and lines of two.
#include "heed/data/corpus.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  folder.put_parts({"a.txt", "b.txt"}, heed::fuzz::text_of(data, size));
  heed::CorpusOptions options;
  options.max_characters = 100;
  options.max_character_ratio = 3;
  heed::DataReport report;
  heed::fuzz::check(folder, [&] {
    const heed::ParallelCorpus corpus = heed::load_columns(folder.path() / "a.txt", options, report);
    const heed::CorpusSplit split = heed::split_corpus(corpus, {});
    heed::group_references(corpus, split.train);
  });
  heed::fuzz::check(folder, [&] {
    heed::load_line_aligned(folder.path() / "a.txt", folder.path() / "b.txt", options, report);
  });
  report.summary();
  return 0;
}
