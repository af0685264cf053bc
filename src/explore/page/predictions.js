// What the model says: the tokens with those that can be asked about, and the candidates of the chosen one.
const modelNow = () => models[ask.model];
const kindOf = (answer, name) => answer.data.kinds.find(kind => kind.kind === name);
const isStepwise = () => modelNow().kind !== "encoder";

/// The kind whose rows the predictions are about.
function predictedKind(answer) {
  const of = answer.predictions.length && answer.predictions[0].of;
  return kindOf(answer, of) || kindOf(answer, isStepwise() ? "decoder" : "encoder") || answer.data.kinds[0];
}
/// The position whose predictions are shown: that of the row that is chosen in the map, or where the page looks by itself.
function positionOf(answer) {
  const kind = predictedKind(answer), known = at => answer.predictions.some(one => one.position === at), at = kind ? viewer.queryIn(answer.data, kind) : -1;
  if (known(at)) return at;
  const own = kind ? ownQuery(answer.data, kind) : -1, positions = answer.predictions.map(one => one.position).filter(p => p !== null);
  return known(own) ? own : positions.length ? positions[positions.length - 1] : -1;
}
/// The predictions there; those without a position (classes, both ends of an answer) always.
function predictionsNow(answer) {
  const free = answer.predictions.filter(one => one.position === null || isSpan(one)), at = positionOf(answer);
  return free.length ? free : answer.predictions.filter(one => one.position === at);
}
const isSpan = prediction => prediction.of === "start" || prediction.of === "end";
/// The candidate whose logit is watched: the chosen one, else the most probable. The ends of an answer have none: they are positions.
function watched(answer) {
  const candidates = predictionsNow(answer).filter(one => !isSpan(one)).flatMap(one => one.candidates);
  return candidates.find(one => one.id === watchedId) || candidates[0] || null;
}

// ---- the tokens
/// Strips of tokens: [name, kind of attention whose rows they are, or columns where `ofKeys`]. Of a target stand the tokens that are written.
function stripsOf(answer) {
  const cross = kindOf(answer, "cross");
  if (modelNow().kind !== "encoder-decoder" || !cross) { const kind = predictedKind(answer); return kind ? [{ name: "", kind, tokens: kind.queries, ours: true }] : []; }
  const target = { name: "Target", kind: cross, tokens: cross.queries, ours: true };
  return answer.data.image ? [target] : [{ name: "Source", kind: kindOf(answer, "encoder") || cross, tokens: cross.keys, ours: false }, target];
}
function drawTokens(answer) {
  const label = kindOf(answer, "text");
  if (label && answer.label !== null) { drawLabel(answer, label); return; }
  $("tokens").hidden = !!answer.data.image && !answer.predictions.some(one => one.position !== null);  // parts are chosen in the picture
  if ($("tokens").hidden) return;
  const focused = $("tokens").contains(document.activeElement);
  $("tokens").replaceChildren(...stripsOf(answer).map(strip => drawStrip(answer, strip)));
  markTokens();
  if (focused) { const now = $("tokens").querySelector("[tabindex='0'].chosen"); if (now) now.focus(); }
}
function drawStrip(answer, { name, kind, tokens, ours }) {
  const box = element("div", null, { class: "strip", role: "group", "aria-label": name || "Tokens", "data-own-arrows": "", dir: directionOf(tokens) }), asked = new Set(answer.predictions.map(one => one.position));
  if (name) box.append(element("span", name));
  const heard = modelNow().head === "ctc" ? answer.predictions.map(one => one.candidates[0].token.replace(/^[<\[]pad[>\]]$/i, "·")) : null;  // of each frame, by its likeliest character
  tokens.forEach((token, index) => {
    const button = element("button", heard ? heard[index] : token, { type: "button", "aria-label": (heard ? heard[index] + " at " : "") + token + ", position " + index, tabindex: -1, dir: "auto" });
    if (heard) button.title = token;
    if (ours && asked.has(index)) button.classList.add("asked");
    const cell = () => cellOfToken(kind, tokens, index);
    button.onclick = () => {
      const to = cell(), shown = viewer.data.kinds.findIndex(one => one.kind === kind.kind);
      if (to) viewer.hold(...to);
      else if (shown >= 0) { viewer.chooseKind(shown); viewer.hold(index, -1, true); }
    };
    button.onmouseenter = () => { const to = cell(); if (to) viewer.follow(...to); };
    button.onmouseleave = () => viewer.follow(-1, -1);
    box.append(button);
  });
  Object.assign(box, { kind, tokens });
  box.onkeydown = event => {
    const right = box.dir === "rtl" ? -1 : 1, by = { ArrowRight: right, ArrowLeft: -right, ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...box.querySelectorAll("button")], to = by && all[all.indexOf(document.activeElement) + by];
    if (by) event.preventDefault();
    if (to) to.focus();
  };
  return box;
}
/// The row of a token in the map that is shown, else its column, else nothing.
function cellOfToken(kind, tokens, index) {
  const now = viewer.kind;
  if (domainOf(kind) === domainOf(now) && index < now.queries.length) return [index, -1];
  const same = list => list.length === tokens.length && list.every((token, i) => token === tokens[i]);
  return same(now.keys) ? [-1, index] : null;
}
/// Marks the chosen token in each strip, and whether it is pinned.
function markTokens() {
  for (const box of $("tokens").querySelectorAll(".strip")) {
    if (!box.kind) continue;
    const { state, panels } = viewer, chosen = state.pin || state.hover, cell = chosen ? [chosen.query, chosen.key] : [panels[0].query, -1], all = [...box.querySelectorAll("button")];
    all.forEach((button, index) => {
      const own = cellOfToken(box.kind, box.tokens, index), on = !!own && (own[0] >= 0 ? own[0] === cell[0] : own[1] === cell[1] && cell[1] >= 0);
      button.classList.toggle("chosen", on);
      if (on) center(box, button);
      button.setAttribute("aria-pressed", on && !!state.pin);
      button.tabIndex = on ? 0 : -1;
    });
    if (all.length && !all.some(button => !button.tabIndex)) all[0].tabIndex = 0;
  }
}
/// The chosen label beside the image: each token is shaded by what the last one, whose vector stands for the text, attends to in the last layer.
async function drawLabel(answer, kind) {
  const layer = kind.layers[kind.layers.length - 1], count = kind.keys.length;
  const strip = drawStrip(answer, { name: quoted(answer.labels[answer.label]) + ", what its last token attends to in layer " + layer + ":", kind, tokens: kind.queries, ours: false });
  $("tokens").hidden = false;
  $("tokens").replaceChildren(strip);
  const row = (await answer.data.values(kind, "weights", layer, kind.heads.length > 1 ? "mean" : kind.heads[0])).slice(-count), most = Math.max(...row) || 1;
  [...strip.querySelectorAll("button")].forEach((button, i) => {
    button.style.background = viewer.shades.css(0.5 * row[i] / most);
    button.title = kind.keys[i] + ": " + number(row[i]);
  });
}
// ---- the candidates
function titleOf(answer, prediction) {
  if (isSpan(prediction)) return "The answer's " + prediction.of;
  if (modelNow().takes_labels) return "Labels";
  if (modelNow().head === "sequence") return "Classes";
  const cross = kindOf(answer, "cross"), at = prediction.position, token = isolated(prediction.token);
  if (modelNow().head === "token") return "Label of " + token;
  if (modelNow().head === "ctc") return "At " + token;
  if (modelNow().head === "masked_lm") return "In the place of " + token + " (" + at + ")";
  return cross ? "For " + isolated(cross.queries[at]) + " (" + at + "), after " + (at ? isolated(cross.queries[at - 1]) : "the beginning") : "After " + token + " (" + at + ")";
}
function drawPredictions(all) {
  const parts = [];
  all.forEach(({ answer, caption }, index) => {
    for (const prediction of predictionsNow(answer)) parts.push(candidateTable((all.length > 1 ? caption + ": " : "") + titleOf(answer, prediction), prediction, index));
  });
  if (!parts.length) {
    const { mask_token: mask, head, takes_labels: labels } = modelNow();
    parts.push(element("p", labels ? "Write labels, one a line, to see which of them fits the image." : head === "masked_lm" ? "Write " + mask + " where the model is to say what fits." : "This model predicts nothing here: it has no head for it.", { class: "note" }));
  }
  const radio = document.activeElement && document.activeElement.name === "watched";
  $("predictions").replaceChildren(...parts);
  $("predictions").style.minHeight = isStepwise() && viewer.wide ? "310px" : "";  // what is below stays where it is
  if (radio) { const on = $("predictions").querySelector("input:checked"); if (on) on.focus(); }
  $("continue-box").hidden = !isStepwise() || !all[0].answer.predictions.length || !canContinue(all[0].answer);
}
function candidateTable(title, prediction, index) {
  const changed = prediction.candidates.some(one => one.change !== undefined), table = element("table", null, { class: (modelNow().takes_labels ? "own-labels " : "") + (changed ? "changed" : "") }), top = element("thead", null), head = element("tr", null), body = element("tbody", null);
  for (const name of [/^(sequence|token)$/.test(modelNow().head) || modelNow().takes_labels ? "label" : "token", "", "probability", "logit"].concat(changed ? ["change"] : [])) head.append(name ? element("th", name, { scope: "col" }) : element("td", "", { class: "bar-cell" }));
  top.append(head);
  table.append(element("caption", title), top, body);
  const now = index ? null : watched(results[0].answer);
  for (const one of prediction.candidates) {
    const row = element("tr", null), name = element("div", null), first = element("td", null, { class: "token-cell", title: one.token }), cell = element("td", null, { class: "bar-cell" });
    if (!index && !isSpan(prediction)) {
      const radio = element("input", null, { type: "radio", name: "watched", "aria-label": "watch the logit of " + one.token, title: "watch this logit" });
      radio.checked = one === now;
      radio.onchange = () => { watchedId = one.id; drawAnswers(); writeAddress(); if (modelNow().takes_labels) run(); };
      name.append(radio);
    }
    const takes = !index && (isStepwise() ? canRun(idsWith(results[0].answer, prediction.position, one.id)) : modelNow().head === "masked_lm" && !recording);
    const token = element(takes ? "button" : "span", one.token + (isSpan(prediction) ? " (" + one.id + ")" : ""), takes ? { type: "button", "aria-label": (isStepwise() ? "append " : "fill in ") + one.token } : {});
    if (takes) token.onclick = () => take(prediction, one);
    name.append(token);
    const known = one.probability !== null && one.probability !== undefined;
    if (known) cell.append(bar(one.probability, 1));
    first.append(name);
    row.append(first, cell, element("td", known ? percent(one.probability) : ""), element("td", fixed(one.logit, 2)));
    if (changed) row.append(element("td", one.change === undefined || one.change === null ? "" : (one.change > 0 ? "+" : "") + fixed(one.change, 2)));
    body.append(row);
  }
  return table;
}

// ---- stepping: a candidate is appended after its position, or takes the place of its mask
function idsWith(answer, position, id) {
  if (modelNow().kind === "encoder-decoder") return { target_ids: [...answer.target_ids.slice(0, position), id] };
  return { ids: [...answer.ids.slice(0, position + 1), id] };
}
function take(prediction, one) {
  const { answer } = results[0];
  watchedId = null;
  if (!isStepwise()) return fillMask(prediction, one.token);
  letGo();
  change(idsWith(answer, prediction.position, one.id));
  return run();
}
/// Writes a token into the text, instead of the mask, with as many masks before it.
function fillMask(prediction, token) {
  const { mask_token: mask } = modelNow(), { answer } = results[0];
  let before = answer.predictions.filter(one => one.position < prediction.position).length;
  const plain = token.replace(/^[·▁␣]/u, "").replace(/^##/, ""), joined = token.startsWith("##");
  const edit = {};
  for (const field of ["text", "pair"]) {
    const parts = (ask[field] || "").split(mask);
    if (before < parts.length - 1) {
      const left = parts.slice(0, before + 1).join(mask), right = parts.slice(before + 1).join(mask);
      edit[field] = (joined ? left.replace(/\s+$/, "") : left) + plain + right;
      break;
    }
    before -= parts.length - 1;
  }
  change({ ...edit, ids: null });
  syncForm();
  run();
}
function canContinue(answer) {
  const last = answer.predictions[answer.predictions.length - 1];
  return canRun(idsWith(answer, last.position, last.candidates[0].id));
}
/// The logits of what follows a position of an answer.
async function logitsAt(answer, position) {
  const { candidates, vectors, label, target, ...request } = requestOf(0);
  if (answer.target_ids) request.target_ids = answer.target_ids;
  return floatsOf((await post("/api/flow", { ...request, stack: "decoder", position })).logits);
}
/// Appends the most probable token, or one that is drawn, `count` times, and shows the result once; a new request, or `going` false, ends it.
let going = false;
async function goOn(count) {
  const label = $("continue").textContent, draws = $("continue-how").value === "drawn";
  going = true;
  letGo();
  watchedId = null;
  let { answer } = results[0], added = 0;
  for (; added < count && going; ++added) {
    const last = answer.predictions[answer.predictions.length - 1];
    if (!last || !last.candidates.length) break;
    let { id } = last.candidates[0];
    try {
      if (draws) id = drawNext(await logitsAt(answer, last.position), last.position);
    } catch (error) { complain(error.message); break; }
    change(idsWith(answer, last.position, id), "continue");
    $("continue").textContent = "Stop at " + (added + 1) + " of " + count;
    const next = await answersNow();
    if (!next) break;
    answer = next[0];
    if (draws) nameDrawn(answer);
  }
  going = false;
  $("continue").textContent = label;
  if (!added || !await run()) return;
  const tokens = writtenTokens(results[0].answer).slice(-added);
  if (isBlank(tokens)) $("blank").textContent = "The continuation is blank" + (ask.changes.length ? " with the changed heads" : "") + ": " + tokens.map(isolated).join(" ") + ".";
}
/// Whether tokens write nothing that can be seen: spaces, line feeds, and those in brackets such as the end.
const isBlank = tokens => tokens.every(token => /^(?:[·␣↵∅\s\u2400-\u2421]*|[<[].*[>\]])$/u.test(token));
/// The tokens of the text that a model writes on, or of the target; behind a target stands what would follow.
function writtenTokens(answer) {
  const cross = kindOf(answer, "cross");
  return cross ? cross.queries.slice(0, answer.target_ids.length) : kindOf(answer, "decoder").queries;
}
/// A model that writes nothing looks as if it had not run.
function drawBlank({ target }) {
  $("blank").textContent = target !== null && !target.trim() ? "The output is blank: the model ends it at once." : "";
}
