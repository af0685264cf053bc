#!/usr/bin/env bash
# Opens pages that `heed explore --export` wrote in headless Chromium, as files, and checks that they ask for nothing, report no error,
# show maps, heads, the flow, steps, scores and traps, and say what was not recorded; with axe-core too. Without pages, records small models
# first. Skips where Chromium is missing.
# usage: scripts/check-recording.sh HEED [FILE.html...]      (the built command, such as build/release/heed)
set -euo pipefail
heed=$(realpath "${1:?usage: scripts/check-recording.sh HEED [FILE.html...]}")
shift
pages=()
for page in "$@"; do pages+=("$(realpath "$page")"); done
cd "$(dirname "$0")/.."
source scripts/devtools.sh
if ! command -v chromium chromium-browser google-chrome >/dev/null; then echo "check-recording: skipped: no Chromium here"; exit 0; fi
folder=$(mktemp -d)
remove() { rm -rf "$folder" 2>/dev/null || { sleep 2; rm -rf "$folder"; }; }
finish() { browser_close; remove; }
browser_process=0
trap finish EXIT

if [ ${#pages[@]} = 0 ]; then
  fixtures=tests/fixtures
  mkdir "$folder/gpt2"
  cp $fixtures/decoders/gpt2/{config.json,model.safetensors} $fixtures/bart/tokenizer*.json "$folder/gpt2"
  "$heed" --quiet explore "$folder/gpt2" --export "$folder/gpt2.html" --text "The dog lay on the rug." --text "one two three"
  "$heed" --quiet explore models/en-fr --export "$folder/en-fr.html" --text "Good morning." --target "Bonjour."
  "$heed" --quiet explore $fixtures/encoders/bert-mlm --export "$folder/bert.html" --text "a [MASK]"
  pages=("$folder"/{gpt2,en-fr,bert}.html)
fi

fail() { echo "check-recording: error: $page: $*" >&2; exit 1; }

# Before the page's own script: what it complains of, and what it would ask for.
watch='window.problems = []; addEventListener("error", event => problems.push(event.message)); addEventListener("unhandledrejection", event => problems.push(String(event.reason))); document.addEventListener("securitypolicyviolation", event => problems.push("policy: " + event.blockedURI)); console.error = (...said) => problems.push(said.join(" ")); window.fetch = what => { problems.push("fetch: " + what); throw new Error("no network"); };'
steps='
const page = document.documentElement, until = async (what, test) => { for (let i = 0; i < 1000; ++i) { try { if (test()) return; } catch { } await new Promise(r => setTimeout(r, 20)); } throw new Error("waited in vain: " + what + "; error: " + $("error").textContent); };
const expect = (what, holds) => { if (!holds) throw new Error("expected: " + what); };
const look = async name => { document.querySelector(`#views [data-value="${name}"]`).click(); await viewer.drawn; }, made = name => viewer.panels[0].views.get(name).made;
'
step() {
  page_run "(async () => { $steps; $2; return problems.join('; '); })()" || fail "$1"
  if [ "$page_result" != '""' ]; then fail "$1: $page_result"; fi
}
accessible() {
  page_axe
  if [ "$page_result" != '""' ]; then fail "$1: axe-core: $page_result"; fi
}

browser_open "$folder"
page_call Page.enable
page_call Page.addScriptToEvaluateOnNewDocument "\"source\":$(json_string "$watch")"
for page in "${pages[@]}"; do
  page_scheme light
  page_size 1280 900
  page_open "file://$page" 'document.documentElement.dataset.run && document.documentElement.dataset.drawn'
  step "what it opens on" 'expect("a map", viewer.panels[0].values.some(value => value > 0)); expect("no fields", document.querySelector("#ask .fields").hidden && !$("text").checkVisibility()); expect("a recorded text is chosen", document.querySelectorAll("#examples [aria-pressed=true]").length === 1); expect("it says that it is a recording", $("recorded").textContent.startsWith("A recording"))'
  step "nothing is loaded from anywhere" 'expect("no request", performance.getEntriesByType("resource").every(one => /^(data|blob):/.test(one.name)))'
  accessible "a recording"
  step "another head" 'const before = viewer.panels[0].values, button = [...document.querySelectorAll("#overview button")].find(one => one.getAttribute("aria-pressed") !== "true" && /^\d+$/.test(one.dataset.head)); button.click(); await viewer.drawn; expect("another map", viewer.panels[0].values !== before)'
  step "the first head again" 'viewer.show(viewer.worthSeeing(viewer.kind)); await viewer.drawn'
  step "the steps" 'await look("steps"); await until("its table", () => document.querySelectorAll(".steps-scroll tr").length > 1 && made("steps").steps)'
  accessible "the steps"
  step "why a head looks there" 'await look("why"); await until("pairs", () => document.querySelectorAll(".why-pairs tr").length > 2); const { found } = made("why"), sum = found.pairs.reduce((all, one) => all + one[2], found.position_bias + found.others.sum); expect("they add up to the score", Math.abs(sum - found.score) < 1e-4 * Math.max(1, Math.abs(found.score)))'
  accessible "why a head looks there"
  step "another key was not recorded" 'const { found } = made("why"), { kind, blocked } = viewer.panels[0], count = kind.keys.length, other = kind.keys.findIndex((_, i) => i !== found.key && !(blocked && blocked[found.query * count + i])); if (other >= 0) { viewer.hold(found.query, other, true); await until("what was", () => made("why").sentence.textContent.endsWith("heed explore computes it for any.")); viewer.hold(found.query, found.key, true); await until("the recorded one", () => made("why").found && made("why").found.key === found.key); viewer.hold(-1, -1); }'
  step "the flow" 'await look("flow"); await until("its parts", () => document.querySelectorAll(".flow-scroll .node").length > 2)'
  accessible "the flow"
  step "another candidate" 'const buttons = [...document.querySelectorAll(".flow-side td button")], can = buttons.filter(one => !one.disabled); if (buttons.length > 3) { expect("those that were recorded", can.length && can.length < buttons.length); can[can.length - 1].click(); await until("its effects", () => document.querySelectorAll(".flow-scroll .node").length > 2 && made("flow").id === made("flow").flow.id); }'
  step "a trap" 'await look("traps"); const on = document.querySelector(".trap-scale"); on.checked = true; on.onchange(); await until("both maps", () => document.querySelectorAll(".trap-maps canvas").length === 2)'
  step "another trap takes its place" 'const on = document.querySelector(".trap-positions"); on.checked = true; on.onchange(); await until("it alone", () => !document.querySelector(".trap-scale").checked && on.checked && document.querySelectorAll(".trap-maps canvas").length === 2)'
  accessible "the traps"
  step "a head that was not recorded" 'const first = viewer.worthSeeing(viewer.kind), other = viewer.kind.heads.find(head => head !== (typeof first.head === "number" ? first.head : viewer.kind.heads[0])); viewer.show({ ...first, head: other, view: "steps" }); await viewer.drawn; await until("what was", () => made("steps").sentence.textContent.startsWith("This is not part of the recording"))'
  step "without a head" 'viewer.show({ ...viewer.worthSeeing(viewer.kind), view: "matrix" }); await viewer.drawn; const head = headNow() || { kind: viewer.kind.kind, layer: viewer.state.layer, head: viewer.kind.heads[0] }; goTo(head); await viewer.drawn; const before = results[0].answer.run; expect("it can be removed", !$("ablate").disabled); $("ablate").click(); await until("another run", () => results[0].answer.run !== before); $("ablate").click(); await until("the first", () => results[0].answer.run === before)'
  step "what leads nowhere cannot be chosen" 'expect("no scale, patch, more tokens", $("factor").disabled && $("patch").disabled && !$("continue").checkVisibility() && $("try-all").disabled)'
  step "each text" 'for (const chip of document.querySelectorAll("#examples button")) { chip.click(); await until(chip.title, () => ($("notes") || document.title.startsWith(chip.title.split(" → ")[0].slice(0, 20))) && chip.getAttribute("aria-pressed") === "true"); await viewer.drawn; }'
  step "an address of what was not recorded" 'location.hash = "#text=something+else"; await until("why", () => $("error").textContent.startsWith("This is not part of the recording")); document.querySelector("#examples button").click(); await until("a text again", () => !$("error").textContent)'
  page_size 390 844
  step "narrower" 'await until("no wider than 390 pixels", () => page.scrollWidth <= innerWidth); await look("traps"); await until("both maps", () => document.querySelectorAll(".trap-maps canvas").length === 2); await until("no wider with them", () => page.scrollWidth <= innerWidth)'
done
echo "check-recording: ${#pages[@]} pages behave"
