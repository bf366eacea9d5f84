"use strict";
const $ = id => document.getElementById(id);
const BASE = location.pathname.replace(/\/*$/, "/");  // behind a proxy the page may be /anywhere, with or without the slash
const KEY = "ommatidia-key " + BASE, THEME = "ommatidia-theme";

let pending = [];     // images to go with the next question: {file, name, url, data, id, figures}
let turns = [];       // the conversation, which the server gets again each time
let shown = [];       // its images, in the order in which the server counts them
let running = null;   // of the answer that is being written: {controller, turn}
let contextSize = 0;  // of the model, in tokens; 0: it has not been asked for

function make(tag, options = {}, ...children) {
  const {style, attributes, ...rest} = options;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  for (const [name, value] of Object.entries(style || {})) element.style.setProperty(name, value);
  element.append(...children);
  return element;
}
function store(kind, name, value) {  // storage may be switched off
  try {
    if (value === undefined) return kind.getItem(name);
    if (value === null) kind.removeItem(name); else kind.setItem(name, value);
  } catch { /* then the choice lasts as long as the page */ }
  return null;
}
const announce = text => { $("status").textContent = text; };
const seconds = s => s < .0095 ? (1000 * s).toFixed(1) + " ms" : s < .9995 ? (1000 * s).toFixed(0) + " ms" : s.toFixed(s < 10 ? 2 : 1) + " s";

// Over plain http from another machine a browser has no navigator.clipboard.
function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const holder = document.body.appendChild(make("textarea", {value: text, className: "hidden"})), focused = document.activeElement;
  holder.select();
  const done = document.execCommand("copy");
  holder.remove();
  focused?.focus({preventScroll: true});
  return done ? Promise.resolve() : Promise.reject();
}
function copyButton(text) {
  const button = make("button", {type: "button", className: "button small copy", onclick: () => copyText(text()).then(() => {
    button.textContent = "Copied";
    announce("Copied");
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }, () => announce("The browser does not allow that."))}, "Copy");
  return button;
}

/* ---- theme ---- */
const themes = ["system", "light", "dark"];
function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  const sign = {system: "◐", light: "☀", dark: "☾"}[theme];
  $("theme").replaceChildren(make("span", {attributes: {"aria-hidden": "true"}}, sign), make("span", {className: "word"}, theme[0].toUpperCase() + theme.slice(1)));
  $("theme").setAttribute("aria-label", "Theme: " + theme);
  $("theme").dataset.now = theme;
  store(localStorage, THEME, theme === "system" ? null : theme);
}
setTheme(themes.includes(store(localStorage, THEME)) ? store(localStorage, THEME) : "system");
$("theme").onclick = () => {
  setTheme(themes[(themes.indexOf($("theme").dataset.now) + 1) % themes.length]);
  announce("Theme: " + $("theme").dataset.now);
};
