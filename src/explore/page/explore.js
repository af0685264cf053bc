// The page of heed explore: what is asked, with undo and in the address; the server's answers; comparison.
const token = new URLSearchParams(location.search).get("token") || "";
const nothing = { model: 0, text: "", pair: "", target: "", ids: null, target_ids: null, labels: "", file: null, file_name: "", changes: [], steering: [], traps: ["softmax-axis"], versus: "", other: "", other_file: null, other_file_name: "", other_model: 0 };
let ask = { ...nothing }, models = [], results = [], running = null, timer = 0, forgotten = 0, wantsAddress = null, plainTitle = document.title;
let watchedId = null;  // of the candidate whose logit is watched, if one is chosen
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
  if (recording) return recording.answer(path, body);
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
  if (recording) return recording.pack(run, pack);
  const response = await fetch("/api/pack?run=" + run + "&pack=" + pack, { headers: { "X-Heed-Token": token } });
  if (response.ok) return response.text();
  if (response.status === 404 && performance.now() - forgotten > 5000) {  // the server has forgotten the run
    forgotten = performance.now();
    runSoon(0);
  }
  throw new Error("the server does not have the map any more");
}
function complain(text) { $("error").textContent = text; }
/// What is shown is not of what is asked: grey, until an answer comes.
function outdate(is) { document.body.classList.toggle("outdated", is && !!results.length); }
/// The number of tokens of a text, for the model that is shown.
async function countTokens(text) {
  return text ? (await post("/api/tokens", { model: +ask.model, text })).ids.length : 0;
}

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
    if (watchedId !== null && watchedId < asked.labels.length) asked.label = watchedId;
  }
  if (!second && ask.changes.length) asked.changes = ask.changes;
  if (!second && strengthsNow()) asked.steering = strengthsNow();
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
const versusNames = () => [["", "nothing"], ["text", "a second " + inputOf(modelNow())]].concat(models.map((one, i) => ["model" + i, one.name]).filter((_, i) => models.length > 1 && i !== +ask.model && inputOf(models[i]) === inputOf(modelNow())), [["plain", "the same without changes"]]).filter(([value]) => !recording || value !== "text");
function captions() {
  const count = ask.changes.length + (strengthsNow() || []).filter(strength => strength).length;
  if (ask.versus === "text") return ["First " + inputOf(modelNow()), "Second " + inputOf(modelNow())];
  if (ask.versus === "model") return [modelNow().name, models[ask.other_model].name];
  return [count ? "With " + count + (count > 1 ? " changes" : " change") : "No change yet", "Unchanged"];
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
  letGo();
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
/// The map that is drawn first, which comes with the answer and not by a request of its own.
function shownNow() {
  if (recording || !viewer.panels.length || going || viewer.state.head === "rollout") return {};
  const { kind, state } = viewer;
  return { show: { kind: kind.kind, layer: state.layer, ...(typeof state.head === "number" ? { head: state.head } : {}) } };
}
function runSoon(milliseconds) {
  clearTimeout(timer);
  timer = setTimeout(run, milliseconds);
}
/// The server's answers to what is asked, or null where there are none: it says why. A newer request ends an older one.
async function answersNow() {
  clearTimeout(timer);
  if (running) running.abort();
  const own = running = new AbortController();
  if (missing()) { $("status").textContent = missing(); outdate(true); return null; }
  $("status").textContent = "computing …";
  try {
    const asked = second => ({ ...requestOf(second), ...shownNow() });
    const answers = [await post("/api/run", asked(0), own.signal)];
    if (ask.versus && !going) answers.push(await post("/api/run", asked(1), own.signal));
    if (own !== running) return null;
    complain("");
    return answers;
  } catch (error) {
    if (error.name === "AbortError" || own !== running) return null;
    if (takesFile() && await sendAgain(error)) return answersNow();
    complain(error.message);
    $("status").textContent = results.length ? "grey: the input before" : "";
    outdate(true);
    const refused = /^(?:request: )?changes(?:\.(\d+))?[.:]/.exec(error.message), index = refused && (refused[1] ? +refused[1] : ask.changes.length - 1);
    if (!refused || !ask.changes[index]) return null;
    ask = { ...ask, changes: ask.changes.filter((_, i) => i !== index) };  // the others stay
    const answers = await answersNow();
    if (answers) complain(error.message);
    return answers;
  }
}
/// Asks the server and shows its answer; returns whether it came.
async function run() {
  going = false;
  writeAddress();
  const answers = await answersNow(), own = running;
  if (!answers) return false;
  const entries = answers.map(answer => new AttentionData(answer.data, async id => answer.shown && answer.shown[id] || packOf(answer.run, id)));
  await Promise.all(entries.map(data => Promise.all([data.loadPicture(), unpackShown(data)])));
  if (own !== running) return false;
  showAnswers(answers, entries);
  return true;
}
/// Decodes the map that is drawn first, so that it is there in the first frame.
async function unpackShown(data) {
  const { measure, layer, head } = viewer.state, kind = viewer.panels.length && data.kinds.find(one => one.kind === viewer.kind.kind);
  if (kind && data.has(kind, measure, layer, head)) await data.values(kind, measure, layer, head).catch(() => {});  // the map says what is wrong
}
function showAnswers(answers, data) {
  const names = captions(), before = results.length && results[0].answer.data.image;
  outdate(false);
  results = answers.map((answer, i) => ({ answer: { ...answer, data: data[i] }, caption: answers.length > 1 ? names[i] : "" }));
  const entries = results.map(({ answer, caption }) => ({ data: answer.data, caption }));
  if (entries.length > 1) entries.push({ data: new DifferenceData(entries[0].data, entries[1].data), caption: "Difference" });
  const { answer } = results[0];
  if (ask.ids) ask.text = answer.text;  // what was continued stands in the box, and typing goes on from there
  if (ask.target_ids) ask.target = answer.target;
  if (ask.target || ask.target_ids) for (const kind of answer.data.kinds) if (domainOf(kind) === "target") kind.own = kind.queries.length - 1;  // the end of what is being written
  syncForm();
  viewer.open(entries);
  if (results.length && !before !== !answer.data.image && wantsAddress === null) wantsAddress = "";  // images open over the picture
  if (wantsAddress !== null) {
    const address = wantsAddress;
    wantsAddress = null;
    viewer.read(address);
    if (oldPosition !== null && !viewer.state.pin && oldPosition < viewer.kind.queries.length) viewer.hold(oldPosition, -1, true);
    oldPosition = null;
  }
  document.body.classList.add("ready");
  const { image } = answer.data, kind = predictedKind(answer), tokens = kind ? kind.queries.length : 0, parts = image && (modelNow().input === "image" ? image.rows + " × " + image.columns + " patches, " : image.columns + " steps of time, ");
  $("status").textContent = (parts || tokens + (tokens === 1 ? " token, " : " tokens, ")) + answers.reduce((sum, one) => sum + one.milliseconds, 0) + " ms";
  if (recording) $("status").textContent = $("status").textContent.replace(/, \d+ ms$/, "");
  drawHeard(answer);
  drawBlank(answer);
  drawAnswers();
  drawChanges();
  noteCounts();
  pause = Math.max(30, Math.min(400, answers.reduce((sum, one) => sum + one.milliseconds, 0) / 4));
  document.documentElement.dataset.run = answers[0].run;
}
/// Milliseconds from a keystroke to its run: few where a run is quick. A newer keystroke ends it; the first one after a rest does not wait.
let pause = 60, lastTyped = -Infinity;
function typed() {
  const rested = performance.now() - lastTyped > 500;
  lastTyped = performance.now();
  runSoon(rested ? 0 : pause);
}
function drawAnswers() {
  if (!results.length) return;
  effects.settle();
  drawTokens(results[0].answer);
  drawPredictions(results);
  drawHead();
  drawEffects();
}
/// After another token was chosen, hovered or pinned: once a frame.
let following = 0;
function drawChosen() {
  if (!results.length || following) return;
  following = requestAnimationFrame(() => {
    following = 0;
    const now = JSON.stringify(results.map(({ answer }) => positionOf(answer)));
    markTokens();
    markWhy();
    if (now === drawChosen.last) return;
    drawChosen.last = now;
    if (viewer.state.pin || !viewer.state.hover) watchedId = watchedId !== null && predictionsNow(results[0].answer).some(one => one.candidates.some(({ id }) => id === watchedId)) ? watchedId : null;
    drawPredictions(results);
    if (viewer.state.hover) return;
    effects.settle();
    drawHead();
    drawEffects();
  });
}
function letGo() { Object.assign(viewer.state, { pin: null, hover: null }); }
/// How many tokens the second text has, beside those of the first, for patching and a difference of maps.
async function noteCounts() {
  const note = $("other-note"), first = results.length ? results[0].answer.ids.length : 0;
  if ($("other-box").hidden || !first) return;
  try {
    const count = await countTokens(ask.other);
    noteCounts.other = count;
    note.textContent = count + (count === 1 ? " token" : " tokens") + (count === first ? ", as many as the first text" : "; the first text has " + first);
    if ($("patch-note").textContent) $("patch-note").textContent = count === first ? "" : patchHint(first, count);
  } catch (error) { note.textContent = error.message; }
}

/// The first map less the second, of the heads and tokens that both have.
class DifferenceData extends AttentionData {
  constructor(one, other) {
    const kinds = [];
    for (const kind of one.kinds) {
      const same = other.kinds.find(k => k.kind === kind.kind);
      if (!same || same.queries.length !== kind.queries.length || same.keys.length !== kind.keys.length) continue;
      const both = (a, b) => a.map((token, i) => token === b[i] ? token : token + " | " + b[i]);
      kinds.push({ kind: kind.kind, title: kind.title, own: kind.own === same.own ? kind.own : undefined, masks: kind.masks, queries: both(kind.queries, same.queries), keys: both(kind.keys, same.keys), maps: kind.maps.filter(map => other.find(same, map.measure, map.layer, map.head)) });
    }
    const same = one.image && other.image && one.image.rows === other.image.rows && one.image.columns === other.image.columns;
    super({ kinds, model: one.model, image: same ? one.image : undefined, bits: one.bits, palette: one.palette, negative: one.negative, missing: "The two differ in their number of tokens or in their heads, so there is no difference of maps." }, null);
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
  if (watchedId !== null) parts.set("id", watchedId);
  parts.set("at", wantsAddress === null ? viewer.address() : wantsAddress);
  return "#" + parts;
}
function writeAddress() {
  history.replaceState(null, "", addressText());
  const about = takesFile() ? ask.file_name : ask.text;
  document.title = ($("notes") ? "" : about ? about.slice(0, 60) + " · " : "") + plainTitle;
}
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1) || (recording ? recording.address : "")), found = { ...nothing }, list = text => text === "" ? [] : text.split(",").map(Number);
  for (const name of Object.keys(nothing)) if (parts.has(name)) found[name] = parts.get(name);
  for (const name of ["ids", "target_ids"]) if (found[name] !== null) found[name] = list(found[name]);
  if (parts.has("steering")) found.steering = list(found.steering).map(strength => strength || 0);
  if (parts.has("traps")) found.traps = found.traps.split(",").filter(name => name in trapTexts);
  try { if (parts.has("changes")) found.changes = JSON.parse(found.changes); } catch { found.changes = []; }
  if (!Array.isArray(found.changes)) found.changes = [];
  for (const name of ["file", "other_file"]) if (found[name] !== null) found[name] = Math.max(0, +found[name] || 0);
  for (const name of ["model", "other_model"]) found[name] = models[+found[name]] ? +found[name] : 0;
  if (found.steering.length) found.steering = (models[found.model].steering || []).map(({ most }, i) => Math.max(-most, Math.min(most, found.steering[i] || 0)));
  if (!found.text && !found.ids) Object.assign(found, examplesOf(models[found.model])[0]);
  if (!parts.has("versus") && models.length > 1 && found.model === 0 && inputOf(models[0]) === inputOf(models[1])) Object.assign(found, { versus: "model", other_model: 1 });
  ask = found;
  oldPosition = parts.has("position") ? +parts.get("position") : null;
  watchedId = parts.has("id") ? +parts.get("id") : null;
  wantsAddress = parts.get("at") || "";
}
let oldPosition = null;  // the pinned token of an address of earlier pages

/// Texts to begin with: those of the model's card, else some for its task.
function examplesOf(about) {
  if (recording) return recording.inputs(models.indexOf(about));
  if (about.examples && about.examples.length) return about.examples.map(text => ({ text }));
  const mask = about.mask_token;
  if (about.head === "masked_lm" && mask) return [{ text: "The cat sat on the " + mask + "." }, { text: "Paris is the " + mask + " of France." }, { text: "The " + mask + " was barking at the postman." }];
  if (about.head === "sequence") return [{ text: "I expected a masterpiece and got a complete waste of time." }, { text: "A warm, funny and moving film." }, { text: "Not bad at all." }];
  if (about.head === "span") return [{ text: "Who wrote the play?", pair: "The play was written by Ada Brown in 1912 and performed in London." }];
  if (about.head === "token") return [{ text: "Ada Brown flew from London to Paris with Air France." }];
  if (about.kind === "encoder-decoder") return [{ text: "The black cat drinks milk." }, { text: "She gave him a red car." }];
  if (about.kind === "decoder") return [{ text: "Once upon a time, there was a little girl named" }, { text: "The doctor asked the nurse because she" }, { text: "one two three four one two three" }];
  return [{ text: "The cat sat on the mat." }];
}
function drawExamples() {
  const about = modelNow(), examples = about.input === "text" || recording ? examplesOf(about) : [];
  $("examples").replaceChildren(...(examples.length ? [recording ? "Recorded: " : "Try: "] : []), ...examples.map(example => {
    const chip = element("button", nameOfInput(example).replace(/\s+/g, " "), { type: "button", class: "plain", title: nameOfInput(example) });
    chip.onclick = () => { letGo(); watchedId = null; change({ ...nothing, model: ask.model, versus: ask.versus, other: ask.other, other_model: ask.other_model, changes: ask.changes, steering: ask.steering, traps: ask.traps, ...example }); syncForm(); run(); };
    return chip;
  }));
  if (recording || inputOf(about) !== "image") return;
  $("examples").append("Try a drawn ", ...Object.keys(drawnPictures).map(name => {
    const chip = element("button", name, { type: "button", class: "plain" });
    chip.onclick = () => { letGo(); takePicture(name); };
    return chip;
  }));
}

// ---- the form
function syncForm() {
  const about = modelNow();
  for (const name of ["text", "pair", "target", "labels", "other"]) if ($(name).value !== ask[name]) $(name).value = ask[name];
  fill($("versus"), versusNames());
  $("model").value = ask.model;
  $("versus").value = ask.versus === "model" ? "model" + ask.other_model : ask.versus;
  $("pair-box").hidden = !about.takes_pair || /^(masked_lm|token|ctc)$/.test(about.head) && !ask.pair;  // which seldom read two
  $("target-box").hidden = !about.takes_target;
  $("labels-box").hidden = !about.takes_labels;
  $("other-box").hidden = about.input !== "text" || ask.versus !== "text" && !ask.other;
  drawSteering();
  syncFiles();
  if (drawExamples.of !== ask.model) { drawExamples.of = ask.model; drawExamples(); }
  if (recording) for (const chip of $("examples").querySelectorAll("button")) chip.setAttribute("aria-pressed", chip.title === nameOfInput(ask));
  const parts = Object.entries(about.layers).filter(([, count]) => count).map(([name, count]) => (about.kind === "encoder-decoder" || name === "text" ? name + ": " : "") + count + (count === 1 ? " layer of " : " layers of ") + about.heads[name] + " heads");
  $("about-model").textContent = [taskNames[about.takes_labels ? "towers" : about.head || (about.kind === "decoder" ? "causal_lm" : about.input === "sound" ? "ctc" : "encoder_decoder")], about.family, ...parts].join(" · ");
}
function listen() {
  $("ask").onsubmit = event => event.preventDefault();
  for (const name of ["text", "pair", "target", "labels", "other"]) {
    $(name).oninput = () => {
      if (name === "labels") watchedId = null;
      if (name === "other") { clearTimeout(noteCounts.timer); noteCounts.timer = setTimeout(noteCounts, 250); }
      const fresh = name === "text" || name === "pair" ? { ids: null, target_ids: null } : name === "target" ? { target_ids: null } : {};
      change({ [name]: $(name).value, ...fresh }, "type " + name);
      if (name !== "other" || ask.versus === "text") typed();
    };
    $(name).onkeydown = event => { if (event.key === "Enter" && event.ctrlKey) run(); };
  }
  $("model").onchange = () => { change({ model: +$("model").value, ids: null, target_ids: null, changes: [], steering: [], versus: ask.versus === "model" ? "" : ask.versus }); letGo(); watchedId = null; syncForm(); run(); };
  $("versus").onchange = () => {
    const [, kind, model] = /^(model|)(.*)$/.exec($("versus").value);
    change(kind ? { versus: "model", other_model: +model } : { versus: model });
    syncForm();
    if (ask.versus === "text" && takesFile()) { if (ask.other_file === null) $("other_file-choose").focus(); }
    else if (ask.versus === "text" && !ask.other) $("other").focus();
    run();
  };
  if (!Recording.isHere()) listenToFiles();
  $("undo").onclick = () => goBack(past, future);
  $("redo").onclick = () => goBack(future, past);
  $("link").onclick = async () => { await navigator.clipboard.writeText(location.href.replace(/[?#].*$/s, "") + addressText()); $("status").textContent = "copied"; };
  $("continue").onclick = () => { if (going) going = false; else goOn(Math.max(1, Math.min(200, +$("count").value || 1))); };
  $("ablate").onclick = () => { const head = headNow(), now = changeOf(head); setChange(head, now && now.factor === 0 ? null : { factor: 0 }); };
  $("mean").onclick = () => { const head = headNow(), now = changeOf(head); setChange(head, now && now.mean ? null : { mean: true }); };
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
  vectors: true,
  changed: (kind, layer, head) => ask.changes.some(one => sameHead(one, { kind, layer, head })),
  shown() {
    if (!results.length) return;
    writeAddress();
    drawHead();
    markTokens();
    markWhy();
    if (viewer.state.view === "neurons" && !viewer.kind.vectors && !running.vectors) { run(); running.vectors = true; }
  },
  chosen: drawChosen,
});

async function start() {
  try {
    if (Recording.isHere()) recording = await Recording.ofPage();
    models = recording ? recording.models : (await answerOf(await fetch("/api/models", { headers: { "X-Heed-Token": token } }))).models;
  } catch (error) { complain(error.message); return; }
  fill($("model"), models.map((one, i) => [i, one.name]));
  $("model-box").hidden = models.length < 2;
  if (models.length === 1) plainTitle = models[0].name + " · heed explore";
  document.querySelector("header h1").textContent = models.length === 1 ? models[0].name : "heed explore";
  if (recording) openRecording();
  readAddress();
  drawHistory();
  syncForm();
  run();
}
listen();
start();
