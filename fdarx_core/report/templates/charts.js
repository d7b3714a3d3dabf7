"use strict";
// Shows at once what a mark of a chart stands for, and hides a point whose entry in the legend is pressed.
(() => {
  const box = document.createElement("div");
  box.className = "hover";
  box.hidden = true;
  document.body.append(box);
  for (const title of document.querySelectorAll(".chart * > title")) {
    title.parentElement.dataset.hover = title.textContent;
    title.remove();
  }
  document.addEventListener("pointerover", (event) => {
    const words = event.target.dataset?.hover;
    box.hidden = !words;
    if (!words) return;
    box.textContent = words;
    const { left, right, top, bottom } = event.target.getBoundingClientRect();
    const above = top - box.offsetHeight - 8;
    box.style.left = `${Math.max(8, Math.min((left + right - box.offsetWidth) / 2, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${above < 8 ? bottom + 8 : above}px`;
  });
  document.addEventListener("scroll", () => { box.hidden = true; }, { capture: true, passive: true });

  for (const key of document.querySelectorAll(".chart .key")) {
    const name = key.dataset.series;
    const press = (event) => {
      if (event.type === "keydown" && !["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      const off = key.getAttribute("aria-pressed") === "true";
      for (const mark of key.closest(".chart").querySelectorAll(`[data-series="${name}"]`)) mark.classList.toggle("off", off);
      key.setAttribute("aria-pressed", String(!off));
    };
    key.addEventListener("click", press);
    key.addEventListener("keydown", press);
  }
})();
