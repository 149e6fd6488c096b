"use strict";

// The element with `data-events` follows the store by the stream at that address.
const MOST_NODES = 2000;
const followed = () => document.querySelector("[data-events]");
const further = () => document.querySelector("#timeline a[rel=next]");
const byId = (id) => document.getElementById(id);
const parse = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;
const stream = followed() && new URL(followed().dataset.events, location);

async function read(address) {
  const reply = await fetch(address).catch(() => null);
  return reply?.ok ? parse(await reply.text()) : null;
}

// News are announced politely, and not more than once in five seconds; a lost connection at once.
let [problem, added] = ["", 0];
function tell(text) {
  if (text !== problem) byId("news").textContent = text && `Not live: ${text}`;
  problem = text;
}
function announce() {
  if (!problem) byId("news").textContent = added ? `${added} new` : "";
  added = 0;
}

// Once a second, elements that differ are replaced; those in use wait until they are free.
const waiting = new Map();
let isStale = false;
const isPointed = () => document.querySelector("main a:hover") !== null;
function isInUse(element) {
  const selection = getSelection();
  return element.contains(document.activeElement)
    || (!selection.isCollapsed && selection.containsNode(element, true));
}
async function update() {
  if (isStale || followed().dataset.counting) await readAgain();
  for (const [id, fresh] of isPointed() ? [] : waiting) {
    if (byId(id) && isInUse(byId(id))) continue;
    byId(id)?.replaceWith(fresh);
    waiting.delete(id);
  }
  setTimeout(update, 1000);
}
async function readAgain() {
  isStale = false;
  const fresh = await read(byId("waiting")?.dataset.source ?? location);
  if (!fresh || isPointed()) isStale = true;
  else if (byId("waiting")) updateQuestions(fresh);
  else waiting.set("rows", fresh.getElementById("rows"));
}

// By the rules at the head of question.html.
function updateQuestions(fresh) {
  const subjects = [...fresh.querySelectorAll("[name=subject]")].map((field) => field.value);
  for (const form of document.querySelectorAll("form.answer:not(.off)")) {
    if (subjects.includes(form.elements.subject.value)) continue;
    form.classList.add("off");
    form.querySelector("output").textContent ||= "ended, or changed: load the page again";
  }
  const questions = [...fresh.querySelectorAll("#waiting article")];
  if (questions.length) document.querySelector("#waiting .none")?.remove();
  byId("waiting").append(...questions.filter((each) => !byId(each.id)));
}

// New turns go to the end of a page that is at its end, else behind a link that loads on scroll.
function insert(event) {
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
  const elements = [...parse(JSON.parse(event.data)).children].filter((each) => each.id);
  const turns = elements.filter((each) => !byId(each.id));
  for (const known of elements.filter((each) => byId(each.id))) waiting.set(known.id, known);
  if (turns.length && !further()) {
    if (isAtEnd && !isPointed()) append(turns);
    else addFurther();
  }
  added += turns.length;
  stream.searchParams.set("after", event.lastEventId);
}
function append(turns) {
  followed().append(...turns);
  const shown = followed().children;
  while (followed().querySelectorAll("*").length > MOST_NODES && shown[1] && !isInUse(shown[0])) {
    shown[0].remove();
  }
  scrollTo(0, document.body.scrollHeight);
}
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) load(entry.target);
}, { rootMargin: "300px" });
function addFurther() {
  const end = Number(stream.searchParams.get("after"));
  const link = `<a rel="next" href="?after=${end}">Next messages</a>`;
  followed().insertAdjacentHTML("beforeend", `<p class="further">${link}</p>`);
  watcher.observe(further());
}
async function load(link) {
  watcher.unobserve(link);
  const part = (await read(link.href))?.getElementById("timeline");
  if (!part) return;
  for (const each of part.querySelectorAll(".message[id]")) if (byId(each.id)) each.remove();
  link.parentElement.replaceWith(...part.children);
  stream.search = new URL(part.dataset.events, location).search;
  if (further()) watcher.observe(further());
  else connect();
}

// A page in the background has no connection; one before the end hears of changes only.
let source = null;
function connect() {
  source?.close();
  if (document.hidden) return;
  source = new EventSource(further() ? "/events" : stream);
  source.onerror = () => tell(problem || "the connection is lost");
  source.addEventListener("lost", (event) => tell(JSON.parse(event.data)));
  source.addEventListener("turns", insert);
  for (const name of ["turns", "changed"]) {
    source.addEventListener(name, () => { tell(""); isStale = true; });
  }
}
if (stream) {
  document.addEventListener("visibilitychange", connect);
  if (further()) watcher.observe(further());
  connect();
  update();
  setInterval(announce, 5000);
}

// Keys, except in fields; layout.html names them.
function step(by) {
  const stops = [...document.querySelectorAll(".turn, .question, tbody th a")];
  const place = stops.findIndex((stop) => stop.contains(document.activeElement));
  const isBelow = (stop) => stop.getBoundingClientRect().top >= 0;
  const stop = place < 0 ? stops.find(isBelow) : stops[place + by];
  if (stop?.matches(":not(a)")) stop.tabIndex = -1;
  stop?.focus();
}
const keys = {
  j: () => step(1),
  k: () => step(-1),
  "/": () => document.querySelector("input[type=search]")?.focus(),
};
addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
