#!/usr/bin/env bash
# Makes the pages and figures of docs/lessons.md again, from the models that come with heed.
# usage: scripts/lessons.sh HEED      (the built command, such as build/release/heed)
set -euo pipefail
heed=$(realpath "${1:?usage: scripts/lessons.sh HEED}")
cd "$(dirname "$0")/.."
export HEED_MODELS=$PWD/models
lessons=docs/lessons images=docs/images
mkdir -p $lessons

# page NAME MODEL VIEW ARGUMENTS...
page() {
  local name=$1 model=$2 view=$3
  shift 3
  "$heed" --quiet explore "$model" --export "$lessons/$name.html" --export-view "$view" "$@"
  echo "$lessons/$name.html: $(wc -c <"$lessons/$name.html") bytes"
}
page why-attention en-fr matrix --text "She gave him a red car."
page query-key-value shakespeare steps --text "To be or not"
page scaling en-fr traps --text "The black cat drinks milk."
page heads shakespeare all-lines --text "ROMEO: But soft"
page positions reviews-mlm traps --text "The [MASK] was written by a child."
page masks shakespeare traps --text "What news, my lord"
page encoder reviews flow --text "A warm, funny and moving film."
page fixed-vector en-fr lines --text "My brother bought a big white house near the sea because he wanted to live with his children."
page sparse reviews-mlm matrix --text "I had waited a year for this film, and the first half hour gave me all that I had hoped for: the town is beautiful, the music is quiet, and the two sisters are played with real warmth. Then the story loses its way. By the end I did not care who had lived in the house or why. It is a [MASK] that such good actors were given such a script."
page translation en-fr lines --text "I have never been to Paris." --target "Je n'ai jamais été à Paris."

"$heed" --quiet attend --model shakespeare "But soft" --layers 0 --heads 0,1,3 --width 700 --output $images/lesson-heads.svg
"$heed" --quiet attend --model shakespeare "What news" --layers 2 --heads 2 --width 380 --output $images/lesson-mask.svg
"$heed" --quiet attend --model reviews-mlm "The [MASK] was written by a child." --layers 2 --heads 2,3 --width 560 --output $images/lesson-positions.svg
"$heed" --quiet attend --model en-fr "I have never been to Paris." --target "Je n'ai jamais été à Paris." --layers 1 --heads mean --width 420 --output $images/lesson-translation.svg
