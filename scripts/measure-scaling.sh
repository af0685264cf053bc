#!/usr/bin/env bash
# Measures training on several processes of this machine: a table of seconds and bytes a step, the hidden share of the
# communication, and efficiency against one process with as many threads as the machine has. The machine must be quiet.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: scripts/measure-scaling.sh HEED RECIPE [OPTIONS OF heed train]   (PROCESSES=\"2 4\", STEPS=20)" >&2
  exit 2
fi
heed=$1 recipe=$2
shift 2
steps=${STEPS:-20}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(--quiet --set "train.steps=$steps" --set train.epochs=0 --set train.warmup=1 --set eval.every=0
         --set eval.metric=loss --set checkpoint.every=1000000 "$@")

# Of the steps after the first three: median seconds, bytes, and the sums of both times of communication.
row() {
  awk -v name="$1" -v alone="$2" '
    function value(key) { return match($0, "\"" key "\": [-0-9.e+]+") ? substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) : 0 }
    /"loss"/ { now = value("seconds"); if (++n > 3) seconds[++m] = now - before; before = now
               if (n > 3) { bytes = value("bytes_sent"); sum += value("communication_seconds"); waited += value("waited_seconds") } }
    END {
      for (i = 1; i <= m; ++i) for (j = i + 1; j <= m; ++j) if (seconds[j] < seconds[i]) { t = seconds[i]; seconds[i] = seconds[j]; seconds[j] = t }
      median = seconds[int((m + 1) / 2)]
      hidden = (sum > 0) ? sprintf("%.0f %%", 100 * (waited < sum ? 1 - waited / sum : 0)) : ""
      printf "| %s | %.3f | %s | %s | %s |\n", name, median, (bytes ? bytes : ""), hidden, (alone > 0 ? sprintf("%.0f %%", 100 * alone / median) : "")
      print median > "/dev/stderr"
    }' "$3"
}

echo "| processes | seconds a step | bytes sent | hidden | efficiency |"
echo "|---|---|---|---|---|"
"$heed" train "$recipe" --output "$work/1" "${options[@]}" >/dev/null
row "1, all threads" 0 "$work/1/log.jsonl" 2>"$work/alone"
for n in ${PROCESSES:-2 4}; do
  mpirun --oversubscribe --bind-to none -n "$n" "$heed" train "$recipe" --output "$work/$n" "${options[@]}" >/dev/null
  row "$n" "$(cat "$work/alone")" "$work/$n/log.jsonl" 2>/dev/null
done
