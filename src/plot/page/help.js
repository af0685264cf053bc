// Help for controls: a sentence that is shown at the pointer, at the focus of the keyboard, and at a tap, and read out as the control's
// description. An element with data-help has it; of a label, its control is described.
const helpBox = element("div", null, { id: "help", role: "tooltip", hidden: "" });
let helpTimer = 0, helpFor = null;

function showHelp(about, delay) {
  clearTimeout(helpTimer);
  helpTimer = setTimeout(() => {
    helpFor = about;
    helpBox.textContent = about.dataset.help;
    helpBox.hidden = false;
    const at = about.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = helpBox;
    helpBox.style.left = Math.max(8, Math.min(innerWidth - width - 8, at.left)) + "px";
    helpBox.style.top = (at.bottom + 6 + height < innerHeight ? at.bottom + 6 : Math.max(4, at.top - height - 6)) + "px";
  }, delay);
}
function hideHelp() {
  clearTimeout(helpTimer);
  helpFor = null;
  helpBox.hidden = true;
}
/// Describes every element with data-help within `root` to who cannot see it.
let described = 0;
function describe(root) {
  for (const about of root.querySelectorAll("[data-help]")) {
    const control = about.matches("label") ? about.querySelector("input, select, textarea") : about;
    if (!control || about.dataset.described) continue;
    const text = element("span", about.dataset.help, { id: "described-" + ++described, hidden: "" });
    about.dataset.described = text.id;
    document.body.append(text);
    control.setAttribute("aria-describedby", [control.getAttribute("aria-describedby"), text.id].filter(Boolean).join(" "));
  }
}
function listenForHelp() {
  const of = event => event.target.closest ? event.target.closest("[data-help]") : null;
  document.querySelector("main").append(helpBox);  // all content stands in a landmark
  document.addEventListener("pointerover", event => { const about = of(event); if (about !== helpFor) { hideHelp(); if (about && event.pointerType !== "touch") showHelp(about, 500); } });
  document.addEventListener("pointerdown", () => hideHelp());
  document.addEventListener("focusin", event => { const about = of(event); hideHelp(); if (about && event.target.matches(":focus-visible, select")) showHelp(about, 250); });
  document.addEventListener("focusout", hideHelp);
  document.addEventListener("scroll", hideHelp, true);
  document.addEventListener("keydown", event => { if (event.key === "Escape" && !helpBox.hidden) hideHelp(); });
  describe(document);
}
