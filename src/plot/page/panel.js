// One map: its heading, what is followed in it, its views, and its numbers as text. A page shows one or several; what is
// chosen (layer, head, view, query, key) is the viewer's, so that they follow each other.
class MapPanel {
  constructor(viewer) {
    this.viewer = viewer;
    this.box = $("panel").content.firstElementChild.cloneNode(true);
    this.part = name => this.box.querySelector("." + name);
    this.matrix = new Matrix(this.part("matrix"));
    this.strands = new Lines(this.part("lines"));
    this.overlay = new Overlay(this.part("picture"));
    this.turn = 0;
    this.listen();
  }

  /// `caption` names the panel where there are several.
  open(data, caption) {
    Object.assign(this, { data, caption, values: null, followed: "" });
  }

  /// The kind of attention that is shown, or undefined where these data have none of that name.
  get kind() { return this.data.kinds.find(kind => kind.kind === this.viewer.kind.kind); }
  get room() { return this.part("stage").clientWidth; }
  get step() { return Math.min(this.viewer.state.step, this.kind.queries.length - 1); }
  /// The query over the image: the followed one, else of a text that of the step, or -1: see partsOf().
  get overImage() { return this.query < 0 && this.kind.kind === "cross" ? this.step : this.query; }
  /// What is followed, as far as it is here.
  get query() { return this.viewer.state.query < this.kind.queries.length ? this.viewer.state.query : -1; }
  get key() { return this.viewer.state.key < this.kind.keys.length ? this.viewer.state.key : -1; }

  listen() {
    const { viewer, matrix } = this, over = matrix.over;
    over.onmousemove = event => viewer.follow(...matrix.cellAt(this.kind, event));
    over.onmouseleave = () => viewer.follow(-1, -1);
    over.onclick = event => { const [query, key] = matrix.cellAt(this.kind, event); if (query >= 0 || key >= 0) viewer.hold(query, key); };
    over.onkeydown = event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const to = matrix.cellAfter(this.kind, this.query, this.key, event.key);
      if (to) { viewer.hold(...to, true); matrix.reveal(...to); }
      if (to || event.key === "Enter" || event.key === " ") event.preventDefault();
      if (event.key === "Enter" || event.key === " ") viewer.hold(this.query, this.key);
    };
    this.listenToImage();
    this.strands.box.onmouseleave = () => viewer.follow(-1, -1);
    this.strands.box.onkeydown = event => this.nextToken(event);
    this.part("text").ontoggle = () => { if (this.part("text").open && this.values) this.drawText(); };
    for (const button of this.box.querySelectorAll(".save button")) button.onclick = () => this.save(button.dataset.format);
  }

  /// A part of an image is a query of its own, and of other stacks a key.
  listenToImage() {
    const { viewer, overlay } = this, { canvas } = overlay, crosses = () => this.kind.kind === "cross" || this.kind.queries.length !== this.kind.keys.length;
    const cell = key => crosses() ? [Math.max(0, this.query), key] : [key, -1];
    canvas.onmousemove = event => viewer.follow(...cell(overlay.keyAt(event)));
    canvas.onmouseleave = () => viewer.follow(-1, -1);
    canvas.onclick = event => viewer.hold(...cell(overlay.keyAt(event)));
    canvas.onkeydown = event => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      const to = overlay.keyAfter(crosses() ? this.key : this.query, event.key), holds = event.key === "Enter" || event.key === " ";
      if (to >= 0) viewer.hold(...cell(to), true);
      if (holds) viewer.hold(this.query, this.key);
      if (to >= 0 || holds) event.preventDefault();
    };
  }

  /// From a token to the one above, below, or on the other side.
  nextToken(event) {
    const turn = { ArrowRight: 0, ArrowLeft: 0, ArrowDown: 1, ArrowUp: -1 }[event.key], token = event.target.closest(".token");
    if (turn === undefined || !token) return;
    event.preventDefault();
    const asks = token.classList.contains("query"), own = [...this.strands.box.querySelectorAll(asks ? ".query" : ".key")], other = this.strands.box.querySelectorAll(asks ? ".key" : ".query");
    const at = own.indexOf(token), to = turn ? own[at + turn] : other[Math.min(at, other.length - 1)];
    if (to) to.focus();
  }

  /// Draws, or says instead of the readout why not.
  async draw() {
    try {
      await this.drawMap();
    } catch (error) {
      this.followed = "";
      this.part("readout").textContent = "error: " + error.message;
    }
  }
  async drawMap() {
    const turn = ++this.turn, { viewer } = this, { state, shades } = viewer, kind = this.kind;
    const shown = !!kind && this.data.has(kind, state.measure, state.layer, state.head);
    const values = shown ? await this.data.values(kind, state.measure, state.layer, state.head) : null;
    if (turn !== this.turn) return;
    this.values = values;
    this.part("which").textContent = (this.caption ? this.caption + ": " : "") + viewer.title;
    for (const part of ["stage", "text"]) this.part(part).hidden = !shown;
    this.part("legend").hidden = !shown || state.view === "neurons" || state.view === "picture";
    this.part("save").hidden = !shown || state.view === "neurons" || (state.view === "matrix" && !!viewer.alongTime(kind));
    const map = shown && this.data.find(kind, state.measure, state.layer, state.head);
    this.part("name").textContent = map ? map.name : "";
    if (!shown) { this.part("readout").textContent = this.data.missing || "There is no such map here."; return; }
    this.full = viewer.fullColor(kind, values);
    this.drawLegend();
    for (const view of Object.keys(viewNames)) this.part(view).hidden = view !== state.view;
    if (state.view === "matrix") {
      const beside = viewer.options.aside && window.innerWidth > 820 ? 260 : 0;
      this.matrix.draw(kind, values, this.full, shades, this.step, Math.max(200, Math.min(900, this.room - beside)), viewer.alongTime(kind));
      this.matrix.map.setAttribute("aria-label", this.part("which").textContent + ": " + kind.queries.length + " queries by " + kind.keys.length + " keys; the numbers are below, as text");
    }
    if (state.view === "lines") {
      this.strands.build(kind, this.room, (q, k) => viewer.follow(q, k), (q, k) => viewer.hold(q, k));
      this.drawChips();
    }
    if (this.part("text").open) this.drawText();
    await this.drawFollowed();
  }

  drawLegend() {
    const { state, shades } = this.viewer, signs = hasSigns(this.values);
    this.part("low").textContent = signs ? "0, orange below; " : "0";
    this.part("high").textContent = number(this.full) + (state.measure === "weights" || state.head === "rollout" ? "" : " (" + measureNames[state.measure] + ")");
    const ramp = this.part("ramp").getContext("2d"), image = ramp.createImageData(256, 1);
    for (let i = 0; i < 256; ++i) image.data.set([...shades.at(i / 255), 255], 4 * i);
    ramp.putImageData(image, 0, 0);
  }

  async drawFollowed() {
    if (!this.values) return;
    const { viewer } = this, { state, shades } = viewer, { kind, query, key, values } = this;
    if (state.view === "matrix") this.matrix.mark(kind, query, key);
    if (state.view === "lines") this.strands.draw(kind, await this.lineLayers(shades.onDark), shades, query, key, this.step, state.strongest);
    if (state.view === "neurons") drawNeurons(this.part("neurons"), kind, await this.data.vectors(kind, state.layer, state.head), query, key, shades);
    if (state.view === "picture") {
      if (state.scale === "own") this.full = viewer.fullColor(kind, values);  // of what is shown
      this.overlay.draw(kind, values, this.full, this.overImage, key, this.data.image, this.room, this.part("which").textContent, shades);
    }
    this.readout();
    if (this.viewer.options.aside) this.drawAside();
  }

  /// What the view of lines draws: the heads that are chosen in it, each in its color, else the map.
  async lineLayers(onDark) {
    const { kind, data, values, full } = this, { state, lineHeads } = this.viewer, heads = lineHeads.filter(head => data.has(kind, state.measure, state.layer, head));
    if (!heads.length) return [{ values, full }];
    return Promise.all(heads.map(async head => ({ head, values: await data.values(kind, state.measure, state.layer, head), full, color: hue(head, onDark) })));
  }

  drawChips() {
    const { state } = this.viewer, kind = this.kind, box = this.part("chips");
    box.replaceChildren();
    if (kind.heads.length > 1) {
      box.append("heads ");
      for (const head of kind.heads) {
        const on = state.also.includes(head), chip = element("button", head, { "aria-pressed": on, "aria-label": "head " + head }), color = hue(head, isDark());
        chip.style.borderColor = color;
        if (on) chip.style.background = color;
        chip.onclick = () => {
          this.viewer.showLines({ also: on ? state.also.filter(h => h !== head) : [...state.also, head].sort((a, b) => a - b) });
          box.querySelectorAll("button")[kind.heads.indexOf(head)].focus();
        };
        box.append(chip);
      }
    }
    const label = element("label", null), tick = element("input", null, { type: "checkbox" });
    tick.checked = state.strongest;
    tick.onchange = () => { this.viewer.showLines({ strongest: tick.checked }); box.querySelector("input").focus(); };
    label.append(tick, kind.kind === "cross" ? " alignment: strongest key only" : " strongest key only");
    box.append(label);
  }

  ranked(query, key) {
    const { kind, values } = this, columns = kind.keys.length, asks = query >= 0, others = asks ? kind.keys : kind.queries;
    return others.map((token, i) => [asks ? values[query * columns + i] : values[i * columns + key], token]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
  }

  readout() {
    const { kind, query, key } = this, line = this.part("readout"), bold = text => element("b", text), { state, title, lineHeads } = this.viewer, now = [query, key, title, state.head].join();
    if (now === this.followed) return;
    this.followed = now;
    line.replaceChildren();
    if (query < 0 && key < 0) { line.textContent = (state.view === "picture" ? "Hover a part of the picture to follow it. " : "Hover a token or cell to follow it. ") + (kindNotes[kind.kind] || ""); return; }
    if (lineHeads.length) line.append(headName(state.head, kind) + ": ");
    if (query >= 0 && key >= 0) line.append(bold(kind.queries[query]), " → ", bold(kind.keys[key]), " " + number(this.values[query * kind.keys.length + key]) + " · ");
    const asks = query >= 0;
    line.append(bold(asks ? kind.queries[query] : kind.keys[key]), asks ? " attends to " : " is attended to by ");
    this.ranked(query, key).slice(0, 5).forEach(([value, token], i) => line.append(i ? ", " : "", bold(token), " " + number(value)));
  }

  /// Beside the map: candidates of the step, and what the head's absence changes.
  drawAside() {
    const { kind, data } = this, { state } = this.viewer, box = this.part("aside"), map = data.find(kind, "weights", state.layer, state.head);
    const at = this.query >= 0 ? this.query : Number.isFinite(state.step) ? this.step : kind.mask !== undefined ? kind.mask : kind.queries.length - 1;
    box.replaceChildren();
    if (kind.candidates && kind.candidates[at]) box.append(element("h3", (kind.kind === "cross" ? "Candidates at the step of " : kind.kind === "encoder" ? "In the place of " : "Candidates at and after ") + kind.queries[at]), barTable(kind.candidates[at], 1));
    if (data.scored && map && map.ablation) {
      const own = map.ablation.length === kind.queries.length && kind.kind !== "encoder" || map.ablation.length === 1;
      const rows = map.ablation.map((change, i) => [data.scored[i] + (map.ablation.length > 1 ? " (" + i + ")" : ""), change, own && i === at]);
      const shown = own && this.query >= 0 && rows[at] ? [rows[at]] : [];
      for (const row of [...rows].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 8)) if (!shown.includes(row)) shown.push(row);
      box.append(element("h3", "Logits without head " + state.head + (map.ablation.length > 1 ? ", of token (position)" : "")), barTable(shown, Math.max(...rows.map(r => Math.abs(r[1]))) || 1));
    } else {
      box.append(element("p", data.scored ? "Choose a single head to see what changes without it." : "What changes without this head was not measured. For a model with logits, heed attend … --ablate --output FILE.html does.", { class: "note" }));
    }
    box.hidden = !box.children.length;
  }

  drawText() {
    const kind = this.kind, list = this.part("text").querySelector("ol");
    list.start = 0;
    list.replaceChildren(...kind.queries.map((token, q) => element("li", token + ": " + this.ranked(q, -1).slice(0, 3).map(([v, t]) => t + " " + number(v)).join(", "))));
  }

  /// Downloads the map as a figure on light paper, SVG or PNG.
  async save(format) {
    const { state, lineHeads } = this.viewer, { kind } = this, ofPicture = state.view === "picture", query = Math.max(0, this.overImage);
    const mean = ofPicture && isMean(kind, this.overImage, this.data.image);
    const figure = mapFigure({
      view: state.view, kind, values: this.values, full: this.full, shades: new Shades(this.viewer.data, true), layers: state.view === "lines" ? await this.lineLayers(false) : [],
      title: this.part("which").textContent + (mean ? ", mean of all queries" : ofPicture ? ", query " + kind.queries[query] : ""), picture: this.overlay.canvas,
      strongest: state.strongest, query: this.query, key: this.key, step: this.step });
    const heads = lineHeads.length ? ["heads", ...lineHeads] : ["head", state.head], name = [kind.kind, "layer", state.layer, ...heads, ...(mean ? ["mean-query"] : ofPicture ? ["query", query] : [])].join("-") + "." + format;
    download(format === "svg" ? new Blob([figure], { type: "image/svg+xml" }) : await rasterOf(figure), name);
  }
}
