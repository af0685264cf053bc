// Recipes: valid values, and messages for invalid ones.
#include "heed/train/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "heed/error.h"
#include "reference/error.h"
#include "reference/small_stack.h"
#include "reference/temporary_folder.h"
#include "train/recipe/recipe_fields.h"

namespace heed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecipeTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& text) const {
    spill(folder_ / "r.toml", text);
    return folder_ / "r.toml";
  }
  std::string recipe_error(const std::string& text) const {
    return error_of([&] { validate_recipe(load_recipe(write(text))); });
  }
  static std::string override_error(const std::string& assignment) {
    Recipe recipe;
    return error_of([&] { apply_override(recipe, assignment); });
  }
  TemporaryFolder folder_;
};

TEST_F(RecipeTest, ReadsValuesAndKeepsDefaults) {
  const Recipe r =
      load_recipe(write("[data]\ntrain = \"a/b.tsv\"\n[train]\nlr = 3e-4\nsteps = 1e5\n"
                        "betas = [0.9, 0.999]\n[eval]\nbleu = false\n"));
  EXPECT_EQ(r.data.train, folder_ / "a/b.tsv");
  EXPECT_EQ(r.train.lr, 3e-4);
  EXPECT_EQ(r.train.steps, 100000);
  EXPECT_EQ(r.train.betas[1], 0.999);
  EXPECT_FALSE(r.eval.bleu);
  EXPECT_EQ(with_defaults(r).model.family, "marian");
}

TEST_F(RecipeTest, NamesTheNearestKey) {
  EXPECT_THAT(recipe_error("[train]\nlr = 1\nwarmpu = 3\n"),
              HasSubstr("r.toml:3: expected a known key, got "
                        "train.warmpu (did you mean train.warmup?)"));
  EXPECT_THAT(recipe_error("[data]\nlr = 1\n"), HasSubstr("did you mean train.lr?"));
  // What other tools call it.
  EXPECT_THAT(recipe_error("[train]\nlearning_rate = 1\n"),
              HasSubstr("expected a known key, got train.learning_rate (did you mean train.lr?)"));
  EXPECT_THAT(recipe_error("[train]\nbatch_size = 8\n"), HasSubstr("did you mean train.batch_tokens?"));
  EXPECT_THAT(recipe_error("[data]\nvalidation = \"x\"\n"), HasSubstr("did you mean data.dev?"));
  EXPECT_THAT(recipe_error("\n[trian]\nlr = 1\n"),
              HasSubstr("r.toml:2: expected a known section, got [trian] (did "
                        "you mean [train]?)"));
  EXPECT_THAT(recipe_error("[modl]\nheads = 1\n"), HasSubstr("got [modl] (did you mean [model]?)"));
  EXPECT_THAT(recipe_error("lr = 1\n"),
              HasSubstr("r.toml:1: expected a known key, got lr (did you mean train.lr?)"));
}

TEST_F(RecipeTest, SaysWhatAWrongValueShouldBe) {
  EXPECT_THAT(recipe_error("[train]\nlr = \"fast\"\n"),
              HasSubstr("r.toml:2: train.lr: expected a number from 0 to 1000, got"));
  EXPECT_THAT(recipe_error("[train]\nsteps = 1.5\n"),
              HasSubstr("train.steps: expected a whole number of at least 0, "
                        "got 1.5"));
  EXPECT_THAT(
      recipe_error("[train]\nsteps = 4611686018427387904\n"),
      HasSubstr("train.steps: expected a whole number from 0 to 1000000000000000, got 4611686018427387904"));
  EXPECT_THAT(recipe_error("[model]\ndropout = 1.0\n"),
              HasSubstr("model.dropout: expected a number from 0 to 0.99"));
  EXPECT_THAT(recipe_error("[train]\nschedule = \"step\"\n"),
              HasSubstr("train.schedule: expected one of constant, linear, cosine, inverse_sqrt, got"));
  EXPECT_THAT(recipe_error("[tokenizer]\ntype = \"char\"\n"),
              HasSubstr("word, character, got 'char' (did you mean character?)"));
  EXPECT_THAT(recipe_error("[eval]\nbleu = 1\n"), HasSubstr("eval.bleu: expected true or false, got 1"));
  EXPECT_THAT(recipe_error("[train]\nprecision = \"fp8\"\n"), HasSubstr("train.precision"));
  EXPECT_THAT(recipe_error("[train]\nbetas = [0.9]\n"), HasSubstr("train.betas: expected two numbers"));
  EXPECT_THAT(recipe_error("[train]\nbetas = [0.9, 1.0]\n"), HasSubstr("train.betas: expected two numbers"));
  EXPECT_THAT(recipe_error("[train]\nlr = nan\n"), HasSubstr("train.lr: expected a number"));
  EXPECT_THAT(recipe_error("[train\n"), HasSubstr("r.toml:1: expected TOML"));
}

// toml++ takes stack for each table in a table to free them, and does not count the parts of a.b.c.
TEST_F(RecipeTest, DeepValuesAreErrors) {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::string parts = repeated(".a", 300'000), tables = repeated("{a.\"=#\".a = ", 60), ends(60, '}');
  on_small_stack([&] {
    for (const std::string& deep :
         {"[model]\na" + parts + " = 1\n", "# [\n[a" + parts + "]\n", "[a]\nb = {a" + parts + " = 1}\n",
          "[a]\nb = " + std::string(300'000, '[') + "\n", "[a]\nb = " + tables + "1" + ends + "\n",
          "[a]\nb = '''\n''\n'''\na.'.'.\"\\\"\"" + parts + " = 1\n"})
      EXPECT_THAT(recipe_error(deep), HasSubstr("expected values nested at most 64 deep"))
          << deep.substr(0, 40);
    Recipe recipe;
    EXPECT_ERROR(apply_override(recipe, "model.a={a" + parts + "=1}"),
                 "expected values nested at most 64 deep");
    apply_override(recipe, "model.a=" + repeated("{a = [", 30) + "1.5, \"a.b.c\"" + repeated("]}", 30));
    apply_override(recipe, "model.b=[" + repeated("1.5, ", 500) + "1.5]");
  });
}

TEST_F(RecipeTest, WarmUpIsAWholeNumberOrAShare) {
  const std::string start =
      "[task]\nkind = \"reverse\"\n[data]\ndev_size = 9\n[train]\nsteps = 10\nwarmup = ";
  for (const char* good : {"0", "0.25", "1", "1000", "1e3"}) {
    EXPECT_NO_THROW(validate_recipe(load_recipe(write(start + good + "\n")))) << good;
  }
  EXPECT_THAT(recipe_error(start + "1.5\n"),
              HasSubstr("train.warmup: expected a whole number of steps, or a share of "
                        "the run below 1, got 1.5"));
  EXPECT_THAT(recipe_error(start + "-1\n"),
              HasSubstr("train.warmup: expected a number of at least 0, got -1"));
  // In the form stored by runs of earlier versions, where warmup was an integer.
  EXPECT_EQ(recipe_values(load_recipe(write(start + "1000\n"))).at("train.warmup"), "1000");
}

TEST_F(RecipeTest, ReplacesVariablesInPaths) {
  ::setenv("HEED_RECIPE_TEST", "/somewhere", 1);
  ::unsetenv("HEED_RECIPE_UNSET");
  const Recipe r = load_recipe(write("[data]\ntrain = \"${HEED_RECIPE_TEST}/x.tsv\"\n"));
  EXPECT_EQ(r.data.train, "/somewhere/x.tsv");
  EXPECT_THAT(recipe_error("[data]\ntrain = \"${HEED_RECIPE_UNSET}/x.tsv\"\n"),
              HasSubstr("the environment variable HEED_RECIPE_UNSET is not set"));
  const std::filesystem::path unset = write("[data]\ntrain = \"${HEED_RECIPE_UNSET}/x.tsv\"\n");
  EXPECT_EQ(load_recipe(unset, {"train.lr=1e-4", "data.train = /y.tsv"}).data.train, "");
  EXPECT_THAT(recipe_error("[data]\ntrain = \"${HEED\"\n"), HasSubstr("the brace is not closed"));
}

TEST_F(RecipeTest, TakesOverrides) {
  Recipe r;
  apply_override(r, "train.lr=3e-4");
  apply_override(r, "train.betas=[0.8, 0.95]");
  apply_override(r, "train.schedule=cosine");
  apply_override(r, "eval.bleu = false");
  apply_override(r, "data.train=x=y.tsv");
  EXPECT_EQ(r.train.lr, 3e-4);
  EXPECT_EQ(r.train.betas[0], 0.8);
  EXPECT_EQ(r.train.schedule, "cosine");
  EXPECT_FALSE(r.eval.bleu);
  EXPECT_EQ(r.data.train, std::filesystem::current_path() / "x=y.tsv");
  EXPECT_THAT(override_error("train.lr"), HasSubstr("expected section.key=value, got \"train.lr\""));
  EXPECT_THAT(override_error("foo.bar=1"), HasSubstr("expected one of the sections [task], [data], ["));
  EXPECT_THAT(override_error("train.rl=1"), HasSubstr("did you mean train.lr?"));
  EXPECT_THAT(override_error("train.lr=fast"), HasSubstr("train.lr: expected a number from 0 to 1000, got"));
  EXPECT_THAT(override_error("train.steps="), HasSubstr("train.steps: expected a whole number"));
}

TEST_F(RecipeTest, TargetsOfAnAdapterAreAListOrAnExpression) {
  Recipe r = load_recipe(write("[lora]\nrank = 4\ntargets = [\"query\", \"value\"]\ntrain = [\"pooler\"]\n"));
  EXPECT_EQ(r.lora.rank, 4);
  EXPECT_EQ(r.lora.targets.names, (std::vector<std::string>{"query", "value"}));
  EXPECT_EQ(r.lora.train, std::vector<std::string>{"pooler"});
  EXPECT_EQ(recipe_values(r).at("lora.targets"), R"(["query", "value"])");
  apply_override(r, "lora.targets=.*\\.(q|v)");
  EXPECT_EQ(r.lora.targets.expression, ".*\\.(q|v)");
  EXPECT_TRUE(r.lora.targets.names.empty());
  apply_override(r, "lora.targets=[\"q\"]");
  EXPECT_EQ(r.lora.targets.names, std::vector<std::string>{"q"});
  EXPECT_TRUE(r.lora.targets.expression.empty());
  EXPECT_THAT(override_error("lora.targets=[]"), HasSubstr("expected a list of names in brackets"));
  EXPECT_THAT(override_error("lora.targets=[1]"), HasSubstr("expected a list of names in brackets"));
  EXPECT_THAT(override_error("lora.train=x"), HasSubstr("expected a list of texts in brackets"));
}

TEST_F(RecipeTest, TakesTheKeysOfAFamilysConfig) {
  Recipe r =
      load_recipe(write("[model]\nfamily = \"gpt2\"\nn_embd = 64\nactivation_function = \"gelu\"\n"
                        "scale = [1, 2.5]\n"));
  EXPECT_EQ(r.model.settings.at("n_embd"), "64");
  EXPECT_EQ(r.model.settings.at("activation_function"), "\"gelu\"");
  apply_override(r, "model.n_embd=32");
  apply_override(r, "model.activation_function=gelu_new");
  EXPECT_EQ(r.model.settings.at("n_embd"), "32");
  EXPECT_EQ(r.model.settings.at("activation_function"), "\"gelu_new\"");
  const std::map<std::string, std::string> kept = recipe_values(r);
  EXPECT_THAT(fixed_differences(kept, r), IsEmpty());
  apply_override(r, "model.n_embd=64");
  EXPECT_THAT(fixed_differences(kept, r), ElementsAre("model.n_embd"));
  apply_override(r, "model.n_embd=32");
  apply_override(r, "model.n_layer=1");
  EXPECT_THAT(fixed_differences(kept, r), ElementsAre("model.n_layer"));
  // Keys that are Marian's too are known by both names.
  r = load_recipe(write("[model]\nfamily = \"bart\"\nd_model = 64\ndropout = 0.25\n"));
  apply_override(r, "model.encoder_layers=2");
  EXPECT_EQ(r.model.sizes, (std::map<std::string, std::string>{
                               {"d_model", "64"}, {"dropout", "0.25"}, {"encoder_layers", "2"}}));
}

TEST_F(RecipeTest, EveryTaskHasItsFormatsAndDefaults) {
  const std::string start = "[data]\ntrain = \"x\"\ndev_size = 5\n[train]\nsteps = 5\n[task]\nkind = ";
  for (const char* kind : {"translation", "seq2seq", "classification", "tagging", "answers"})
    EXPECT_EQ(recipe_error(start + "\"" + kind + "\"\n"), "no error") << kind;
  EXPECT_THAT(recipe_error(start + "\"masked-lm\"\n"), HasSubstr("got data.dev_size"));
  EXPECT_THAT(recipe_error(start + "\"tagging\"\n[tokenizer]\ntype = \"character\"\n"),
              HasSubstr("tokenizer.type: expected wordpiece, word or byte_bpe for the task tagging, got "
                        "character"));
  EXPECT_THAT(recipe_error(start + "\"translate\"\n"),
              HasSubstr("task.kind: expected one of translation, reverse"));
}

TEST_F(RecipeTest, RefusesKeysThatTheTaskDoesNotUse) {
  const auto recipe = [](const std::string& kind, const std::string& rest) {
    return "[task]\nkind = \"" + kind + "\"\n" + rest + "[data]\ntrain = \"x\"\n";
  };
  EXPECT_EQ(recipe_error(recipe("classification", "whole_words = true\n")),
            (folder_ / "r.toml").string() +
                ":3: expected a key that the task classification uses, got task.whole_words, which is for "
                "masked-lm");
  EXPECT_THAT(recipe_error(recipe("classification", "problm = \"regression\"\n")),
              HasSubstr("got task.problm (did you mean task.problem?)"));
  // A value that equals the default is as unused as any other.
  EXPECT_THAT(recipe_error(recipe("causal-lm", "[eval]\nbeams = 1\n")),
              HasSubstr(":4: expected a key that the task causal-lm uses, got eval.beams, which is for "
                        "translation, reverse, seq2seq"));
  EXPECT_THAT(recipe_error(recipe("reverse", "")),
              HasSubstr("got data.train, which is for translation, seq2seq"));
  EXPECT_THAT(recipe_error(recipe("tagging", "[tokenizer]\nbyte_fallback = true\n")),
              HasSubstr("got tokenizer.byte_fallback"));
  Recipe r = load_recipe(write("[task]\nkind = \"causal-lm\"\n"));
  apply_override(r, "task.stride=5");
  EXPECT_ERROR(validate_recipe(r),
               "recipe: expected a key that the task causal-lm uses, got task.stride, which "
               "is for answers");
}

TEST_F(RecipeTest, ComparesValuesWithEachOther) {
  const std::string data = "[data]\ntrain = \"x.tsv\"\ndev_size = 10\n[train]\nsteps = 5\n";
  EXPECT_EQ(recipe_error(data), "no error");
  EXPECT_THAT(recipe_error("[train]\nsteps = 5\n"), HasSubstr("data.train: not set"));
  EXPECT_THAT(recipe_error("[data]\ntrain = \"x.tsv\"\ndev_size = 10\n"),
              HasSubstr("train.steps: no length"));
  EXPECT_THAT(recipe_error(data + "[model]\nheads = 3\n"), HasSubstr("model.heads: expected a divisor of "
                                                                     "model.d_model, 256, got 3"));
  const std::string no_dev = "[data]\ntrain = \"x.tsv\"\n[train]\nsteps = 5\n";
  EXPECT_EQ(recipe_error(no_dev), "no error");  // no evaluations
  EXPECT_THAT(recipe_error(no_dev + "[eval]\nevery = 500\n"), HasSubstr("eval.every: no development set"));
  EXPECT_THAT(recipe_error(no_dev + "[eval]\npatience = 2\n"),
              HasSubstr("eval.patience: no development set to evaluate on (set data.dev_size or data.dev, or "
                        "eval.patience = 0)"));
  EXPECT_THAT(recipe_error("[data]\nformat = \"lines\"\ntrain_source = \"x\"\n"),
              HasSubstr("data.train_target"));
  EXPECT_THAT(recipe_error(data + "[eval]\nmetric = \"bleu\"\nbleu = false\n"), HasSubstr("eval.metric"));
}

TEST_F(RecipeTest, RefusesKeysThatTheFormatDoesNotUse) {
  const std::string end = "[train]\nsteps = 5\n[eval]\nevery = 0\n";
  const auto recipe = [&](const std::string& kind, const std::string& data) {
    return "[task]\nkind = \"" + kind + "\"\n[data]\ntrain = \"x\"\n" + data + end;
  };
  EXPECT_THAT(
      recipe_error(recipe("classification", "pair_key = \"b\"\n")),
      HasSubstr("r.toml:5: expected a key that data.format = \"tsv\" uses, got data.pair_key, which is "
                "for jsonl"));
  EXPECT_THAT(recipe_error(recipe("seq2seq", "source_column = 1\n")), HasSubstr("got data.source_column"));
  EXPECT_THAT(recipe_error(recipe("causal-lm", "text_key = \"x\"\n")), HasSubstr("got data.text_key"));
  EXPECT_THAT(recipe_error(recipe("causal-lm", "format = \"jsonl\"\ndocuments = \"line\"\n")),
              HasSubstr("got data.documents, which is for text"));
  EXPECT_EQ(recipe_error(recipe("causal-lm", "format = \"jsonl\"\ntext_key = \"x\"\n")), "no error");
}

TEST_F(RecipeTest, RefusesSettingsThatOthersMakeVoid) {
  const auto recipe = [](const std::string& kind, const std::string& data, const std::string& rest = "") {
    return "[task]\nkind = \"" + kind + "\"\n[eval]\nevery = 0\n[data]\ntrain = \"x\"\n" + data +
           "[train]\nsteps = 5\n" + rest;
  };
  for (const char* pair : {"pair_column = 1", "pair_column = 2"}) {
    EXPECT_THAT(recipe_error(recipe("classification", std::string(pair) + "\n")),
                HasSubstr("data.pair_column: expected another column than data."));
  }
  EXPECT_THAT(recipe_error(recipe("classification", "label_column = 2\n")),
              HasSubstr("data.label_column: expected another column than data.text_column, got 2 for both"));
  EXPECT_THAT(recipe_error(recipe("classification", "dev = \"y\"\ndev_size = 4\n")),
              HasSubstr("data.dev, data.dev_size: expected one of them, got both"));
  EXPECT_THAT(recipe_error(recipe("causal-lm", "dev = \"y\"\ndev_share = 0.1\n")),
              HasSubstr("data.dev, data.dev_share: expected one of them"));
  EXPECT_THAT(recipe_error(recipe("tagging", "test = \"y\"\nfolds = 3\n")),
              HasSubstr("data.folds, data.test"));
  EXPECT_THAT(recipe_error(recipe("causal-lm", "", "schedule = \"constant\"\nmin_lr = 1e-5\n")),
              HasSubstr("train.min_lr: expected another train.schedule than constant"));
  EXPECT_THAT(recipe_error(recipe("causal-lm", "", "[tokenizer]\nfrom = \"m\"\nvocab_size = 99\n")),
              HasSubstr("tokenizer.vocab_size: expected none beside tokenizer.from"));
  const std::string denoising =
      "[task]\nkind = \"denoising\"\npermute_sentences = true\n[data]\ntrain = "
      "\"x\"\n[train]\nsteps = 5\n[eval]\nevery = 0\n";
  EXPECT_THAT(recipe_error(denoising),
              HasSubstr("task.permute_sentences: expected task.objective = \"bart\", got spans"));
}

TEST_F(RecipeTest, RefusesOverridesOfAModelThatIsGiven) {
  Recipe r = load_recipe(write("[model]\nfamily = \"gpt2\"\nn_embd = 64\n[tokenizer]\nvocab_size = 99\n"));
  EXPECT_NO_THROW(refuse_overrides_of_model(r));
  for (const char* assignment : {"model.nonsense=3", "model.family=bert", "tokenizer.from=x"}) {
    Recipe changed = r;
    apply_override(changed, assignment);
    EXPECT_ERROR(refuse_overrides_of_model(changed), "beside --init");
  }
}

TEST_F(RecipeTest, TheVocabularyOfReversalsFollowsFromItsLetters) {
  Recipe r = load_recipe(write("[task]\nkind = \"reverse\"\nsymbols = 10\n"));
  EXPECT_EQ(with_defaults(r).tokenizer.vocab_size, 24);
  r.tokenizer.vocab_size = 15;
  EXPECT_EQ(with_defaults(r).tokenizer.vocab_size, 15);
}

TEST_F(RecipeTest, ReadsTheRecipesThatComeWithIt) {
  ::setenv("HEED_DATA", "/data", 1);
  ::setenv("HEED_REVIEWS", "/data/reviews.txt", 1);
  ::setenv("HEED_SENTENCES", "/data/sentences.txt", 1);
  int recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_FIXTURES "/../../recipes")) {
    if (entry.path().extension() != ".toml") continue;
    Recipe recipe = load_recipe(entry.path());
    const std::string name = entry.path().stem().string();
    if (name == "text" || name == "classifier" || name == "speech" || name == "embedding" ||
        name == "reranker")
      apply_override(recipe, "data.train=own");  // for texts of one's own
    EXPECT_NO_THROW(validate_recipe(recipe)) << entry.path();
    ++recipes;
  }
  EXPECT_EQ(recipes, 30) << "change this number with the files of recipes/";
}

TEST_F(RecipeTest, KnowsWhatAResumedRunMayChange) {
  Recipe before;
  Recipe after = before;
  after.train.steps = 10;
  after.eval.every = 7;
  after.checkpoint.keep = 9;
  after.data.train = "elsewhere.tsv";
  EXPECT_THAT(fixed_differences(recipe_values(before), after), IsEmpty());
  auto earlier = recipe_values(before);
  earlier.erase("lora.rank");  // of a version without it
  EXPECT_THAT(fixed_differences(earlier, after), IsEmpty());
  after.model.dropout = 0.3;
  EXPECT_THAT(fixed_differences(recipe_values(before), after), ElementsAre("model.dropout"));
}

}  // namespace
}  // namespace heed
