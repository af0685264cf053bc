# The phrases of the Stanford Sentiment Treebank (Socher et al. 2013) as "label text" lines: 1 positive, 0 negative; each
# once, without the neutral ones, in lower case. Its trees, one a line, are trees/train.txt of https://nlp.stanford.edu/sentiment/
#   awk -f recipes/sst-phrases.awk trees/train.txt > sst2-phrases.txt
# A tree: "(3 (2 It) (4 (2 's) (4 (3 good) (2 fun))))", with labels from 0, very negative, to 4.
{
  depth = 0
  tokens = split($0, token, /[ \t]+/)
  for (i = 1; i <= tokens; ++i) {
    word = token[i]
    if (word ~ /^\(/) {
      label[++depth] = substr(word, 2)
      text[depth] = ""
      continue
    }
    closed = gsub(/\)/, "", word)
    text[depth] = word
    while (closed-- > 0) {
      line = (label[depth] > 2) " " tolower(text[depth])
      if (label[depth] != 2 && !seen[line]++) print line
      --depth
      if (depth > 0) text[depth] = text[depth] (text[depth] == "" ? "" : " ") text[depth + 1]
    }
  }
}
