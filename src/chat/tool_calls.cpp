// Where an answer has calls, and what of it is content.
#include "heed/chat/tool_calls.h"

#include <algorithm>

#include "chat/call_reader.h"

namespace heed {
namespace {

using chat::without_space_after;
using chat::without_space_before;

constexpr int kMostMalformed = 100;  // marks without a call, after which all is content
constexpr std::string_view kThoughtEnd = "</think>";

/// Where the last thought of an answer ends; 0 if there is none.
std::size_t thought_end(std::string_view answer) {
  const std::size_t at = answer.rfind(kThoughtEnd);
  return at == answer.npos ? 0 : at + kThoughtEnd.size();
}

/// Whether `begin` .. `end` - 1 of a text in Markdown is in a code span, which as many backticks end as begin
/// it, or in a block of code, whose marks begin lines.
bool is_in_code(std::string_view text, std::size_t begin, std::size_t end) {
  constexpr std::size_t kFence = 3;
  const auto run_at = [text](std::size_t at) {
    return std::min(text.find_first_not_of('`', at), text.size()) - at;
  };
  const auto begins_line = [text](std::size_t at) {
    const std::size_t before = at == 0 ? text.npos : text.find_last_not_of(" \t", at - 1);
    return before == text.npos || text[before] == '\n';
  };
  for (std::size_t at = text.find('`'); at < begin; at = text.find('`', at)) {
    const std::size_t size = run_at(at);
    const bool block = size >= kFence && begins_line(at);
    at += size;
    std::size_t close = text.find('`', at);
    while (close != text.npos) {
      if (close >= begin && close < end) {
        close = text.find('`', end);
        continue;
      }
      const std::size_t found = run_at(close);
      if (block ? found >= size && begins_line(close) : found == size) break;
      close = text.find('`', close + found);
    }
    if (close >= end && (block || close != text.npos)) return true;
    if (close < begin) at = close + run_at(close);
  }
  return false;
}

}  // namespace

ToolCallFormat tool_call_format(std::string_view chat_template) {
  const auto has = [chat_template](std::string_view mark) {
    return chat_template.find(mark) != chat_template.npos;
  };
  if (has("[TOOL_CALLS]")) return ToolCallFormat::mistral;
  if (has("<｜tool▁calls▁begin｜>")) return ToolCallFormat::deepseek;
  if (has("<function=") && has("<parameter=")) return ToolCallFormat::qwen_coder;
  if (has("<|tool_call|>") || has("<|/tool|>")) return ToolCallFormat::granite;
  if (has("<tool_call>")) return ToolCallFormat::hermes;
  if (has("<|tool_call_start|>") || has("tool_code") || has("[func_name1(")) return ToolCallFormat::pythonic;
  if (has("<|python_tag|>") || has("\"parameters\": dictionary of argument name"))
    return ToolCallFormat::llama;
  return ToolCallFormat::none;
}

ParsedToolCalls parse_tool_calls(std::string_view answer, ToolCallFormat format, std::string_view tools) {
  const chat::CallReader reader(format, tools);
  const std::size_t thought = thought_end(answer);
  if (thought == 0 && without_space_before(answer).starts_with("<think>")) return {std::string(answer), {}};
  ParsedToolCalls result{std::string(answer.substr(0, thought)), {}};
  std::string_view text = answer.substr(thought);
  // Without a mark, calls are the whole answer.
  if (reader.take(text, result.calls) && without_space_before(text).empty()) return result;
  result.calls.clear();
  result.content.clear();
  text = answer;
  const auto add_content = [&](std::string_view part) {
    if (!result.content.empty() && !part.empty()) result.content += '\n';
    result.content += part;
  };
  std::size_t from = 0;
  for (int malformed = 0; malformed < kMostMalformed;) {
    std::size_t begin = text.npos;
    for (const std::string_view mark : chat::marks_of(format)) begin = std::min(begin, text.find(mark, from));
    if (begin == text.npos) break;
    std::string_view rest = text.substr(begin);
    const std::size_t before = result.calls.size();
    const bool taken = reader.take(rest, result.calls);
    const std::size_t end = text.size() - rest.size();
    if (!taken || end <= thought_end(text) || is_in_code(text, begin, end)) {
      result.calls.resize(before);
      from = taken ? end : begin + 1;
      // What is only considered takes nothing from what follows.
      if (++malformed == kMostMalformed && begin < thought_end(text)) {
        from = thought_end(text);
        malformed = 0;
      }
      continue;
    }
    from = 0;
    const std::string_view content = text.substr(0, begin);
    add_content(without_space_after(before > 0 ? without_space_before(content) : content));
    text = rest;
  }
  add_content(result.calls.empty() ? text : without_space_before(text));
  return result;
}

std::string ToolCallStream::push(std::string_view text) {
  answer_ += text;
  if (holds_) return {};
  const std::string_view said = without_space_before(std::string_view(answer_).substr(thought_end(answer_)));
  const bool bare = format_ == ToolCallFormat::llama || format_ == ToolCallFormat::mistral ||
                    format_ == ToolCallFormat::pythonic;
  if (bare && (said.starts_with('{') || said.starts_with('['))) {
    holds_ = true;
    return {};
  }
  // What may be the beginning of a mark, and white space before it, is not given out yet.
  std::size_t end = answer_.size();
  for (const std::string_view mark : chat::marks_of(format_)) {
    const std::size_t found = answer_.find(mark, given_);
    if (found != answer_.npos) {
      holds_ = true;
      end = std::min(end, found);
    }
    for (std::size_t length = std::min(mark.size() - 1, answer_.size() - given_); length > 0; --length) {
      if (!answer_.ends_with(mark.substr(0, length))) continue;
      end = std::min(end, answer_.size() - length);
      break;
    }
  }
  const std::string_view rest = std::string_view(answer_).substr(given_, end - given_);
  const std::string content(format_ == ToolCallFormat::none ? rest : without_space_after(rest));
  given_ += content.size();
  return content;
}

ParsedToolCalls ToolCallStream::finish() const {
  ParsedToolCalls parsed = parse_tool_calls(answer_, format_, tools_);
  parsed.content.erase(0, given_);
  return parsed;
}

}  // namespace heed
