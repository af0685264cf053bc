// The one state of a page: which map is shown, and which token is chosen in it. Everything on the page (map, token row, slider,
// candidates, thumbnails) draws from it, and changes it through the Viewer's methods alone.
//
// How a view registers. A view is one file that ends with
//
//   registerView({
//     name: "matrix",                    // in the address, and the class of the view's element
//     title: viewer => "Matrix",         // of its tab
//     help: "One sentence on what it shows.",
//     fits: viewer => true,              // whether there is such a view of viewer.kind
//     lead: panel => "A row is ...",     // what one sees, in a sentence; undefined: that of the kind of attention
//     whole: false,                      // true: drawn from panel.data alone, whatever map is chosen, without a legend
//     wide: false,                       // true: takes the width of the page, without overview and side
//     single: false,                     // true: shows one head; a mean of heads cannot be chosen
//     legend: true,                      // whether the scale of colors stands below it
//     make: (box, panel) => ({ draw(), follow(), figure() }),
//   });
//
// and is listed in page.cmake, after state.js and before viewer.js; the order of the files is that of the tabs. `make` is called
// once for each panel and view, when it is first shown, and may fill `box`. `draw()` draws all anew: after another map, text, size or
// color scheme; `follow()` what depends on the chosen cell, after each draw() and at every movement of the mouse, so it should be fast; both may
// be async. `figure()`, if there is one, returns what mapFigure() needs for a download. A view reads
//
//   panel.data, panel.kind, panel.values    the data, the kind of attention in it, the map's numbers [queries * keys]
//   panel.blocked                           1 for each cell that the mask forbids, or null
//   panel.query, panel.key                  the chosen cell, -1 where there is none: hovered, pinned, or followed by itself
//   panel.range                             {q0, q1, k0, k1}: the rows and columns that are zoomed into, ends excluded
//   panel.full, panel.format(value)         the number in full color, and numbers as text
//   panel.room                              {width, height} in pixels
//   panel.viewer.shades, panel.viewer.state colors; layer, head, measure and what else is chosen
//
// and tells the page with viewer.follow(query, key) what the mouse is over ((-1, -1): nothing), with viewer.hold(query, key) what was
// clicked, and with viewer.show({layer, head, ...}) what else to show.
const views = [];
const registerView = view => views.push(view);
const viewNamed = name => views.find(view => view.name === name);

/// Rows of kinds with the same tokens: of the target are those of cross-attention and of the decoder.
const domainOf = kind => kind.kind === "cross" || kind.kind === "decoder" ? "target" : kind.kind;

/// The first token that is a word with some content: without a list of words, one of at least four letters.
function firstContentWord(tokens) {
  for (const letters of [4, 3, 1]) {
    const at = tokens.findIndex(token => !/^[<[].*[>\]]$/.test(token) && (token.match(/\p{L}/gu) || []).length >= letters);
    if (at >= 0) return at;
  }
  return tokens.length - 1;
}

/// The query that the page shows while nobody has pinned one: of an image's parts that of the class token (or -1, their mean), the
/// mask, where the answer begins, the end of what a decoder reads, the first content word of a translation or of a source, and the first token
/// of a text that is classified, from which the label is read.
function ownQuery(data, kind) {
  if (kind.own !== undefined) return kind.own;
  if (data.overImage(kind) && ownParts(kind)) return data.image.first ? 0 : -1;
  if (data.image && kind.kind === "cross") return firstContentWord(kind.queries);
  if (data.kinds.some(one => one.kind === "cross")) {
    const cross = data.kinds.find(one => one.kind === "cross");
    return Math.min(kind.queries.length - 1, firstContentWord(kind.kind === "decoder" ? cross.queries : kind.queries));
  }
  return kind.kind === "decoder" ? kind.queries.length - 1 : 0;
}
/// Where a choice goes while none is pinned, in words.
function followed(data, kind) {
  const task = data.model ? data.model.task : "";
  if (kind.kind === "decoder" && !data.kinds.some(one => one.kind === "cross")) return "follows the end";
  if (task === "masked_lm" && kind.own !== undefined) return "follows the mask";
  if (task === "span") return "follows the answer";
  if (kind.kind === "cross" || data.kinds.some(one => one.kind === "cross")) return "first content word";
  return task === "sequence" ? "where the label is read" : "the first token";
}

/// What a new page shows.
const freshState = () => ({
  kind: 0, measure: "weights", layer: 0, head: 0, view: "matrix", scale: "all", pattern: "", also: [], strongest: false,
  pin: null,    // {query, key}: clicked, stays while the text changes
  hover: null,  // {query, key}: under the mouse, or focused; a pin is stronger
  zoom: null,   // [q0, q1, k0, k1]
});
