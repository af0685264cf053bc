// What is shown, the controls that choose it, and the address that restores it.
const data = AttentionData.ofPage(), shades = new Shades(data);
const names = { weights: "attention weights", norms: "value-weighted norms", gradient: "gradient × attention" };
const notes = { cross: "Rows are the target's tokens, as they are produced.", decoder: "Rows are the tokens that the decoder has read; each step predicts the next." };
const patterns = { "": "…", focus: "few tokens", previous: "previous token", next: "next token", first: "first token", same: "own position", repeat: "same token elsewhere", induction: "induction (after an earlier same token)" };
const viewNames = { matrix: "Matrix", lines: "Lines", neurons: "Queries · keys", picture: "Image" };
const state = { kind: 0, measure: "weights", layer: 0, head: 0, view: "matrix", query: -1, key: -1, held: false, scale: "all", step: Infinity, also: [], strongest: false };
let values = new Float32Array(0), drawing = 0;

const kindNow = () => data.kinds[state.kind];
const mapNow = () => data.find(kindNow(), state.measure, state.layer, state.head);
const headName = head => typeof head === "number" ? "head " + head : { mean: "mean of heads", max: "largest of heads", rollout: "rollout" }[head];
const overImage = kind => !!data.image && kind.keys.length === data.image.first + data.image.rows * data.image.columns;
const stepNow = () => Math.min(state.step, kindNow().queries.length - 1);

function fullColour(own) {
  if (state.scale === "one") return 1;
  if (state.scale === "all") return data.largest(kindNow(), state.measure, state.head);
  let most = 0;
  for (const value of own) most = Math.max(most, Math.abs(value));
  return most || 1;
}

// ---- all maps at a glance: drawn one after another, those in view first
const waiting = new Set();
let working = false;
async function drawWaiting() {
  if (working) return;
  working = true;
  for (const canvas of waiting) {
    waiting.delete(canvas);
    if (!canvas.isConnected) continue;
    const kind = kindNow(), own = await data.values(kind, state.measure, canvas.layer, canvas.head);
    const full = state.scale === "own" ? own.reduce((m, v) => Math.max(m, Math.abs(v)), 0) || 1 : state.scale === "one" ? 1 : data.largest(kind, state.measure, canvas.head);
    paint(canvas, own, kind.queries.length, kind.keys.length, full, 64, shades);
    await new Promise(next => setTimeout(next, 0));
  }
  working = false;
}
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); waiting.add(entry.target); }
  setTimeout(drawWaiting, 30);
}, { rootMargin: "100px" });

function drawOverview() {
  const kind = kindNow(), table = element("table", null), top = element("tr", null), pattern = $("pattern").value;
  waiting.clear();
  const size = Math.max(22, Math.min(72, (window.innerWidth > 820 ? 0.36 : 0.8) * window.innerWidth / (kind.columns.length + 1) - 5)), aspect = kind.queries.length / kind.keys.length;
  const width = Math.max(10, aspect > 1 ? size / aspect : size), height = Math.max(10, aspect > 1 ? size : size * aspect);
  top.append(element("td", ""));
  for (const head of kind.columns) top.append(element("th", head, { scope: "col" }));
  table.append(top);
  const strongest = pattern ? Math.max(...kind.maps.map(m => m.scores && m.scores[pattern] || 0)) : 0;
  for (const layer of kind.layers) {
    const row = element("tr", null);
    row.append(element("th", layer, { scope: "row", "aria-label": "layer " + layer }));
    for (const head of kind.columns) {
      const cell = element("td", null, head === "mean" ? { class: "apart" } : {});
      if (data.has(kind, state.measure, layer, head)) {
        const map = data.find(kind, "weights", layer, head), score = map && map.scores && map.scores[pattern];
        const title = "layer " + layer + ", " + headName(head) + (pattern && score !== undefined ? ", " + patterns[pattern] + " " + number(score) : "");
        const button = element("button", null, { title, "aria-label": title }), canvas = element("canvas", null);
        canvas.style.width = width + "px"; canvas.style.height = height + "px";
        Object.assign(canvas, { layer, head });
        button.classList.toggle("faint", !!pattern && !(score > 0.6 * strongest));
        button.append(canvas);
        button.onclick = () => show({ layer, head });
        Object.assign(button.dataset, { layer, head });
        cell.append(button);
        seen.observe(canvas);
      }
      row.append(cell);
    }
    table.append(row);
  }
  $("overview").replaceChildren(table);
  $("overview").hidden = kind.maps.length === 1;
}

// ---- one map
async function draw() {
  const turn = ++drawing, kind = kindNow();
  const own = await data.values(kind, state.measure, state.layer, state.head);
  if (turn !== drawing) return;
  values = own;
  const full = fullColour(values), map = mapNow();
  $("which").textContent = kind.title + ", layer " + state.layer + ", " + headName(state.head) + (state.head === "rollout" || state.measure === "weights" ? "" : ", " + names[state.measure]);
  $("name").textContent = map ? map.name : "";
  $("low").textContent = values.some(v => v < 0) ? "0, orange below; " : "0";
  $("high").textContent = number(full) + (state.measure === "weights" || state.head === "rollout" ? "" : " (" + names[state.measure] + ")");
  const ramp = $("ramp").getContext("2d"), image = ramp.createImageData(256, 1);
  for (let i = 0; i < 256; ++i) image.data.set([...shades.at(i / 255), 255], 4 * i);
  ramp.putImageData(image, 0, 0);
  for (const view of Object.keys(viewNames)) $(view).hidden = view !== state.view;
  if (state.view === "matrix") {
    Matrix.draw(kind, values, full, shades, stepNow());
    $("map").setAttribute("aria-label", $("which").textContent + ": " + kind.queries.length + " queries by " + kind.keys.length + " keys; the numbers are below, as text");
  }
  if (state.view === "lines") { Lines.build(kind, follow, hold); drawChips(); }
  if ($("text").open) drawText();
  await drawFollowed();
  document.documentElement.dataset.drawn = performance.now().toFixed(0);
}

async function drawFollowed() {
  const kind = kindNow(), full = fullColour(values);
  if (state.view === "matrix") Matrix.mark(kind, state.query, state.key);
  if (state.view === "lines") {
    const heads = state.also.filter(h => data.has(kind, state.measure, state.layer, h)), layers = [];
    if (!heads.length) layers.push({ values, full });
    for (const head of heads) layers.push({ values: await data.values(kind, state.measure, state.layer, head), full, colour: hue(head) });
    Lines.draw(kind, layers, shades, state.query, state.key, stepNow(), state.strongest);
  }
  if (state.view === "neurons") drawNeurons(kind, await data.vectors(kind, state.layer, state.head), state.query, state.key, shades);
  if (state.view === "picture") Overlay.draw(kind, values, fullColour(values), state.query, data.image);
  readout();
  drawAside();
}

function drawChips() {
  const kind = kindNow(), box = $("chips");
  box.replaceChildren();
  if (kind.heads.length > 1) {
    box.append("heads ");
    for (const head of kind.heads) {
      const on = state.also.includes(head), chip = element("button", head, { "aria-pressed": on, "aria-label": "head " + head });
      chip.style.borderColor = hue(head);
      if (on) chip.style.background = hue(head);
      chip.onclick = () => { state.also = on ? state.also.filter(h => h !== head) : [...state.also, head]; drawChips(); drawFollowed(); };
      box.append(chip);
    }
  }
  const label = element("label", null), tick = element("input", null, { type: "checkbox" });
  tick.checked = state.strongest;
  tick.onchange = () => { state.strongest = tick.checked; drawFollowed(); };
  label.append(tick, kind.kind === "cross" ? " alignment: strongest key only" : " strongest key only");
  box.append(label);
}

function ranked(query, key) {
  const kind = kindNow(), columns = kind.keys.length, asks = query >= 0, others = asks ? kind.keys : kind.queries;
  return others.map((token, i) => [asks ? values[query * columns + i] : values[i * columns + key], token]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
}

function readout() {
  const kind = kindNow(), line = $("readout"), bold = text => element("b", text), { query, key } = state;
  line.replaceChildren();
  if (query < 0 && key < 0) { line.textContent = "Hover a token or cell to follow it. " + (notes[kind.kind] || ""); return; }
  if (query >= 0 && key >= 0) line.append(bold(kind.queries[query]), " → ", bold(kind.keys[key]), " " + number(values[query * kind.keys.length + key]) + " · ");
  const asks = query >= 0;
  line.append(bold(asks ? kind.queries[query] : kind.keys[key]), asks ? " attends to " : " is attended to by ");
  ranked(query, key).slice(0, 5).forEach(([value, token], i) => line.append(i ? ", " : "", bold(token), " " + number(value)));
}

// ---- beside the map: candidates of the step, and what the head's absence changes
function rowsOf(title, rows, most) {
  const table = element("table", null);
  for (const [name, value, marked] of rows) {
    const row = element("tr", null), cell = element("td", null), bar = element("span", null, { class: "bar" });
    bar.style.width = Math.round(70 * Math.abs(value) / most) + "px";
    if (value < 0) bar.style.opacity = 0.45;
    cell.append(bar);
    const token = element("td", name, { title: name });
    if (marked) token.style.fontWeight = 600;
    row.append(token, element("td", number(value)), cell);
    table.append(row);
  }
  return [element("h3", title), table];
}
function drawAside() {
  const kind = kindNow(), box = $("aside"), map = data.find(kind, "weights", state.layer, state.head);
  const at = state.query >= 0 ? state.query : Number.isFinite(state.step) ? stepNow() : kind.queries.length - 1;
  box.replaceChildren();
  if (kind.candidates && kind.candidates[at]) box.append(...rowsOf("Candidates at " + (kind.kind === "cross" ? "the step of " : "and after ") + kind.queries[at], kind.candidates[at].map(([t, p]) => [t, p]), 1));
  if (data.scored && map && map.ablation) {
    const own = map.ablation.length === kind.queries.length && kind.kind !== "encoder" || map.ablation.length === 1;
    const rows = map.ablation.map((change, i) => [data.scored[i], change, own && i === at]);
    const shown = own && state.query >= 0 && rows[at] ? [rows[at]] : [];
    for (const row of [...rows].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8)) if (!shown.includes(row)) shown.push(row);
    box.append(...rowsOf("Logits without this head", shown, Math.max(...rows.map(r => Math.abs(r[1]))) || 1));
  }
  box.hidden = !box.children.length;
}

function drawText() {
  const kind = kindNow(), list = $("text").querySelector("ol");
  list.start = 0;
  list.replaceChildren(...kind.queries.map((token, q) => element("li", token + ": " + ranked(q, -1).slice(0, 3).map(([v, t]) => t + " " + number(v)).join(", "))));
}

// ---- following a token
function follow(query, key) {
  if (state.held) return;
  state.query = query; state.key = key;
  drawFollowed();
}
function hold(query, key) {
  const same = state.held && state.query === query && state.key === key;
  state.held = false;
  follow(same ? -1 : query, same ? -1 : key);
  state.held = !same;
  writeAddress();
}
$("over").onmousemove = event => follow(...Matrix.cellAt(kindNow(), event));
$("over").onmouseleave = () => follow(-1, -1);
$("over").onclick = event => { const [query, key] = Matrix.cellAt(kindNow(), event); if (query >= 0 || key >= 0) hold(query, key); };
$("strands").onmouseleave = () => follow(-1, -1);

document.onkeydown = event => {
  const kind = kindNow(), token = event.target.classList && event.target.classList.contains("token");
  if (event.key === "Escape") { state.held = false; follow(-1, -1); writeAddress(); return; }
  const turn = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!turn || event.ctrlKey || event.altKey || event.metaKey || /^(SELECT|INPUT)$/.test(event.target.tagName)) return;
  event.preventDefault();
  if (token) {  // to the next token, or to the other side
    const asks = event.target.classList.contains("query"), own = [...$("strands").querySelectorAll(asks ? ".query" : ".key")], other = $("strands").querySelectorAll(asks ? ".key" : ".query");
    const at = own.indexOf(event.target), to = turn[1] ? other[Math.min(at, other.length - 1)] : own[at + turn[0]];
    if (to) to.focus();
    return;
  }
  const step = (list, now, by) => list[(list.indexOf(now) + by + list.length) % list.length];
  show({ layer: step(kind.layers, state.layer, turn[0]), head: step(kind.columns, state.head, turn[1]) });
};

// ---- the address: kind/measure/layer.head/view, then q, k and s with the query, key and step
function writeAddress() {
  const part = (letter, value) => value >= 0 && Number.isFinite(value) ? "/" + letter + value : "";
  const held = state.held ? part("q", state.query) + part("k", state.key) : "";
  history.replaceState(null, "", "#" + [encodeURIComponent(kindNow().kind), state.measure, state.layer + "." + state.head, state.view].join("/") + held + part("s", state.step));
}
function readAddress() {
  const parts = location.hash.slice(1).split("/"), at = (letter, count) => {
    const part = parts.slice(4).find(p => p[0] === letter), index = part === undefined ? -1 : parseInt(part.slice(1), 10);
    return index >= 0 && index < count ? index : -1;
  };
  state.kind = Math.max(0, data.kinds.findIndex(k => encodeURIComponent(k.kind) === parts[0]));
  const kind = kindNow(), [layer, head] = (parts[2] || "").split(".");
  state.measure = kind.measures.includes(parts[1]) ? parts[1] : kind.measures[0] || "weights";
  const wanted = { layer: parseInt(layer, 10), head: /^\d+$/.test(head || "") ? +head : head };
  Object.assign(state, data.has(kind, state.measure, wanted.layer, wanted.head) ? wanted : worthSeeing(kind));
  state.view = parts[3] in viewNames ? parts[3] : overImage(kind) ? "picture" : "matrix";
  state.query = at("q", kind.queries.length); state.key = at("k", kind.keys.length);
  state.held = state.query >= 0 || state.key >= 0;
  const step = at("s", kind.queries.length);
  state.step = step >= 0 ? step : Infinity;
}
/// The head whose weight is most on few tokens, those that gather weight in every text left out.
function worthSeeing(kind) {
  const heads = kind.maps.filter(m => typeof m.head === "number" && m.scores && m.measure === "weights").sort((a, b) => b.scores.focus - a.scores.focus);
  const map = heads[0] || kind.maps[0];
  return { layer: map.layer, head: map.measure === "rollout" ? "rollout" : map.head };
}

function show(change) {
  Object.assign(state, change);
  const kind = kindNow();
  if (!data.has(kind, state.measure, state.layer, state.head)) Object.assign(state, worthSeeing(kind));
  for (const button of document.querySelectorAll("#overview button")) button.setAttribute("aria-pressed", button.dataset.layer === String(state.layer) && button.dataset.head === String(state.head));
  for (const tab of document.querySelectorAll("#views button")) tab.setAttribute("aria-selected", tab.dataset.view === state.view);
  $("layer").value = state.layer; $("head").value = state.head; $("measure").value = state.measure;
  $("step-now").textContent = " " + (stepNow() + 1) + " of " + kind.queries.length + ": " + kind.queries[stepNow()];
  $("step").value = stepNow();
  writeAddress();
  draw();
}
const fill = (select, entries) => select.replaceChildren(...entries.map(([value, text]) => element("option", text, { value })));
/// After another kind, measure, scale or pattern was chosen.
function rebuild() {
  const kind = kindNow();
  for (const tab of document.querySelectorAll("#kinds button")) tab.setAttribute("aria-selected", +tab.dataset.kind === state.kind);
  fill($("layer"), kind.layers.map(l => [l, l]));
  fill($("head"), kind.columns.map(h => [h, h]));
  fill($("measure"), kind.measures.map(m => [m, names[m]]));
  const known = Object.keys(patterns).filter(p => !p || kind.maps.some(m => m.scores && p in m.scores)), before = $("pattern").value;
  fill($("pattern"), known.map(p => [p, patterns[p]]));
  $("pattern").value = known.includes(before) ? before : "";
  $("step").max = kind.queries.length - 1;
  $("step-box").hidden = !kind.candidates;
  const views = ["matrix", "lines"].concat(kind.vectors ? ["neurons"] : [], overImage(kind) ? ["picture"] : []);
  if (!views.includes(state.view)) state.view = "matrix";
  $("views").replaceChildren(...views.map(view => { const tab = element("button", view === "picture" && data.image.rows === 1 ? "Sound" : viewNames[view], { role: "tab", "data-view": view }); tab.onclick = () => show({ view }); return tab; }));
  drawOverview();
  show({});
}

$("title").textContent = data.title;
$("title").onclick = () => $("title").classList.toggle("whole");
$("precision").textContent = "Numbers have " + data.bits + " bits: steps of 1/" + (2 ** data.bits - 1) + " of each map's largest.";
if (data.scored) $("why").textContent = "Logits without this head come from a pass in which its output was replaced by zeros.";
data.kinds.forEach((kind, index) => {
  const tab = element("button", kind.title, { role: "tab", "data-kind": index });
  tab.onclick = () => { Object.assign(state, { kind: index, query: -1, key: -1, held: false, also: [], step: Infinity, ...worthSeeing(kind) }); if (!kind.measures.includes(state.measure)) state.measure = kind.measures[0] || "weights"; rebuild(); };
  $("kinds").append(tab);
});
fill($("scale"), [["all", "largest of all heads"], ["own", "largest of this map"], ["one", "1"]]);
$("layer").onchange = () => show({ layer: +$("layer").value });
$("head").onchange = () => show({ head: /^\d+$/.test($("head").value) ? +$("head").value : $("head").value });
$("measure").onchange = () => { state.measure = $("measure").value; rebuild(); };
$("scale").onchange = () => { state.scale = $("scale").value; rebuild(); };
$("pattern").onchange = () => {
  const pattern = $("pattern").value, best = kindNow().maps.filter(m => pattern && m.scores && typeof m.head === "number").sort((a, b) => b.scores[pattern] - a.scores[pattern])[0];
  if (best) Object.assign(state, { layer: best.layer, head: best.head });
  rebuild();
};
$("step").oninput = () => { const step = +$("step").value; show({ step: step === kindNow().queries.length - 1 ? Infinity : step, query: step, key: -1, held: true }); };
$("text").ontoggle = () => { if ($("text").open) drawText(); };
window.onresize = () => draw();
dark.onchange = () => { shades.restyle(); rebuild(); };
window.onhashchange = () => { readAddress(); rebuild(); };
function start() { readAddress(); rebuild(); }
if (data.image) {
  Overlay.image = new Image();
  Overlay.image.onload = start;
  Overlay.image.setAttribute("src", "data:image/png;base64," + data.image.png);
} else start();
