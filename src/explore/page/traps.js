// Traps: mistakes of attention, as switches, and what they change beside the sound run.
const trapTexts = {
  positions: ["No positions", "Every token has the position of the first: the model cannot tell one order of the tokens from another."],
  mask: ["No mask", "Every token also sees those after it. A model trained like this would copy the next token: its loss falls to almost nothing, and what it writes is useless. This model was trained with the mask, so its loss may rise."],
  "softmax-axis": ["Softmax over the queries", "The columns sum to one, not the rows: outputs are no averages of values, and each depends on the other queries. No shape is wrong."],
  scale: ["No scale", "q·k is not divided by √d: large scores make the softmax choose a single key, and its gradient almost zero."],
  exchange: ["Exchange two tokens", "Two tokens change places. A model with positions notices; without positions, it would not."],
};

class TrapsView {
  title = "Traps";
  constructor(box) {
    this.box = box;
    this.on = new Set();
    this.places = [null, null];
    this.switches = element("div", null, { class: "trap-switches", role: "group", "aria-label": "Mistakes to make" });
    for (const [name, [title]] of Object.entries(trapTexts)) {
      const input = element("input", null, { type: "checkbox", role: "switch", id: "trap-" + name }), label = element("label", null);
      input.onchange = () => { this.on[input.checked ? "add" : "delete"](name); looks.draw(); };
      label.append(input, " " + title);
      this.switches.append(label);
    }
    this.pickers = [0, 1].map(at => element("select", null, { "aria-label": at ? "the other token" : "one token", id: "trap-place-" + at }));
    this.pickers.forEach((picker, at) => { picker.onchange = () => { this.places[at] = +picker.value; looks.draw(); }; });
    this.pair = element("span", null, { class: "trap-pair" });
    this.pair.append(this.pickers[0], " and ", this.pickers[1]);
    this.switches.append(this.pair);
    this.said = element("ul", null, { class: "trap-said" });
    this.status = element("p", "", { class: "note", "aria-live": "polite" });
    this.result = element("div", null, { class: "trap-result" });
    box.append(element("p", "A mistake in attention rarely fails: all shapes still fit. Make one here, on the model that you see, and compare.", { class: "note" }), this.switches, this.said, this.status, this.result);
  }
  refuse(text) {
    this.status.textContent = text.replace(/^traps: ([\w-]+): expected (.*), got (\S+)$/, (_, name, what, model) => trapTexts[name][0] + ": this is for " + what + "; " + model + " is not one.");
    this.result.replaceChildren();
  }

  /// The tokens of the (source) text, of which two can be exchanged: at first the two longest that differ.
  choosePlaces(now) {
    const kind = kindOf(now.answer, now.about.kind === "decoder" ? "decoder" : "encoder"), tokens = kind.queries, special = /^[<\[].*[>\]]$/;
    if (this.tokens !== tokens.join("\n")) {
      this.tokens = tokens.join("\n");
      const words = [...tokens.keys()].filter(i => !special.test(tokens[i])).sort((a, b) => tokens[b].length - tokens[a].length || a - b);
      this.places = [words[0] || 0, words.find(i => tokens[i] !== tokens[words[0]]) ?? Math.min(1, tokens.length - 1)];
    }
    this.pickers.forEach((picker, at) => option(picker, tokens.map((token, i) => [i, token + " (" + i + ")"]), this.places[at]));
  }
  async draw(now) {
    if (takesFile()) { this.switches.hidden = true; this.said.replaceChildren(); this.refuse("Traps are for models that read text."); return; }
    this.switches.hidden = false;
    this.choosePlaces(now);
    this.pair.hidden = !this.on.has("exchange");
    const names = Object.keys(trapTexts).filter(name => this.on.has(name));
    this.said.replaceChildren(...names.map(name => element("li", trapTexts[name][1])));
    if (!names.length) { this.status.textContent = "Switch one on."; this.result.replaceChildren(); return; }
    const { changes, ...plain } = now.request;
    const asked = { ...plain, kind: now.head.kind, layer: now.head.layer, head: now.head.head, traps: names, candidates: 6 };
    if (this.on.has("exchange")) asked.exchange = this.places;
    const answer = await looks.ask(this, "/api/traps", asked);
    this.drawResult(answer, now, changes);
  }

  drawResult(answer, now, changes) {
    const { sound, wrong } = answer, checks = [...new Set(Object.values(answer.checks))].map(check => "“" + check + "”");
    const same = answer.difference < 1e-4 && answer.map_difference < 1e-4;
    this.status.replaceChildren(element("span", (same ? "Here it changes nothing. " : "") + "heed doctor sees such a mistake by its check" + (checks.length > 1 ? "s " : " ") + checks.join(" and ") + "." + (changes ? " Changed heads are left as they are in the model." : "")));
    const maps = element("div", null, { class: "trap-maps" }), values = [sound, wrong].map(run => floatsOf(run.map)), full = Math.max(...values.map(StepsView.most));
    const room = Math.max(200, Math.min(440, now.room > 900 ? (now.room - 420) / 2 : now.room > 560 ? now.room / 2 - 16 : now.room));
    [["Sound", sound], ["With " + (this.on.size > 1 ? "the mistakes" : "the mistake"), wrong]].forEach(([title, run], i) => maps.append(this.map(title, run, values[i], full, room)));
    const facts = element("div", null, { class: "trap-facts" });
    if (sound.loss !== null) facts.append(element("h3", "Loss of this text"), element("p", sound.loss.toFixed(3) + " → " + wrong.loss.toFixed(3) + " nats per token (" + signed(wrong.loss - sound.loss) + ")"));
    facts.append(...this.predictions(sound, wrong, now), element("p", "Largest difference of a weight of this head: " + number(answer.map_difference) + "; of a logit: " + number(answer.difference) + ".", { class: "note" }));
    this.result.replaceChildren(maps, facts);
  }
  map(title, run, values, full, room) {
    const figure = element("figure", null), box = element("div", null, { class: "matrix" });
    box.append(element("canvas", null, { class: "map", role: "img", "aria-label": title + ": the map of the head" }), element("canvas", null, { class: "over" }));
    figure.append(element("figcaption", title + ": " + viewer.title), box);
    new Matrix(box).draw({ queries: run.queries, keys: run.keys }, values, full, viewer.shades, run.queries.length, room, null);
    return figure;
  }
  predictions(sound, wrong, now) {
    const at = run => run.predictions.find(one => one.position === null || one.position === now.position) || run.predictions[run.predictions.length - 1], before = at(sound), after = at(wrong);
    if (!before || !after) return [];
    const names = new Map([...before.candidates, ...after.candidates].map(one => [one.id, one.token])), of = (run, id) => run.candidates.find(one => one.id === id);
    const table = element("table", null), head = element("tr", null);
    for (const title of ["", "sound", "mistaken"]) head.append(element("th", title, { scope: "col" }));
    table.append(head);
    const show = one => !one ? "less" : one.probability === null ? one.logit.toFixed(2) : percent(one.probability);
    for (const [id, token] of [...names].slice(0, 9)) {
      const row = element("tr", null);
      row.append(element("td", token), element("td", show(of(before, id))), element("td", show(of(after, id))));
      table.append(row);
    }
    return [element("h3", titleOf(before)), table];
  }
}
