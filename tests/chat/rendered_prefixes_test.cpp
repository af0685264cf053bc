#include "chat/rendered_prefixes.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "chat/syntax.h"
#include "heed/error.h"
#include "reference/json.h"

namespace heed::chat {
namespace {

ParsedTemplate parsed(const std::string& text) { return {"t", parse_template(text, "t")}; }

Json conversation(std::size_t messages, bool system, bool starts) {
  Json list = Json::array();
  if (system) list.push_back({{"role", "system"}, {"content", "be brief"}});
  while (list.size() < messages) {
    const bool user = (list.size() + (system ? 1 : 0)) % 2 == 0;
    std::string text = (user ? "question " : " answer ") + std::to_string(list.size()) + " <|im_end|> ";
    if (!user && list.size() % 4 == 1) text = "<think>hm</think>" + text;
    list.push_back({{"role", user ? "user" : "assistant"}, {"content", std::move(text)}});
  }
  return {{"messages", std::move(list)}, {"tools", nullptr}, {"add_generation_prompt", starts}};
}

const Json kConstants = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};

std::vector<std::size_t> all_counts(std::size_t messages) {
  std::vector<std::size_t> counts(messages);
  std::iota(counts.begin(), counts.end(), 1);
  return counts;
}

/// Compares every beginning with the rendering of its messages alone. Returns how many were found.
std::size_t compared(const std::string& text, const Json& variables, const Json& constants,
                     const std::vector<std::size_t>& counts) {
  const ParsedTemplate made = parsed(text);
  RenderOptions options;
  options.now = 1'700'000'000;
  const RenderedPrefixes prefixes = render_prefixes(made, variables, constants, options, counts);
  for (const std::size_t count : counts) {
    const auto found = prefixes.find(count);
    if (!found) continue;
    Json alone = variables;
    alone["messages"].get_ref<Json::array_t&>().resize(count);
    RenderedChat chat;
    EXPECT_NO_THROW(chat = render(made, alone, constants, options)) << count;
    EXPECT_EQ(found->text, chat.text) << count;
    EXPECT_EQ(found->data, chat.data) << count;
    EXPECT_EQ(found->generated, chat.generated) << count;
  }
  return prefixes.prefixes.size();
}

/// The least limit of steps within which all beginnings are found.
std::int64_t steps(const std::string& text, std::size_t messages) {
  const ParsedTemplate made = parsed(text);
  const Json variables = conversation(messages, false, true);
  const std::vector<std::size_t> counts = all_counts(messages);
  std::int64_t low = 0, high = ChatLimits().steps;
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    RenderOptions options;
    options.limits.steps = middle;
    std::size_t found = 0;
    try {
      found = render_prefixes(made, variables, kConstants, options, counts).prefixes.size();
    } catch (const Error&) {  // the variables alone take more
    }
    (found == messages ? high : low) = middle;
  }
  return high;
}

// In the forms of published models.
const std::string kChatml =
    "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const std::string kLlama3 =
    "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] | trim %}"
    "{%- set messages = messages[1:] %}{%- else %}{%- set system_message = '' %}{%- endif %}"
    "{{- bos_token + '<|start_header_id|>system<|end_header_id|>\n\n' + system_message + '<|eot_id|>' }}"
    "{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'"
    " + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}";
const std::string kGemma =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] + '\n' %}"
    "{% set loop_messages = messages[1:] %}{% else %}{% set first = '' %}{% set loop_messages = messages %}"
    "{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% "
    "endif %}"
    "{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] "
    "%}"
    "{% endif %}{{ '<start_of_turn>' + role + '\n' + (first if loop.first else '') + message['content'] | "
    "trim"
    " + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif "
    "%}";
const std::string kMistral =
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% "
    "endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}";
const std::string kZephyr =
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + eos_token }}"
    "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}{% endfor %}";
// What a loop collects in a namespace; and parts that the model generates.
const std::string kNamespace =
    "{% set ns = namespace(n=0, text='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}"
    "{% set ns.text = ns.text ~ m.role[0] %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{{ loop.previtem.role if not loop.first }}{% endfor %}{{ ns.n }}{{ ns.text }}{{ messages[-1].role }}";

TEST(RenderedPrefixes, AreWhatTheMessagesAloneGive) {
  for (const std::string& text : {kChatml, kLlama3, kGemma, kMistral, kZephyr, kNamespace}) {
    for (const bool starts : {false, true}) {
      SCOPED_TRACE(text + (starts ? " starts" : ""));
      EXPECT_EQ(compared(text, conversation(8, false, starts), kConstants, all_counts(8)), 8u);
      EXPECT_EQ(compared(text, conversation(8, false, starts), kConstants, {3, 4, 7}), 3u);
      compared(text, conversation(8, true, starts), kConstants, all_counts(8));
    }
  }
  // After a system message: not that alone, as no loop comes to it.
  EXPECT_EQ(compared(kLlama3, conversation(8, true, true), kConstants, all_counts(8)), 7u);
}

TEST(RenderedPrefixes, TakeStepsInProportionToTheMessages) {
  for (const std::string& text : {kChatml, kLlama3, kGemma, kMistral, kZephyr, kNamespace}) {
    SCOPED_TRACE(text);
    const std::int64_t few = steps(text, 10), more = steps(text, 20), most = steps(text, 40);
    EXPECT_GT(more, few);
    EXPECT_LE(most - more, (more - few) * 21 / 10);
  }
}

TEST(RenderedPrefixes, LeaveOutWhatDependsOnLaterMessages) {
  for (const std::string text :
       {"{{ messages | length }}{% for m in messages %}{{ m.role }}{% endfor %}",
        "{% for m in messages %}{{ loop.revindex }}{% endfor %}",
        "{% for m in messages %}{{ loop.length }}{% endfor %}",
        "{% for m in messages if m.role %}x{% endfor %}",
        "{{ messages[-1].role }}{% for m in messages %}{{ m.role }}{% endfor %}",
        "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}", "{{ messages | tojson }}", "{{ messages }}",
        "{% set c = cycler(1, 2) %}{% for m in messages %}{{ c.next() }}{% endfor %}",
        "{% set r = [1, 2] | map('string') %}{% for m in messages %}{{ r | list }}{% endfor %}",
        "{% for m in messages %}{{ loop.changed(m.role) }}{% endfor %}{% for m in [1] %}x{% endfor %}"}) {
    SCOPED_TRACE(text);
    EXPECT_LE(compared(text, conversation(6, false, false), kConstants, all_counts(6)), 1u);
  }
  // Two loops: the second one runs for each text.
  EXPECT_EQ(compared("{% for m in messages %}{{ m.role }}{% endfor %}{% for m in messages %}{{ loop.length }}"
                     "{% endfor %}",
                     conversation(6, false, false), kConstants, all_counts(6)),
            6u);
}

// Whatever the templates of the fixtures do, what is found is right.
TEST(RenderedPrefixes, AgreeForEveryTemplateOfTheFixtures) {
  const Json cases = read_json<Json>(HEED_FIXTURES "/chat/cases.json");
  std::size_t found = 0;
  for (const Json& made : cases["cases"]) {
    const auto text = made["template"].get<std::string>();
    if (made.contains("error") || text.find("messages") == text.npos) continue;
    SCOPED_TRACE(text);
    const Json& constants = (made.contains("constants") ? made : cases)["constants"];
    for (const bool starts : {false, true}) {
      for (const bool system : {false, true})
        found += compared(text, conversation(8, system, starts), constants, all_counts(8));
    }
    Json own = (made.contains("variables") ? made : cases)["variables"];
    if (own.contains("messages") && own["messages"].is_array())
      compared(text, own, constants, all_counts(own["messages"].size()));
  }
  EXPECT_GT(found, 100u);
}

}  // namespace
}  // namespace heed::chat
