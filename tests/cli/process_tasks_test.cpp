// Every training task over several processes: the curve of one, and data that must be the same.
#include "processes.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// Eight steps on a file of fixtures/train/curves, from a fixture's model, whose dropout rates are 0.
Words steps_of_task(const Folder& folder, const std::string& kind, const std::string& file,
                    const std::string& model) {
  const std::string data = HEED_FIXTURES "/train/curves/" + file;
  spill(folder / "task.toml",
        "[task]\nkind = \"" + kind + "\"\n[data]\ntrain = \"" + data + "\"\ndev = \"" + data +
            "\"\n[train]\nsteps = 8\nwarmup = 2\nlr = 2e-3\nbatch_tokens = 256\naccumulate = 2\n"
            "clip_norm = 1\n[eval]\nevery = 4\n");
  return {"train", folder / "task.toml", "--init", encoder(model)};
}

TEST_F(Processes, TrainEveryTaskTheSame) {
  const struct {
    const char *kind, *file, *model;
    Words settings;
  } cases[] = {{"answers", "squad.json", "bert-qa", {}},
               {"tagging", "words.conll", "bert-tag", {}},
               {"masked-lm", "lines.txt", "bert-mlm", {"task.context=32"}},
               {"classification",
                "single.tsv",
                "bert-classify",
                {"lora.rank=4", "lora.targets=[\"query\", \"value\"]"}},
               {"classification", "single.tsv", "bert-classify", {"task.freeze=bert.embeddings.*"}}};
  for (const auto& c : cases) {
    const Folder folder;
    Words words = steps_of_task(folder, c.kind, c.file, c.model);
    for (const std::string& setting : c.settings) words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), {"--output", folder / "1"});
    SCOPED_TRACE(std::string(c.kind) + (c.settings.empty() ? "" : " " + c.settings.back()));
    ASSERT_EQ(run(words).status, 0);
    for (const int n : {2, 3}) {
      words.back() = folder / std::to_string(n);
      const Result result = Job(mpirun({{n, words}})).finish();
      ASSERT_EQ(result.status, 0) << result.err;
      expect_same_curve(folder / "1", words.back(), 1e-4);
    }
  }
}

TEST_F(Processes, MustHaveTheSameData) {
  const Folder folder;
  Words words = steps_of_task(folder, "tagging", "words.conll", "bert-tag");
  words.insert(words.end(), {"--output", folder / "run"});
  Words other = words;
  spill(folder / "other.conll", slurp(HEED_FIXTURES "/train/curves/words.conll") + "\nAnn LABEL_0\n");
  other.insert(other.end(), {"--set", "data.train=" + (folder / "other.conll")});
  const Result result = Job(mpirun({{1, words}, {1, other}})).finish();
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.err,
              HasSubstr("train: expected the same data in all processes, got data of fingerprint "));
  EXPECT_FALSE(fs::exists(folder / "run/model.safetensors"));
}

TEST(WithoutMpi, ALaunchersProcessesAreRefused) {
  if (*kMpiexec != '\0') GTEST_SKIP() << "built with MPI";
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const Folder folder;
  Words words = tiny_training();
  words.insert(words.end(), {"--output", folder / "run"});
  const Result result = run(words);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              HasSubstr("processes: expected one, since this heed was built without MPI, got 2 "));
}

}  // namespace
}  // namespace heed::cli_test
