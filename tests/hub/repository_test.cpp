// Untrusted names and answers, and the selection of files.
#include "hub/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/pull.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

const std::string kSha = "0123456789abcdef0123456789abcdef01234567";

TEST(FileName, StaysInsideTheSnapshot) {
  for (const char* good :
       {"config.json", "1_Pooling/config.json", ".gitattributes", "a b.json", "modèle.json", "..a"})
    EXPECT_TRUE(is_file_name(good)) << good;
  for (const std::string bad : {"", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "./a", "a//b", "a/",
                                "a\\b", "a\nb", "a\x1b[2J", "\xff.json", "a\x7f"})
    EXPECT_FALSE(is_file_name(bad)) << bad;
  EXPECT_FALSE(is_file_name(std::string("a\0b", 3)));
  EXPECT_FALSE(is_file_name(std::string(256, 'a')));
  std::string deep = "a";
  while (deep.size() <= 1024) deep += "/a";
  EXPECT_FALSE(is_file_name(deep));
}

TEST(Etag, NamesABlob) {
  EXPECT_EQ(plain_etag("\"abc\""), "abc");
  EXPECT_EQ(plain_etag("W/\"abc\""), "abc");
  EXPECT_TRUE(is_etag(kSha));
  EXPECT_TRUE(is_etag("5f3c-61b"));
  for (const char* bad : {"", "..", ".hidden", "a/b", "../../x", "a b", "x.incomplete", "a\nb"})
    EXPECT_FALSE(is_etag(bad)) << bad;
  EXPECT_FALSE(is_etag(std::string(200, 'a')));
}

TEST(Repository, ReadsWhatTheHubAnswers) {
  const Repository repository = parse_repository(
      R"({"_id": "x", "id": "owner/model", "sha": ")" + kSha +
          R"(", "siblings": [{"rfilename": "config.json", "size": 3, "lfs": null}, {"rfilename": "a/b.txt"}], "gated": false})",
      "answer");
  EXPECT_EQ(repository.commit, kSha);
  EXPECT_THAT(repository.files, ElementsAre("config.json", "a/b.txt"));
}

TEST(Repository, RefusesOtherAnswers) {
  const auto error = [](const std::string& answer) {
    return error_of([&] { parse_repository(answer, "answer"); });
  };
  EXPECT_THAT(error("<html>"), HasSubstr("answer: expected"));
  EXPECT_THAT(error("[]"), HasSubstr("answer: expected"));
  EXPECT_EQ(error("{}"), "answer: sha: not found");
  EXPECT_THAT(error(R"({"sha": "../../../etc", "siblings": []})"),
              HasSubstr("answer: sha: expected a commit hash, got \"../../../etc\""));
  for (const char* name : {"../x", "/x", "a\\\\b", "a/../b", "a\\u0000b", ""}) {
    EXPECT_THAT(error(R"({"sha": ")" + kSha + R"(", "siblings": [{"rfilename": ")" + name + "\"}]}"),
                HasSubstr("answer: siblings.0.rfilename: expected the path of a file inside the repository"))
        << name;
  }
}

Repository with_files(std::vector<std::string> files) {
  return {"owner/model", "main", kSha, std::move(files)};
}

TEST(Choice, TakesWhatHeedReads) {
  const Repository repository = with_files({".gitattributes",
                                            "README.md",
                                            "config.json",
                                            "generation_config.json",
                                            "model.safetensors",
                                            "pytorch_model.bin",
                                            "tf_model.h5",
                                            "model.gguf",
                                            "onnx/model.onnx",
                                            "onnx/config.json",
                                            "tokenizer.json",
                                            "tokenizer_config.json",
                                            "vocab.txt",
                                            "flax_model.msgpack",
                                            "model.safetensors.index.json",
                                            "modules.json",
                                            "1_Pooling/config.json",
                                            "2_Dense/model.safetensors",
                                            "2_Dense/pytorch_model.bin",
                                            "sentence_bert_config.json",
                                            "config_sentence_transformers.json",
                                            "chat_template.jinja",
                                            "source.spm",
                                            "consolidated.safetensors"});
  EXPECT_THAT(
      files_to_download(repository, {}),
      UnorderedElementsAre("config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "vocab.txt", "modules.json", "1_Pooling/config.json",
                           "2_Dense/model.safetensors", "sentence_bert_config.json",
                           "config_sentence_transformers.json", "chat_template.jinja", "source.spm"));
}

TEST(Choice, FollowsPatterns) {
  const Repository repository =
      with_files({"README.md", "config.json", "model.safetensors", "onnx/model.onnx"});
  EXPECT_THAT(files_to_download(repository, {{"*.json", "onnx/"}, {}}),
              UnorderedElementsAre("config.json", "onnx/model.onnx"));
  EXPECT_THAT(files_to_download(repository, {{"*"}, {"*.onnx", "README*"}}),
              UnorderedElementsAre("config.json", "model.safetensors"));
  EXPECT_THAT(files_to_download(repository, {{}, {"*.safetensors"}}), ElementsAre("config.json"));
  EXPECT_THAT(error_of([&] {
                files_to_download(repository, {{"*.txt"}, {}});
              }),
              HasSubstr("leave none of its 4 files"));
  // As in Python's fnmatch, a star also matches slashes.
  EXPECT_TRUE(matches("*.json", "a/b.json"));
  EXPECT_TRUE(matches("model-0000[12]*", "model-00002-of-00003.safetensors"));
  EXPECT_FALSE(matches("*.json", "a.jsonl"));
}

TEST(Choice, SaysWhatARepositoryHasInsteadOfSafetensors) {
  EXPECT_THAT(error_of([] {
                files_to_download(with_files({"config.json", "pytorch_model.bin", "model.gguf"}), {});
              }),
              AllOf(HasSubstr("owner/model: expected weights in safetensors"),
                    HasSubstr("pytorch_model.bin, model.gguf"), HasSubstr("save_pretrained")));
  EXPECT_ERROR(files_to_download(with_files({"README.md"}), {}), "got no weights");
  EXPECT_ERROR(files_to_download(with_files({"model.safetensors"}), {}), "config.json: not found");
}

TEST(Choice, AddsTheShardsOfAnIndex) {
  const Repository repository =
      with_files({"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                  "model-00002-of-00002.safetensors", "model-00009-of-00009.safetensors"});
  const std::vector<std::string> chosen = files_to_download(repository, {});
  EXPECT_THAT(chosen, UnorderedElementsAre("config.json", "model.safetensors.index.json"));
  EXPECT_THAT(indexes_among(chosen, {}), ElementsAre("model.safetensors.index.json"));
  const TemporaryFolder folder;
  spill(
      folder / "index",
      R"({"weight_map": {"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}})");
  EXPECT_THAT(shards_to_download(repository, {}, chosen[1], folder / "index"),
              UnorderedElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  spill(folder / "index", R"({"weight_map": {"a": "../../x"}})");
  EXPECT_ERROR(shards_to_download(repository, {}, chosen[1], folder / "index"), "in the same directory");
  spill(folder / "index", R"({"weight_map": {"a": "gone.safetensors"}})");
  EXPECT_ERROR(shards_to_download(repository, {}, chosen[1], folder / "index"),
               "gone.safetensors: not found");
}

TEST(Origin, IsSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://Hub.co/a?b"), "https://hub.co");
  EXPECT_NE(origin_of("https://hub.co:444/"), origin_of("https://hub.co/"));
  EXPECT_NE(origin_of("http://hub.co/"), origin_of("https://hub.co/"));
  EXPECT_NE(origin_of("https://hub.co@evil.org/"), origin_of("https://hub.co/"));
  EXPECT_NE(origin_of("https://hub.co\\@evil.org/"), origin_of("https://hub.co/"));
  EXPECT_EQ(origin_of("https://hub.co?x=/"), "https://hub.co");
}

}  // namespace
}  // namespace heed::hub
