// One map: its caption where there are several, what is chosen in it, its views, and its numbers as text. What is chosen
// (layer, head, view, query, key) is the viewer's, so that panels follow each other.
class MapPanel {
  constructor(viewer) {
    this.viewer = viewer;
    this.box = $("panel").content.firstElementChild.cloneNode(true);
    this.part = name => this.box.querySelector("." + name);
    this.views = new Map();
    this.turn = 0;
    this.part("text").ontoggle = () => { if (this.part("text").open && this.values) this.drawText(); };
    for (const button of this.box.querySelectorAll(".save button")) button.onclick = () => this.save(button.dataset.format);
  }

  /// `caption` names the panel where there are several.
  open(data, caption) {
    Object.assign(this, { data, caption, values: null, blocked: null });
  }

  /// The kind of attention that is shown, or undefined where these data have none of that name.
  get kind() { return this.data.kinds.find(kind => kind.kind === this.viewer.kind.kind); }
  get room() { return { width: this.part("stage").clientWidth, height: this.viewer.height }; }
  /// What is chosen, as far as it is here. While nobody chooses, each panel follows its own text.
  get cell() {
    const { hover, pin } = this.viewer.state, chosen = pin || hover, { kind } = this;
    if (!chosen) return [ownQuery(this.data, kind), -1];
    return [chosen.query < kind.queries.length ? chosen.query : -1, chosen.key < kind.keys.length ? chosen.key : -1];
  }
  get query() { return this.cell[0]; }
  get key() { return this.cell[1]; }
  get range() {
    const { kind } = this, [q0, q1, k0, k1] = this.viewer.state.zoom || [], within = (a, b, count) => a >= 0 && b > a && a < count ? [a, Math.min(b, count)] : [0, count];
    const [rows, columns] = [within(q0, q1, kind.queries.length), within(k0, k1, kind.keys.length)];
    return { q0: rows[0], q1: rows[1], k0: columns[0], k1: columns[1] };
  }
  get format() {
    const decimals = decimalsFor(this.full);
    return value => fixed(value, decimals);
  }
  /// A view of this panel, made when it is first shown.
  view(name) {
    if (!this.views.has(name)) {
      const box = element("div", null, { class: "view " + name });
      this.part("stage").append(box);
      this.views.set(name, { box, made: viewNamed(name).make(box, this) });
    }
    return this.views.get(name);
  }

  /// Draws, or says instead of the readout why not.
  async draw() {
    try {
      await this.drawMap();
    } catch (error) {
      this.part("readout").textContent = "error: " + error.message;
    }
  }
  async drawMap() {
    const turn = ++this.turn, { viewer } = this, { state } = viewer, kind = this.kind, view = viewNamed(state.view);
    const shown = !!kind && this.data.has(kind, state.measure, state.layer, state.head);
    const values = shown ? await this.data.values(kind, state.measure, state.layer, state.head) : null;
    if (turn !== this.turn) return;
    Object.assign(this, { values, blocked: shown ? this.data.blocked(kind, state.layer) : null });
    this.part("caption").textContent = this.caption || "";
    for (const part of ["stage", "text"]) this.part(part).hidden = !shown && !(view.whole && kind);
    this.part("legend").hidden = !shown || !view.legend;
    if (!shown && !view.whole) { this.part("save").hidden = true; this.part("readout").textContent = this.data.missing || "There is no such map here."; return; }
    if (shown) {
      this.full = viewer.fullColor(kind, values, this.query);
      this.drawLegend();
    }
    const { made } = this.view(state.view);
    for (const [name, { box }] of this.views) box.hidden = name !== state.view;
    this.part("save").hidden = !made.figure || state.view === "matrix" && !!viewer.alongTime(kind);
    await made.draw();
    if (turn !== this.turn) return;
    if (this.part("text").open && shown) this.drawText();
    await this.follow();
  }

  drawLegend() {
    const { state, shades } = this.viewer, signs = hasSigns(this.values), canvas = this.part("ramp"), ramp = canvas.getContext("2d"), image = ramp.createImageData(256, 1);
    this.part("low").textContent = signs ? this.format(-this.full) : "0";
    this.part("high").textContent = this.format(this.full);
    for (let i = 0; i < 256; ++i) image.data.set([...shades.at(signs ? i / 127.5 - 1 : i / 255), 255], 4 * i);
    ramp.putImageData(image, 0, 0);
    this.part("unit").textContent = state.head === "rollout" ? "rollout" : measureNames[state.measure];
    this.part("masked").hidden = !this.blocked;
  }

  /// Draws what depends on the chosen cell.
  async follow() {
    const { kind, viewer } = this;
    if (!kind || !this.values && !viewNamed(viewer.state.view).whole) return;
    await this.view(viewer.state.view).made.follow();
    if (this.values) this.readout();
  }

  ranked(query, key) {
    const { kind, values } = this, columns = kind.keys.length, asks = query >= 0, others = asks ? kind.keys : kind.queries;
    return others.map((token, i) => [asks ? values[query * columns + i] : values[i * columns + key], token, i]).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
  }

  readout() {
    const { kind, query, key, format, viewer } = this, others = query >= 0 ? kind.keys : kind.queries, line = this.part("readout"), bold = text => element("b", text);
    line.replaceChildren();
    if (query < 0 && key < 0) { line.textContent = "The mean over all parts. " + (coarse.matches ? "Tap" : "Point at") + " a part to see what it attends to."; return; }
    if (viewer.lineHeads.length) line.append(headName(viewer.state.head, kind) + ": ");
    if (query >= 0 && key >= 0) line.append(bold(nameIn(kind.queries, query)), " → ", bold(nameIn(kind.keys, key)), " " + format(this.values[query * kind.keys.length + key]) + " · ");
    const asks = query >= 0;
    line.append(bold(asks ? nameIn(kind.queries, query) : nameIn(kind.keys, key)), asks ? " attends to " : " is attended to by ");
    this.ranked(query, key).slice(0, 5).filter(([value], i) => !i || /[1-9]/.test(format(value))).forEach(([value, , other], i) => line.append(i ? ", " : "", bold(nameIn(others, other)), " " + format(value)));
  }

  drawText() {
    const { kind, format, data } = this, list = this.part("text").querySelector("ol"), note = this.part("text").querySelector("p");
    list.start = 0;
    list.replaceChildren(...kind.queries.map((token, q) => element("li", isolated(token) + ": " + this.ranked(q, -1).slice(0, 3).map(([v, , k]) => nameIn(kind.keys, k) + " " + format(v)).join(", "))));
    note.textContent = "Of each query the three largest. Numbers have " + data.bits + " bits: steps of 1/" + (2 ** data.bits - 1) + " of the map's largest.";
  }

  /// Of which model and text the map is.
  get about() {
    const { data } = this, sides = data.one ? [data.one, data.other] : [data], of = read => [...new Set(sides.map(read).filter(Boolean))].join(" less ");
    return [of(side => side.model && side.model.name), of(side => side.title)].filter(Boolean).join(" · ").replace(/\s+/g, " ");
  }

  /// Downloads what is shown as a figure on light paper, SVG or PNG.
  async save(format) {
    const { viewer, kind } = this, { state, lineHeads } = viewer, own = await this.view(state.view).made.figure();
    const figure = mapFigure({ values: this.values, full: this.full, format: this.format, shades: new Shades(viewer.data, true), ...own,
      title: (this.caption ? this.caption + ": " : "") + viewer.title + (own.about ? ", " + own.about : ""), subtitle: this.about });
    const heads = lineHeads.length ? ["heads", ...lineHeads] : ["head", state.head], name = [kind.kind, "layer", state.layer, ...heads, ...(own.name ? [own.name] : [])].join("-") + "." + format;
    download(format === "svg" ? new Blob([figure], { type: "image/svg+xml" }) : await rasterOf(figure), name);
  }
}
