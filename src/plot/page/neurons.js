// Queries times keys, dimension by dimension: why a query scores a key as it does.
class Neurons {
  constructor(box, panel) {
    Object.assign(this, { box, panel, turn: 0 });
    this.pickers = element("p", null, { class: "row" });
    this.query = element("select", null);
    this.key = element("select", null);
    for (const [text, select, help] of [["Query ", this.query, "The token that looks."], ["Key ", this.key, "The token that is looked at."]]) {
      const label = element("label", text, { "data-help": help });
      label.append(select);
      this.pickers.append(label);
      select.onchange = () => panel.viewer.hold(+this.query.value, +this.key.value, true);
    }
    this.table = element("div", null, { tabindex: 0, role: "group", "aria-label": "Products" });
    box.append(this.pickers, this.table);
    describe(box);
  }
  draw() {
    const { kind } = this.panel, names = tokens => tokens.map((token, i) => [i, token + " (" + i + ")"]);
    fill(this.query, names(kind.queries));
    fill(this.key, names(kind.keys));
  }
  /// The chosen cell; where only a row is chosen, its strongest key, and the other way round.
  cell() {
    const { kind, values, query, key } = this.panel, columns = kind.keys.length, strongest = (count, at) => { let best = 0; for (let i = 1; i < count; ++i) if (values[at(i)] > values[at(best)]) best = i; return best; };
    if (query >= 0) return [query, key >= 0 ? key : strongest(columns, k => query * columns + k)];
    const best = key >= 0 ? strongest(kind.queries.length, q => q * columns + key) * columns + key : strongest(values.length, i => i);
    return [Math.floor(best / columns), best % columns];
  }
  async follow() {
    const turn = ++this.turn, { panel, table } = this, { kind, data, viewer } = panel, [query, key] = this.cell();
    this.query.value = query;
    this.key.value = key;
    const vectors = await data.vectors(kind, viewer.state.layer, viewer.state.head);
    if (turn !== this.turn) return;
    this.pickers.hidden = !vectors;
    if (!vectors) {
      table.replaceChildren(element("p", "This page has no queries and keys of this head" + (viewer.options.vectors ? "." : ": heed attend --vectors writes them also for long texts."), { class: "note" }));
      return;
    }
    const { q, k, dims } = vectors, rows = [];
    let sum = 0;
    for (let d = 0; d < dims; ++d) { const a = q[query * dims + d], b = k[key * dims + d]; rows.push([d, a, b, a * b]); sum += a * b; }
    const most = [1, 2, 3].map(column => Math.max(...rows.map(row => Math.abs(row[column]))) || 1);
    rows.sort((a, b) => Math.abs(b[3]) - Math.abs(a[3]));
    const made = element("table", null, { class: "bars" }), head = element("tr", null);
    made.append(element("caption", "q · k = " + number(sum) + ", before scale, position bias and mask; largest products first"));
    for (const title of ["dim", "q: " + kind.queries[query], "k: " + kind.keys[key], "q × k"]) head.append(element("th", title, title === "dim" ? { scope: "col" } : { scope: "colgroup", colspan: 2 }));
    made.append(head);
    for (const [d, ...values] of rows) {
      const line = element("tr", null);
      line.append(element("th", d, { scope: "row" }));
      values.forEach((value, i) => {
        const cell = element("td", null);
        cell.append(bar(value, most[i], true));
        line.append(element("td", fixed(value, decimalsFor(most[i])), { class: "number" }), cell);
      });
      made.append(line);
    }
    table.replaceChildren(made);
  }
}

registerView({
  name: "neurons", title: () => "Query · key", single: true, help: "The numbers whose products add up to the score of one cell.", fits: viewer => !!viewer.kind.vectors || !!viewer.options.vectors, legend: false,
  lead: () => "A score is a sum of products, query × key: blue ones raise it, orange ones lower it.",
  make: (box, panel) => new Neurons(box, panel),
});
