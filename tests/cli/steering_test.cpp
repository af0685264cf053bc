// heed steer and --steer of the commands that compute, heed circuits, and taps of generated text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "command.h"

namespace heed::cli_test {
namespace {

using testing::HasSubstr;

std::string shipped(const std::string& name) { return std::string(HEED_SOURCE) + "/models/" + name; }

Json header_in(const std::string& file) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return Json::parse(bytes.substr(8, length));
}

std::vector<float> numbers_of(const std::string& file, const std::string& tensor) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const Json offsets = header_in(file).at(tensor).at("data_offsets");
  const std::size_t begin = offsets[0], end = offsets[1];
  std::vector<float> numbers((end - begin) / sizeof(float));
  std::memcpy(numbers.data(), bytes.data() + 8 + length + begin, end - begin);
  return numbers;
}

// Vectors of a shipped model, from two short files.
std::string made_vectors(const Folder& folder, const std::string& model, const std::string& name,
                         const Words& more = {}) {
  spill(folder / "yes.txt", "What a lovely day!\nI am very happy.\n");
  spill(folder / "no.txt", "How dull and bad.\nI am so sad.\n");
  Words words{"steer",      "--model",         shipped(model), "--positive", folder / "yes.txt",
              "--negative", folder / "no.txt", "--output",     folder / name};
  words.insert(words.end(), more.begin(), more.end());
  const Result result = run(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return folder / name;
}

TEST(Steer, WritesVectorsOfEachLayer) {
  const Folder folder;
  const std::string file =
      made_vectors(folder, "shakespeare", "v.safetensors", {"--output", folder / "v.gguf"});
  const Json header = header_in(file);
  EXPECT_EQ(header.at("__metadata__").at("method"), "mean");
  EXPECT_EQ(header.at("__metadata__").at("positive_texts"), "2");
  const std::size_t layers = header.size() - 1;
  EXPECT_EQ(header.at("decoder.layers.0.out").at("shape").size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folder / "v.gguf"));
  const Json table = Json::parse(run({"steer", "--model", shipped("shakespeare"), "--positive",
                                      folder / "yes.txt", "--negative", folder / "no.txt", "--method", "pca",
                                      "--tokens", "mean", "--output", folder / "p.safetensors", "--json"})
                                     .out);
  ASSERT_EQ(table.size(), layers);
  EXPECT_NEAR(table[0].at("length").get<double>(), 1, 1e-6);
}

TEST(Steer, ChangesWhatEveryCommandComputes) {
  const Folder folder;
  const auto differs = [&](const std::string& model, const Words& words, bool has_part = false) {
    const std::string vectors = made_vectors(folder, model, model + ".safetensors");
    Words plain = words;
    plain.insert(plain.end(), {"--model", shipped(model)});
    Words steered = plain, still = plain;
    steered.insert(steered.end(), {"--steer", vectors + "=8"});
    still.insert(still.end(), {"--steer", vectors + "=0"});
    const std::string before = output_of(plain);
    EXPECT_NE(output_of(steered), before) << words.front();
    if (has_part) {
      EXPECT_THAT(output_of(still), HasSubstr("steering")) << words.front();
    } else {
      EXPECT_EQ(output_of(still), before) << words.front();
    }
  };
  differs("shakespeare", {"generate", "ROMEO:", "--max-new-tokens", "20"});
  differs("shakespeare", {"evaluate", "--texts", folder / "yes.txt"});
  differs("shakespeare", {"lens", "ROMEO:", "--json"});
  differs("shakespeare", {"attribute", "logit", "ROMEO:", "--token", "e", "--json"}, true);
  differs("shakespeare", {"heads", "ROMEO:", "--json"});
  differs("shakespeare", {"attribute", "score", "ROMEO:", "--head", "1.0", "--json"}, true);
  differs("shakespeare", {"attend", "ROMEO:", "--json"});
  differs("reviews", {"classify", "A film.", "--json"});
  differs("reviews", {"embed", "A film.", "--json"});
  differs("reviews-mlm", {"fill", "A [MASK] film.", "--json"});
  differs("en-fr", {"translate", "The cat sat on the mat.", "--json"});
}

TEST(Steer, LayersAndStrengthsAddUp) {
  const Folder folder;
  const std::string file = made_vectors(folder, "shakespeare", "v.safetensors");
  const auto generated = [&](const Words& more) {
    Words words{"generate", "ROMEO:", "--max-new-tokens", "20", "--model", shipped("shakespeare")};
    words.insert(words.end(), more.begin(), more.end());
    return output_of(words);
  };
  EXPECT_EQ(generated({"--steer", file + "=3", "--steer", file + "=-3"}), generated({}));
  EXPECT_EQ(generated({"--steer", file + "=4", "--steer-layers", "1"}),
            generated({"--steer", file + "=2", "--steer", file + "=2", "--steer-layers", "1:2"}));
  EXPECT_NE(generated({"--steer", file + "=4", "--steer-layers", "1"}), generated({"--steer", file + "=4"}));
}

TEST(Steer, WhatItRefuses) {
  const Folder folder;
  const std::string file = made_vectors(folder, "shakespeare", "v.safetensors");
  const Words words{"generate", "ROMEO:", "--model", shipped("shakespeare")};
  const auto with = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_error(2, with({"--steer", file + "=much"}), "--steer: expected FILE or FILE=STRENGTH with a number");
  expect_error(2, with({"--steer", file, "--steer-layers", "x"}), "--steer-layers: expected positions like");
  expect_error(1, with({"--steer", folder / "none.safetensors"}), "none.safetensors");
  expect_error(1, with({"--steer", file, "--steer-layers", "40:50"}),
               "expected vectors of layers from 40 to 49");
  expect_error(1, {"classify", "x", "--model", shipped("reviews"), "--steer", file},
               file + ": decoder.layers.0.out: expected a layer of the stack encoder");
  expect_error(2,
               {"steer", "--model", shipped("shakespeare"), "--positive", folder / "yes.txt", "--negative",
                folder / "no.txt", "--output", folder / "v.npz"},
               "--output: expected a file ending in .safetensors or .gguf");
  spill(folder / "empty.txt", "\n");
  expect_error(1,
               {"steer", "--model", shipped("shakespeare"), "--positive", folder / "empty.txt", "--negative",
                folder / "no.txt", "--output", folder / "w.safetensors"},
               "empty.txt: expected a text in each line, got none");
  expect_error(2,
               {"steer", "--model", shipped("shakespeare"), "--positive", folder / "yes.txt", "--negative",
                folder / "no.txt", "--output", folder / "yes.txt"},
               "expected a file");
}

Words generate_gpt2(const Words& more) {
  Words words{"generate",
              "--model",
              std::string(HEED_FIXTURES) + "/decoders/gpt2",
              "--prompt-ids",
              "5,9,17,33",
              "--max-new-tokens",
              "6",
              "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Taps of a cached decoding are those of one pass over prompt and continuation.
TEST(GeneratedTaps, AreThoseOfOnePass) {
  const Folder folder;
  const std::string taps =
      "decoder.layers.*.out,decoder.layers.1.self_attn.weights[heads=1:3],decoder.layers.0.self_attn.k,"
      "decoder.layers.1.mid[queries=3:7],logits";
  const Result generated = run(generate_gpt2({"--taps", taps, "--taps-output", folder / "taps.safetensors"}));
  ASSERT_EQ(generated.status, 0) << generated.err;
  std::vector<std::int64_t> ids{5, 9, 17, 33};
  const Json answer = Json::parse(generated.out);
  for (const Json& id : answer.at("ids")) ids.push_back(id);
  ids.pop_back();  // never fed
  const Json header{
      {"input_ids", {{"dtype", "I64"}, {"shape", {1, ids.size()}}, {"data_offsets", {0, ids.size() * 8}}}}};
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  spill(folder / "ids.safetensors",
        std::string(reinterpret_cast<const char*>(&size), sizeof size) + text +
            std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 8));
  const Result whole =
      run({"forward", "--model", std::string(HEED_FIXTURES) + "/decoders/gpt2", "--input",
           folder / "ids.safetensors", "--taps", taps, "--output", folder / "whole.safetensors"});
  ASSERT_EQ(whole.status, 0) << whole.err;
  const Json found = header_in(folder / "taps.safetensors"), wanted = header_in(folder / "whole.safetensors");
  int compared = 0;
  for (const auto& [name, info] : found.items()) {
    if (name == "__metadata__" || name == "logits") continue;
    ++compared;
    EXPECT_EQ(info.at("shape"), wanted.at(name).at("shape")) << name;
    const std::vector<float> a = numbers_of(folder / "taps.safetensors", name),
                             b = numbers_of(folder / "whole.safetensors", name);
    ASSERT_EQ(a.size(), b.size()) << name;
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << name << " " << i;
  }
  EXPECT_EQ(compared, 9);                                     // out of the layers and of their parts
  EXPECT_EQ(found.at("logits").at("shape"), Json({6, 512}));  // one row for each step
}

// The values of one run in another: where all are given, the continuation is that of the first.
TEST(GeneratedTaps, ReplaceValuesAtTheirPositions) {
  const Folder folder;
  const Words record{"--taps", "decoder.layers.1.out", "--taps-output", folder / "out.safetensors"};
  const std::string first = run(generate_gpt2(record)).out;
  const auto ids_with = [&](const std::string& prompt, const Words& more) {
    Words words{"generate",
                "--model",
                std::string(HEED_FIXTURES) + "/decoders/gpt2",
                "--prompt-ids",
                prompt,
                "--max-new-tokens",
                "6",
                "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(output_of(words)).at("ids");
  };
  const Words replace{"--replace", folder / "out.safetensors"};
  EXPECT_NE(ids_with("300,301,302,303", {}), Json::parse(first).at("ids"));
  EXPECT_EQ(ids_with("300,301,302,303", replace), Json::parse(first).at("ids"));
  // Of other positions than the last of each step, nothing follows in the last layer.
  const Words part{"--taps", "decoder.layers.1.out[queries=:3]", "--taps-output",
                   folder / "part.safetensors"};
  ASSERT_EQ(run(generate_gpt2(part)).status, 0);
  EXPECT_EQ(ids_with("300,301,302,303", {"--replace", folder / "part.safetensors"}),
            ids_with("300,301,302,303", {}));
}

TEST(GeneratedTaps, WhatTheyRefuse) {
  const Folder folder;
  const std::string file = folder / "x.safetensors";
  expect_error(2, generate_gpt2({"--taps", "logits"}), "--taps: expected --taps and --taps-output together");
  expect_error(2, generate_gpt2({"--taps", "logits", "--taps-output", file, "--num-beams", "2"}),
               "--taps: expected one continuation without beams");
  expect_error(2, generate_gpt2({"--taps", "logits", "--taps-output", file, "--prompt-ids", "4"}),
               "--taps: expected one prompt as an argument, got 2");
  const Result misspelled = run(generate_gpt2({"--taps", "decoder.layers.9.out", "--taps-output", file}));
  EXPECT_EQ(misspelled.status, 1);
  EXPECT_THAT(misspelled.err, HasSubstr("no value of the model matches decoder.layers.9.out"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Circuits, TablesAndFiles) {
  const Folder folder;
  const auto with = [&](const Words& more) {
    Words all{"circuits", "--model", shipped("shakespeare")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string table = output_of(with({"--top", "3"}));
  EXPECT_THAT(table, HasSubstr("Circuits of attention heads"));
  EXPECT_THAT(table, HasSubstr("Strongest compositions"));
  const Json json = Json::parse(output_of(with({"--json", "--top", "3"})));
  EXPECT_EQ(json.at("compositions").size(), 3u);
  const std::size_t heads = json.at("heads").size();
  EXPECT_TRUE(json.at("heads")[0].contains("copying"));
  const std::string one = output_of(with({"--head", "1.0", "--tokens", "4"}));
  EXPECT_THAT(one, HasSubstr("What head 1.0 reads and writes"));
  EXPECT_THAT(one, HasSubstr("Strongest compositions with 1.0"));
  ASSERT_EQ(run(with({"--output", folder / "c.csv"})).status, 0);
  EXPECT_EQ(lines(slurp(folder / "c.csv")).size(), heads + 1);
  ASSERT_EQ(run(with({"--output", folder / "c.svg"})).status, 0);
  EXPECT_THAT(slurp(folder / "c.svg"), HasSubstr("<svg"));
  expect_error(2, with({"--head", "1"}), "--head: expected LAYER.HEAD, as 5.1, got 1");
  expect_error(1, with({"--head", "99.0"}), "circuits: expected a head of layers up to");
  expect_error(2, with({"--output", "c.gif"}),
               "--output: expected a file ending in .svg, .pdf, .png or .csv");
  expect_error(2, {"circuits", "--model", shipped("en-fr"), "--kind", "cross"},
               "--kind: expected the self-attention of a stack, got cross");
}

}  // namespace
}  // namespace heed::cli_test
