// What the views of the whole model share: they take the width of the page, and ask the server for what they show.
const floatsOf = text => new Float32Array(bytesOf(text).buffer);
const svgElement = (name, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
};
const option = (select, entries, value) => { fill(select, entries); select.value = value; return select; };
const labelled = (text, field, help) => { const label = element("label", text + " ", help ? { "data-help": help } : {}); label.append(field); return label; };

class Look {
  constructor(box, panel) {
    Object.assign(this, { panel, turn: 0 });
    this.box = element("div", null, { class: "look" });
    this.none = element("p", "There is no such view of a difference.", { class: "note", hidden: "" });
    box.append(this.box, this.none);
  }
  /// What is shown of one side: its answer, what was asked, the head of the map, and the kind of attention. What the mouse is over does not
  /// count: the server is asked for what is pinned, or followed.
  now() {
    const side = results.findIndex(({ answer }) => answer.data === this.panel.data);
    if (side < 0) return null;
    const { answer } = results[side], { candidates, vectors, label, ...request } = requestOf(side), { kind } = this.panel;
    if (answer.target_ids) {
      delete request.target;
      request.target_ids = answer.target_ids;
    }
    const head = headNow();
    return { answer, request, head, kind, about: models[request.model], room: this.panel.room.width, query: of => Math.max(0, this.settled(of)) };
  }
  /// The row of a kind that is pinned, or that the page looks at by itself.
  settled(kind) {
    const { hover } = viewer.state;
    viewer.state.hover = null;
    try { return viewer.queryIn(this.panel.data, kind); } finally { viewer.state.hover = hover; }
  }
  async draw() {
    const now = this.now(), turn = ++this.turn;
    this.followed = now && this.chosen(now);
    this.box.hidden = !now;
    this.none.hidden = !!now;
    if (!now) return;
    try {
      await this.show(now, () => turn === this.turn);
    } catch (error) {
      if (error.name !== "AbortError" && turn === this.turn) this.refuse(error.message);
    }
  }
  chosen(now) { return JSON.stringify([now.query(now.kind), viewer.state.pin && viewer.state.pin.key]); }
  /// Anew only where another token is pinned.
  follow() {
    const now = this.now();
    if (now && this.followed !== this.chosen(now)) return this.draw();
  }
  /// The server's answer, kept while nothing else is asked; a newer question ends an older one.
  ask(path, body) {
    const about = path + JSON.stringify(body);
    if (this.about === about) return this.asked;
    if (this.asking) this.asking.abort();
    this.asking = new AbortController();
    this.about = about;
    this.asked = post(path, body, this.asking.signal);
    this.asked.catch(() => { if (this.about === about) this.about = ""; });
    return this.asked;
  }
}
