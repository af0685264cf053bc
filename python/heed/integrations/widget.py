"""The page of attention as a widget of Jupyter: what is chosen on it are traits, and setting a trait chooses it.

    picture = heed.load("en-fr").attend("The black cat drinks milk.")
    widget = picture.show()              # where anywidget is installed
    widget.layer, widget.head = 1, 3
    widget.observe(lambda change: print(change.new), "head")
"""
from __future__ import annotations

from typing import Any

import anywidget
import traitlets

# The page keeps what is chosen in its address, KIND/MEASURE/LAYER.HEAD/VIEW and more, which it reads again when it is set. It has
# the origin of the notebook, so its history can be listened to from here.
_SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "width:100%;border:0;height:" + model.get("height") + "px";
  let inner = null, told = false;
  const tell = address => {
    const [kind, , map, view] = decodeURIComponent(address).split("/"), [layer, head] = map.split(".");
    if (address === model.get("address")) return;
    model.set({ address, kind, view, layer: Number(layer), head: /^\\d+$/.test(head) ? Number(head) : head });
    model.save_changes();
  };
  const choose = () => {
    const now = (inner ? inner.location.hash.slice(1) : "").split("/");
    if (now.length < 4 || !told) return;
    const [layer, head] = now[2].split("."), set = (name, other) => [-1, ""].includes(model.get(name)) ? other : model.get(name);
    const wanted = [encodeURIComponent(set("kind", decodeURIComponent(now[0]))), now[1], set("layer", layer) + "." + set("head", head), set("view", now[3])];
    if (wanted.join("/") === now.slice(0, 4).join("/")) tell(now.join("/"));
    else inner.location.hash = wanted.concat(now.slice(4)).join("/");
  };
  frame.onload = () => {
    inner = frame.contentWindow;
    const replace = inner.history.replaceState.bind(inner.history);
    inner.history.replaceState = (state, title, address) => {
      replace(state, title, address);
      if (told) tell(inner.location.hash.slice(1));
    };
    setTimeout(() => { told = true; choose(); }, 500);  // what cells set meanwhile goes before what the page opens on
  };
  frame.srcdoc = model.get("page");
  for (const name of ["kind", "layer", "head", "view"]) model.on("change:" + name, choose);
  el.append(frame);
}
export default { render };
"""


class AttentionWidget(anywidget.AnyWidget):
    """The page of a heed.Attention. `kind`, `layer`, `head` (a number, or "mean" or "max") and `view` are what is shown on it."""

    _esm = _SCRIPT
    page = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int(640).tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    layer = traitlets.Int(-1).tag(sync=True)
    head: Any = traitlets.Union([traitlets.Int(), traitlets.Unicode()], default_value="").tag(sync=True)
    view = traitlets.Unicode().tag(sync=True)
    address = traitlets.Unicode().tag(sync=True)
