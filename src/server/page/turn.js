/* ---- a question and its answer ---- */
const TIMES = [["queue", "Queue", t => t.queue], ["images", "Preprocess", t => t.decode_image + t.preprocess],
               ["encode", "Encode", t => t.encode], ["prefill", "Prefill", t => t.prefill], ["decode", "Decode", t => t.decode]];
const PHASES = [["send", "Preprocess"], ["queue", "Queue"], ["encode", "Encode images"], ["prefill", "Read prompt"], ["decode", "Answer"]];

// The end stays in sight while the talk grows, unless the reader scrolled up or opened something.
let follows = true, lastTop = 0;
const toEnd = () => scrollTo(0, document.documentElement.scrollHeight);
addEventListener("scroll", () => {
  const isAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 40;
  if (isAtEnd) follows = true; else if (scrollY < lastTop) follows = false;
  lastTop = scrollY;
});
new ResizeObserver(() => { if (follows && turns.length) toEnd(); }).observe($("talk"));

function figureOf(image, several) {
  const element = image.url ? showImage(image, "Image: " + image.name) : make("span", {className: "name"}, image.name + " was not kept");
  const figure = make("figure", {className: several ? "several" : ""}, element);
  element.onload = () => {
    figure.style.setProperty("--ratio", element.naturalWidth / element.naturalHeight);
    figure.style.setProperty("--own", element.naturalWidth + "px");
  };
  if (shown.includes(image)) figure.append(make("span", {className: "number", attributes: {"aria-hidden": "true"}}, String(shown.indexOf(image) + 1)));
  image.figures.push(figure);
  return figure;
}
function addQuestion(question, images) {
  const number = turns.length + 1;
  const turn = {question, images, text: "", thought: "", media: {}, boxes: [], again: new Set(), began: performance.now(), phase: 0, share: "",
    asked: make("article", {className: "turn question", attributes: {"aria-label": "Question " + number}}),
    body: make("div", {className: "text"}), bar: make("progress", {attributes: {"aria-label": "Progress of the answer"}}), phases: make("div", {className: "phases"}),
    list: make("ul", {className: "boxes", attributes: {"aria-label": "Boxes in the answer"}}), figures: make("div", {className: "figures"}), end: make("div"),
    thinks: make("div", {className: "inner"}), title: make("summary")};
  // without images of its own, boxes lie on those that were sent last
  turn.firstImage = shown.indexOf((images.length ? images : turns.findLast(old => old.images.length)?.images ?? [])[0]);
  if (images.length) turn.asked.append(make("div", {className: "figures"}, ...images.map(image => figureOf(image, images.length > 1))));
  turn.asked.append(make("div", {className: "text"}, question));
  turn.progress = make("div", {className: "progress"}, turn.phases, turn.bar);
  turn.fold = make("details", {className: "thought", hidden: true, ontoggle: () => { if (!running) follows = false; }}, turn.title, turn.thinks);
  turn.answer = make("article", {className: "turn answer", attributes: {"aria-label": "Answer " + number, "aria-busy": "true"}},
    turn.progress, turn.fold, turn.body, turn.figures, turn.list, turn.end);
  $("talk").append(turn.asked, turn.answer);
  turns.push(turn);
  return turn;
}
function showPhase(turn, name, done, total) {
  const phase = Math.max(turn.phase, PHASES.findIndex(([id]) => id === name));
  if (phase !== turn.phase || !turn.announced) announce(PHASES[phase][1]);
  turn.phase = phase;
  turn.announced = true;
  if (total > 0) { turn.bar.max = total; turn.bar.value = done; } else turn.bar.removeAttribute("value");
  turn.share = total > 0 ? " " + Math.floor(100 * done / total) + " %" : "";
  tick(turn);
}
function tick(turn) {
  turn.phases.replaceChildren(...PHASES.map(([, label], i) => make("span", {className: i < turn.phase ? "done" : i === turn.phase ? "now" : ""},
    i === turn.phase ? label + turn.share : label)), make("span", {}, seconds((performance.now() - turn.began) / 1000)));
}
// A thought that the server did not part from the answer is known by its marks.
function partsOf(turn) {
  if (turn.thought) return [turn.thought, turn.text];
  const marked = turn.text.match(/^\s*<think>\n?([^]*?)(?:<\/think>\s*([^]*))?$/) ?? turn.text.match(/^([^]*?)<\/think>\s*([^]*)$/);
  return marked ? [marked[1], marked[2] ?? ""] : ["", turn.text];
}
function paint(turn) {
  turn.planned = false;
  const [thought, text] = partsOf(turn), isRunning = turn === running?.turn;
  if (thought && !text && isRunning) turn.thinkingSeconds = (performance.now() - turn.began) / 1000;
  turn.fold.hidden = !thought;
  turn.fold.classList.toggle("busy", isRunning && !text);
  turn.title.textContent = isRunning && !text ? "Thinking" : turn.thinkingSeconds ? "Thought for " + seconds(turn.thinkingSeconds) : "Thought";
  turn.thinks.textContent = thought;
  showMarkdown(turn.body, text);
  turn.body.classList.toggle("cursor", Boolean(text) && isRunning);
  showBoxes(turn);
}
function showText(turn) {
  if (turn.planned) return;
  turn.planned = true;
  requestAnimationFrame(() => paint(turn));
}
function showFacts(turn) {
  const {usage, media: {timings: times}} = turn, facts = [];
  const fact = (name, value) => facts.push(make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  const block = make("div", {className: "facts"});
  if (times) {
    const parts = TIMES.map(([id, name, get]) => ({id, name, time: get(times)})).filter(part => part.time > 0 || part.id !== "images");
    const all = parts.reduce((sum, part) => sum + part.time, 0) || 1;
    block.append(make("div", {className: "bar", attributes: {"aria-hidden": "true"}}, ...parts.filter(part => part.time > 0).map(part =>
      make("i", {style: {"flex-basis": (100 * part.time / all).toFixed(2) + "%", background: "var(--" + part.id + ")"}}))));
    block.append(make("dl", {className: "timed"}, ...parts.map(part => make("div", {style: {"--of": "var(--" + part.id + ")"}},
      make("dt", {}, part.name), make("dd", {}, seconds(part.time))))));
    fact("First token", seconds(times.first_token));
    fact("Total", seconds(times.total));
    if (usage.completion_tokens > 1 && times.decode > 0) fact("Speed", ((usage.completion_tokens - 1) / times.decode).toFixed(1) + " tokens/s");
  }
  const cached = usage.prompt_tokens_details?.cached_tokens, thought = usage.completion_tokens_details?.reasoning_tokens;
  fact("Prompt", usage.prompt_tokens + " tokens" + (cached === undefined ? "" : ", " + cached + " cached"));
  fact("Answer", usage.completion_tokens + " tokens" + (thought ? ", " + thought + " of the thought" : ""));
  block.append(make("div", {className: "row"}, make("dl", {}, ...facts)));
  turn.end.append(block);
}
function addCopy(turn) {
  if (!partsOf(turn)[1]) return;
  const row = turn.end.querySelector(".row") || turn.end.appendChild(make("div", {className: "facts"})).appendChild(make("div", {className: "row"}));
  row.append(copyButton(() => partsOf(turn)[1]));
}
function addNote(turn, text, ...ways) { turn.end.append(make("p", {className: "note"}, text), ...ways); }
const wayOn = (name, act) => make("button", {type: "button", className: "button small way", onclick: act}, name);
// What stands below an answer that is over.
function finish(turn) {
  turn.ended = true;
  turn.progress.hidden = true;
  turn.answer.setAttribute("aria-busy", "false");
  paint(turn);
  if (turn.usage) showFacts(turn);
  if (turn.reason === "length") {
    if (contextSize && turn.usage?.total_tokens >= contextSize) {
      addNote(turn, "The answer was cut off: the conversation fills the model's context of " + contextSize.toLocaleString("en") + " tokens.", wayOn("New conversation", begin));
    } else addNote(turn, "The answer was cut off: no more tokens were allowed.");
  }
  if (turn.stopped) addNote(turn, turn.stopped);
  if (turn.failure) turn.end.append(make("p", {className: "error", attributes: {role: "alert"}}, turn.failure));
  addCopy(turn);
}
