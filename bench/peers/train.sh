#!/usr/bin/env bash
# Trains a recipe with heed and with PyTorch in turns, for a few steps each, and prints the steps per second of both, the
# loss on the development set, and the ratio of the time of a step, round by round.
#   HEED_DATA=... bench/peers/train.sh shakespeare|multi30k|sentences [STEPS [ROUNDS [THREADS]]]
# Environment: HEED (build/release/heed), PYTHON (build/peers/bin/python; bench/peers/setup.sh makes it), PEER_OPTIONS
# (--bf16: PyTorch's mixed precision; otherwise it trains in f32, whatever train.precision is).
set -euo pipefail
cd "$(dirname "$0")/../.."

name=${1:?which recipe} steps=${2:-50} rounds=${3:-3} threads=${4:-$(nproc)}
heed=${HEED:-build/release/heed} python=${PYTHON:-build/peers/bin/python} skip=3
case $name in
  shakespeare) recipe=shakespeare-char-cpu ;;
  multi30k) recipe=multi30k-en-de-tiny ;;
  sentences) recipe=sentences ;;
  *) echo "train.sh: expected shakespeare, multi30k or sentences, got $name" >&2; exit 2 ;;
esac
[ "$steps" -gt "$skip" ] || { echo "train.sh: expected more than $skip steps, got $steps" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
for ((round = 1; round <= rounds; ++round)); do
  run=$folder/$round
  "$heed" train "recipes/$recipe.toml" --output "$run" --threads "$threads" --quiet \
    --set train.steps="$steps" --set train.epochs=0 --set eval.every="$steps" --set checkpoint.every="$steps" >"$folder/out"
  "$python" "bench/peers/train_$name.py" --data "$HEED_DATA" --run "$run" --steps "$steps" --skip "$skip" \
    --threads "$threads" ${PEER_OPTIONS:-} >"$folder/torch.json"
  "$python" - "$run/log.jsonl" "$folder/torch.json" "$skip" <<'PY'
import json
import sys

log, peer, skip = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
lines = [json.loads(line) for line in open(log)]
steps = [line for line in lines if "loss" in line]
heed = (steps[-1]["step"] - skip) / (steps[-1]["seconds"] - steps[skip - 1]["seconds"])
dev = next(line["dev_loss"] for line in lines if "dev_loss" in line)
print(f"heed {heed:.3f} steps/s, development loss {dev:.4f}; PyTorch {peer['steps_per_second']:.3f} steps/s, "
      f"{peer['dev_loss']:.4f}; time of a step, PyTorch / heed: {heed / peer['steps_per_second']:.2f}")
PY
done
