/* ---- boxes in an answer ---- */
const COLOURS = ["#ffd60a", "#4cc9f0", "#ff70a6", "#80ed99", "#ff9f1c", "#c8b6ff", "#f8f9fa", "#72efdd"];
const MOST_BOXES = 200;
// The whole JSON values that begin with { anywhere in a text, also of a list that is not finished yet, and where each begins.
function* objectsIn(text) {
  let tries = 0;
  for (let at = text.indexOf("{"); at >= 0 && tries++ < 1000; at = text.indexOf("{", at)) {
    let depth = 0, quoted = false, end = at;
    for (; end < text.length; end++) {
      const c = text[end];
      if (quoted) { if (c === "\\") end++; else if (c === '"') quoted = false; }
      else if (c === '"') quoted = true;
      else if (c === "{") depth++;
      else if (c === "}" && --depth === 0) break;
    }
    at++;
    if (end >= text.length) continue;
    try { yield [JSON.parse(text.slice(at - 1, end + 1)), at - 1]; at = end + 1; } catch { /* no JSON: look further inside */ }
  }
}
function collect(value, boxes, level = 0) {
  if (value === null || typeof value !== "object" || level > 20 || boxes.length >= MOST_BOXES) return boxes;
  const corners = value.bbox_2d;
  if (Array.isArray(corners) && corners.length === 4 && corners.every(Number.isFinite)) {
    const label = [value.label, value.text_content].find(text => typeof text === "string") || "";
    boxes.push({corners, label, image: Number.isInteger(value.image) ? value.image - 1 : -1});
  }
  for (const inner of Object.values(value)) collect(inner, boxes, level + 1);
  return boxes;
}
// Corners as parts of the image's width and height; what lies outside is cut, what is empty left out.
function place(box, media, first) {
  const index = box.image >= 0 ? box.image : first;
  const image = shown[index], size = media.images?.[index];
  if (!image || !media.box_unit) return null;
  const pixels = media.box_unit === "resized_pixels";
  if (pixels && !size) return null;
  const [w, h] = pixels ? [size.resized_width, size.resized_height] : [1000, 1000];
  const [x1, y1, x2, y2] = [box.corners[0] / w, box.corners[1] / h, box.corners[2] / w, box.corners[3] / h].map(v => Math.min(1, Math.max(0, v)));
  return x1 < x2 && y1 < y2 ? {image, label: box.label, x1, y1, x2, y2} : null;
}
function drawBoxes(turn) {
  for (const image of new Set(turn.boxes.map(box => box.image))) {
    for (const figure of image.figures) {
      figure.querySelectorAll(".box").forEach(old => old.remove());
      turn.boxes.forEach((box, i) => {
        if (box.image !== image) return;
        const percent = v => (100 * v).toFixed(3) + "%";
        const colour = COLOURS[i % COLOURS.length];
        const name = make("span", {style: {background: colour}}, box.label || String(i + 1));
        figure.append(make("div", {className: box.y1 < .08 ? "box low" : "box", attributes: {"data-box": i, "aria-hidden": "true"},
          style: {left: percent(box.x1), top: percent(box.y1), width: percent(box.x2 - box.x1), height: percent(box.y2 - box.y1), "border-color": colour}}, name));
      });
    }
  }
}
function emphasise(turn, index) {
  drawBoxes(turn);
  document.querySelectorAll(".box").forEach(box => box.classList.toggle("strong", box.dataset.box === String(index)));
}
// The boxes of an answer. One without a number has that of the last "image 2" before it, where there are several images.
function boxesIn(text) {
  const found = [];
  for (const [value, at] of objectsIn(text)) {
    const named = shown.length > 1 ? [...text.slice(0, at).matchAll(/\b(?:image|pict[u]re) ?#?(\d+)/gi)].at(-1) : null;
    for (const box of collect(value, [])) found.push(box.image < 0 && named ? {...box, image: named[1] - 1} : box);
  }
  return found.slice(0, MOST_BOXES);
}
function showBoxes(turn) {
  const found = boxesIn(turn.text);
  const boxes = found.map(box => place(box, turn.media, turn.firstImage)).filter(Boolean);
  if (boxes.length === turn.boxes.length) return;
  turn.boxes = boxes;
  for (const image of new Set(boxes.map(box => box.image))) {  // an image of an earlier question is shown once more
    if (!turn.images.includes(image) && !turn.again.has(image)) {
      turn.again.add(image);
      turn.figures.append(figureOf(image, false));
    }
  }
  turn.list.replaceChildren(...boxes.map((box, i) => make("li", {}, make("button", {type: "button", className: "button small",
    style: {"--of": COLOURS[i % COLOURS.length]}, onmouseenter: () => emphasise(turn, i), onfocus: () => emphasise(turn, i),
    onmouseleave: () => emphasise(turn, -1), onblur: () => emphasise(turn, -1), onclick: () => {
      emphasise(turn, i);
      box.image.figures.at(-1).scrollIntoView({block: "nearest"});
    }}, (box.label || "Box " + (i + 1)) + (shown.length > 1 ? " · image " + (shown.indexOf(box.image) + 1) : "")))));
  drawBoxes(turn);
}
