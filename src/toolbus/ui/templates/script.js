"use strict";

// The element with `data-events` follows the store by the stream of that address; so do questions.
const MOST_NODES = 2000;
const region = () => document.querySelector("[data-events]");
const further = () => document.querySelector(".further > a[rel=next]");
const byId = (id) => document.getElementById(id);
const parse = (html) => Object.assign(document.createElement("template"), { innerHTML: html }).content;
const count = (element) => element.querySelectorAll("*").length + 1;
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 60;
const path = region()?.dataset.events ?? (byId("waiting") && "/events");
const stream = path && new URL(path, location);
document.body.insertAdjacentHTML("beforeend", `<aside class="live" aria-label="News">
<a hidden></a><p class="reason asked" role="status"></p><p class="unseen" role="status"></p></aside>
<dialog aria-label="Keys"><p>j, k: the next or previous turn, question or row</p><p>/: search</p>
<p>?: this help</p><p>Escape: leave a field or this help</p></dialog>`);
const [below, problem, announcement] = document.querySelector(".live").children;

// News are announced politely, and not more than once in five seconds.
let [words, timer, spoken, unseen] = ["", 0, -5000, 0];
function announce(text) {
  words = text;
  timer ||= setTimeout(() => {
    [timer, spoken, announcement.textContent] = [0, performance.now(), words];
  }, Math.max(0, spoken + 5000 - performance.now()));
}
function showBelow(number) {
  unseen = Math.max(0, number);
  below.hidden = !unseen;
  below.textContent = `${unseen} new below`;
}

// An element in use stays as it is: its new form waits, or as much of it as must.
const waiting = new Map();
function isInUse(element) {
  const selection = getSelection();
  return element.matches(":hover, details[open]") || element.querySelector("details[open]")
    || element.contains(document.activeElement)
    || (!selection.isCollapsed && selection.containsNode(element, true));
}
function update(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (!isInUse(old)) return old.replaceWith(fresh.cloneNode(true));
  const [mine, theirs] = [[...old.children], [...fresh.children]];
  if (mine.some((each, place) => each.localName !== theirs[place]?.localName)) return;
  if (mine.length) old.append(...theirs.slice(mine.length).map((each) => each.cloneNode(true)));
  mine.forEach((each, place) => update(each, theirs[place]));
}
function updateWaiting() {
  for (const [selector, fresh] of waiting) {
    const old = document.querySelector(selector);
    if (old) update(old, fresh);
    if (!old || document.querySelector(selector).isEqualNode(fresh)) waiting.delete(selector);
  }
}

// New turns go to the end, or behind a link if the page is full; the reader's place stays.
function insert(html, end) {
  document.dispatchEvent(new Event("toolbus-news"));
  // Nothing moves from under the pointer.
  const isFollowing = isAtEnd() && !document.querySelector("a:hover, button:hover, summary:hover");
  let [nodes, added] = [count(region()), 0];
  for (const turn of [...parse(html).children].filter((each) => each.id)) {
    if (byId(turn.id)) {
      waiting.set(`#${turn.id}`, turn);
      continue;
    }
    if (!isFollowing && nodes > MOST_NODES && !further()) addFurther();
    if (!unseen) below.href = further() ? "#further" : `#${turn.id}`;
    if (!isFollowing) showBelow(unseen + 1);
    if (!further()) nodes += count(region().appendChild(turn));
    added += 1;
  }
  updateWaiting();
  stream.searchParams.set("after", end);
  if (added) announce(unseen ? below.textContent : `${added} new`);
  if (!isFollowing) return;
  const turns = region().children;
  while (nodes > MOST_NODES && turns.length > 1 && !isInUse(turns[0])) {
    nodes -= count(turns[0]);
    turns[0].remove();
  }
  scrollTo(0, document.body.scrollHeight);
}
let reading = 0;
function reread() {
  document.dispatchEvent(new Event("toolbus-news"));
  if (region()?.localName !== "tbody") return;
  reading ||= setTimeout(async () => {
    reading = 0;
    const answer = await fetch(location);
    const fresh = answer.ok && parse(await answer.text()).querySelector("[data-events]");
    if (fresh) waiting.set("[data-events]", fresh);
    updateWaiting();
    if (fresh && fresh.dataset.counting) reread();
  }, 1000);
}

// The next part is loaded as its link comes into view; the end of the last part follows the store.
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) load(entry.target);
}, { rootMargin: "300px" });
function addFurther() {
  const href = `?after=${Number(stream.searchParams.get("after"))}`;
  const link = `<a rel="next" href="${href}">Next messages</a>`;
  region().insertAdjacentHTML("beforeend", `<p class="further" id="further">${link}</p>`);
  watcher.observe(further());
}
async function load(link) {
  watcher.unobserve(link);
  const answer = await fetch(link.href);
  if (!answer.ok) return;
  const part = parse(await answer.text()).querySelector("[data-events]");
  for (const each of part.querySelectorAll(".message[id]")) if (byId(each.id)) each.remove();
  showBelow(unseen - part.querySelectorAll(".turn").length);
  link.parentElement.replaceWith(...part.children);
  const after = new URL(link.href).searchParams.get("after");
  for (const name of ["from", "after"]) stream.searchParams.set(name, after);
  if (further()) watcher.observe(further());
  else connect();
}

// A page in the background has no connection.
let source = null;
const tell = (text) => { problem.textContent = text && `Not live: ${text}`; };
function connect() {
  source?.close();
  if (document.hidden) return;
  // A page before the end hears of changes only.
  source = new EventSource(further() ? "/events" : stream);
  source.onopen = () => tell("");
  source.onerror = () => problem.textContent || tell("the connection is lost");
  const handlers = { lost: tell, back: () => tell(""), changed: reread, turns: insert };
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(event.data), event.lastEventId));
  }
}
if (stream) {
  if (region()?.dataset.counting) reread();
  setInterval(updateWaiting, 500);
  addEventListener("scroll", () => isAtEnd() && !further() && showBelow(0), { passive: true });
  document.addEventListener("visibilitychange", () => document.hidden ? source?.close() : connect());
  if (further()) watcher.observe(further());
  connect();
}

// Keys, except in fields.
const help = document.querySelector("dialog");
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
  "?": () => help.open ? help.close() : help.showModal(),
};
addEventListener("keydown", (event) => {
  if (event.key === "Escape") document.activeElement.blur();
  const isTyping = event.target.closest("input, select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
