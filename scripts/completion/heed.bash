# Completion of the heed command for bash.

# The names of models that can be given without a path: those in $HEED_MODELS and the installed ones.
_heed_models() {
  local folder command
  command=$(type -P "${1/#\~/$HOME}") && command=$(readlink -f "$command")
  for folder in "${HEED_MODELS:-}" "${command:+${command%/*}/../share/heed/models}"; do
    if [[ -n $folder && -d $folder ]]; then
      (cd "$folder" && for model in */; do [[ -f ${model}config.json ]] && echo "${model%/}"; done)
    fi
  done
}

_heed() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local everywhere='--help --quiet --json --threads --seed'
  local commands='translate tokenize forward info train evaluate average attend'
  local command='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ " $commands " == *" $word "* ]]; then
      command=$word
      break
    fi
  done
  COMPREPLY=()

  local words='' files=no
  case $previous in
    --model | --init) words=$(_heed_models "${COMP_WORDS[0]}") files=yes ;;
    --attention | --input | --output | --source | --reference | --text | --tsv) files=yes ;;
    --dtype) words='f32 bf16' ;;
    --kind) words='self cross encoder decoder' ;;
    --heads | --layers) words='all' ;;
    --threads | --seed | --num-* | --max-* | --length-penalty | --no-repeat-ngram-size | --batch-tokens | \
      --prompt-ids | --decode | --pair | --target | --set) return ;;
    *)
      case $command in
        '') words="$commands $everywhere --version" ;;
        translate) words="--model --dtype --num-beams --length-penalty --max-new-tokens --num-return-sequences
          --no-repeat-ngram-size --batch-tokens --attention --prompt-ids $everywhere" ;;
        tokenize) words="--model --pair --decode --skip-special-tokens --no-special-tokens $everywhere" ;;
        forward) words="--model --dtype --input --output --hidden-states --attentions --gradients $everywhere" ;;
        info) words="$(_heed_models "${COMP_WORDS[0]}") $everywhere" files=yes ;;
        train) words="--set --output --resume --init $everywhere" files=yes ;;
        evaluate) words="--model --dtype --source --reference --text --tsv $everywhere" ;;
        average) words="--output $everywhere" files=yes ;;
        attend) words="--model --dtype --layers --heads --kind --target --output $everywhere" ;;
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
