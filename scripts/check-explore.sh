#!/usr/bin/env bash
# Serves small models with `heed explore`, opens the page in headless Chromium, types, clicks, presses keys and drops files,
# and checks what it shows and downloads. Prints milliseconds until the first map. Skips where Chromium is missing.
# usage: scripts/check-explore.sh HEED      (the built command, such as build/release/heed)
set -euo pipefail
heed=$(realpath "${1:?usage: scripts/check-explore.sh HEED}")
cd "$(dirname "$0")/.."
source scripts/devtools.sh
folder=$(mktemp -d)
serving=
# The browser's children may still write to its profile.
remove() { rm -rf "$folder" 2>/dev/null || { sleep 2; rm -rf "$folder"; }; }
finish() { if [ -n "$serving" ]; then kill "$serving" 2>/dev/null || true; fi; browser_close; remove; }
browser_process=0
if ! command -v chromium chromium-browser google-chrome >/dev/null; then echo "check-explore: skipped: no Chromium here"; rm -rf "$folder"; exit 0; fi
trap finish EXIT

fixtures=tests/fixtures
mkdir "$folder/gpt2" "$folder/files"
cp $fixtures/decoders/gpt2/{config.json,model.safetensors} $fixtures/bart/tokenizer*.json "$folder/gpt2"

serve() {
  if [ -n "$serving" ]; then kill "$serving"; wait "$serving" 2>/dev/null || true; fi
  : >"$folder/address"
  "$heed" explore "$@" --port 0 >"$folder/address" 2>"$folder/server.log" &
  serving=$!
  for _ in $(seq 300); do
    address=$(grep -o 'http://[^ ]*token=[0-9a-z]*' "$folder/address" || true)
    if [ -n "$address" ]; then return; fi
    sleep 0.1
  done
  echo "check-explore: error: heed explore $* gave no address" >&2
  cat "$folder/server.log" >&2
  exit 1
}

# What the steps below share, in the page. `settled` waits for the answer to what was done, and its map.
steps='
const page = document.documentElement, until = async (what, test) => { for (let i = 0; i < 1500; ++i) { try { if (test()) return; } catch { } await new Promise(r => setTimeout(r, 20)); } throw new Error("waited in vain: " + what + "; error: " + $("error").textContent); };
const expect = (what, holds) => { if (!holds) throw new Error("expected: " + what); };
const settled = async act => { const before = page.dataset.run; delete page.dataset.drawn; await act(); await until(act, () => page.dataset.run !== before && page.dataset.drawn); };
const type = (field, text) => { $(field).value = text; $(field).dispatchEvent(new Event("input")); };
const rows = () => [...document.querySelectorAll("#predictions tr")].length, tokens = () => document.querySelectorAll("#tokens .strip:last-child button").length, at = () => positionOf(results[0].answer), pinned = () => !$("unpin").classList.contains("away"), panel = () => viewer.panels[0];
const look = name => document.querySelector(`#views [data-value="${name}"]`).click(), made = name => viewer.panels[0].views.get(name).made, find = selector => document.querySelector(selector);
const pick = value => { $("versus").value = value; $("versus").onchange(); };
'
ready='document.documentElement.dataset.run && document.documentElement.dataset.drawn'
step() {
  page_run "(async () => { $steps; $2; return [...document.querySelectorAll('*')].filter(e => e.id && document.querySelectorAll('#' + CSS.escape(e.id)).length > 1).length; })()" || { echo "check-explore: error: $model: $1" >&2; exit 1; }
  if [ "$page_result" != 0 ]; then echo "check-explore: error: $model: $1: an id is there twice" >&2; exit 1; fi
}

# accessible WHAT: what axe-core finds is an error.
accessible() {
  page_axe
  if [ "$page_result" != '""' ]; then echo "check-explore: error: $model: $1: axe-core: $page_result" >&2; exit 1; fi
}

browser_open "$folder"
page_call Browser.setDownloadBehavior "\"behavior\":\"allow\",\"downloadPath\":\"$folder/files\"" || true
page_size 1280 900

model=gpt2
serve "$folder/gpt2"
page_open "$address" "$ready"
page_run "Number(document.documentElement.dataset.drawn)"
echo "check-explore: first map after $page_result ms"
step "typing" 'await settled(() => type("text", "The dog lay on the rug.")); expect("candidates", rows() > 5); expect("tokens", tokens() > 5)'
step "the page says what it shows" 'expect("the task", $("about-model").textContent.startsWith("predicts the next token")); expect("what one sees", $("lead").textContent.includes("looks back")); expect("later tokens cannot be attended to", panel().blocked[1] && !panel().part("masked").hidden); expect("examples", document.querySelectorAll("#examples button").length > 1)'
accessible "an explored decoder"
step "the candidates follow the end of the text" 'expect("the end", at() === tokens() - 1 && !pinned()); window.early = at(); await settled(() => type("text", "The dog lay on the rug. The cat lay beside it.")); expect("the new end", at() === tokens() - 1 && at() > early && +$("step").value === at() && $("predictions").textContent.includes("(" + at() + ")")); expect("the token is marked", document.querySelector("#tokens .chosen") === document.querySelectorAll("#tokens button")[at()])'
step "hovering moves all" 'document.querySelectorAll("#tokens button")[3].onmouseenter(); await until("slider, row and candidates", () => +$("step").value === 3 && panel().query === 3 && $("predictions").textContent.includes("(3)") && panel().part("readout").textContent.startsWith(viewer.kind.queries[3])); document.querySelectorAll("#tokens button")[3].onmouseleave(); await until("the end again", () => at() === tokens() - 1 && $("predictions").textContent.includes("(" + at() + ")"))'
step "a click pins a token" 'document.querySelectorAll("#tokens button")[2].click(); await until("pinned", () => pinned() && $("predictions").textContent.includes("(2)") && +$("step").value === 2 && document.querySelectorAll("#tokens button")[2].getAttribute("aria-pressed") === "true"); await settled(() => type("text", "The dog lay on the rug. The cat lay beside it again.")); expect("it stays", at() === 2 && pinned()); $("unpin").click(); await until("the end again", () => !pinned() && at() === tokens() - 1 && +$("step").value === at() && $("predictions").textContent.includes("(" + at() + ")"))'
step "what is continued stands in the text" 'window.textBefore = $("text").value; window.runBefore = page.dataset.run; window.draws = 0; const show = showAnswers; showAnswers = (...all) => { ++draws; show(...all); }; $("count").value = 3; await settled(() => $("continue").click()); await until("done", () => !going && page.dataset.drawn); showAnswers = show; expect("drawn once", draws === 1); expect("in the box", $("text").value !== textBefore && $("text").value === results[0].answer.text); window.length = tokens(); await settled(() => type("text", $("text").value + " and")); expect("typing goes on from it", tokens() > length && at() === tokens() - 1)'
step "tokens of every script" 'expect("blank tokens are known", isBlank(["␣", "↵↵", "</s>"]) && !isBlank(["↵", "·a"])); expect("right to left", directionOf(["[CLS]", "שלום", "עולם", "cat"]) === "rtl" && directionOf(["the", "cat", "שלום"]) === "ltr" && directionOf(["\\xd7"]) === "ltr"); expect("apart", quoted("שלום") === "“\u2068שלום\u2069”" && quoted("cat") === "“cat”"); await settled(() => type("text", "a שלום")); const own = [...document.querySelectorAll("#tokens button")].map(button => button.textContent); expect("bytes: " + own, own.includes("\\xd7") && !own.join().includes("\ufffd")); await settled(() => $("undo").click())'
step "an example" 'const chip = document.querySelectorAll("#examples button")[1]; await settled(() => chip.click()); expect("its text", $("text").value === chip.title && at() === tokens() - 1); await settled(() => $("undo").click())'
step "an empty text" 'type("text", ""); await until("a hint", () => $("status").textContent.includes("Type")); expect("the last picture stays, in grey", tokens() > 5 && !viewer.panels[0].part("stage").hidden && document.body.classList.contains("outdated")); await settled(() => type("text", "The dog lay on the mat.")); expect("in color again", !document.body.classList.contains("outdated"))'
step "choosing a head" 'await viewer.drawn; document.querySelector("#overview button[data-head=\"2\"]").click(); await viewer.drawn; expect("the head is shown", viewer.state.head === 2 && $("head-title").textContent.includes("head 2") && location.hash.includes("head") === false && decodeURIComponent(location.hash).includes(".2/"))'
step "ablating" 'await settled(() => $("ablate").click()); expect("pressed", $("ablate").getAttribute("aria-pressed") === "true"); expect("in the list", $("changes").textContent.includes("ablated")); expect("changes of logits", $("predictions").textContent.includes("change"))'
step "the keyboard" '$("overview").querySelector("[aria-pressed=true]").focus(); window.layerBefore = viewer.state.layer'
page_key ArrowDown 0 40
step "the layer changed" 'await until("another layer", () => viewer.state.layer !== layerBefore); expect("the focus follows", document.activeElement.getAttribute("aria-pressed") === "true"); panel().view("matrix").made.over.focus()'
step "a cell" 'viewer.hold(0, 0, true)'
page_key ArrowDown 0 40
page_key ArrowRight 0 39
step "the cell changed" 'await until("a cell", () => panel().key === 1 && viewer.state.pin && viewer.panels[0].part("readout").textContent.includes("→"))'
page_key Escape 0 27
step "undoing" 'expect("nothing is pinned", !viewer.state.pin); document.activeElement.blur(); page.dataset.before = page.dataset.run; delete page.dataset.drawn'
page_key z 2 90
step "undone" 'await until("undo", () => page.dataset.run !== page.dataset.before && page.dataset.drawn); expect("no change", !ask.changes.length && $("ablate").getAttribute("aria-pressed") === "false"); page.dataset.before = page.dataset.run; delete page.dataset.drawn'
page_key Z 10 90
step "redone" 'await until("redo", () => page.dataset.run !== page.dataset.before && page.dataset.drawn); expect("the change is back", ask.changes.length === 1); await settled(() => $("changes").querySelector("button").click()); expect("removed", !ask.changes.length)'
step "the mean of a head" 'await settled(() => $("mean").click()); expect("pressed", $("mean").getAttribute("aria-pressed") === "true" && $("ablate").getAttribute("aria-pressed") === "false"); expect("in the list", $("changes").textContent.includes("replaced by its mean")); expect("changes of logits", $("predictions").textContent.includes("change")); await settled(() => $("mean").click()); expect("removed", !ask.changes.length)'
step "scaling" 'await settled(() => { $("factor").value = 0.5; $("factor").oninput(); }); expect("half", ask.changes[0].factor === 0.5 && $("changes").textContent.includes("times 0.5")); await settled(() => $("undo").click())'
step "one head's effect" '$("without").click(); await until("a number", () => /[0-9]/.test($("without-now").textContent))'
step "every head's effect" '$("try-all").click(); await until("all heads", () => $("progress").hidden && document.querySelectorAll("#effects td button").length === 8); expect("sorted", document.querySelectorAll("#effects li").length > 3); document.querySelector("#effects li button").click()'
step "stepping" 'window.count = tokens(); await settled(() => document.querySelector("#predictions .token-cell button").click()); expect("one more token", tokens() === count + 1); $("count").value = 2; await settled(() => $("continue").click()); await until("two more", () => tokens() === count + 3 && !going); await settled(() => $("undo").click()); await settled(() => $("undo").click()); expect("all taken back", tokens() === count)'
step "an earlier position" 'document.querySelectorAll("#tokens button")[2].click(); await until("its candidates", () => $("predictions").textContent.includes("(2)"))'
step "comparing" 'viewer.hold(-1, -1); type("other", "The cat sat on the rug."); pick("text"); await until("three panels", () => viewer.panels.length === 3 && page.dataset.drawn); await viewer.drawn; expect("second text", viewer.panels[1].part("caption").textContent === "Second text"); const tops = viewer.panels.slice(0, 2).map(one => Math.round(one.part("stage").getBoundingClientRect().top)); expect("both maps stand on one line: " + tops, tops[0] === tops[1]); expect("the last token of each", viewer.panels.every(one => !one.values || one.query === one.kind.queries.length - 1) && $("predictions").querySelectorAll("caption").length === 2);  pick("plain"); await until("equal", () => viewer.panels.length === 3 && viewer.panels[2].values && viewer.panels[2].values.every(v => v === 0)); await settled(() => pick("")); expect("one panel", viewer.panels.length === 1)'
step "patching" 'if (!headNow()) viewer.show({ head: 0 }); type("other", "Two."); $("patch").click(); const first = results[0].answer.ids.length, count = (await post("/api/tokens", { model: 0, text: "Two." })).ids.length; await until("why not", () => $("patch-note").textContent === "The second text must have " + first + " tokens too; it has " + count + "." && !ask.changes.length && $("changes").textContent === "none"); type("other", "The dog lay on the"); await until("a live count", () => /^[0-9]+ tokens; the first text has/.test($("other-note").textContent)); type("other", "The dog lay on the cat."); await until("as many", () => $("other-note").textContent.includes("as many as")); expect("the hint is gone", $("patch-note").textContent === ""); await settled(() => $("patch").click()); expect("it is in the list", ask.changes.length === 1 && results[0].answer.changes.length === 1 && $("changes").textContent.includes("patched") && !$("error").textContent)'
step "views" 'for (const view of ["lines", "neurons", "matrix"]) { document.querySelector(`#views [data-value="${view}"]`).click(); await until(view, () => !panel().view(view).box.hidden); await viewer.drawn; }'
step "the flow" 'look("flow"); await until("heads, feed-forward, the embedding", () => document.querySelectorAll(".flow-scroll .node").length === 11); expect("no overview beside it", getComputedStyle($("overview")).display === "none"); const show = find(".flow-measure"); show.value = "effect"; show.onchange(); await until("a sum", () => find(".flow-top .total")); const { flow } = made("flow"), sum = flow.parts.reduce((all, part) => all + (part.effect || 0), 0); expect("effects add up to the logit", Math.abs(sum - flow.logit) < 1e-3); expect("it is of the chosen token", flow.position === viewer.query); viewer.hold(2, -1, true); await until("of another token", () => made("flow").flow.position === 2); viewer.hold(-1, -1)'
step "another candidate" 'await until("the end again", () => made("flow").flow.position === viewer.query); document.querySelectorAll(".flow-side td button")[2].click(); await until("its effects", () => made("flow").flow.id === made("flow").flow.candidates[2].id && find(".flow-measure").textContent.includes(made("flow").flow.candidates[2].token))'
step "drawing the next token" 'const { logits, cases } = '"$(tr -d '\n' <$fixtures/explore/sampling.json)"'; for (const one of cases) { const found = sampled(Float32Array.from(logits), ranking(logits), one); one.probabilities.forEach((p, i) => expect("as heed generate draws", Math.abs(p - found[i]) < 1e-6)); } const slide = (name, value) => { const input = find(".flow-" + name); input.value = value; input.oninput(); }; slide("top_k", 2); expect("two are left", find(".flow-sliders .note").textContent.startsWith("2 tokens")); const first = () => parseFloat(find(".flow-side td:nth-child(3)").textContent), warm = first(); slide("temperature", 0.5); expect("colder is surer", first() > warm); slide("top_k", 1); const likeliest = made("flow").order[0], before = tokens(); await settled(() => find(".flow-draw").click()); expect("drawn and appended", tokens() === before + 1 && results[0].answer.ids[before] === likeliest); await settled(() => $("undo").click()); slide("top_k", 0); slide("temperature", 1); expect("with its probability", drawing.made[0].probability === 1 && drawnText().endsWith(" " + percent(1)) && find(".flow-sliders [role=status]").textContent === drawnText()); const again = async () => { find(".flow-seed").value = 7; find(".flow-seed").onchange(); $("continue-how").value = "drawn"; await settled(() => goOn(3)); await until("three", () => !going && drawing.made.length === 3 && tokens() === before + 3); const ids = drawing.made.map(one => one.id); expect("what was drawn stands in the text", results[0].answer.ids.slice(before).join() === ids.join()); expect("each with a probability", drawing.made.every(one => one.probability > 0 && one.probability < 1)); await settled(() => $("undo").click()); return ids; }; const once = await again(), twice = await again(); expect("the same with the same seed", once.join() === twice.join()); $("continue-how").value = "likeliest"; expect("by probability", drawnFrom([0.25, 0, 0.5, 0.25, 0], 0.2) === 0 && drawnFrom([0.25, 0, 0.5, 0.25, 0], 0.3) === 2 && drawnFrom([0.25, 0, 0.5, 0.25, 0], 1) === 3)'
accessible "the flow"
step "a head of the flow" 'const head = [...document.querySelectorAll(".flow-scroll .node[role=button]")].find(node => node.getAttribute("aria-label").startsWith("layer 1, head 2:")); head.dispatchEvent(new MouseEvent("click", { bubbles: true })); await viewer.drawn; expect("its map is open", viewer.state.view === "matrix" && viewer.state.layer === 1 && viewer.state.head === 2)'
step "one head, step by step" 'look("steps"); await until("the keys", () => document.querySelectorAll(".steps-scroll tr").length > 4); const { steps } = made("steps"); expect("it is the head of the map", steps.name === "decoder.layers." + viewer.state.layer + ".self_attn" && steps.head === viewer.state.head); const sum = steps.weights.reduce((a, b) => a + b), product = made("steps").product(0) * steps.scale; expect("weights sum to one", Math.abs(sum - 1) < 1e-5); expect("the score", Math.abs(product - steps.scores[0]) < 1e-4); viewer.hold(1, -1, true); await until("another query", () => made("steps").steps.query === 1); expect("later keys are masked", document.querySelectorAll(".steps-scroll tr.masked").length === steps.keys.length - 2); document.querySelectorAll(".steps-scroll td button")[0].click(); await until("its key is pinned", () => viewer.state.pin.query === 1 && viewer.state.pin.key === 0 && find(".steps-scroll tr.chosen button").getAttribute("aria-pressed") === "true"); viewer.hold(-1, -1)'
accessible "one head, step by step"
step "why a cell has its weight" 'look("matrix"); viewer.show({ layer: 1, head: 2 }); await viewer.drawn; viewer.hold(3, -1, true); expect("no cell, no button", $("why").hidden); const key = panel().ranked(3, -1)[1][1]; viewer.hold(3, panel().kind.keys.indexOf(key), true); await until("a button", () => !$("why").hidden); $("why").click(); await until("pairs", () => document.querySelectorAll(".why-pairs tr").length > 10); const { found } = made("why"), sum = found.pairs.reduce((all, one) => all + one[2], found.position_bias + found.others.sum); expect("pairs add up to the score", Math.abs(sum - found.score) < 1e-4); expect("the cell that was chosen: " + found.query + ", " + found.key, found.query === 3 && panel().kind.keys[found.key] === key); expect("its weight", Math.abs(found.weight - panel().values[3 * panel().kind.keys.length + found.key]) < 1e-3); expect("the largest first", found.pairs.every((one, i) => !i || Math.abs(one[2]) <= Math.abs(found.pairs[i - 1][2]))); expect("bars have a zero axis", document.querySelectorAll(".why-pairs .bar.signs").length > 10 && find(".why-pairs .below")); expect("no button here", $("why").hidden); find(".why-more").click(); expect("all of them", document.querySelectorAll(".why-pairs tr").length > 50); find(".why-more").click()'
accessible "why a cell has its weight"
step "a part of a score leads to it" 'const head = [...document.querySelectorAll(".why-pairs button")].find(one => one.textContent.startsWith("head 0.")); const { found } = made("why"), key = head.closest("td").cellIndex === 1; head.click(); await viewer.drawn; expect("the head, at its token", viewer.state.view === "matrix" && viewer.state.layer === 0 && "head 0." + viewer.state.head === head.textContent && viewer.state.pin.query === (key ? found.key : found.query)); look("why"); viewer.show({ layer: 1, head: 2 }); viewer.hold(3, 1, true); await until("the cell again", () => made("why").found && made("why").found.key === 1 && made("why").found.layer === 1); [...document.querySelectorAll(".why-sides table:last-child button")].find(one => one.textContent.startsWith("token")).click(); await until("the token is pinned", () => viewer.state.pin.query === 1 && viewer.state.pin.key === -1 && made("why").found && made("why").found.query === 1)'
step "what the mask hides has no score" 'viewer.hold(1, 4, true); await until("why not", () => find(".why-sentence").textContent.includes("the mask hides it")); expect("in a neutral color", !$("error").textContent && getComputedStyle(find(".why-sentence span")).color === getComputedStyle($("lead")).color); look("matrix"); await viewer.drawn; viewer.hold(3, 1, true); panel().view("matrix").made.over.focus()'
page_key w 0 87
step "the key w opens it" 'await until("the view", () => viewer.state.view === "why" && made("why").found && made("why").found.query === 3 && made("why").found.key === 1)'
page_key w 0 87
step "and leads back" 'await until("the map", () => viewer.state.view === "matrix"); viewer.hold(-1, -1); look("steps"); await until("the keys", () => document.querySelectorAll(".steps-scroll tr").length > 4)'
step "the tutorial" 'find(".steps-example").click(); await until("three keys", () => document.querySelectorAll(".steps-scroll tr").length === 5); const text = find(".steps-scroll").textContent; expect("its numbers", ["1.414", "0.707", "0.503", "0.248"].every(number => text.includes(number))); expect("its output", find(".steps-what").textContent.includes("(0.503, 0.248)")); const query = find(".steps-query"); query.value = 0; query.onchange(); await until("row 0", () => find(".steps-what").textContent.includes("(0.401, 0.198)")); find(".steps-mask").click(); await until("the causal row", () => find(".steps-what").textContent.includes("(1.000, 0.000)")); find(".steps-example").click()'
step "traps" 'look("traps"); await until("switches", () => find(".trap-mask")); await until("one is on", () => find(".trap-softmax-axis").checked && find(".trap-maps") && find(".traps").textContent.includes("columns sum")); find(".trap-softmax-axis").click(); await until("none", () => !find(".trap-maps")); find(".trap-mask").click(); await until("two maps", () => document.querySelectorAll(".trap-maps figure").length === 2); expect("the loss, and the check", find(".trap-facts").textContent.includes("nats per token") && find(".traps").textContent.includes("causality"))'
accessible "traps"
step "two traps" 'find(".trap-exchange").click(); await until("both", () => find(".traps").textContent.includes("“order”")); find(".trap-mask").click(); find(".trap-exchange").click(); await until("none", () => !find(".trap-maps"))'
step "all heads" 'look("all-lines"); await until("pictures", () => [...document.querySelectorAll(".lines-scroll canvas")].filter(canvas => canvas.drawn).length === 8)'
accessible "all heads as lines"
step "all heads as lines" ' expect("no pairs here", find(".lines-pairs").parentElement.hidden); [...document.querySelectorAll(".lines-scroll button")][1].click(); await viewer.drawn; expect("it is open as lines", viewer.state.view === "lines" && viewer.state.layer === 0 && viewer.state.head === 1)'
step "narrow" 'expect("no wider than the window: " + [...document.querySelectorAll("body *")].filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.id || one.className || one.tagName).slice(0, 5), page.scrollWidth <= innerWidth)'
page_size 390 844
for name in flow steps why traps all-lines; do
  step "narrower: $name" "look('$name'); await viewer.drawn; await new Promise(r => setTimeout(r, 300)); await until('no wider than 390 pixels', () => page.scrollWidth <= innerWidth); const tab = find('#views [aria-selected=true]').getBoundingClientRect(); expect('its tab is seen', tab.left >= 0 && tab.right <= innerWidth); const chosen = find('#tokens .chosen').getBoundingClientRect(); expect('its token is seen', chosen.left >= 0 && chosen.right <= innerWidth)"
done
step "and back" 'look("matrix"); await viewer.drawn'
step "narrower" 'await until("no wider than 390 pixels", () => page.scrollWidth <= innerWidth)'
page_size 1280 900
step "downloads" 'await viewer.drawn; document.querySelector("[data-format=svg]").click(); document.querySelector("[data-format=png]").click(); window.hashBefore = location.hash; await new Promise(r => setTimeout(r, 1500))'
for kind in svg png; do
  for _ in $(seq 50); do if compgen -G "$folder/files/*.$kind" >/dev/null; then break; fi; sleep 0.1; done
  compgen -G "$folder/files/*.$kind" >/dev/null || { echo "check-explore: error: no .$kind was downloaded" >&2; exit 1; }
done
grep -q '<text' "$folder"/files/*.svg
page_run "location.hash.slice(1)"
state=${page_result//\"/}
page_call Page.navigate '"url":"about:blank"'
page_open "$address#$state" "$ready"
step "the address restores all" "expect('text', ask.text === 'The dog lay on the mat.' && \$('text').value === ask.text); expect('change', ask.changes.length === 1); expect('the same address', location.hash === '#' + $(json_string "$state"))"

page_call Page.navigate '"url":"about:blank"'
page_open "$address#changes=%5B%7B%22kind%22%3A%22cross%22%2C%22layer%22%3A0%2C%22head%22%3A0%2C%22factor%22%3A0%7D%5D" "$ready"
step "a change that the model has no head for is left out, and named" 'expect("no change", !ask.changes.length && $("error").textContent.startsWith("changes.0.kind: expected decoder")); expect("the page is there", getComputedStyle(document.querySelector("main")).visibility === "visible")'
step "lines and scale in the address" 'document.querySelector("#views [data-value=lines]").click(); await viewer.drawn; for (const head of [0, 1]) { panel().view("lines").made.chips.querySelectorAll("button")[head].click(); await viewer.drawn; } $("scale").value = "own"; $("scale").onchange(); $("pattern").value = "previous"; $("pattern").onchange(); await settled(() => { $("ablate").click(); }); await settled(() => pick("plain")); $("all-of").value = 1; $("all-of").onchange()'
page_run "location.hash.slice(1)"
state=${page_result//\"/}
page_call Page.navigate '"url":"about:blank"'
page_open "$address#$state" "$ready"
step "the address restores the lines" "expect('lines', viewer.state.view === 'lines' && viewer.state.also.join() === '0,1' && viewer.state.scale === 'own' && viewer.state.pattern === 'previous' && viewer.overviewOf === 1 && \$('all-of').value === '1'); expect('the same address', location.hash === '#' + $(json_string "$state"))"

page_call Page.navigate '"url":"about:blank"'
page_open "${address%%\?*}" 'document.querySelector("h1")'
page_run 'document.body.innerText'
case $page_result in *"Open the address that heed explore printed"*) ;; *) echo "check-explore: error: without a token: $page_result" >&2; exit 1 ;; esac

model="gpt2, steered"
printf 'The dog lay on the mat.\n' >"$folder/one.txt"
printf 'A cat sat by the rug.\n' >"$folder/other.txt"
"$heed" steer --model "$folder/gpt2" --positive "$folder/one.txt" --negative "$folder/other.txt" --output "$folder/mood.safetensors" --quiet >/dev/null
serve "$folder/gpt2" --steer "$folder/mood.safetensors=2"
page_open "$address#text=The+dog+lay+on+the+mat." "$ready"
step "a vector has a slider" 'expect("its name", !$("steering-box").hidden && $("steering").textContent.includes("mood.safetensors") && $("steering").textContent.includes("layers 0 to 1")); window.plain = results[0].answer.predictions[0].candidates[0].logit; await settled(() => { const input = find("#steering input"); input.value = 1; input.oninput(); }); expect("the strength is said", find("#steering output").textContent === "+1.00"); expect("the predictions follow", $("predictions").textContent.includes("change") && results[0].answer.predictions[0].candidates[0].logit !== plain)'
accessible "a steered model"
step "a steered run goes on steered" 'window.request = null; const send = post; post = (path, body, signal) => { if (path === "/api/run") window.request = body; return send(path, body, signal); }; $("count").value = 2; await settled(() => $("continue").click()); await until("done", () => !going && page.dataset.drawn); post = send; expect("with its strength", window.request.steering.join() === "1"); await settled(() => $("undo").click())'
step "beside the same without changes" 'pick("plain"); await until("three panels", () => viewer.panels.length === 3 && page.dataset.drawn); await viewer.drawn; expect("named", viewer.panels[0].part("caption").textContent === "With 1 change"); expect("the maps differ", viewer.panels[2].values.some(value => Math.abs(value) > 1e-4)); await settled(() => pick(""))'
step "steering is a part of the flow and of a score" 'look("flow"); await until("the flow", () => made("flow").flow && made("flow").flow.parts.some(part => part.name === "steering")); look("why"); viewer.show({ layer: 1, head: 0 }); await until("a part", () => made("why").found && made("why").found.key_parts.some(part => part.label === "steering 0")); look("matrix"); await viewer.drawn'
page_run "location.hash.slice(1)"
state=${page_result//\"/}
page_call Page.navigate '"url":"about:blank"'
page_open "$address#$state" "$ready"
step "the address holds the strength" 'expect("the strength", ask.steering.join() === "1" && +find("#steering input").value === 1); await settled(() => find("#steering button").click()); expect("as it was", !strengthsNow() && !location.hash.includes("steering"))'

model=bart
serve $fixtures/bart
page_open "$address" "$ready"
step "an encoder-decoder" 'expect("three kinds", viewer.data.kinds.length === 3); expect("two strips", document.querySelectorAll(".strip").length === 2); expect("the mean of the last layer", viewer.kind.kind === "cross" && viewer.state.head === "mean" && viewer.state.layer === viewer.kind.layers.length - 1); window.count = tokens(); document.querySelectorAll("#tokens .strip:last-child button")[1].click(); await until("its candidates", () => $("predictions").textContent.includes("(1)")); await settled(() => document.querySelector("#predictions .token-cell button").click()); expect("cut and stepped: " + [tokens(), at()], tokens() === 3 && at() === 2); await settled(() => $("undo").click()); await settled(() => type("target", "a cat")); document.querySelector("#kinds button").click(); await viewer.drawn; expect("a map", viewer.panels[0].values)'
step "a view of one head shows it everywhere" 'viewer.chooseKind(viewer.data.kinds.findIndex(kind => kind.kind === "cross")); expect("the mean", viewer.state.head === "mean"); for (const view of ["steps", "why", "traps", "neurons"]) { look("matrix"); viewer.show({ head: "mean" }); look(view); expect("one head in " + view, viewer.state.head === 0 && $("head").value === "0" && ![...$("head").options].some(one => one.value === "mean") && $("which").textContent.includes("head 0")); } document.activeElement.blur(); document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true })); await viewer.drawn; look("matrix"); expect("all to choose again", [...$("head").options].some(one => one.value === "mean"))'
step "the flow of both stacks" 'viewer.chooseKind(viewer.data.kinds.findIndex(kind => kind.kind === "cross")); look("flow"); await until("self- and cross-attention", () => made("flow").flow && made("flow").flow.stack === "decoder" && made("flow").flow.parts.some(part => part.name === "cross_attn" && part.head === 1)); viewer.chooseKind(viewer.data.kinds.findIndex(kind => kind.kind === "encoder")); await until("the encoder", () => made("flow").flow.stack === "encoder" && find(".flow-side").hidden); viewer.chooseKind(viewer.data.kinds.findIndex(kind => kind.kind === "cross")); look("steps"); await until("cross-attention", () => made("steps").steps && made("steps").steps.name.endsWith("cross_attn")); look("matrix"); await viewer.drawn'

model=bert-mlm
serve $fixtures/encoders/bert-mlm $fixtures/encoders/bert-classify
page_open "$address" "$ready"
step "two models stand side by side" 'await until("three panels", () => viewer.panels.length === 3); expect("named", viewer.panels.map(one => one.part("caption").textContent).join() === "bert-mlm,bert-classify,Difference" && $("versus").value === "model1"); await settled(() => pick(""))'
accessible "an explored encoder"
step "the mask is chosen" 'expect("the mask", at() === predictedKind(results[0].answer).queries.indexOf("[MASK]") && panel().query === at() && $("pin-state").textContent === "follows the mask" && $("step-name").textContent === "Position")'
step "masks" 'expect("candidates of the mask", rows() > 5 && $("predictions").textContent.includes("place of")); await settled(() => document.querySelector("#predictions .token-cell button").click()); expect("filled in", !ask.text.includes("[MASK]")); await settled(() => $("undo").click()); expect("back", ask.text.includes("[MASK]"))'
step "two models" 'pick("model1"); await until("three panels", () => viewer.panels.length === 3 && page.dataset.drawn); pick(""); await until("one", () => viewer.panels.length === 1)'
step "the flow to the mask" 'look("flow"); await until("candidates of the mask", () => find(".flow-side h3").textContent.includes("[MASK]") && made("flow").flow.has_effects)'
step "an encoder has no mask to lose" 'look("traps"); await until("switches", () => find(".trap-mask")); find(".trap-mask").click(); await until("why not", () => find(".traps").textContent.includes("an encoder sees them anyway")); find(".trap-mask").click()'
step "pairs of texts" 'look("all-lines"); await settled(() => type("pair", "It was red.")); await until("a choice", () => !find(".lines-pairs").parentElement.hidden); const pairs = find(".lines-pairs"); pairs.value = "01"; pairs.onchange(); await until("pictures", () => [...document.querySelectorAll(".lines-scroll canvas")].some(canvas => canvas.drawn && canvas.of.pairs === "01")); await settled(() => type("pair", "")); await until("it is gone", () => find(".lines-pairs").parentElement.hidden); look("matrix"); await viewer.drawn'
step "classes" 'await settled(() => { $("model").value = 1; $("model").onchange(); }); expect("classes", $("predictions").textContent.includes("Classes") && rows() > 1 && $("predictions").querySelector("th").textContent === "label")'
# drop FILE X Y: drags a file to a place of the page and drops it there. Each event is handled before the next.
drop() {
  for type in dragEnter dragOver dragOver drop; do
    sleep 0.2
    page_call Input.dispatchDragEvent "\"type\":\"$type\",\"x\":$2,\"y\":$3,\"data\":{\"items\":[],\"files\":[$(json_string "$1")],\"dragOperationsMask\":1}"
  done
}
# choose FIELD FILE: as its button does.
choose() {
  page_call Runtime.evaluate "\"expression\":\"document.getElementById('$1')\""
  local object=${page_answer#*\"objectId\":\"}
  page_call DOM.setFileInputFiles "\"files\":[$(json_string "$2")],\"objectId\":\"${object%%\"*}\""
}

model=vit
pictures=$PWD/$fixtures/image/pictures
head -c 3000 "$pictures/photo.jpg" >"$folder/cut.jpg"
echo "Dear all," >"$folder/notes.txt"
head -c 34000000 /dev/zero >"$folder/large.png"
serve $fixtures/vit
page_open "$address" 'models.length'
step "an image is asked for" 'await until("a hint", () => $("status").textContent === "Choose an image."); expect("no text field", $("text-box").hidden && !$("file-box").hidden && $("other_file-box").hidden); window.waiting = settled(() => {})'
drop "$pictures/photo.jpg" 200 100
step "a dropped image is shown" 'await waiting; expect("its name", $("file-name").textContent === "photo.jpg" && $("error").textContent === ""); expect("the picture", viewer.state.view === "picture" && !panel().view("picture").box.hidden); expect("classes", $("predictions").textContent.includes("Classes") && $("predictions").textContent.includes("LABEL_")); expect("no tokens", $("tokens").hidden); expect("the class token", panel().view("picture").made.of.textContent.includes("query [CLS]")); expect("patches", $("status").textContent.includes("4 × 4 patches"))'
for wrong in "notes.txt|expected a PNG" "cut.jpg|expected a whole image, got a truncated one" "large.png|expected a file of at most 32 MiB"; do
  drop "$folder/${wrong%|*}" 200 100
  step "refused: $wrong" "await until('why', () => \$('error').textContent.startsWith($(json_string "${wrong%|*}: ${wrong#*|}"))); expect('the last picture stays', \$('file-name').textContent === 'photo.jpg' && viewer.panels[0].values)"
done
step "a patch is clicked" 'window.thumb = [...document.querySelectorAll("#overview canvas")][0]; await until("thumbnails", () => thumb.drawn); window.pixels = () => thumb.getContext("2d").getImageData(0, 0, thumb.width, thumb.height).data.join(); window.before = pixels(); expect("a thumbnail is the grid of patches", thumb.width === 4 && thumb.height === 4); const { canvas } = panel().view("picture").made, box = canvas.getBoundingClientRect(); canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + 1.5 * box.width / 4, clientY: box.top + 2.5 * box.height / 4, bubbles: true })); expect("it is pinned", viewer.state.pin && viewer.kind.queries[panel().query] === "2,1"); await until("thumbnails follow", () => pixels() !== before); panel().view("picture").made.canvas.focus()'
page_key ArrowRight 0 39
step "the keyboard goes from patch to patch" 'await until("the next patch", () => viewer.kind.queries[panel().query] === "2,2"); viewer.hold(-1, -1); expect("the class token again", panel().view("picture").made.of.textContent.includes("[CLS]"))'
step "rollout" 'viewer.show({ head: "rollout" }); await viewer.drawn; expect("drawn", viewer.panels[0].values && viewer.title.includes("rollout")); viewer.show({ head: 1 }); await viewer.drawn'
step "ablating" 'await settled(() => $("ablate").click()); expect("changes of logits", $("predictions").textContent.includes("change") && $("changes").textContent.includes("ablated")); await settled(() => $("undo").click())'
step "every head matters so much" '$("try-all").click(); await until("all heads", () => $("progress").hidden && document.querySelectorAll("#effects td button").length === 8)'
step "patching needs a second image" '$("patch").click(); expect("a place for it", !$("other_file-box").hidden && $("patch-note").textContent.includes("second image"))'
choose other_file "$pictures/rotated.jpg"
step "patching" 'await until("it was sent", () => ask.other_file !== null && $("other_file-name").textContent === "rotated.jpg"); await settled(() => $("patch").click()); expect("in the list", $("changes").textContent.includes("patched from rotated.jpg"))'
step "comparing" 'pick("text"); await until("three panels", () => viewer.panels.length === 3 && page.dataset.drawn); await viewer.drawn; expect("pictures of both, and the difference", viewer.panels.every(panel => panel.values && !panel.view("picture").box.hidden)); await settled(() => pick(""))'
choose file "$pictures/gradient.png"
step "another image" 'await until("it is shown", () => ask.file_name === "gradient.png" && page.dataset.drawn && $("file-name").textContent === "gradient.png")'
step "pasting" 'document.activeElement.blur(); const bytes = bytesOf(viewer.data.image.png), data = new DataTransfer(); data.items.add(new File([bytes], "pasted.png", { type: "image/png" })); document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })); await until("it is shown", () => ask.file_name === "pasted.png" && page.dataset.drawn && $("file-name").textContent === "pasted.png"); await settled(() => $("undo").click()); await until("undone", () => $("file-name").textContent === "gradient.png")'
step "what the server has forgotten is sent again" 'window.oldNumber = ask.file; sent.set(99999, sent.get(oldNumber)); ask = { ...ask, file: 99999 }; await settled(() => run()); expect("a new number", ask.file !== 99999 && ask.file !== oldNumber && !$("error").textContent)'
page_size 390 844
step "narrower" 'await until("no wider than 390 pixels", () => page.scrollWidth <= innerWidth)'
page_size 1280 900
step "a picture that the page draws" 'const chips = [...document.querySelectorAll("#examples button")]; expect("three", chips.map(one => one.textContent).join() === "ship,airplane,truck"); await settled(() => chips[1].click()); expect("it is shown", $("file-name").textContent === "drawn airplane" && !$("error").textContent)'

model=clip
serve $fixtures/clip
page_open "$address" 'models.length'
step "labels stand beside an image" 'await until("a hint", () => $("status").textContent === "Choose an image."); expect("a field for labels", !$("labels-box").hidden); window.waiting = settled(() => {})'
choose file "$pictures/photo.jpg"
step "without labels" 'await waiting; expect("a hint", $("predictions").textContent.includes("Write labels")); expect("no tokens", $("tokens").hidden)'
step "labels" 'await settled(() => type("labels", "a photo of a cat\ndogs\n\nThe house is red.")); expect("three, and their head", rows() === 4 && $("predictions").textContent.includes("Labels")); expect("the likeliest in tokens", $("tokens").textContent.includes("“The house is red.”")); await until("they are shaded", () => document.querySelector("#tokens button").style.background); expect("both towers", viewer.data.kinds.map(kind => kind.kind).join() === "encoder,text" && viewer.state.view === "picture")'
step "another label" 'const dogs = [...document.querySelectorAll("#predictions input")].find(input => input.getAttribute("aria-label").includes("dogs")); await settled(() => dogs.click()); expect("its tokens", $("tokens").textContent.includes("“dogs”") && tokens() === 3 && results[0].answer.label === 1)'
step "what heads of both towers do" '$("try-all").click(); await until("all heads", () => $("progress").hidden && document.querySelectorAll("#effects td button").length === 16)'
step "a head of the text" 'viewer.chooseKind(1); viewer.show({ layer: 1, head: 2 }); await settled(() => $("ablate").click()); expect("changes of logits", $("changes").textContent.includes("text layer 1, head 2") && $("predictions").textContent.includes("change"))'
page_size 390 844
step "narrower" 'await until("no wider than 390 pixels", () => page.scrollWidth <= innerWidth)'
page_size 1280 900

model=vit-gpt2
serve $fixtures/vit-gpt2
page_open "$address" 'models.length'
step "a caption needs an image" 'await until("a hint", () => $("status").textContent === "Choose an image."); window.waiting = settled(() => {})'
choose file "$pictures/photo.jpg"
step "a caption" 'await waiting; expect("its tokens", tokens() === 33 && document.querySelectorAll("#tokens .strip").length === 1); expect("over the image", viewer.kind.kind === "cross" && viewer.state.view === "picture" && !panel().view("picture").box.hidden); document.querySelectorAll("#tokens button")[3].click(); expect("a token is followed", panel().query === 3 && panel().view("picture").made.of.textContent.includes("(3)"))'
step "another target" 'await settled(() => type("target", "ab")); expect("its tokens", tokens() > 1 && tokens() < 8); const before = tokens(); $("count").value = 1; await settled(() => $("continue").click()); expect("one more", tokens() === before + 1)'

model=wav2vec2-ctc
serve $fixtures/wav2vec2-ctc
page_open "$address" 'models.length'
step "samples are asked for" 'await until("a hint", () => $("status").textContent === "Choose a sound."); window.waiting = settled(() => {})'
choose file "$PWD/$fixtures/sound/speech.wav"
step "their spectrogram" 'await waiting; expect("a column for 10 ms, a row for a band", viewer.data.image.picture.width === 35 && viewer.data.image.picture.height === 80)'

for model in speech moonshine-speech; do
  serve $fixtures/$model
  page_open "$address" 'models.length'
  step "a recording is asked for" 'await until("a hint", () => $("status").textContent === "Choose a sound."); window.waiting = settled(() => {})'
  choose file "$PWD/$fixtures/speech/tones.flac"
  step "a transcript lies along time" 'await waiting; expect("its tokens", tokens() > 3 && document.querySelectorAll("#tokens .strip").length === 1); expect("the decoder alone", viewer.data.kinds.map(kind => kind.kind).join() === "cross,decoder" && $("heard").textContent.includes("not that within the encoder")); expect("a matrix below the spectrogram", viewer.state.view === "matrix" && viewer.alongTime(viewer.kind))'
  step "the flow, the steps and the score of a head" 'look("flow"); await until("parts", () => document.querySelectorAll(".flow-scroll .node").length > 8); look("steps"); await until("a row for each frame", () => document.querySelectorAll(".steps-scroll tr").length === viewer.kind.keys.length + 2); look("why"); await until("pairs", () => made("why").found && made("why").found.pairs.length); expect("no head of the encoder leads anywhere", !find(".why-sides table:last-child button")); expect("no traps", !document.querySelector("#views [data-value=traps]")); look("matrix"); await viewer.drawn'
  step "ablating" 'viewer.show({ layer: 1, head: 1 }); await settled(() => $("ablate").click()); expect("changes of logits", $("changes").textContent.includes("cross layer 1, head 1: ablated") && $("predictions").textContent.includes("change")); await settled(() => $("undo").click())'
  step "another target" 'await settled(() => type("target", "ab")); const before = tokens(); expect("no words of the transcript", !viewer.data.sound.words.length); $("count").value = 1; await settled(() => $("continue").click()); expect("one more", tokens() === before + 1)'
  page_size 390 844
  step "narrower" 'await until("no wider than 390 pixels", () => page.scrollWidth <= innerWidth)'
  page_size 1280 900
done

model=audio-spectrogram
serve $fixtures/audio-spectrogram
page_open "$address" 'models.length'
step "a sound is asked for" 'await until("a hint", () => $("status").textContent === "Choose a sound."); window.waiting = settled(() => {})'
drop "$PWD/$fixtures/sound/speech.wav" 200 100
step "a dropped sound is shown" 'await waiting; expect("the spectrogram", viewer.state.view === "picture" && viewer.data.image.upward && $("file-name").textContent === "speech.wav"); expect("low frequencies are below", panel().view("picture").made.keyAt({ offsetX: 1, offsetY: panel().view("picture").made.canvas.clientHeight - 1 }) === 2)'
drop "$pictures/photo.jpg" 200 100
step "an image is no sound" 'await until("why", () => $("error").textContent.startsWith("photo.jpg: expected a sound file"))'
echo "check-explore: the page behaves"
