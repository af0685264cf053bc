# Completion of the heed command for bash.

# The names of models that can be given without a path: those in $HEED_MODELS and the installed ones.
_heed_models() {
  local folder command
  command=$(type -P "${1/#\~/$HOME}") && command=$(readlink -f "$command")
  local -a folders
  IFS=: read -r -a folders <<<"${HEED_MODELS:-}"
  for folder in "${folders[@]}" "${command:+${command%/*}/../share/heed/models}"; do
    if [[ -n $folder && -d $folder ]]; then
      (cd "$folder" && for model in */; do [[ -f ${model}config.json ]] && echo "${model%/}"; done)
    fi
  done
}

_heed() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local everywhere='--help --quiet --json --threads --seed'
  local search='--max-new-tokens --min-new-tokens --max-length --min-length --num-beams --num-return-sequences
    --length-penalty --early-stopping --no-repeat-ngram-size --repetition-penalty --bad-words-ids --suppress-tokens
    --eos-token-id --forced-bos-token-id --forced-eos-token-id --pad-token-id --decoder-start-token-id --do-sample
    --temperature --top-k --top-p --min-p --typical-p --epsilon-cutoff --eta-cutoff --encoder-no-repeat-ngram-size
    --sequence-bias --exponential-decay-length-penalty --begin-suppress-tokens --renormalize-logits
    --encoder-repetition-penalty --remove-invalid-values --top-h'
  local commands='translate generate fill classify tag answer embed tokenize forward info pull train evaluate average attend bench'
  local command='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then
      command=$word
      break
    fi
  done
  COMPREPLY=()

  local words='' files=no
  case $command:$previous in
    *:--model | *:-m | *:--init) words=$(_heed_models "${COMP_WORDS[0]}") files=yes ;;
    *:--attention | *:--config | *:--input | *:-i | *:--output | *:-o | *:--source | *:--reference | *:--hypothesis | \
      evaluate:--text | *:--tsv | *:--context-file | *:--vectors) files=yes ;;
    *:--dtype) words='f32 bf16' ;;
    bench:--shape) words='gpt2 bert-base marian' ;;
    *:--kind) words='cross encoder decoder self' ;;
    *:--layers) words='all' ;;
    *:--heads) words='all mean' ;;
    *:--long-lines) words='cut split error' ;;
    *:--early-stopping) words='true false never' ;;
    tag:--aggregation) words='none simple first average max' ;;
    embed:--pooling) words='mean cls last max mean_sqrt weighted_mean none' ;;
    embed:--similarity-fn) words='cosine dot' ;;
    evaluate:--tokenize) words='13a intl char none' ;;
    attend:--target | forward:--target | forward:--text | *:--query | *:--pair | *:--question | *:--context | *:--prompt | *:--prompt-name | *:--stride | *:--null-threshold) return ;;
    *:--threads | *:--seed | *:--batch-tokens | *:--prompt-ids | *:--decoder-input-ids | *:--decode | *:--set | *:--num-* | *:--max-* | \
      *:--min-* | *:--*-penalty | *:--no-repeat-ngram-size | *:--bad-words-ids | *:--suppress-tokens | \
      *:--*-token-id | *:--temperature | *:--top-* | *:--typical-p | *:--*-cutoff | *:--prompt | *:-p | *:--stop | *:--sequence-bias | \
      *:--encoder-no-repeat-ngram-size | *:--begin-suppress-tokens | *:--stride | evaluate:--window | pull:--*clude | pull:--revision) return ;;
    *)
      case $command in
        '') words="$commands $everywhere --version" ;;
        translate) words="--model --dtype --prompt-ids --input --decoder-input-ids --batch-tokens --prefix --task --long-lines --attention $search $everywhere" ;;
        generate) words="--model --dtype --prompt --prompt-ids --stop --full-text --batch-tokens $search $everywhere" ;;
        fill) words="--model --dtype --top-k --batch-tokens $everywhere" ;;
        classify) words="--model --dtype --top-k --pair --batch-tokens $everywhere" ;;
        tag) words="--model --dtype --aggregation --stride --batch-tokens $everywhere" ;;
        answer) words="--model --dtype --question --context --context-file --top-k --max-answer-tokens
          --max-input-tokens --stride --impossible --null-threshold --batch-tokens $everywhere" ;;
        embed) words="--model --dtype --pooling --normalize --prompt --prompt-name --max-length --output
          --similarity --query --top-k --vectors --similarity-fn
          --batch-tokens $everywhere" ;;
        tokenize) words="--model --pair --output --target --decode --skip-special-tokens --no-special-tokens $everywhere" ;;
        forward) words="--model --dtype --text --pair --target --input --output --hidden-states --attentions --gradients $everywhere" ;;
        info) words="$(_heed_models "${COMP_WORDS[0]}") --model $everywhere" files=yes ;;
        pull) words="--revision --include --exclude $everywhere" ;;
        train) words="--set --output --resume --resume-from --init $everywhere" files=yes ;;
        evaluate) words="--model --source --reference --hypothesis --text --tsv --window --stride --tokenize --lowercase --batch-tokens $search
          $everywhere" ;;
        average) words="--output $everywhere" files=yes ;;
        bench) words="attention gemm encode generate translate train --batch --length --heads --kv-heads --head-dim
          --keys --window --causal --backward --m --n --k --model --config --shape --new-tokens --num-beams --dtype
          --seconds --repeats $everywhere" ;;
        attend) words="--model --layers --heads --kind --target --output $everywhere" ;;
      esac
      ;;
  esac

  if [[ $current == -* ]]; then files=no; fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $files == yes ]]; then
    local paths
    mapfile -t paths < <(compgen -f -- "$current")
    COMPREPLY+=("${paths[@]}")
    compopt -o filenames 2>/dev/null
  fi
}

complete -F _heed heed
