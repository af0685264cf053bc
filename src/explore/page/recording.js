// A page without a server (heed explore --export): it has what was asked and answered, and finds it again.

/// The same text for the same value, whatever the order of its keys.
const canonical = value => Array.isArray(value) ? "[" + value.map(canonical) + "]" : value && typeof value === "object" ? "{" + Object.keys(value).sort().map(key => JSON.stringify(key) + ":" + canonical(value[key])) + "}" : JSON.stringify(value);

class Recording {
  static isHere() { return !!$("recording"); }
  static async ofPage() { return new Recording(JSON.parse(new TextDecoder().decode(await inflated($("recording").textContent)))); }

  constructor({ models, address, shared, answers }) {
    Object.assign(this, { models, address, shared, answers: new Map(), packs: new Map(), requests: [] });
    for (const [path, request, answer, packs] of answers) {
      const asked = this.whole(request);
      this.requests.push({ path, request: asked });
      this.answers.set(path + canonical(asked), { answer, packs });
    }
  }
  /// A value with its references to shared ones followed; a new one at each call.
  whole(value) {
    if (Array.isArray(value)) return value.map(one => this.whole(one));
    if (!value || typeof value !== "object") return value;
    if ("@" in value) return this.whole(this.shared[value["@"]]);
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.whole(one)]));
  }
  /// A run with queries and keys answers also for one without, and the other way round.
  find(path, { vectors, ...request }) {
    return this.answers.get(path + canonical(request)) || this.answers.get(path + canonical({ ...request, vectors: true }));
  }
  has(path, request) { return !!this.find(path, request); }
  answer(path, request) {
    const found = this.find(path, request);
    if (!found) throw new Error(this.missing(path, request));
    const answer = this.whole(found.answer);
    if (answer.error) throw new Error(answer.error);
    if (found.packs) this.packs.set(answer.run, this.whole(found.packs));
    return answer;
  }
  pack(run, pack) { return this.packs.get(run)[pack]; }

  /// What was recorded in place of something that was not, in words.
  missing(path, { kind, layer, head, traps, key }) {
    const said = "This is not part of the recording", others = this.requests.filter(one => one.path === path).map(one => one.request);
    const heads = [...new Set(others.filter(one => one.layer !== undefined && (!kind || one.kind === kind)).map(one => "layer " + one.layer + ", head " + one.head))];
    if (layer !== undefined && heads.length && !heads.includes("layer " + layer + ", head " + head)) return said + (heads.length < 4 ? ", which has this of " + heads.join("; ") + "." : ".");
    if (path === "/api/why" && key !== undefined && others.length) return said + ", which has this of each query and its strongest key; heed explore computes it for any.";
    return said + (traps && traps.length > 1 ? ": one mistake at a time is." : ".");
  }
  /// The two tokens that change places in what was recorded of a text, or null.
  exchange(request) {
    const same = canonical({ ...request }), found = this.requests.find(({ request: { traps, exchange, kind, layer, head, candidates, ...about } }) => exchange && canonical(about) === same);
    return found ? found.request.exchange : null;
  }
  /// What a model was run on: edits of what is asked.
  inputs(model) {
    const found = new Map();
    for (const { path, request } of this.requests) {
      const { model: of, candidates, vectors, label, changes, steering, labels, ...about } = request;
      if (path !== "/api/run" || of !== model || changes || steering) continue;
      const answer = this.whole(this.find(path, request).answer);
      if (answer.error) continue;
      if (about.ids) about.text = answer.text;
      if (about.target_ids) about.target = answer.target;
      if (about.file !== undefined) about.file_name = inputOf(this.models[model]) + " " + about.file;
      if (labels) about.labels = labels.join("\n");
      found.set(canonical(about), about);
    }
    return [...found.values()];
  }
}
let recording = null;
const nameOfInput = ({ text, file_name, target }) => (text || file_name || "") + (target ? " → " + target : "");
/// Whether something can be asked: of a server anything.
const canAsk = (path, request) => !recording || recording.has(path, request);
function canRun(edit) {
  if (!recording) return true;
  const kept = ask;
  ask = { ...ask, ...edit };
  try { return recording.has("/api/run", requestOf(0)); } finally { ask = kept; }
}
/// In place of the fields one chooses among what was recorded.
function openRecording() {
  document.querySelector("#ask .fields").hidden = true;
  $("examples").setAttribute("aria-label", "Recorded");
  $("examples").after(element("p", "A recording without a server. What it does not hold cannot be chosen, or is said where it would stand.", { id: "recorded", class: "note" }));
  const title = document.querySelector("#notes .title");
  if (title) plainTitle = title.textContent;
}
