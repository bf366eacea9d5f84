/* ---- asking ---- */
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    yield* parts;
  }
}
// One event: a comment of this server's own, a piece of the answer, or the figures at the end. True: it was the last.
function take(turn, event) {
  if (event.startsWith(": ommatidia ")) {
    const own = JSON.parse(event.slice(12));
    if (own.images) turn.media = own;
    showPhase(turn, own.stage || "queue", own.done, own.total);
    return false;
  }
  if (!event.startsWith("data: ")) return false;
  if (event === "data: [DONE]") return true;
  const chunk = JSON.parse(event.slice(6));
  if (chunk.error) throw new Error(chunk.error.message);
  const choice = chunk.choices?.[0];
  if (choice) {
    if (PHASES[turn.phase][0] !== "decode") showPhase(turn, "decode");
    turn.thought += choice.delta?.reasoning || "";
    turn.text += choice.delta?.content || "";
    turn.reason = choice.finish_reason || turn.reason;
    turn.progress.hidden = hasAnswer(turn);
    showText(turn);
  }
  if (chunk.usage) turn.usage = chunk.usage;
  if (chunk.ommatidia) turn.media = chunk.ommatidia;
  return false;
}
const hasAnswer = turn => Boolean(turn.text || turn.thought);
const imagesOf = turn => turn.images.filter(image => image.data);
function messagesOf() {
  const system = $("system").value.trim();
  return [...(system ? [{role: "system", content: system}] : []), ...turns.flatMap(turn => [
    {role: "user", content: [...imagesOf(turn).map(image => ({type: "image_url", image_url: {url: image.data}})), {type: "text", text: turn.question}]},
    ...(hasAnswer(turn) ? [{role: "assistant", content: turn.text, ...(turn.thought ? {reasoning: turn.thought} : {})}] : [])])];
}
// The server says where in the request an image stands; a person knows it by its name.
function withNames(text) {
  const users = messagesOf().map(message => message.role === "user"), nameAt = (message, part) => {
    const turn = users[message] ? turns[users.slice(0, message).filter(Boolean).length] : null;
    return turn && imagesOf(turn)[part]?.name;
  };
  return text.replace(/messages\[(\d+)\]\.content\[(\d+)\]/g, (place, message, part) => nameAt(message, part) ?? place);
}
function requestOf() {
  const number = (id, name) => $(id).value === "" ? {} : {[name]: Number($(id).value)};
  return {messages: messagesOf(), stream: true, stream_options: {include_usage: true}, ommatidia: {details: true, progress: true},
          ...number("temperature", "temperature"), ...number("most", "max_tokens")};
}
async function stream(turn, signal) {
  const response = await send("v1/chat/completions", {method: "POST", signal, headers: {"Content-Type": "application/json"}, body: JSON.stringify(requestOf())});
  if (!response.ok) throw new Error(await messageOf(response));
  try {
    for await (const event of eventsOf(response)) if (take(turn, event)) return;
  } catch (error) {
    if (!(error instanceof TypeError) || signal.aborted) throw error;
  }
  throw new Error("The connection broke before the answer was complete.");
}
// A question that got no answer goes back to where it was typed.
function takeBack(turn) {
  turns.splice(turns.indexOf(turn), 1);
  if (!$("question").value) $("question").value = turn.question;
  const images = imagesOf(turn);
  shown = shown.filter(image => !images.includes(image));
  pending = images.concat(pending);
  showPending();
}
function explain(turn, error) {
  const isFull = error.message.startsWith("This model's maximum context length");
  turn.failure = !isFull ? withNames(inWords(error))
    : (turns.length > 1 ? "The conversation is longer than the model can read" : "This is more than the model can read") + " at once" +
      (contextSize ? " (" + contextSize.toLocaleString("en") + " tokens)." : ".");
  if (isFull) return turns.length > 1 ? wayOn("New conversation with this question", begin) : make("p", {className: "note"}, "Ask with fewer or smaller images, or less text.");
  return hasAnswer(turn) ? "" : wayOn("Try again", () => {
    if (running) return;
    turn.asked.remove();
    turn.answer.remove();
    submit();
  });
}
async function ask(question, images) {
  const controller = new AbortController(), conversation = turns;
  shown.push(...images);
  const turn = addQuestion(question, images);
  running = {controller, turn};
  follows = true;
  showPhase(turn, "send");
  showState();
  keep();
  const timer = setInterval(() => { if (!turn.progress.hidden) tick(turn); }, 100), saving = setInterval(keep, 2000);
  let way = "";
  try {
    await stream(turn, controller.signal);
  } catch (error) {
    if (controller.signal.aborted) turn.stopped = "Stopped."; else way = explain(turn, error);
  }
  clearInterval(timer);
  clearInterval(saving);
  running = null;
  if (conversation !== turns) return showState();  // a new one has begun meanwhile
  if (!contextSize && !turn.failure) await loadModel();
  finish(turn);
  turn.end.append(way);
  if (!hasAnswer(turn)) takeBack(turn);
  if (!turn.failure) announce(turn.stopped || "Answer: " + partsOf(turn)[1]);
  keep();
  showState();
}
function submit() {
  const question = $("question").value.trim();
  if (running || !question) return;
  const images = pending;
  pending = [];
  $("question").value = "";
  $("refused").replaceChildren();
  showPending();
  ask(question, images);
}
function begin() {
  running?.controller.abort();
  shown.forEach(image => URL.revokeObjectURL(image.url));
  turns = [];
  shown = [];
  $("talk").replaceChildren();
  pending.forEach(image => { image.id = ""; });
  forget();
  announce("New conversation");
  showState();
  $("question").focus();
}
document.querySelector("#composer form").onsubmit = event => {
  event.preventDefault();
  if (running) running.controller.abort(); else submit();
  $("question").focus();
};
$("question").oninput = showState;
$("question").onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); submit(); }
};
document.addEventListener("keydown", event => {
  if (event.key === "Escape" && running && !$("lock").open) running.controller.abort();
});
$("fresh").onclick = begin;
showState();
$("question").focus({preventScroll: true});
loadModel();
restore();
