// The page of heed attend: one picture, with its data on the page. Beside the map stand candidates, and what a head's absence changes.
// The page of heed train --maps has a picture for each text and step: `frames`, of which one is shown.
const stored = JSON.parse($("data").textContent), { frames } = stored;
const chosen = { frame: frames ? frames.length - 1 : 0, text: 0 };
let data = frames ? framed() : AttentionData.ofPage();
const viewer = new Viewer({ shown() { drawSide(); remember(viewer.address()); }, chosen: drawSide });

/// Puts what is shown into the address; that of a page inside another (about:srcdoc) resolves against the outer one.
function remember(address) { history.replaceState(null, "", location.href.replace(/#.*/, "") + "#" + address); }

function drawSide() {
  if (!viewer.panels.length) return;
  const { kind, state } = viewer, at = viewer.queryIn(data, kind), parts = [], map = data.find(kind, "weights", state.layer, state.head), { model } = data;
  if (model && model.answer.length > 1) parts.push(barTable("Answer", model.answer.map(([name, p], i) => [name, p, !i]), 1, percent));
  if (kind.candidates && kind.candidates[at]) parts.push(barTable(candidatesTitle(kind, at), kind.candidates[at], 1, percent));
  if (data.scored && map && map.ablation) parts.push(...withoutHead(kind, map, at));
  else if (!frames) parts.push(element("p", data.scored ? "Choose a single head to see what changes without it." : "What changes without this head was not measured: heed attend … --ablate does that, for a model with logits.", { class: "note" }));
  $("facts").replaceChildren(...parts);
}
function candidatesTitle(kind, at) {
  const task = data.model ? data.model.task : "", token = kind.queries[at];
  if (task === "token") return "Label of " + token;
  if (kind.kind === "encoder") return "In the place of " + token;
  if (kind.kind === "cross") return "For " + token + (at ? ", after " + kind.queries[at - 1] : ", at the beginning");
  return "After " + token;
}
/// How the logits change without the head: that of the chosen token, then the largest changes.
function withoutHead(kind, map, at) {
  const single = map.ablation.length === 1, own = map.ablation.length === kind.queries.length && kind.kind !== "encoder" || single;
  const rows = map.ablation.map((change, i) => [data.scored[i] + (single ? "" : " (" + i + ")"), change, own && !single && i === at]), most = Math.max(...rows.map(row => Math.abs(row[1]))) || 1;
  const shown = own && !single && rows[at] ? [rows[at]] : [];
  for (const row of [...rows].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8)) if (!shown.includes(row)) shown.push(row);
  const decimals = decimalsFor(most), show = value => (value > 0 ? "+" : "") + fixed(value, decimals);
  return [barTable("Logits without head " + viewer.state.head, shown, most, show, true), element("p", "How much a logit changes where the head's output is replaced by zeros" + (single ? "." : ", of the token at each position."), { class: "note" })];
}

/// Layers and heads of the model, and which of them are on the page where some are not.
function sizeOf(kind) {
  const of = data.model && data.model.sizes && data.model.sizes[kind.kind], layers = of ? of[0] : kind.layers.length, heads = of ? of[1] : kind.heads.length;
  const some = (name, list, all) => list.length && list.length < all ? [name + (list.length > 1 ? "s " : " ") + list.join(", ")] : [];
  const shown = some("layer", kind.layers, layers).concat(some("head", kind.heads, heads)).join(", ");
  return layers + (layers > 1 ? " layers" : " layer") + " of " + heads + (data.kinds.length > 1 ? " (" + kind.title + ")" : heads > 1 ? " heads" : " head") + (shown && ", shown: " + shown);
}
function describeModel() {
  const { model } = data, kinds = data.kinds.map(sizeOf);
  $("model").textContent = (model && model.name ? [model.name, taskNames[model.task]] : []).concat(data.kinds.some(kind => kind.heads.length) ? kinds : []).filter(Boolean).join(" · ");
  const best = model && model.answer[0];
  $("answer").textContent = best ? (model.task === "span" ? "Answer: " : model.task === "masked_lm" ? "Most probable: " : "Label: ") + best[0] + ", " + percent(best[1]) : "";
  $("title").textContent = data.title;
  const reach = () => { $("title").tabIndex = $("title").scrollHeight > $("title").clientHeight + 1 ? 0 : -1; };  // it scrolls where it is long
  window.addEventListener("resize", reach);
  reach();
  if (data.scored) $("why").textContent = "Logits without a head come from a pass in which its output was replaced by zeros.";
  $("space").hidden = !data.kinds.some(kind => kind.keys.some(token => token.startsWith("·")));
}
/// The picture of the chosen text and step.
function framed() {
  const one = frames[chosen.frame].texts[chosen.text];
  return one.opened || (one.opened = new AttentionData(one.data, async id => one.packs[id]));
}
function showFrame() {
  data = framed();
  const { step, loss } = frames[chosen.frame];
  $("frame").value = chosen.frame;
  $("frame-now").textContent = step.toLocaleString("en") + (loss === undefined ? "" : " · loss " + fixed(loss, 3));
  $("frame").setAttribute("aria-valuetext", "step " + step);
  for (const button of $("texts").children) button.setAttribute("aria-pressed", String(Number(button.dataset.text) === chosen.text));
  describeModel();
  return viewer.open([{ data }]);
}
/// Goes through the steps, from the first where the last is shown.
function play() {
  const stop = () => { clearInterval(play.running); play.running = 0; $("play").textContent = "Play"; };
  if (play.running) return stop();
  if (chosen.frame === frames.length - 1) chosen.frame = -1;
  const next = () => { chosen.frame += 1; showFrame(); if (chosen.frame === frames.length - 1) stop(); };
  $("play").textContent = "Pause";
  play.running = setInterval(next, 500);
  next();
}
function listenForFrames() {
  $("training").hidden = false;
  $("frame").max = frames.length - 1;
  $("frame").oninput = () => { chosen.frame = Number($("frame").value); showFrame(); };
  $("play").onclick = play;
  $("play").hidden = frames.length < 2;
  frames[0].texts.forEach((one, i) => {
    const button = element("button", one.data.title, { type: "button", class: "plain", "data-text": i });
    button.onclick = () => { chosen.text = i; showFrame(); };
    $("texts").append(button);
  });
  $("texts").hidden = frames[0].texts.length < 2;
}
function start() {
  if (frames) { listenForFrames(); showFrame(); } else viewer.open([{ data }]);
  viewer.read(location.hash.slice(1));
}
describeModel();
window.onhashchange = () => viewer.read(location.hash.slice(1));
data.loadPicture().then(start);
