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
    SCOPED_TRACE(std::string(c.kind) + (c.settings.empty() ? "" : " " + c.settings.back()));
    expect_same_curves(folder, words);
  }
}

// Each compares the texts of its rows with those of the others.
TEST_F(Processes, TrainComparisonsTheSame) {
  const struct {
    const char *kind, *loss, *file, *model;
  } cases[] = {{"embedding", "multiple-negatives", "mnrl-hard.jsonl", "encoder"},
               {"embedding", "cosent", "cosent.jsonl", "encoder"},
               {"reranking", "lambda", "cross-list-net.jsonl", "reranker"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.loss);
    const Folder folder;
    const std::string fixtures = HEED_FIXTURES "/train/comparison/", data = fixtures + c.file;
    spill(folder / "task.toml", std::string("[task]\nkind = \"") + c.kind + "\"\nloss = \"" + c.loss +
                                    "\"\n[data]\ntrain = \"" + data + "\"\ndev = \"" + data +
                                    "\"\n[train]\nsteps = 8\nwarmup = 2\nlr = 1e-3\nbatch_tokens = 128\n" +
                                    (c.kind == std::string("embedding") ? "batch_rows = 4\n" : "") +
                                    "accumulate = 2\nclip_norm = 1\n[eval]\nevery = 4\n");
    expect_same_curves(folder, {"train", folder / "task.toml", "--init", fixtures + c.model});
  }
}

// Each process mixes its images with partners that others have.
TEST_F(Processes, TrainImagesTheSame) {
  const Folder folder;
  for (int i = 0; i < 20; ++i) {
    const fs::path label = folder.path() / "images" / (i % 2 == 0 ? "dark" : "light");
    fs::create_directories(label);
    std::string pixels = "P6 5 6 255\n";
    for (int p = 0; p < 90; ++p) pixels += static_cast<char>(i % 2 * 120 + (7 * p + 31 * i) % 90);
    spill((label / (std::to_string(i) + ".ppm")).string(), pixels);
  }
  const std::string images = (folder.path() / "images").string();
  spill(folder / "task.toml",
        "[task]\nkind = \"image-classification\"\n[data]\ntrain = \"" + images + "\"\ndev = \"" + images +
            "\"\n[augment]\ncrop_scale = 0.6\nflip = 0.5\njitter = 0.2\nmixup = 0.5\n"
            "[train]\nsteps = 8\nwarmup = 2\nlr = 2e-3\nbatch_tokens = 119\naccumulate = 2\n"
            "clip_norm = 1\n[eval]\nevery = 4\n");
  expect_same_curves(folder, {"train", folder / "task.toml", "--init", HEED_FIXTURES "/vit"});
}

// Each process pads its recordings to the length of those that others have.
TEST_F(Processes, TrainSpeechTheSame) {
  for (const std::string model : {"ctc", "moonshine-speech"}) {
    SCOPED_TRACE(model);
    const Folder folder;
    const std::string data = HEED_FIXTURES "/spoken/" + model + ".csv";
    spill(folder / "task.toml",
          "[task]\nkind = \"transcription\"\n[data]\nformat = \"csv\"\ntrain = \"" + data + "\"\ndev = \"" +
              data +
              "\"\n[train]\nsteps = 8\nwarmup = 2\nlr = 2e-3\nbatch_tokens = 256\naccumulate = 2\n"
              "clip_norm = 1\n[eval]\nevery = 4\n");
    expect_same_curves(folder, {"train", folder / "task.toml", "--init", HEED_FIXTURES "/" + model});
  }
}

// Each process has its share of the pairs, and of what the reference says of them.
TEST_F(Processes, TrainPreferencesTheSame) {
  const std::string fixture = HEED_FIXTURES "/train/preferences", data = fixture + "/data.jsonl";
  for (const std::string loss : {"dpo", "orpo"}) {
    SCOPED_TRACE(loss);
    const Folder folder;
    spill(folder / "task.toml",
          "[task]\nkind = \"preference\"\ncontext = 64\nloss = \"" + loss + "\"\n[data]\ntrain = \"" + data +
              "\"\ndev = \"" + data +
              "\"\n[train]\nsteps = 8\nwarmup = 2\nlr = 1e-4\nbatch_tokens = 200\naccumulate = 2\n"
              "clip_norm = 1\n[eval]\nevery = 4\n");
    expect_same_curves(folder, {"train", folder / "task.toml", "--init", fixture + "/llama"});
  }
}

// Eight steps of a new model on texts or pairs of texts, without dropout.
struct NewModel {
  const char *kind, *task, *data, *tokenizer, *model;
};

constexpr const char* kGpt2 =
    "family = \"gpt2\"\nn_embd = 32\nn_layer = 1\nn_head = 2\nn_positions = 32\n"
    "embd_pdrop = 0.0\nattn_pdrop = 0.0\nresid_pdrop = 0.0\n";
constexpr const char* kT5 =
    "family = \"t5\"\nd_model = 32\nd_kv = 16\nd_ff = 64\nnum_layers = 1\nnum_heads = 2\ndropout_rate = 0.0\n"
    "relative_attention_num_buckets = 8\nrelative_attention_max_distance = 16\n";
constexpr const char* kBart =
    "family = \"bart\"\nd_model = 32\nencoder_layers = 1\ndecoder_layers = 1\nencoder_attention_heads = 2\n"
    "decoder_attention_heads = 2\nencoder_ffn_dim = 64\ndecoder_ffn_dim = 64\nmax_position_embeddings = 64\n"
    "dropout = 0.0\n";

Words steps_of_new_model(const Folder& folder, const NewModel& m) {
  std::string text, pairs;
  for (const char* thing : {"film", "book", "song", "play", "game", "show"}) {
    text += std::string("We saw the ") + thing + " today. It was fine, not long. They liked it.\n";
    pairs += std::string(R"({"source": "We saw the )") + thing + R"( . It was fine .", "target": "the )" +
             thing + " was fine\"}\n";
  }
  spill(folder / "lines.txt", text);
  spill(folder / "pairs.jsonl", pairs);
  spill(folder / "task.toml",
        std::string("[task]\nkind = \"") + m.kind + "\"\n" + m.task + "[data]\n" + m.data + "[tokenizer]\n" +
            m.tokenizer + "[model]\n" + m.model +
            "[train]\nsteps = 8\nwarmup = 2\nlr = 2e-3\nbatch_tokens = 128\naccumulate = 2\nclip_norm = 1\n"
            "[eval]\nevery = 4\n");
  return {"train", folder / "task.toml"};
}

TEST_F(Processes, TrainNewModelsTheSame) {
  const char* lines = "train = \"lines.txt\"\ndev = \"lines.txt\"\ndocuments = \"line\"\n";
  const char* pairs = "train = \"pairs.jsonl\"\ndev = \"pairs.jsonl\"\n";
  const char* bytes = "type = \"byte_bpe\"\nvocab_size = 420\n";
  const NewModel models[] = {
      {"causal-lm", "context = 16\n", lines, "type = \"byte_bpe\"\nvocab_size = 280\n", kGpt2},
      {"seq2seq", "", pairs, bytes, kT5},
      {"denoising", "context = 24\n", lines, bytes, kT5},
      {"denoising", "context = 24\nobjective = \"bart\"\n", lines, bytes, kBart}};
  for (const NewModel& m : models) {
    SCOPED_TRACE(std::string(m.kind) + " " + m.task);
    const Folder folder;
    expect_same_curves(folder, steps_of_new_model(folder, m));
  }
}

TEST_F(Processes, OnTwoHostsTrainTheSame) {
  const Folder folder;
  ASSERT_EQ(run(training(folder / "1")).status, 0);
  Words words{HEED_SOURCE "/tests/mpi/two_hosts.sh", kMpiexec, HEED_COMMAND, "--threads", "1"};
  for (const Words& more : {Words{}, Words{"--set", "train.shard_optimizer=true"}}) {
    const std::string output = folder / (more.empty() ? "plain" : "sharded");
    Words both = words;
    for (const std::string& word : training(output, more)) both.push_back(word);
    const Result result = Job(both).finish();
    if (result.status == 77) GTEST_SKIP() << result.out;
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("2 processes on 1 machine"));
    expect_same_curve(folder / "1", output);
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
