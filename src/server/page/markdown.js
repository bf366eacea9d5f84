/* ---- Markdown ---- */
// A model's text as elements: it never becomes markup, and what is no Markdown (HTML too) stays as it is. Bounds keep a hostile text cheap.
const MOST_INLINE = 20000, MOST_LINE = 2000;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^\s{0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^\s{0,3}> ?/;
const MARKER = /^(\s*)([-*+]|\d{1,9}[.)]) +(?=\S)/;
const FORMULA = /^\s*(?:\$\$(?!.*\$\$\s*\S)|\\\[(?!.*\\\]\s*\S))/;
const DELIMITERS = /^\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$/;
const INLINE = new RegExp([
  /(?<ticks>`+)(?!`)(?<code>.{1,500}?)(?<!`)\k<ticks>(?!`)/,
  /(?<formula>\$\$[^$]{1,500}\$\$|\$(?![\s$])[^$\n]{0,500}(?<![\s\\])\$(?!\d)|\\\(.{1,500}?\\\)|\\\[.{1,500}?\\\])/,
  /\\(?<escaped>[!-\/:-@[-`{-~])/,
  /!?\[(?<label>[^[\]]{0,500})\]\((?<to>https?:\/\/(?:[^\s()]|\([^\s()]*\)){1,2000})(?: +"[^"]{0,500}")?\)/,
  /<?(?<bare>https?:\/\/[^\s<>"`|]{0,2000}[^\s<>"`|.,;:!?)\]}'*_])>?/,
  /(?<strong>\*\*(?!\s).{1,500}?(?<!\s)\*\*(?!\*)|(?<!\w)__(?!\s).{1,500}?(?<!\s)__(?!\w))/,
  /(?<em>\*(?![\s*]).{1,500}?(?<![\s*])\*(?!\*)|(?<!\w)_(?![\s_]).{1,500}?(?<![\s_])_(?!\w))/,
  /(?<del>~~(?!\s).{1,500}?(?<!\s)~~)/].map(part => part.source).join("|"), "gs");

const formula = (source, tag) => make(tag, {className: "formula", attributes: {role: "math", "aria-label": source}}, source);
function inline(text) {
  if (text.length > MOST_INLINE) return [text];
  const pieces = [];
  let done = 0;
  for (const match of text.matchAll(INLINE)) {
    const {code, formula: source, escaped, label, to, bare, strong, em, del} = match.groups;
    pieces.push(text.slice(done, match.index));
    done = match.index + match[0].length;
    if (code) pieces.push(make("code", {}, code));
    else if (source) pieces.push(formula(source.replace(/^(?:\$\$?|\\[([])\s*|\s*(?:\$\$?|\\[)\]])$/g, ""), "span"));
    else if (escaped) pieces.push(escaped);
    else if (to || bare) pieces.push(make("a", {href: to || bare, title: to || bare, target: "_blank", rel: "noopener noreferrer nofollow"}, ...(label ? inline(label) : [to || bare])));
    else if (strong) pieces.push(make("strong", {}, ...inline(strong.slice(2, -2))));
    else if (em) pieces.push(make("em", {}, ...inline(em.slice(1, -1))));
    else pieces.push(make("del", {}, ...inline(del.slice(2, -2))));
  }
  return [...pieces, text.slice(done)].filter(Boolean);
}

function kindOf(lines, at) {
  const line = lines[at], next = lines[at + 1] ?? "";
  if (Math.max(line.length, next.length) > MOST_LINE) return "text";
  return FENCE.test(line) ? "code" : FORMULA.test(line) ? "formula" : HEADING.test(line) ? "heading" : RULE.test(line) ? "rule" : QUOTE.test(line) ? "quote"
    : MARKER.test(line) ? "list" : line.includes("|") && DELIMITERS.test(next) ? "table" : "text";
}
const isOrdered = marker => /\d/.test(marker[2]);
// Whether a line goes on with a list: a sibling, what is indented, or what follows without an empty line and begins nothing else.
function isOfList(lines, at, first) {
  const marker = lines[at].match(MARKER), indent = lines[at].search(/\S/);
  if (indent < 0 || indent > first[1].length + 1) return true;
  return marker ? isOrdered(marker) === isOrdered(first) && !RULE.test(lines[at]) : Boolean(lines[at - 1].trim()) && kindOf(lines, at) === "text";
}
function endOf(kind, lines, at) {
  const first = (from, test) => { while (from < lines.length && !test(from)) from++; return from; };
  switch (kind) {
    case "code": {
      const mark = lines[at].match(FENCE)[1], close = new RegExp("^\\s{0,3}" + mark[0] + "{" + mark.length + ",}\\s*$");
      return first(at + 1, i => close.test(lines[i])) + 1;
    }
    case "formula": return /\S.*(?:\$\$|\\\])\s*$/.test(lines[at].trim().slice(2)) ? at + 1 : first(at + 1, i => /(?:\$\$|\\\])\s*$/.test(lines[i])) + 1;
    case "heading": case "rule": return at + 1;
    case "quote": return first(at, i => !QUOTE.test(lines[i]));
    case "list": { const marker = lines[at].match(MARKER); return first(at + 1, i => !isOfList(lines, i, marker)); }
    case "table": return first(at + 2, i => !lines[i].includes("|"));
    default: return first(at + 1, i => !lines[i].trim() || kindOf(lines, i) !== "text");
  }
}
function blocksOf(lines) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) { at++; continue; }
    const kind = kindOf(lines, at), end = endOf(kind, lines, at);
    blocks.push({kind, lines: lines.slice(at, end)});
    at = end;
  }
  return blocks;
}
const elementsOf = (lines, depth) => blocksOf(lines).map(block => (depth < 20 ? ELEMENTS[block.kind] : ELEMENTS.text)(block.lines, depth + 1));
const cellsOf = line => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map(cell => cell.trim().replaceAll("\\|", "|"));
const ELEMENTS = {
  text: lines => make("p", {}, ...inline(lines.join("\n").trimEnd())),
  heading: ([line]) => {
    const [, marks, text] = line.match(HEADING);
    return make("div", {className: "heading h" + marks.length, attributes: {role: "heading", "aria-level": marks.length + 1}}, ...inline(text));
  },
  rule: () => make("hr"),
  quote: (lines, depth) => make("blockquote", {}, ...elementsOf(lines.map(line => line.replace(QUOTE, "")), depth)),
  formula: lines => formula(lines.join("\n").replace(/^\s*(?:\$\$|\\\[)\s*|\s*(?:\$\$|\\\])\s*$/g, ""), "div"),
  code: lines => {
    const [, mark, language] = lines[0].match(FENCE), isClosed = lines.length > 1 && lines.at(-1).trim().startsWith(mark);
    const code = lines.slice(1, isClosed ? -1 : undefined).join("\n"), name = language.trim().split(/\s/)[0];
    return make("div", {className: "code"}, make("div", {className: "head"}, make("span", {}, name), copyButton(() => code)),
      make("pre", {tabIndex: 0, attributes: {role: "group", "aria-label": name ? "Code, " + name : "Code"}}, code));
  },
  list: (lines, depth) => {
    const first = lines[0].match(MARKER), items = [];
    for (const line of lines) {
      const marker = line.match(MARKER);
      if (marker && marker[1].length <= first[1].length + 1) items.push({width: marker[0].length, lines: [line.slice(marker[0].length).replace(/^\[ \](?= )/, "☐").replace(/^\[x\](?= )/i, "☑")]});
      else items.at(-1).lines.push(line.slice(Math.min(items.at(-1).width, Math.max(0, line.search(/\S/)))));
    }
    return make(isOrdered(first) ? "ol" : "ul", isOrdered(first) ? {start: parseInt(first[2], 10)} : {},
      ...items.map(item => make("li", {}, ...elementsOf(item.lines, depth))));
  },
  table: ([head, delimiters, ...rows]) => {
    const sides = cellsOf(delimiters).map(cell => cell.endsWith(":") ? cell.startsWith(":") ? "center" : "right" : "left");
    const row = (line, tag) => make("tr", {}, ...cellsOf(line).map((cell, i) => make(tag, {style: {"text-align": sides[i] || "left"}}, ...inline(cell))));
    return make("div", {className: "table", tabIndex: 0, attributes: {role: "group", "aria-label": "Table"}},
      make("table", {}, make("thead", {}, row(head, "th")), make("tbody", {}, ...rows.map(line => row(line, "td")))));
  },
};

// Shows a text that grows: blocks that stay as they are keep their elements, and so what is selected in them.
function showMarkdown(holder, text) {
  const blocks = blocksOf(text.split("\n"));
  blocks.forEach((block, i) => {
    const source = block.kind + "\n" + block.lines.join("\n"), old = holder.children[i];
    if (old?.source === source) return;
    const element = Object.assign(ELEMENTS[block.kind](block.lines, 1), {source});
    if (old) old.replaceWith(element); else holder.append(element);
  });
  while (holder.children.length > blocks.length) holder.lastChild.remove();
  let level = 1;  // none may be skipped
  for (const heading of holder.querySelectorAll("[role=heading]")) {
    level = Math.min(level + 1, Number(heading.className.at(-1)) + 1);
    heading.setAttribute("aria-level", level);
  }
}
