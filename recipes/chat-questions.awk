# Questions and the kind of answer that each wants, as chats of SmolLM2-Instruct and other models with its marks (ChatML), from lines of
# "label question" of TREC (Li and Roth 2002): data/TREC.train.all and data/TREC.test.all of
# https://github.com/harvardnlp/sent-conv-torch. JSON lines for recipes/chat.toml; heed adds the end token:
#   awk -f recipes/chat-questions.awk TREC.train.all > train.jsonl
# or the prompts alone, each with a byte 0 after it:
#   awk -v ask=1 -f recipes/chat-questions.awk TREC.test.all
BEGIN {
  split("description entity abbreviation human location number", kind, " ")
  request = "What does this question ask for? Answer with one word: description, entity, abbreviation, human, location or number."
}
{
  label = kind[$1 + 1]
  sub(/^[^ ]+ /, "")
  if (ask) {
    printf "<|im_start|>user\n%s\n%s<|im_end|>\n<|im_start|>assistant\n%c", request, $0, 0
    next
  }
  gsub(/["\\]/, "\\\\&")
  printf "{\"text\": \"<|im_start|>user\\n%s\\n%s<|im_end|>\\n<|im_start|>assistant\\n%s\"}\n", request, $0, label
}
