// Views beside the maps, one at a time: the flow through the whole model, one head step by step, all heads as lines, and traps. Each is
// a class with a title, and draw(now): what the page shows now, as looks.now() gives it.
const floatsOf = text => new Float32Array(bytesOf(text).buffer);
const svgElement = (name, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
};
const option = (select, entries, value) => { fill(select, entries); select.value = value; return select; };
const labelled = (text, field) => { const label = element("label", text + " "); label.append(field); return label; };

const looks = {
  views: [], chosen: 0, answers: new Map(),

  start(views) {
    this.views = views.map(View => {
      const box = element("div", null, { class: "look", hidden: "" });
      $("look").append(box);
      return new View(box);
    });
    drawTabs($("look-tabs"), this.views.map((view, i) => [i, view.title]), 0, i => this.choose(+i));
    for (const tab of $("look-tabs").children) tab.setAttribute("aria-controls", "look");
    let width = 0;
    new ResizeObserver(() => { const now = $("look").clientWidth; if (now !== width) { width = now; this.draw(); } }).observe($("look"));
    dark.addEventListener("change", () => this.draw());
  },
  choose(index) {
    this.chosen = index;
    markTab($("look-tabs"), index);
    this.draw();
  },
  /// What is asked for by every view: the text as it is shown, and the changed heads.
  now() {
    const { answer } = results[0], { candidates, vectors, label, ...request } = requestOf(0);
    if (answer.target_ids) {
      delete request.target;
      request.target_ids = answer.target_ids;
    }
    return { answer, request, head: headNow() || this.firstHead(answer), position: chosen.position, about: modelNow(), room: $("look").clientWidth };
  },
  firstHead(answer) {
    const { kind, state } = viewer;
    return { kind: kind.kind, layer: state.layer, head: kind.heads[0] };
  },
  draw() {
    if (!results.length) return;
    this.views.forEach((view, i) => { view.box.hidden = i !== this.chosen; });
    const view = this.views[this.chosen];
    view.draw(this.now()).catch(error => { if (error.name !== "AbortError") view.refuse(error.message); });
  },
  /// The server's answer, kept while nothing else is asked by this view; a newer question ends an older one.
  async ask(view, path, body) {
    const about = path + JSON.stringify(body);
    if (view.about === about) return view.asked;
    if (view.asking) view.asking.abort();
    view.asking = new AbortController();
    view.about = about;
    view.asked = post(path, body, view.asking.signal);
    view.asked.catch(() => { if (view.about === about) view.about = ""; });
    return view.asked;
  },
};
