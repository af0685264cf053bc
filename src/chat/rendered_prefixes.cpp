// Runs a template once, over messages that grow.
#include "chat/rendered_prefixes.h"

#include <algorithm>
#include <utility>

namespace heed::chat {
namespace {

constexpr std::size_t kMostLists = 8;  // each grows with the messages

}  // namespace

std::optional<RenderedChat> RenderedPrefixes::find(std::size_t messages) const {
  const auto found = std::ranges::lower_bound(prefixes, messages, {}, &Prefix::messages);
  if (found == prefixes.end() || found->messages != messages) return std::nullopt;
  MarkedText text = shared.part(0, found->shared_bytes);
  text.append(found->rest);
  return RenderedChat{text.bytes(), text.spans(Mark::data), text.spans(Mark::generated)};
}

GrowingMessages::GrowingMessages(const Value& all, std::vector<std::size_t> counts, Budget& budget)
    : all_(all.items()),
      counts_(std::move(counts)),
      known_(counts_.front()),
      budget_(budget),
      list_(add(0)) {}

Value GrowingMessages::add(std::size_t first) {
  if (lists_.size() == kMostLists) throw OpenListRead();
  first = std::min(first, all_.size());
  const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(first);
  auto list = std::make_shared<SequenceValue>(Values(begin, all_.end()), false, &budget_);
  list->values.resize(known_ - std::min(known_, first));
  list->grows = true;
  list->first = first;
  lists_.push_back(list);
  return Value::list(std::move(list));
}

Value GrowingMessages::from(const Value& list, std::size_t begin) {
  return add(list.sequence().first + std::min(begin, all_.size()));
}

bool GrowingMessages::grow_to(const Value& list, std::size_t index) {
  const std::size_t known = list.sequence().first + index + 1;
  if (known > all_.size()) return false;
  known_ = std::max(known_, known);
  for (const auto& each : lists_) {
    while (each->first + each->values.size() < known_)
      each->values.push_back(all_[each->first + each->values.size()]);
  }
  return true;
}

bool GrowingMessages::ends_at(const Value& list, std::size_t index) {
  if (list.sequence().first + index + 1 != known_) return false;
  while (wants_more() && counts_[next_] < known_) ++next_;
  if (!wants_more() || counts_[next_] != known_) return false;
  ++next_;
  return true;
}

void GrowingMessages::set_open(bool open) {
  for (const auto& list : lists_) list->grows = open;
}

RenderedPrefixes Renderer::run_prefixes(const std::vector<Statement>& body,
                                        const std::vector<std::size_t>& counts) {
  RenderedPrefixes result;
  const Value* all = variables_->find("messages");
  if (counts.empty() || all == nullptr || !all->is_list()) return result;
  GrowingMessages messages(*all, counts, budget_);
  Buffer shared(&budget_);
  set("messages", messages.list());
  messages_ = &messages;
  prefixes_ = &result;
  shared_ = out_ = &shared;
  scope_ = variables_;
  try {
    execute(body);
  } catch (const TemplateError&) {  // whoever renders the other texts on their own comes upon it
  } catch (const OpenListRead&) {
  }
  messages_ = nullptr;
  prefixes_ = nullptr;
  shared_ = out_ = nullptr;
  scope_ = nullptr;
  result.shared = std::move(shared.text);
  return result;
}

bool Renderer::is_loop_over_messages(const Statement& statement, const Value& over) const {
  return messages_ != nullptr && over.is_list() && over.sequence().grows && statement.condition.empty() &&
         scope_ == variables_ && out_ == shared_ && messages_->grow_to(over, 0);
}

void Renderer::render_prefix(const Value& elements, std::int64_t& index,
                             const std::function<bool()>& iteration) {
  const std::int64_t last = index;
  if (messages_->ends_at(elements, static_cast<std::size_t>(last))) {
    const auto variables = variables_->variables;
    std::vector<std::map<std::string, Value, std::less<>>> attributes;
    for (const auto& object : kept_) {
      const auto* space = dynamic_cast<const Namespace*>(object.get());
      if (space == nullptr) throw OpenListRead();
      attributes.push_back(space->attributes);
    }
    if (budget_.iterators != 0) throw OpenListRead();
    Buffer rest(&budget_);
    Frame* const outer = frame_;
    const int line = line_;
    messages_->set_open(false);
    out_ = &rest;
    try {
      iteration();
      scope_ = variables_;
      Flow flow = Flow::normal;
      for (const Frame* frame = outer; frame != nullptr && flow == Flow::normal; frame = frame->outer) {
        Frame left = *frame;
        flow = execute_rest(left);
      }
      shared_->charge.add(rest.text.size());
      prefixes_->prefixes.push_back({messages_->known(), shared_->text.size(), std::move(rest.text)});
    } catch (const TemplateError&) {  // as above
    }
    messages_->set_open(true);
    out_ = shared_;
    scope_ = variables_;
    frame_ = outer;
    line_ = line;
    index = last;
    variables_->variables = variables;
    for (std::size_t i = attributes.size(); i < kept_.size(); ++i) kept_[i]->release();
    kept_.resize(attributes.size());
    for (std::size_t i = 0; i < kept_.size(); ++i)
      static_cast<Namespace&>(*kept_[i]).attributes = std::move(attributes[i]);
    if (!messages_->wants_more()) throw OpenListRead();
  }
  messages_->grow_to(elements, static_cast<std::size_t>(last) + 1);
}

}  // namespace heed::chat
