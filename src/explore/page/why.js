// Why a head attends from one token to another: its score as a sum over pairs of what earlier parts wrote at the two tokens (heed attribute score).
class WhyView extends Look {
  constructor(box, panel) {
    super(box, panel);
    Object.assign(this, { whole: false, few: 14 });
    this.sentence = element("p", "", { class: "why-sentence", "aria-live": "polite" });
    this.note = element("p", "Blue pairs raise the score, orange ones lower it. Head 1.2 is head 2 of layer 1, ff 1 the feed-forward network of layer 1. A click on a head opens it at the token where it wrote; a click on a token pins it.", { class: "note" });
    this.pairs = element("div", null, { class: "why-pairs" });
    this.sides = element("div", null, { class: "why-sides" });
    this.body = element("div", null, { class: "why-body" });
    this.body.append(this.pairs, this.sides);
    this.box.append(this.sentence, this.note, this.body);
  }
  refuse(text) {
    this.found = null;
    this.sentence.replaceChildren(element("span", text.replace(/^why: (.)/, (_, first) => first.toUpperCase()), { class: "soft" }));
    this.note.hidden = this.body.hidden = true;
  }

  async show(now, current) {
    const { kind, head } = now, query = now.query(kind), key = this.pinnedKey(kind), { blocked } = this.panel;
    const said = { query: kind.queries[query], key: key === null ? "" : kind.keys[key] };
    if (key !== null && blocked && blocked[query * kind.keys.length + key]) { this.refuse(quoted(said.query) + " cannot attend to " + quoted(said.key) + ": the mask hides it, so there is no score."); return; }
    const found = await this.fetch(now, { kind: head.kind, layer: head.layer, head: head.head, query }, key);
    if (!current()) return;
    Object.assign(this, { found, kind });
    this.note.hidden = this.body.hidden = false;
    this.drawAll();
  }
  pinnedKey(kind) {
    const { pin } = viewer.state;
    return pin && pin.key >= 0 && pin.key < kind.keys.length ? pin.key : null;
  }
  /// Without a key the server takes that with the largest weight: the one question of a query that a recording has.
  async fetch(now, asked, key) {
    if (key !== null) {
      const values = await this.panel.data.values(now.kind, "weights", asked.layer, asked.head), count = now.kind.keys.length, row = values.slice(asked.query * count, (asked.query + 1) * count);
      if (row[key] < Math.max(...row)) return this.ask("/api/why", { ...now.request, ...asked, key });
    }
    const found = await this.ask("/api/why", { ...now.request, ...asked });
    return key === null || found.key === key ? found : this.ask("/api/why", { ...now.request, ...asked, key });
  }

  drawAll() {
    const { found, kind } = this, bold = text => element("b", text), terms = found.pairs.length + found.others.count;
    this.sentence.replaceChildren("“", bold(kind.queries[found.query]), "” (" + found.query + ") → “", bold(kind.keys[found.key]), "” (" + found.key + "): score ", bold(fixed(found.score, 3)), ", the sum of " + terms.toLocaleString("en") + " pairs" + (found.position_bias ? " and a term of their positions" : "") + ". The softmax over all keys makes it a weight of ", bold(fixed(found.weight, 3)), ".");
    this.drawPairs();
    const side = (title, parts, at) => this.sideTable(title, parts.map((part, i) => [i, part.sum]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, 10), at);
    this.sides.replaceChildren(side("Parts of the query " + quoted(kind.queries[found.query]) + ", summed", found.query_parts, "query"), side("Parts of the key " + quoted(kind.keys[found.key]) + ", summed", found.key_parts, "key"));
  }

  static adds(value) { return (value >= 0.0005 ? "+" : "") + fixed(value, 3); }
  drawPairs() {
    const { found } = this, shown = this.whole ? found.pairs : found.pairs.slice(0, this.few), rest = found.pairs.slice(shown.length);
    const others = { count: found.others.count + rest.length, sum: rest.reduce((sum, one) => sum + one[2], found.others.sum) }, most = Math.max(...found.pairs.map(one => Math.abs(one[2])), Math.abs(found.position_bias), 1e-12);
    const table = element("table", null), head = element("tr", null), focused = this.pairs.contains(document.activeElement);
    for (const [name, more] of [["query part", "start"], ["key part", "start"], ["", "start"], ["adds", ""], ["share", "share"]]) head.append(name ? element("th", name, { scope: "col", class: more }) : element("td", ""));
    table.append(head);
    const line = (first, second, value, share, more) => {
      const row = element("tr", null, more ? { class: more } : {}), cells = [first, second].map(part => { const cell = element("td", null); cell.append(part); return cell; }), drawn = element("td", null, { class: "look-bars" });
      if (!more) drawn.append(bar(value, most, true));
      row.append(...cells, drawn, element("td", WhyView.adds(value)), element("td", share === null ? "" : percent(share / found.magnitude), { class: "share" }));
      table.append(row);
    };
    for (const [i, j, value] of shown) line(this.part(found.query_parts[i], "query"), this.part(found.key_parts[j], "key"), value, Math.abs(value));
    if (others.count) line("others", others.count.toLocaleString("en") + " pairs", others.sum, null, "why-rest");
    if (found.position_bias) line("positions", "", found.position_bias, Math.abs(found.position_bias), "why-rest");
    line("score", "", found.score, null, "why-sum");
    this.pairs.replaceChildren(table);
    if (found.pairs.length <= this.few) return;
    const more = element("button", this.whole ? "The " + this.few + " largest pairs" : "The " + found.pairs.length + " largest pairs", { type: "button", class: "plain why-more", "aria-expanded": this.whole });
    more.onclick = () => { this.whole = !this.whole; this.drawPairs(); };
    this.pairs.append(more);
    if (focused) more.focus({ preventScroll: true });
  }
  sideTable(title, rows, at) {
    const parts = this.found[at + "_parts"], most = Math.max(...rows.map(one => Math.abs(one[1])), 1e-12), table = element("table", null), rest = parts.length - rows.length;
    table.append(element("caption", title));
    for (const [i, sum] of rows) {
      const row = element("tr", null), name = element("td", null), drawn = element("td", null, { class: "look-bars" });
      name.append(this.part(parts[i], at));
      drawn.append(bar(sum, most, true));
      row.append(name, drawn, element("td", WhyView.adds(sum)));
      table.append(row);
    }
    if (rest > 0) {
      const row = element("tr", null, { class: "why-rest" });
      row.append(element("td", rest + " others"), element("td", ""), element("td", WhyView.adds(parts.reduce((sum, part) => sum + part.sum, 0) - rows.reduce((sum, one) => sum + one[1], 0))));
      table.append(row);
    }
    return table;
  }

  /// A part by its name in the tables of heed attribute score, with the token that it is of; a button where a click leads somewhere.
  part(part, side) {
    const at = this.found[side], token = this.read(side)[at], of = part.layer < 0 && /^(token|embed)$/.test(part.name);
    const text = of ? part.label + " " + quoted(token) : part.name === "position" ? "position " + at : part.label, leads = this.isShown(side) && (part.head >= 0 || part.layer < 0 && /^(token|embed|position|type)$/.test(part.name));
    if (!leads) return element("span", text, { class: "soft" });
    const button = element("button", text, { type: "button", class: "quiet", title: part.head >= 0 ? "open this head at " + quoted(token) + " (" + at + ")" : "pin " + quoted(token) + " (" + at + ")" });
    button.onclick = () => this.open(part, side, at);
    return button;
  }
  /// The tokens that the stack of a side reads: rows of cross-attention are named by those that are written.
  read(side) {
    const own = this.panel.data.kinds.find(kind => kind.kind === this.stackOf(side));
    return own ? own.queries : side === "query" ? this.kind.queries : this.kind.keys;
  }
  /// Whether the maps of the stack of a side are on the page.
  isShown(side) { return this.panel.data.kinds.some(kind => kind.kind === this.stackOf(side)); }
  /// The stack that a side's parts are of; of a key in cross-attention, the encoder.
  stackOf(side) { return this.kind.kind === "cross" ? (side === "key" ? "encoder" : "decoder") : this.kind.kind; }
  open(part, side, at) {
    const stack = this.stackOf(side), name = part.head < 0 ? stack : part.name === "cross_attn" ? "cross" : stack, index = viewer.data.kinds.findIndex(kind => kind.kind === name);
    if (part.head >= 0) {
      viewer.state.view = "matrix";
      goTo({ kind: name, layer: part.layer, head: part.head });
    } else if (domainOf(viewer.data.kinds[index]) !== domainOf(viewer.kind)) viewer.chooseKind(index);
    viewer.hold(at, -1, true);
  }
}

// ---- from a cell of a map: a button beside the slider, and the key w, which leads back too
const canExplain = () => /^(cross|encoder|decoder)$/.test(viewer.kind.kind);
const whyButton = element("button", "Why?", { type: "button", class: "plain", id: "why", "aria-label": "Why? The score of the chosen cell", "aria-keyshortcuts": "w", hidden: "", "data-help": "Takes the score of the chosen cell apart: which earlier parts of the model made it. The key W does the same while the focus is on the map." });
$("unpin").after(whyButton);
function markWhy() {
  const { pin, view } = viewer.state;
  whyButton.hidden = view === "why" || !pin || pin.query < 0 || pin.key < 0 || !canExplain();
}
function showWhy() {
  const { state } = viewer;
  if (!state.pin && state.hover) viewer.hold(state.hover.query, state.hover.key, true);
  viewer.show({ view: state.view === "why" ? "matrix" : "why" });
  document.querySelector("#views [aria-selected=true]").focus({ preventScroll: true });
}
whyButton.onclick = showWhy;
/// Only while the focus is on the map, so that no key does something by itself.
$("detail").addEventListener("keydown", event => {
  if (event.key !== "w" || event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT" || !results.length || !canExplain()) return;
  event.preventDefault();
  showWhy();
});

registerView({
  name: "why", title: () => "Why", help: "The score of the chosen query and key as a sum: which earlier heads, feed-forward networks and tokens made this head look there.", wide: true, single: true, legend: false,
  fits: viewer => /^(cross|encoder|decoder)$/.test(viewer.kind.kind),
  lead: () => "What makes this head look there: its score, taken apart into pairs of what earlier parts wrote at the query and at the key.",
  make: (box, panel) => new WhyView(box, panel),
});
