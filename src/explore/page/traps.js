// Traps: mistakes of attention, as switches, and what they change beside the sound run.
const trapTexts = {
  positions: ["No positions", "Every token has the position of the first: the model cannot tell one order of the tokens from another."],
  mask: ["No mask", "Every token also sees those after it. A model trained like this would copy the next token: its loss falls to almost nothing, and what it writes is useless. This model was trained with the mask, so its loss may rise."],
  "softmax-axis": ["Softmax over the queries", "The columns sum to one, not the rows: outputs are no averages of values, and each depends on the other queries. No shape is wrong."],
  scale: ["No scale", "q·k is not divided by √d: large scores make the softmax choose a single key, and its gradient almost zero."],
  exchange: ["Exchange two tokens", "Two tokens change places. A model with positions notices; without positions, it would not."],
};

/// A map with its tokens, as large as `room` allows.
function heatMap(canvas, { queries, keys }, values, full, room) {
  const size = 11, left = Math.min(110, widest(queries, size, 110)) + 8, wide = Math.min(90, widest(keys, size, 90)), above = wide * 0.87 + 10;
  const cell = Math.max(3, Math.min(30, (room - left - wide * 0.5 - 8) / keys.length, 460 / queries.length)), every = Math.ceil(12 / cell), small = document.createElement("canvas");
  const context = sized(canvas, left + keys.length * cell + Math.max(4, wide * 0.5 + 8 - cell / 2), above + queries.length * cell + 2);
  paint(small, values, queries.length, keys.length, full, Infinity, viewer.shades);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, left, above, keys.length * cell, queries.length * cell);
  context.strokeStyle = style("--line");
  context.strokeRect(left - 0.5, above - 0.5, keys.length * cell + 1, queries.length * cell + 1);
  context.font = font(size); context.fillStyle = style("--ink"); context.textBaseline = "middle"; context.textAlign = "right";
  for (let i = 0; i < queries.length; i += every) context.fillText(fit(context, queries[i], left - 8), left - 5, above + (i + 0.5) * cell);
  context.textAlign = "left";
  for (let i = 0; i < keys.length; i += every) {
    context.save();
    context.translate(left + (i + 0.5) * cell, above - 5);
    context.rotate(-Math.PI / 3);
    context.fillText(fit(context, keys[i], 90), 0, 0);
    context.restore();
  }
}

class TrapsView extends Look {
  constructor(box, panel) {
    super(box, panel);
    this.places = [null, null];
    this.switches = element("div", null, { class: "trap-switches", role: "group", "aria-label": "Mistakes to make" });
    for (const [name, [title]] of Object.entries(trapTexts)) {
      const input = element("input", null, { type: "checkbox", role: "switch", class: "trap-" + name }), label = element("label", null);
      input.onchange = () => this.toggle(name, input.checked);
      label.append(input, " " + title);
      this.switches.append(label);
    }
    this.pickers = [0, 1].map(at => element("select", null, { "aria-label": at ? "the other token" : "one token" }));
    this.pickers.forEach((picker, at) => { picker.onchange = () => { this.places[at] = +picker.value; this.draw(); }; });
    this.pair = element("span", null, { class: "trap-pair" });
    this.pair.append(this.pickers[0], " and ", this.pickers[1]);
    this.switches.append(this.pair);
    this.said = element("ul", null, { class: "trap-said" });
    this.status = element("p", "", { class: "note", "aria-live": "polite" });
    this.result = element("div", null, { class: "trap-result" });
    this.box.append(this.switches, this.said, this.status, this.result);
  }
  /// A mistake on or off. Where a recording has it only by itself, it takes the place of the others.
  toggle(name, on) {
    const others = ask.traps.filter(one => one !== name), all = on ? [...others, name] : others, now = this.now();
    change({ traps: on && now && !canAsk("/api/traps", this.requestOf(now, all)) ? [name] : all });
    writeAddress();
    this.draw();
  }
  requestOf({ request: { changes, steering, ...plain }, head }, traps) {
    const names = Object.keys(trapTexts).filter(name => traps.includes(name));
    return { ...plain, kind: head.kind, layer: head.layer, head: head.head, traps: names, candidates: 30, ...(names.includes("exchange") ? { exchange: this.places } : {}) };
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
    if (recording) {
      const { changes, steering, ...plain } = now.request;
      this.places = recording.exchange(plain) || this.places;
    }
    this.pickers.forEach((picker, at) => { picker.disabled = !!recording; option(picker, tokens.map((token, i) => [i, token + " (" + i + ")"]), this.places[at]); });
  }
  async show(now, current) {
    this.choosePlaces(now);
    for (const name in trapTexts) this.switches.querySelector(".trap-" + name).checked = ask.traps.includes(name);
    this.pair.hidden = !ask.traps.includes("exchange");
    const asked = this.requestOf(now, ask.traps), { traps: names } = asked, { changes, steering } = now.request;
    this.said.replaceChildren(...names.map(name => element("li", trapTexts[name][1])));
    if (!names.length) { this.status.textContent = "Switch one on."; this.result.replaceChildren(); return; }
    const answer = await this.ask("/api/traps", asked);
    if (!current()) return;
    this.drawResult(answer, now, changes || steering);
  }

  drawResult(answer, now, changes) {
    const { sound, wrong } = answer, checks = [...new Set(Object.values(answer.checks))].map(check => "“" + check + "”");
    const same = answer.difference < 1e-4 && answer.map_difference < 1e-4;
    this.status.replaceChildren(element("span", (same ? "Here it changes nothing. " : "") + "heed doctor sees such a mistake by its check" + (checks.length > 1 ? "s " : " ") + checks.join(" and ") + "." + (changes ? " Changed heads and steering are left out." : "")));
    const maps = element("div", null, { class: "trap-maps" }), values = [sound, wrong].map(run => floatsOf(run.map)), full = Math.max(...values.map(StepsView.most));
    const room = Math.max(200, Math.min(440, now.room > 900 ? (now.room - 420) / 2 : now.room > 560 ? now.room / 2 - 16 : now.room));
    [["Sound", sound], ["With " + (ask.traps.length > 1 ? "the mistakes" : "the mistake"), wrong]].forEach(([title, run], i) => maps.append(this.map(title, run, values[i], full, room)));
    const facts = element("div", null, { class: "trap-facts" });
    if (sound.loss !== null) facts.append(element("h3", "Loss of this text"), element("p", sound.loss.toFixed(3) + " → " + wrong.loss.toFixed(3) + " nats per token (" + signed(wrong.loss - sound.loss) + ")"));
    facts.append(...this.predictions(sound, wrong, now), element("p", "Largest difference of a weight of this head: " + number(answer.map_difference) + "; of a logit: " + number(answer.difference) + ".", { class: "note" }));
    this.result.replaceChildren(maps, facts);
  }
  map(title, run, values, full, room) {
    const figure = element("figure", null), canvas = element("canvas", null, { role: "img", "aria-label": title + ": the map of the head" });
    heatMap(canvas, run, values, full, room);
    figure.append(element("figcaption", title), canvas);
    return figure;
  }
  predictions(sound, wrong, now) {
    const position = now.answer.predictions.length ? now.query(predictedKind(now.answer)) : -1, at = run => run.predictions.find(one => one.position === null || one.position === position) || run.predictions[run.predictions.length - 1], before = at(sound), after = at(wrong);
    if (!before || !after) return [];
    const names = new Map([...before.candidates.slice(0, 6), ...after.candidates.slice(0, 6)].map(one => [one.id, one.token]));
    const table = element("table", null), head = element("tr", null);
    head.append(element("td", ""), element("th", "sound", { scope: "col" }), element("th", "mistaken", { scope: "col" }));
    table.append(head);
    const show = ({ candidates }, id) => {
      const one = candidates.find(candidate => candidate.id === id), { probability, logit } = one || candidates[candidates.length - 1], text = probability === null ? fixed(logit, 2) : percent(probability);
      return one || text[0] === "<" ? text : "< " + text;
    };
    for (const [id, token] of names) {
      const row = element("tr", null);
      row.append(element("td", token), element("td", show(before, id)), element("td", show(after, id)));
      table.append(row);
    }
    return [element("h3", titleOf(now.answer, before)), table];
  }
}

registerView({
  name: "traps", title: () => "Traps", help: "Mistakes in attention that no error reports, as switches: what they change beside the sound run.", wide: true, single: true, legend: false,
  fits: viewer => /^(cross|encoder|decoder)$/.test(viewer.kind.kind) && !viewer.data.image,
  lead: () => "A mistake in attention rarely fails, since all shapes still fit. Make one here, and compare.",
  make: (box, panel) => new TrapsView(box, panel),
});
