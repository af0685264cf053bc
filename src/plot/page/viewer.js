// What is shown of all maps: the controls that choose it, what is chosen in them, and the address that restores it.
const measureNames = { weights: "attention weights", norms: "value-weighted norms", gradient: "gradient × attention" };
const patterns = { "": "…", content: "content words", focus: "one or a few tokens", previous: "previous token", next: "next token", first: "first token", same: "own position", repeat: "same token elsewhere", induction: "what followed the same token (induction)" };
const headName = (head, kind) => typeof head === "number" ? "head " + head : head === "rollout" ? head : (head === "mean" ? "mean" : "largest") + (kind.some_heads ? " of shown heads" : " of heads");
const headOf = text => /^\d+$/.test(text) ? +text : text;
const scales = { all: "all heads", own: "this map", one: "1" };
const kindNames = { cross: "Cross-attention", encoder: "Encoder", decoder: "Decoder", text: "Text", image: "Image", pooling: "Pooling" };
const taskNames = { causal_lm: "predicts the next token", masked_lm: "fills in a masked word", sequence: "classifies", token: "labels each token", span: "finds the answer in a text", ctc: "writes down speech", encoder_decoder: "writes a text about its input", towers: "compares images and texts", none: "encodes" };
const coarse = window.matchMedia("(pointer: coarse)");
const roomy = window.matchMedia("(min-width: 700px)");

/// What one sees in a map, in a sentence.
function leadOf(panel) {
  const { kind, data, viewer } = panel, { state } = viewer, view = viewNamed(state.view), own = view.lead && view.lead(panel);
  if (own) return own;
  const dark = isDark() ? "bright" : "dark", decodes = kind.kind === "decoder" && !data.kinds.some(one => one.kind === "cross");
  if (state.head === "rollout") return "A row is a token; " + dark + " cells are the tokens that reach it through all layers so far.";
  const what = { norms: dark + " is from where it takes much", gradient: "blue weights raise the answer, orange ones lower it" }[state.measure];
  if (kind.kind === "cross") return (data.sound ? "A row is a token being written; " : "A row is the word being written; ") + (what || dark + " is where it looks in the " + (data.sound ? "recording" : data.image ? "image" : "source")) + ".";
  if (decodes) return "A row is a token; " + (what || dark + " is where it looks back to, to guess the next one") + ".";
  if (kind.kind === "decoder") return "A row is a token that the decoder has read; " + (what || dark + " is where it looks back to in its own text") + ".";
  if (kind.own !== undefined && data.model && data.model.task === "masked_lm" && !what) return "A row is a token; " + dark + " is where it looks. The mask's row is what its guess is taken from.";
  return "A row is a token; " + (what || dark + " is where it looks in the " + (data.image && data.overImage(kind) ? "input" : "text")) + ".";
}

class Viewer {
  /// `options`: vectors: queries and keys can be had for any kind; shown(): called after something else is shown; chosen(): after another
  /// token is chosen, hovered or pinned; changed(kind, layer, head): whether a head is changed.
  constructor(options) {
    this.options = { chosen() {}, ...options };
    this.state = freshState();
    this.panels = [];
    this.overviewOf = 0;
    this.drawn = Promise.resolve();
    this.overview = new Overview(this);
    fill($("scale"), Object.entries(scales));
    this.listen();
    listenForHelp();
  }

  get data() { return this.panels[0].data; }
  get kind() { return this.data.kinds[this.state.kind]; }
  get query() { return this.panels[0].query; }
  get wide() { return roomy.matches; }
  /// What there is to choose as the head: in a view of one head no mean and the like.
  get heads() { return viewNamed(this.state.view).single ? this.kind.heads : this.kind.columns; }
  /// The heads whose lines are shown, if some are chosen.
  get lineHeads() {
    const { state, kind, data } = this;
    return state.view === "lines" ? state.also.filter(head => data.has(kind, state.measure, state.layer, head)) : [];
  }
  get title() {
    const { state, lineHeads } = this, plain = state.measure === "weights" || (state.head === "rollout" && !lineHeads.length);
    const heads = lineHeads.length > 1 ? "heads " + lineHeads.join(", ") : headName(lineHeads.length ? lineHeads[0] : state.head, this.kind);
    const name = this.kind.title.replace(/^./, c => c.toUpperCase());
    return viewNamed(state.view).whole ? name : name + ", layer " + state.layer + ", " + heads + (plain ? "" : ", " + measureNames[state.measure]);
  }
  /// The title beside the tabs of views: the kind of attention stands above.
  get heading() { return viewNamed(this.state.view).whole ? this.title : this.title.slice(this.kind.title.length + 2).replace(/^./, c => c.toUpperCase()); }
  /// The query of rows of a domain in some data: the chosen one where these rows are shown, else where the page would look by itself.
  queryIn(data, kind) {
    const { pin, hover } = this.state, chosen = pin || hover;
    if (chosen && domainOf(kind) === domainOf(this.kind) && chosen.query >= 0 && chosen.query < kind.queries.length) return chosen.query;
    return ownQuery(data, kind);
  }

  /// Shows other data: [{data, caption}], the first of which says what there is to choose. What was chosen is kept where it can be.
  open(entries) {
    const before = this.panels.length ? this.kind.kind : null, { state } = this;
    while (this.panels.length < entries.length) this.panels.push(new MapPanel(this));
    this.panels.length = entries.length;
    entries.forEach(({ data, caption }, i) => this.panels[i].open(data, entries.length > 1 ? caption : ""));
    if (this.panels.some((panel, i) => $("panels").children[i] !== panel.box) || $("panels").children.length !== entries.length) $("panels").replaceChildren(...this.panels.map(panel => panel.box));
    $("panels").classList.toggle("several", entries.length > 1);
    document.querySelector("main").classList.toggle("comparing", entries.length > 1);
    this.overviewOf = Math.min(this.overviewOf, entries.length - 1);
    fill($("all-of"), entries.map(({ caption }, i) => [i, caption]));
    $("all-of").value = this.overviewOf;
    $("all-of-box").hidden = entries.length < 2;
    if (!this.shades) this.shades = new Shades(this.data);
    state.hover = null;
    if (before === null) return;
    const kind = Math.max(0, this.data.kinds.findIndex(kind => kind.kind === before)), same = this.data.kinds[kind].kind === before;
    state.kind = kind;
    const { queries, keys } = this.kind;
    if (state.pin && (!same || state.pin.query >= queries.length || state.pin.key >= keys.length)) state.pin = null;
    if (state.zoom && (!same || state.zoom[0] >= queries.length || state.zoom[2] >= keys.length)) state.zoom = null;
    this.rebuild();
  }

  /// The number in full color. Of a picture, what counts is what is shown over it.
  fullColor(kind, values, query) {
    const { state, data } = this, pictures = state.view === "picture" && data.overImage(kind);
    if (state.scale === "one") return 1;
    if (state.scale === "all") return Math.max(...this.panels.map(({ data }) => {
      const same = data.kinds.find(other => other.kind === kind.kind);
      return !same ? 0 : pictures ? data.largestOver(same, state.measure, state.head) : data.largest(same, state.measure, state.head);
    }));
    let most = 0;
    for (const value of pictures ? partsOf(kind, values, query, data.image) : values) most = Math.max(most, Math.abs(value));
    return most || 1;
  }

  /// The recording along whose time a kind's keys are, for the matrix: it and its image, or null.
  alongTime(kind) {
    const { image, sound } = this.data;
    return sound && image && image.rows === 1 && this.data.overImage(kind) ? { ...sound, image } : null;
  }

  /// What a page opens on: of cross-attention the mean of the last layer's heads, which shows the alignment; of others the head whose
  /// rows look most at content words (the score `content`: plot/page_data.h), so no head that looks at the first, previous or own token.
  worthSeeing(kind) {
    const last = kind.layers[kind.layers.length - 1];
    if (kind.kind === "cross" && this.data.has(kind, "weights", last, "mean")) return { layer: last, head: "mean" };
    const worth = m => m.scores.content === undefined ? m.scores.focus : m.scores.content;
    const map = kind.maps.filter(m => typeof m.head === "number" && m.scores && m.measure === "weights").sort((a, b) => worth(b) - worth(a))[0] || kind.maps[0];
    return { layer: map.layer, head: map.measure === "rollout" ? "rollout" : map.head };
  }

  show(change) {
    const { state } = this;
    Object.assign(state, change);
    const kind = this.kind, pictured = state.view === "picture";
    if (!this.data.has(kind, state.measure, state.layer, state.head)) Object.assign(state, this.worthSeeing(kind));
    if (!this.heads.includes(state.head)) state.head = this.heads[0];
    fill($("head"), this.heads.map(h => [h, h]));
    document.body.classList.toggle("pictured", pictured);
    document.body.classList.toggle("wide", !!viewNamed(state.view).wide);
    if (this.overviewPictures !== pictured) { this.overviewPictures = pictured; this.overview.build(); }
    this.overview.mark();
    markTab($("views"), state.view);
    $("layer").value = state.layer; $("head").value = state.head; $("measure").value = state.measure; $("scale").value = state.scale;
    $("which").textContent = this.heading;
    $("lead").textContent = leadOf(this.panels[0]);
    this.showChoice();
    this.drawn = this.draw();
    this.options.shown();
  }

  /// Slider, its words, and whether the choice is pinned.
  showChoice() {
    const { kind, state, data } = this, query = this.query, count = kind.queries.length;
    $("step-name").textContent = domainOf(kind) === "target" ? "Step" : "Position";
    $("step").max = count - 1;
    $("step").value = Math.max(0, query);
    $("step").setAttribute("aria-valuetext", query < 0 ? "all" : kind.queries[query]);
    $("step-now").textContent = query < 0 ? "all " + count : query + 1 + " of " + count + ": " + isolated(kind.queries[query]);
    $("step-box").hidden = count < 2;
    $("unpin").classList.toggle("away", !state.pin);
    $("pin-state").textContent = state.pin ? "" : state.hover ? "pointed at" : followed(data, kind);
    $("zooms").hidden = state.view !== "matrix" && state.view !== "lines" || count < 12 && kind.keys.length < 12 || !!this.alongTime(kind);
    for (const id of ["zoom-out", "zoom-all"]) $(id).disabled = !state.zoom;
  }

  /// Pixels for a map: to the lower edge of the window, whatever the text.
  get height() {
    const top = this.panels[0].part("stage").getBoundingClientRect().top + window.scrollY;
    return this.wide ? Math.max(320, window.innerHeight - Math.min(top, 0.55 * window.innerHeight) - 78) : Math.max(260, 0.75 * window.innerHeight);
  }

  /// What is shown of the lines of all panels.
  showLines(change) {
    Object.assign(this.state, change);
    $("which").textContent = this.heading;
    this.drawn = this.draw();
    this.options.shown();
  }

  async draw() {
    document.documentElement.style.setProperty("--stage", Math.min(this.height, this.panels[0].room.width) + "px");
    await Promise.all(this.panels.map(panel => panel.draw()));
    document.documentElement.dataset.drawn = performance.now().toFixed(0);
  }

  /// After another kind, measure, scale or pattern was chosen.
  rebuild() {
    const kind = this.kind, { state } = this;
    drawTabs($("kinds"), this.data.kinds.map((one, i) => [i, this.data.kinds.length > 1 && kindNames[one.kind] || one.title.replace(/^./, c => c.toUpperCase())]), state.kind, index => this.chooseKind(index));
    fill($("layer"), kind.layers.map(l => [l, l]));
    if (!kind.measures.includes(state.measure)) state.measure = kind.measures[0] || "weights";
    fill($("measure"), kind.measures.map(m => [m, measureNames[m]]));
    const known = Object.keys(patterns).filter(p => !p || kind.maps.some(m => m.scores && p in m.scores));
    fill($("pattern"), known.map(p => [p, p ? "that looks at " + patterns[p] : patterns[p]]));
    if (!known.includes(state.pattern)) state.pattern = "";
    $("pattern").value = state.pattern;
    const shown = views.filter(view => view.fits(this));
    if (!shown.some(view => view.name === state.view)) state.view = "matrix";
    drawTabs($("views"), shown.map(view => [view.name, view.title(this)]), state.view, view => this.show({ view }));
    for (const tab of $("views").children) tab.dataset.help = viewNamed(tab.dataset.value).help;
    describe($("views"));
    this.overviewPictures = state.view === "picture";
    this.show({});
    this.overview.build();  // while the map's numbers come
    this.options.chosen();
  }

  chooseKind(index) {
    const { state, kind } = this, next = this.data.kinds[index], stays = state.pin && domainOf(next) === domainOf(kind) && state.pin.query < next.queries.length;
    Object.assign(state, { kind: index, pin: stays ? { query: state.pin.query, key: -1 } : null, hover: null, zoom: null, also: [], ...this.worthSeeing(next) });
    this.rebuild();
  }

  // ---- the chosen token
  /// What the mouse or the focus is over; nothing, (-1, -1), while a token is pinned.
  follow(query, key) {
    const { state } = this, now = query < 0 && key < 0 ? null : { query, key };
    if (state.pin || JSON.stringify(now) === JSON.stringify(state.hover)) return;
    state.hover = now;
    this.chosen();
  }
  /// Pins a cell; one that is pinned is let go, except where it is to `stay`.
  hold(query, key, stay) {
    const { state } = this, same = !stay && state.pin && state.pin.query === query && state.pin.key === key;
    state.pin = same || (query < 0 && key < 0) ? null : { query, key };
    state.hover = null;
    if (state.zoom && state.pin) this.reveal();
    this.chosen();
    this.options.shown();
  }
  /// Draws what depends on the chosen token.
  chosen() {
    this.showChoice();
    for (const panel of this.panels) panel.follow();
    this.overview.follow();
    this.options.chosen();
  }

  // ---- zoom
  /// Shows rows q0 to q1 and columns k0 to k1 alone, or with null all.
  zoom(range) {
    this.state.zoom = range;
    this.show({});
  }
  /// Half or twice as much, around the chosen cell.
  zoomBy(direction) {
    const { kind } = this, panel = this.panels[0], { q0, q1, k0, k1 } = panel.range, counts = [kind.queries.length, kind.keys.length];
    const around = (from, to, at, count) => {
      const size = Math.max(Math.min(4, count), Math.min(count, Math.round((to - from) * (direction > 0 ? 0.5 : 2)))), middle = at < 0 ? (from + to) / 2 : at + 0.5, first = Math.max(0, Math.min(count - size, Math.round(middle - size / 2)));
      return [first, first + size];
    };
    const key = panel.key >= 0 ? panel.key : kind.queries.length === kind.keys.length ? panel.query : -1, rows = around(q0, q1, panel.query, counts[0]), columns = around(k0, k1, key, counts[1]);
    this.zoom(rows[1] - rows[0] === counts[0] && columns[1] - columns[0] === counts[1] ? null : [...rows, ...columns]);
  }
  /// Moves the zoomed part so that the pinned cell is in it.
  reveal() {
    const { state, kind } = this, { pin } = state, [q0, q1, k0, k1] = state.zoom, moved = (from, to, at, count) => at < 0 || at >= from && at < to ? [from, to] : (first => [first, first + to - from])(Math.max(0, Math.min(count - (to - from), Math.round(at - (to - from) / 2))));
    const zoom = [...moved(q0, q1, pin.query, kind.queries.length), ...moved(k0, k1, pin.key, kind.keys.length)];
    if (zoom.join() !== state.zoom.join()) this.zoom(zoom);
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
    for (const more of document.querySelectorAll(".more")) more.onclick = () => { const open = $(more.getAttribute("aria-controls")).parentElement.classList.toggle("open"); more.setAttribute("aria-expanded", open); more.textContent = open ? "Less" : "More"; };
    $("step").oninput = () => this.hold(+$("step").value, -1, true);
    $("unpin").onclick = () => { this.hold(-1, -1); $("step").focus(); };
    $("zoom-in").onclick = () => this.zoomBy(1);
    $("zoom-out").onclick = () => this.zoomBy(-1);
    $("zoom-all").onclick = () => this.zoom(null);
    window.addEventListener("resize", () => {
      cancelAnimationFrame(this.resizing);
      this.resizing = requestAnimationFrame(() => {
        if (!this.panels.length) return;
        this.overview.build();
        this.show({});
      });
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
    this.show({ layer: step(kind.layers, state.layer, turn[0]), head: step(this.heads, state.head, turn[1]) });
    if ($("overview").contains(document.activeElement)) this.overview.focus();
  }

  // ---- the address: kind/measure/layer.head/view, then q and k with the pinned query and key, and what else is not as it begins
  address() {
    const { state } = this, part = (letter, value) => value >= 0 ? "/" + letter + value : "", pin = state.pin || { query: -1, key: -1 };
    const more = [["zoom", state.zoom ? state.zoom.join(".") : ""], ["also", state.also.join(".")], ["strongest", state.strongest ? 1 : ""], ["scale", state.scale === "all" ? "" : state.scale], ["find", state.pattern], ["overview", this.overviewOf || ""]];
    return [encodeURIComponent(this.kind.kind), state.measure, state.layer + "." + state.head, state.view].join("/") + part("q", pin.query) + part("k", pin.key) +
      more.filter(([, value]) => value !== "").map(([name, value]) => "/" + name + "=" + value).join("");
  }
  /// Addresses of earlier pages have the step of an unpinned token as s, which is then pinned.
  read(address) {
    const parts = address.split("/"), rest = parts.slice(4), at = (letter, count) => {
      const part = rest.find(p => p[0] === letter && /^\d+$/.test(p.slice(1))), index = part ? +part.slice(1) : -1;
      return index < count ? index : -1;
    };
    const more = new URLSearchParams(rest.filter(p => p.includes("=")).join("&"));
    const { data } = this, state = Object.assign(this.state, freshState());
    state.kind = Math.max(0, data.kinds.findIndex(k => encodeURIComponent(k.kind) === parts[0]));
    const kind = this.kind, [layer, head] = (parts[2] || "").split("."), wanted = { layer: parseInt(layer, 10), head: headOf(head || "") };
    state.measure = kind.measures.includes(parts[1]) ? parts[1] : kind.measures[0] || "weights";
    Object.assign(state, data.has(kind, state.measure, wanted.layer, wanted.head) ? wanted : this.worthSeeing(kind));
    state.view = viewNamed(parts[3]) ? parts[3] : data.overImage(kind) && !this.alongTime(kind) ? "picture" : "matrix";
    const query = at("q", kind.queries.length), key = at("k", kind.keys.length), step = query < 0 && key < 0 ? at("s", kind.queries.length) : query;
    if (step >= 0 || key >= 0) state.pin = { query: step, key };
    const heads = (more.get("also") || "").split(".").filter(Boolean).map(Number), scale = more.get("scale"), zoom = (more.get("zoom") || "").split(".").map(Number);
    Object.assign(state, { also: heads.filter(head => kind.heads.includes(head)), strongest: more.has("strongest"), scale: scale in scales ? scale : "all", pattern: more.get("find") || "" });
    const inside = (a, b, count) => Number.isInteger(a) && Number.isInteger(b) && a >= 0 && a < b && b <= count;
    if (zoom.length === 4 && inside(zoom[0], zoom[1], kind.queries.length) && inside(zoom[2], zoom[3], kind.keys.length)) state.zoom = zoom;
    this.overviewOf = this.panels[+more.get("overview")] ? +more.get("overview") : 0;
    $("all-of").value = this.overviewOf;
    this.rebuild();
  }
}
