// What is shown of all maps: the controls that choose it, the overview of all heads, and the address that restores it.
const measureNames = { weights: "attention weights", norms: "value-weighted norms", gradient: "gradient × attention" };
const kindNotes = { cross: "Rows are the target's tokens, as they are produced.", decoder: "Rows are the tokens that the decoder has read; each step predicts the next." };
const patterns = { "": "…", focus: "few tokens", previous: "previous token", next: "next token", first: "first token", same: "own position", repeat: "same token elsewhere", induction: "induction (after an earlier same token)" };
const viewNames = { matrix: "Matrix", lines: "Lines", neurons: "Queries · keys", picture: "Image" };
const headName = (head, kind) => typeof head === "number" ? "head " + head : head === "rollout" ? head : (head === "mean" ? "mean" : "largest") + (kind.some_heads ? " of shown heads" : " of heads");
const headOf = text => /^\d+$/.test(text) ? +text : text;

const scales = { all: "largest of all heads", own: "largest of this map", one: "1" };

class Viewer {
  /// `options`: aside: facts of the data are listed beside the map; vectors: queries and keys can be had for any kind;
  /// steps: kinds without candidates have steps too; shown(): called after something else is shown; held(query, key): after a token was chosen.
  constructor(options) {
    this.options = options;
    this.state = { kind: 0, measure: "weights", layer: 0, head: 0, view: "matrix", query: -1, key: -1, held: false, step: Infinity, scale: "all", pattern: "", also: [], strongest: false };
    this.panels = [];
    this.overviewOf = 0;
    this.drawn = Promise.resolve();
    this.overview = new Overview(this);
    fill($("scale"), Object.entries(scales));
    this.listen();
  }

  get data() { return this.panels[0].data; }
  get kind() { return this.data.kinds[this.state.kind]; }
  get step() { return Math.min(this.state.step, this.kind.queries.length - 1); }
  /// The heads whose lines are shown, if some are chosen.
  get lineHeads() {
    const { state, kind, data } = this;
    return state.view === "lines" ? state.also.filter(head => data.has(kind, state.measure, state.layer, head)) : [];
  }
  get title() {
    const { state, lineHeads } = this, plain = state.measure === "weights" || (state.head === "rollout" && !lineHeads.length);
    const heads = lineHeads.length > 1 ? "heads " + lineHeads.join(", ") : headName(lineHeads.length ? lineHeads[0] : state.head, this.kind);
    return this.kind.title + ", layer " + state.layer + ", " + heads + (plain ? "" : ", " + measureNames[state.measure]);
  }

  /// Shows other data: [{data, caption}], the first of which says what there is to choose. What was chosen is kept where it can be.
  open(entries) {
    const before = this.panels.length ? this.kind.kind : null, { state } = this;
    while (this.panels.length < entries.length) this.panels.push(new MapPanel(this));
    this.panels.length = entries.length;
    entries.forEach(({ data, caption }, i) => this.panels[i].open(data, entries.length > 1 ? caption : ""));
    if (this.panels.some((panel, i) => $("panels").children[i] !== panel.box) || $("panels").children.length !== entries.length) $("panels").replaceChildren(...this.panels.map(panel => panel.box));
    $("panels").classList.toggle("several", entries.length > 1);
    $("detail").parentElement.classList.toggle("comparing", entries.length > 1);
    this.overviewOf = Math.min(this.overviewOf, entries.length - 1);
    fill($("all-of"), entries.map(({ caption }, i) => [i, caption]));
    $("all-of").value = this.overviewOf;
    $("all-of-box").hidden = entries.length < 2;
    if (!this.shades) this.shades = new Shades(this.data);
    if (before === null) return;
    state.kind = Math.max(0, this.data.kinds.findIndex(kind => kind.kind === before));
    if (state.query >= this.kind.queries.length || state.key >= this.kind.keys.length) Object.assign(state, { query: -1, key: -1, held: false });
    if (state.step >= this.kind.queries.length) state.step = Infinity;
    this.rebuild();
  }

  /// Of a picture, what counts is what is shown over it.
  fullColor(kind, values) {
    const { state, data } = this, pictures = state.view === "picture" && this.overImage(kind);
    if (state.scale === "one") return 1;
    if (state.scale === "all") return Math.max(...this.panels.map(({ data }) => {
      const same = data.kinds.find(other => other.kind === kind.kind);
      return !same ? 0 : pictures ? data.largestOver(same, state.measure, state.head) : data.largest(same, state.measure, state.head);
    }));
    let most = 0;
    for (const value of pictures ? partsOf(kind, values, state.query, data.image) : values) most = Math.max(most, Math.abs(value));
    return most || 1;
  }

  overImage(kind) {
    const { image, sound } = this.data, keys = image && image.first + image.rows * image.columns;
    return !!image && !kind.kind.startsWith("text") && (sound ? kind.keys.length >= keys && kind.kind !== "decoder" : kind.keys.length === keys);
  }

  /// The recording along whose time a kind's keys are, for the matrix: it and its image, or null.
  alongTime(kind) {
    const { image, sound } = this.data;
    return sound && image && image.rows === 1 && this.overImage(kind) ? { ...sound, image } : null;
  }

  /// The head whose weight is most on few tokens, those that gather weight in every text left out.
  worthSeeing(kind) {
    const heads = kind.maps.filter(m => typeof m.head === "number" && m.scores && m.measure === "weights").sort((a, b) => b.scores.focus - a.scores.focus);
    const map = heads[0] || kind.maps[0];
    return { layer: map.layer, head: map.measure === "rollout" ? "rollout" : map.head };
  }

  show(change) {
    const { state } = this;
    Object.assign(state, change);
    const kind = this.kind, pictured = state.view === "picture";
    if (!this.data.has(kind, state.measure, state.layer, state.head)) Object.assign(state, this.worthSeeing(kind));
    document.body.classList.toggle("pictured", pictured);
    if (this.overviewPictures !== pictured) { this.overviewPictures = pictured; this.overview.build(); }
    this.overview.mark();
    markTab($("views"), state.view);
    $("layer").value = state.layer; $("head").value = state.head; $("measure").value = state.measure; $("scale").value = state.scale;
    this.showStep();
    this.drawn = this.draw();
    this.options.shown();
  }

  showStep() {
    const { kind, step } = this;
    $("step-now").textContent = " " + (step + 1) + " of " + kind.queries.length + ": " + kind.queries[step];
    $("step").value = step;
  }

  /// What is shown of the lines of all panels.
  showLines(change) {
    Object.assign(this.state, change);
    this.drawn = this.draw();
    this.options.shown();
  }

  async draw() {
    await Promise.all(this.panels.map(panel => panel.draw()));
    document.documentElement.dataset.drawn = performance.now().toFixed(0);
  }

  /// After another kind, measure, scale or pattern was chosen.
  rebuild() {
    const kind = this.kind, { state } = this;
    drawTabs($("kinds"), this.data.kinds.map((one, i) => [i, one.title]), state.kind, index => this.chooseKind(index));
    fill($("layer"), kind.layers.map(l => [l, l]));
    fill($("head"), kind.columns.map(h => [h, h]));
    if (!kind.measures.includes(state.measure)) state.measure = kind.measures[0] || "weights";
    fill($("measure"), kind.measures.map(m => [m, measureNames[m]]));
    const known = Object.keys(patterns).filter(p => !p || kind.maps.some(m => m.scores && p in m.scores));
    fill($("pattern"), known.map(p => [p, patterns[p]]));
    if (!known.includes(state.pattern)) state.pattern = "";
    $("pattern").value = state.pattern;
    $("step").max = kind.queries.length - 1;
    $("step-box").hidden = kind.kind === "encoder" || !kind.candidates && !this.options.steps;
    const views = ["matrix", "lines"].concat(kind.vectors || this.options.vectors ? ["neurons"] : [], this.overImage(kind) ? ["picture"] : []);
    if (!views.includes(state.view)) state.view = "matrix";
    drawTabs($("views"), views.map(view => [view, view === "picture" && (this.data.image.rows === 1 || this.data.image.upward) ? "Sound" : viewNames[view]]), state.view, view => this.show({ view }));
    this.overviewPictures = state.view === "picture";
    this.overview.build();
    this.show({});
  }

  chooseKind(index) {
    Object.assign(this.state, { kind: index, query: -1, key: -1, held: false, also: [], step: Infinity, ...this.worthSeeing(this.data.kinds[index]) });
    this.rebuild();
  }

  // ---- following a token
  follow(query, key) {
    if (this.state.held) return;
    Object.assign(this.state, { query, key });
    for (const panel of this.panels) if (panel.kind) panel.drawFollowed();
    this.overview.follow();
  }
  /// Holds a cell; one that is held is let go, except where it is to `stay`.
  hold(query, key, stay) {
    const { state } = this, same = !stay && state.held && state.query === query && state.key === key;
    state.held = false;
    this.follow(same ? -1 : query, same ? -1 : key);
    state.held = !same && (query >= 0 || key >= 0);
    if (state.query >= 0 || !state.held) state.step = state.query >= 0 && state.query < this.kind.queries.length - 1 ? state.query : Infinity;
    this.showStep();
    if (this.options.held) this.options.held(state.query, state.key);
    this.options.shown();
  }

  listen() {
    $("layer").onchange = () => this.show({ layer: +$("layer").value });
    $("head").onchange = () => this.show({ head: headOf($("head").value) });
    $("measure").onchange = () => { this.state.measure = $("measure").value; this.rebuild(); };
    $("scale").onchange = () => { this.state.scale = $("scale").value; this.rebuild(); };
    $("all-of").onchange = () => { this.overviewOf = +$("all-of").value; this.overview.build(); this.overview.mark(); this.options.shown(); };
    $("pattern").onchange = () => {
      const pattern = this.state.pattern = $("pattern").value, best = this.kind.maps.filter(m => pattern && m.scores && typeof m.head === "number").sort((a, b) => b.scores[pattern] - a.scores[pattern])[0];
      if (best) Object.assign(this.state, { layer: best.layer, head: best.head });
      this.rebuild();
    };
    $("step").oninput = () => { const step = +$("step").value; this.show({ step: step === this.kind.queries.length - 1 ? Infinity : step, query: step, key: -1, held: true }); if (this.options.held) this.options.held(step, -1); };
    window.addEventListener("resize", () => {
      if (!this.panels.length) return;
      if (this.widthOfOverview !== window.innerWidth) this.overview.build();
      this.widthOfOverview = window.innerWidth;
      this.show({});
    });
    dark.onchange = () => this.restyle();
    window.onbeforeprint = () => this.restyle(true);
    window.onafterprint = () => this.restyle();
    document.addEventListener("keydown", event => this.onKey(event));
  }

  /// After the page became light or dark; paper is `light` whatever the page is. What is decoded is drawn before this returns to
  /// the browser, in its microtasks.
  restyle(light) {
    document.documentElement.classList.toggle("light", !!light);
    if (!this.panels.length) return;
    this.shades.restyle();
    if (light) this.drawn = this.draw();
    else this.rebuild();
  }

  onKey(event) {
    if (!this.panels.length || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") { this.hold(-1, -1); return; }
    const turn = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (!turn || /^(SELECT|INPUT|TEXTAREA|SUMMARY)$/.test(event.target.tagName) || (event.target.closest && event.target.closest("[data-own-arrows]"))) return;
    event.preventDefault();
    const { kind, state } = this, step = (list, now, by) => list[(list.indexOf(now) + by + list.length) % list.length];
    this.show({ layer: step(kind.layers, state.layer, turn[0]), head: step(kind.columns, state.head, turn[1]) });
    if ($("overview").contains(document.activeElement)) this.overview.focus();
  }

  // ---- the address: kind/measure/layer.head/view, then q, k and s with the query, key and step, and what else is not as it begins
  address() {
    const { state } = this, part = (letter, value) => value >= 0 && Number.isFinite(value) ? "/" + letter + value : "";
    const held = state.held ? part("q", state.query) + part("k", state.key) : "";
    const more = [["also", state.also.join(".")], ["strongest", state.strongest ? 1 : ""], ["scale", state.scale === "all" ? "" : state.scale], ["find", state.pattern], ["overview", this.overviewOf || ""]];
    return [encodeURIComponent(this.kind.kind), state.measure, state.layer + "." + state.head, state.view].join("/") + held + part("s", state.step) +
      more.filter(([, value]) => value !== "").map(([name, value]) => "/" + name + "=" + value).join("");
  }
  read(address) {
    const parts = address.split("/"), rest = parts.slice(4), at = (letter, count) => {
      const part = rest.find(p => p[0] === letter && /^\d+$/.test(p.slice(1))), index = part ? +part.slice(1) : -1;
      return index < count ? index : -1;
    };
    const more = new URLSearchParams(rest.filter(p => p.includes("=")).join("&"));
    const { state, data } = this;
    state.kind = Math.max(0, data.kinds.findIndex(k => encodeURIComponent(k.kind) === parts[0]));
    const kind = this.kind, [layer, head] = (parts[2] || "").split("."), wanted = { layer: parseInt(layer, 10), head: headOf(head || "") };
    state.measure = kind.measures.includes(parts[1]) ? parts[1] : kind.measures[0] || "weights";
    Object.assign(state, data.has(kind, state.measure, wanted.layer, wanted.head) ? wanted : this.worthSeeing(kind));
    state.view = parts[3] in viewNames ? parts[3] : this.overImage(kind) && !this.alongTime(kind) ? "picture" : "matrix";
    state.query = at("q", kind.queries.length); state.key = at("k", kind.keys.length);
    if (!parts[0] && kind.mask !== undefined) state.query = kind.mask;  // a new page opens on what is asked
    state.held = state.query >= 0 || state.key >= 0;
    const step = at("s", kind.queries.length);
    state.step = step >= 0 ? step : Infinity;
    const heads = (more.get("also") || "").split(".").filter(Boolean).map(Number), scale = more.get("scale");
    Object.assign(state, { also: heads.filter(head => kind.heads.includes(head)), strongest: more.has("strongest"), scale: scale in scales ? scale : "all", pattern: more.get("find") || "" });
    this.overviewOf = this.panels[+more.get("overview")] ? +more.get("overview") : 0;
    $("all-of").value = this.overviewOf;
    this.rebuild();
  }
}
