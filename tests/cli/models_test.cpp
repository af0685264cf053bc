// heed models, and what is said about names that no model has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "command.h"

namespace heed::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Models : public testing::Test {
 protected:
  Models() {
    ::setenv("HEED_MODELS", (folder / "models").c_str(), 1);
    ::setenv("HF_HOME", (folder / "cache").c_str(), 1);
    fs::create_directories(folder / "models");
    fs::copy(tiny_model(), folder / "models/letters");
    fs::copy(encoder("bert-mlm"), folder / "models/words", fs::copy_options::recursive);
    spill(folder / "models/notes.txt", "no model");
    const std::string cached = folder / "cache/hub/models--owner--name";
    fs::create_directories(cached + "/refs");
    fs::create_directories(cached + "/snapshots");
    const std::string commit(40, 'a');
    spill(cached + "/refs/main", commit);
    fs::copy(std::string(HEED_FIXTURES) + "/decoders/gpt2", cached + "/snapshots/" + commit,
             fs::copy_options::recursive);
    const std::string part = folder / "cache/hub/models--owner--part";
    fs::create_directories(part + "/refs");
    fs::create_directories(part + "/snapshots/" + commit);
    spill(part + "/refs/main", commit);
  }
  ~Models() override {
    ::unsetenv("HEED_MODELS");
    ::unsetenv("HF_HOME");
  }

  const Folder folder;
};

TEST_F(Models, ListsThoseOfFoldersAndOfTheCache) {
  const std::string result = output_of({"models", "--json"});
  Json found = Json::object();
  for (const Json& model : json_lines(result)) found[model.at("model").get<std::string>()] = model;
  EXPECT_EQ(found.at("letters").at("model_type"), "marian");
  EXPECT_EQ(found.at("letters").at("command"), "translate");
  EXPECT_EQ(found.at("letters").at("bytes"), fs::file_size(tiny_model() + "/model.safetensors"));
  EXPECT_EQ(found.at("letters").at("directory"), folder / "models/letters");
  EXPECT_EQ(found.at("words").at("command"), "fill");
  EXPECT_EQ(found.at("owner/name").at("command"), "generate");
  EXPECT_EQ(found.at("owner/part").at("model_type"), "incomplete");
  EXPECT_EQ(found.at("shakespeare").at("command"), "generate");  // its config.json names no class
  EXPECT_FALSE(found.contains("notes.txt"));
  EXPECT_EQ(run({"models", "owner/name"}).status, 0);  // a name of the list is found
  const Result text = run({"models"});
  EXPECT_THAT(text.out,
              AllOf(testing::StartsWith("model "), testing::ContainsRegex("\nletters +marian +translate +")));
}

TEST_F(Models, AreNamedWhereOneIsNotFound) {
  EXPECT_THAT(run({"models", "nothing-like-it"}).err,
              AllOf(HasSubstr("not found (run: heed pull nothing-like-it;"),
                    HasSubstr("; here are letters, words, "), HasSubstr("heed models lists them)")));
  EXPECT_THAT(run({"models", "/no/such/folder"}).err, Not(HasSubstr("letters")));
  EXPECT_THAT(run({"models", "owner/nmae"}).err, HasSubstr("did you mean owner/name?"));
  EXPECT_THAT(run({"models", "missing/letters"}).err,
              HasSubstr("did you mean letters?"));  // a path of a source tree
  EXPECT_THAT(run({"classify", "a text"}).err,
              HasSubstr("missing --model for heed classify (heed models lists"));
}

TEST_F(Models, InfoNamesSourceAndLicense) {
  const std::string readme = folder / "models/letters/README.md";
  spill(readme,
        "---\nlicense: cc-by-4.0\nbase_model:\n- owner/base\ntags: [a, b]\n---\n# letters\nlicense: no\n");
  EXPECT_THAT(run({"models", "letters"}).out, AllOf(HasSubstr("license     cc-by-4.0 (" + readme + ")"),
                                                    HasSubstr("made from   owner/base\n")));
  const Json info = Json::parse(run({"models", "letters", "--json"}).out);
  EXPECT_EQ(info.at("license"), "cc-by-4.0");
  EXPECT_EQ(info.at("base_model"), "owner/base");
  EXPECT_EQ(Json::parse(run({"models", "owner/name", "--json"}).out).at("source"),
            "owner/name@" + std::string(40, 'a'));
}

}  // namespace
}  // namespace heed::cli_test
