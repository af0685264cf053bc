// Steering: a slider for each vector that heed explore --steer offers, whose strength every run takes.
const vectorsNow = () => modelNow().steering || [];
/// The strengths of what is asked, one for each vector; null where nothing is steered.
function strengthsNow() {
  const strengths = vectorsNow().map((_, i) => ask.steering[i] || 0);
  return strengths.some(strength => strength) ? strengths : null;
}
/// A recording has runs with half and the whole of the largest strength.
const strengthStep = one => one.most / (recording ? 2 : 20);
const strengthText = (strength, one) => (strength > 0 ? "+" : "") + fixed(strength, decimalsFor(one.most));

function setStrength(index, strength) {
  const strengths = vectorsNow().map((_, i) => i === index ? strength : ask.steering[i] || 0);
  change({ steering: strengths.some(one => one) ? strengths : [] }, "steering " + index);
  drawSteering();
  runSoon(recording ? 0 : pause);
}
function drawSteering() {
  const box = $("steering"), list = vectorsNow();
  $("steering-box").hidden = !list.length || recording && !canRun({ steering: list.map((one, i) => i ? 0 : one.most) });
  if (drawSteering.of !== ask.model) {
    drawSteering.of = ask.model;
    box.replaceChildren(...list.map((one, index) => {
      const item = element("li", null), input = element("input", null, { type: "range", min: -one.most, max: one.most, step: strengthStep(one), id: "strength-" + index, "aria-label": "strength of " + one.name }), top = element("p", null), scale = element("p", null, { class: "strengths", "aria-hidden": "true" }), none = element("button", "0", { type: "button", class: "plain", "aria-label": one.name + ": strength 0" });
      input.oninput = () => setStrength(index, Math.round(input.value / strengthStep(one)) * strengthStep(one));
      none.onclick = () => setStrength(index, 0);
      top.append(element("label", one.name, { for: input.id, title: one.name }), element("output", "", { for: input.id }), none);
      scale.append(...[-one.most, 0, one.most].map(at => element("span", minus((at > 0 ? "+" : "") + at))));
      item.append(top, input, scale, element("span", one.layers, { class: "note" }));
      return item;
    }));
  }
  [...box.children].forEach((item, index) => {
    const strength = ask.steering[index] || 0, input = item.querySelector("input");
    if (+input.value !== strength) input.value = strength;
    item.querySelector("output").textContent = strengthText(strength, list[index]);
    item.querySelector("button").disabled = !strength;
  });
}
