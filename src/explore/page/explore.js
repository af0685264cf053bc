// The page of heed explore: what is asked, with undo and in the address; the server's answers; comparison.
const token = new URLSearchParams(location.search).get("token") || "";
const nothing = { model: 0, text: "", pair: "", target: "", ids: null, target_ids: null, labels: "", file: null, file_name: "", changes: [], versus: "", other: "", other_file: null, other_file_name: "", other_model: 0 };
let ask = { ...nothing }, models = [], results = [], running = null, timer = 0, forgotten = 0, wantsAddress = null, plainTitle = document.title;
const chosen = { position: -1, pinned: false, id: null };  // the token that the candidates are of; while none is pinned, it follows the text
const past = [], future = [];
let lastKey = null, lastTime = 0;

// ---- the server
async function answerOf(response) {
  let body = null;
  try { body = await response.json(); } catch { }
  if (!response.ok || !body) throw new Error(body && body.error ? body.error : "the server answered " + response.status);
  return body;
}
async function post(path, body, signal) {
  let response;
  try {
    response = await fetch(path, { method: "POST", headers: { "X-Heed-Token": token, "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer: does heed explore still run?");
  }
  return answerOf(response);
}
async function packOf(run, pack) {
  const response = await fetch("/api/pack?run=" + run + "&pack=" + pack, { headers: { "X-Heed-Token": token } });
  if (response.ok) return response.text();
  if (response.status === 404 && performance.now() - forgotten > 5000) {  // the server has forgotten the run
    forgotten = performance.now();
    runSoon(0);
  }
  throw new Error("the server does not have the map any more");
}
function complain(text) { $("error").textContent = text; }

// ---- what is asked
function requestOf(second) {
  const model = second && ask.versus === "model" ? +ask.other_model : +ask.model, about = models[model], asked = { model, candidates: 10 };
  const otherText = second && ask.versus === "text", otherModel = model !== +ask.model;
  if (about.input !== "text") asked.file = otherText ? ask.other_file : ask.file;
  else if (otherText) asked.text = ask.other;
  else if (ask.ids && !otherModel) asked.ids = ask.ids;
  else asked.text = ask.text;
  if (about.takes_pair && ask.pair && !asked.ids) asked.pair = ask.pair;
  if (about.takes_target && ask.target_ids && !otherText && !otherModel) asked.target_ids = ask.target_ids;
  else if (about.takes_target && ask.target) asked.target = ask.target;
  if (about.takes_labels && labelsNow().length) {
    asked.labels = labelsNow();
    if (chosen.id !== null && chosen.id < asked.labels.length) asked.label = chosen.id;
  }
  if (!second && ask.changes.length) asked.changes = ask.changes;
  if (viewer.panels.length && viewer.state.view === "neurons") asked.vectors = true;
  return asked;
}
const labelsNow = () => ask.labels.split("\n").map(label => label.trim()).filter(label => label);
/// Why there is nothing to ask yet, or "".
function missing() {
  const what = inputOf(modelNow()), second = ask.versus === "text";
  if (takesFile()) return ask.file === null ? "Choose " + (what === "image" ? "an image." : "a sound.") : second && ask.other_file === null ? "Choose a second " + what + "." : "";
  return !ask.text && !ask.ids ? "Type a text." : second && !ask.other ? "Type a second text." : "";
}
const versusNames = () => [["", "nothing"], ["text", "a second " + inputOf(modelNow())]].concat(models.map((one, i) => ["model" + i, one.name]).filter((_, i) => models.length > 1 && i !== +ask.model && inputOf(models[i]) === inputOf(modelNow())), [["plain", "the same without changes"]]);
function captions() {
  const plain = ask.changes.length ? ask.changes.length + (ask.changes.length > 1 ? " changes" : " change") : "first";
  if (ask.versus === "text") return ["First " + inputOf(modelNow()), "Second " + inputOf(modelNow())];
  if (ask.versus === "model") return [modelNow().name, models[ask.other_model].name];
  return ["With " + plain, "Without changes"];
}

/// Changes what is asked. Edits with one `key` soon after each other are taken back as one.
function change(edit, key) {
  const before = JSON.stringify(ask);
  ask = { ...ask, ...edit };
  if (JSON.stringify(ask) === before) return;
  const now = performance.now();
  if (!(key && key === lastKey && now - lastTime < 2000 && past.length)) past.push(before);
  if (past.length > 200) past.shift();
  lastKey = key || null;
  lastTime = now;
  future.length = 0;
  drawHistory();
}
function goBack(from, to) {
  if (!from.length) return;
  to.push(JSON.stringify(ask));
  ask = JSON.parse(from.pop());
  lastKey = null;
  chosen.pinned = false;
  syncForm();
  drawHistory();
  if (results.length) { drawHead(); drawChanges(); }
  run();
}
function drawHistory() {
  $("undo").disabled = !past.length;
  $("redo").disabled = !future.length;
}

// ---- running
function runSoon(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(run, milliseconds);
}
/// Asks the server and shows its answer; returns whether it came. A newer request ends an older one.
async function run() {
  clearTimeout(timer);
  if (running) running.abort();
  const own = running = new AbortController();
  if (missing()) { $("status").textContent = missing(); return false; }
  $("status").textContent = "computing …";
  writeAddress();
  try {
    const answers = [await post("/api/run", requestOf(0), own.signal)];
    if (ask.versus) answers.push(await post("/api/run", requestOf(1), own.signal));
    const entries = answers.map(answer => new AttentionData(answer.data, id => packOf(answer.run, id)));
    await Promise.all(entries.map(data => data.loadPicture()));
    if (own !== running) return false;
    complain("");
    showAnswers(answers, entries);
    return true;
  } catch (error) {
    if (error.name === "AbortError" || own !== running) return false;
    if (takesFile() && await sendAgain(error)) return run();
    complain(error.message);
    $("status").textContent = "";
    const refused = /^(?:request: )?changes(?:\.(\d+))?[.:]/.exec(error.message), index = refused && (refused[1] ? +refused[1] : ask.changes.length - 1);
    if (refused && ask.changes[index]) {  // the others stay
      ask = { ...ask, changes: ask.changes.filter((_, i) => i !== index) };
      if (await run()) complain(error.message);
    }
    return false;
  }
}
function showAnswers(answers, data) {
  const names = captions(), before = results.length && results[0].answer.data.image;
  results = answers.map((answer, i) => ({ answer: { ...answer, data: data[i] }, caption: answers.length > 1 ? names[i] : "" }));
  const entries = results.map(({ answer, caption }) => ({ data: answer.data, caption }));
  if (entries.length > 1) entries.push({ data: new DifferenceData(entries[0].data, entries[1].data), caption: "Difference" });
  const { answer } = results[0];
  if (ask.ids) ask.text = answer.text;  // what was continued stands in the box, and typing goes on from there
  if (ask.target_ids) ask.target = answer.target;
  syncForm();
  settlePosition(answer);
  if (!chosen.pinned) Object.assign(viewer.state, { query: -1, key: -1, held: false, step: Infinity });
  viewer.open(entries);
  if (results.length && !before !== !answer.data.image && wantsAddress === null) wantsAddress = "";  // images open over the picture
  if (wantsAddress !== null) {
    const address = wantsAddress;
    wantsAddress = null;
    viewer.read(address);
  }
  document.body.classList.add("ready");
  const { image } = answer.data, tokens = predictedTokens(answer).length, parts = image && (modelNow().input === "image" ? image.rows + " × " + image.columns + " patches, " : image.columns + " steps of time, ");
  $("status").textContent = (parts || tokens + (tokens === 1 ? " token, " : " tokens, ")) + answers.reduce((sum, one) => sum + one.milliseconds, 0) + " ms";
  drawAnswers();
  drawChanges();
  document.documentElement.dataset.run = answers[0].run;
}
function drawAnswers() {
  if (!results.length) return;
  effects.settle();
  drawTokens(results[0].answer);
  drawPredictions(results);
  drawHead();
  drawEffects();
  looks.draw();
}

/// The first map less the second, of the heads and tokens that both have.
class DifferenceData extends AttentionData {
  constructor(one, other) {
    const kinds = [];
    for (const kind of one.kinds) {
      const same = other.kinds.find(k => k.kind === kind.kind);
      if (!same || same.queries.length !== kind.queries.length || same.keys.length !== kind.keys.length) continue;
      const both = (a, b) => a.map((token, i) => token === b[i] ? token : token + " | " + b[i]);
      kinds.push({ kind: kind.kind, title: kind.title, queries: both(kind.queries, same.queries), keys: both(kind.keys, same.keys), maps: kind.maps.filter(map => other.find(same, map.measure, map.layer, map.head)) });
    }
    const same = one.image && other.image && one.image.rows === other.image.rows && one.image.columns === other.image.columns;
    super({ kinds, image: same ? one.image : undefined, bits: one.bits, palette: one.palette, negative: one.negative, missing: "The two differ in their number of tokens or in their heads, so there is no difference of maps." }, null);
    Object.assign(this, { one, other });
  }
  async compute(kind, measure, layer, head) {
    const of = data => data.values(data.kinds.find(k => k.kind === kind.kind), measure, layer, head), [a, b] = await Promise.all([of(this.one), of(this.other)]);
    return a.map((value, i) => value - b[i]);
  }
  largest(kind, measure, head) {
    return Math.max(...[this.one, this.other].map(data => data.largest(data.kinds.find(k => k.kind === kind.kind), measure, head)));
  }
  largestOver(kind, measure, head) {
    return Math.max(...[this.one, this.other].map(data => data.largestOver(data.kinds.find(k => k.kind === kind.kind), measure, head)));
  }
  async vectors() { return null; }
}

// ---- the address: all of what is asked and shown, but not the token
function addressText() {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(ask)) {
    if (JSON.stringify(value) === JSON.stringify(nothing[name])) continue;
    parts.set(name, name === "changes" ? JSON.stringify(value) : Array.isArray(value) ? value.join(",") : value);
  }
  if (chosen.pinned) parts.set("position", chosen.position);
  if (chosen.id !== null) parts.set("id", chosen.id);
  parts.set("at", wantsAddress === null ? viewer.address() : wantsAddress);
  return "#" + parts;
}
function writeAddress() {
  history.replaceState(null, "", location.pathname + location.search + addressText());
  const about = takesFile() ? ask.file_name : ask.text;
  document.title = (about ? about.slice(0, 60) + " · " : "") + plainTitle;
}
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1)), found = { ...nothing }, list = text => text === "" ? [] : text.split(",").map(Number);
  for (const name of Object.keys(nothing)) if (parts.has(name)) found[name] = parts.get(name);
  for (const name of ["ids", "target_ids"]) if (found[name] !== null) found[name] = list(found[name]);
  try { if (parts.has("changes")) found.changes = JSON.parse(found.changes); } catch { found.changes = []; }
  if (!Array.isArray(found.changes)) found.changes = [];
  for (const name of ["file", "other_file"]) if (found[name] !== null) found[name] = Math.max(0, +found[name] || 0);
  for (const name of ["model", "other_model"]) found[name] = models[+found[name]] ? +found[name] : 0;
  if (!found.text && !found.ids) found.text = sampleText(models[found.model]);
  ask = found;
  chosen.pinned = parts.has("position");
  chosen.position = chosen.pinned ? +parts.get("position") : -1;
  chosen.id = parts.has("id") ? +parts.get("id") : null;
  wantsAddress = parts.get("at") || "";
}
const sampleText = about => about.head === "masked_lm" && about.mask_token ? "The cat sat on the " + about.mask_token + "." : "The cat sat on the mat.";

// ---- the form
function syncForm() {
  const about = modelNow();
  for (const name of ["text", "pair", "target", "labels", "other"]) if ($(name).value !== ask[name]) $(name).value = ask[name];
  fill($("versus"), versusNames());
  $("model").value = ask.model;
  $("versus").value = ask.versus === "model" ? "model" + ask.other_model : ask.versus;
  $("pair-box").hidden = !about.takes_pair;
  $("target-box").hidden = !about.takes_target;
  $("labels-box").hidden = !about.takes_labels;
  $("other-box").hidden = about.input !== "text" || ask.versus !== "text" && !ask.other;
  syncFiles();
  const parts = Object.entries(about.layers).filter(([, count]) => count).map(([name, count]) => name + ": " + count + " layers of " + about.heads[name] + " heads");
  $("about-model").textContent = [about.family, ...parts].join(", ");
}
function listen() {
  $("ask").onsubmit = event => event.preventDefault();
  for (const name of ["text", "pair", "target", "labels", "other"]) {
    $(name).oninput = () => {
      if (name === "labels") chosen.id = null;
      const fresh = name === "text" || name === "pair" ? { ids: null, target_ids: null } : name === "target" ? { target_ids: null } : {};
      change({ [name]: $(name).value, ...fresh }, "type " + name);
      if (name !== "other" || ask.versus === "text") runSoon(400);
    };
    $(name).onkeydown = event => { if (event.key === "Enter" && event.ctrlKey) run(); };
  }
  $("model").onchange = () => { change({ model: +$("model").value, ids: null, target_ids: null, changes: [], versus: ask.versus === "model" ? "" : ask.versus }); chosen.pinned = false; chosen.id = null; syncForm(); run(); };
  $("versus").onchange = () => {
    const [, kind, model] = /^(model|)(.*)$/.exec($("versus").value);
    change(kind ? { versus: "model", other_model: +model } : { versus: model });
    syncForm();
    if (ask.versus === "text" && takesFile()) { if (ask.other_file === null) $("other_file-choose").focus(); }
    else if (ask.versus === "text" && !ask.other) $("other").focus();
    run();
  };
  listenToFiles();
  $("undo").onclick = () => goBack(past, future);
  $("redo").onclick = () => goBack(future, past);
  $("link").onclick = async () => { await navigator.clipboard.writeText(location.origin + location.pathname + addressText()); $("status").textContent = "copied"; };
  $("continue").onclick = () => { if (going) going = false; else goOn(Math.max(1, Math.min(200, +$("count").value || 1))); };
  $("ablate").onclick = () => { const head = headNow(), now = changeOf(head); setChange(head, now && now.factor === 0 ? null : { factor: 0 }); };
  $("factor").oninput = () => setChange(headNow(), +$("factor").value === 1 ? null : { factor: +$("factor").value }, "factor");
  $("patch").onclick = patchNow;
  $("without").onclick = () => { const { kind, layer } = headNow(); effects.ask([{ kind, layer }]); };
  $("try-all").onclick = () => effects.ask(allLayers());
  $("cancel").onclick = () => { if (effects.asking) effects.asking.abort(); };
  document.addEventListener("keydown", event => {
    if (!event.ctrlKey && !event.metaKey || event.key.toLowerCase() !== "z" || event.target.tagName === "TEXTAREA") return;
    event.preventDefault();
    if (event.shiftKey) goBack(future, past);
    else goBack(past, future);
  });
  window.onhashchange = () => { readAddress(); syncForm(); run(); };
}

const viewer = new Viewer({
  aside: false, vectors: true, steps: true, overviewShare: 0.28,
  changed: (kind, layer, head) => ask.changes.some(one => sameHead(one, { kind, layer, head })),
  shown() {
    if (!results.length) return;
    writeAddress();
    drawHead();
    looks.draw();
    if (viewer.state.view === "neurons" && !viewer.kind.vectors && !running.vectors) { run(); running.vectors = true; }
  },
  held(query, key) {
    const { answer } = results[0];
    if (query < 0 && key < 0 && chosen.pinned) choosePosition(ownPosition(answer));
    if (query >= 0 && query !== chosen.position && viewer.kind.queries.length === predictedTokens(answer).length && answer.predictions.some(one => one.position === query)) choosePosition(query);
  },
});

async function start() {
  try {
    models = (await answerOf(await fetch("/api/models", { headers: { "X-Heed-Token": token } }))).models;
  } catch (error) { complain(error.message); return; }
  fill($("model"), models.map((one, i) => [i, one.name]));
  $("model-box").hidden = models.length < 2;
  if (models.length === 1) plainTitle = models[0].name + " · heed explore";
  document.querySelector("h1").textContent = models.length === 1 ? "heed explore: " + models[0].name : "heed explore";
  readAddress();
  drawHistory();
  syncForm();
  run();
}
listen();
looks.start([FlowView, StepsView, TrapsView, ModelLinesView]);
start();
