// Everything works without this file. It shows times by the reader's clock, makes cards of rows on a phone, brings
// figures up to date, and puts the cursor into the search field when / is pressed.
"use strict";

function localTimes(within) {
  const format = new Intl.DateTimeFormat(undefined, {dateStyle: "medium", timeStyle: "medium"});
  for (const element of within.querySelectorAll("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (!isNaN(at)) {
      element.title = element.dateTime;
      element.textContent = format.format(at);
    }
  }
}

// cards tells each cell what it is, so that rows can be cards where a table has no room.
function cards(within) {
  for (const table of within.querySelectorAll("table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.firstChild?.textContent.trim());
    for (const cell of table.querySelectorAll("tbody td:not([colspan])")) {
      const text = cell.textContent.trim();
      cell.dataset.label = heads[cell.cellIndex] || "";
      cell.classList.toggle("zero", text === "0");
      cell.classList.toggle("none", text === "" || text === "–");
    }
    table.classList.add("cards");
  }
}

// morph makes a part of the page like another and keeps what is alike, so that focus, scroll positions, what is
// opened and what was typed stay. Elements with a data-key are found again wherever they are.
function morph(old, next) {
  for (const {name} of [...old.attributes]) {
    if (name !== "open" && !next.hasAttribute(name)) {
      old.removeAttribute(name);
    }
  }
  for (const {name, value} of next.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) {
      old.setAttribute(name, value);
    }
  }
  const keyed = new Map([...old.children].filter((e) => e.dataset.key).map((e) => [e.dataset.key, e]));
  let at = old.firstChild;
  for (const child of [...next.childNodes]) {
    const key = child.dataset?.key;
    const match = key ? keyed.get(key) : at && !at.dataset?.key && at.nodeName === child.nodeName && at;
    keyed.delete(key);
    if (!match) {
      old.insertBefore(child, at);
      continue;
    }
    if (match === at) {
      at = at.nextSibling;
    } else {
      old.insertBefore(match, at);
    }
    if (match.nodeType === Node.ELEMENT_NODE) {
      morph(match, child);
    } else if (match.nodeValue !== child.nodeValue) {
      match.nodeValue = child.nodeValue;
    }
  }
  while (at) {
    const rest = at;
    at = at.nextSibling;
    rest.remove();
  }
}

const main = document.getElementById("main");
const trouble = document.getElementById("trouble");
let busy = false;

// update shows the same page as it is now, unless text of it is selected. If the page is another one by now, such as
// one that asks who it is, that one is shown.
async function update() {
  if (busy || document.hidden || !getSelection().isCollapsed) {
    return;
  }
  busy = true;
  try {
    const answer = await fetch(location.href, {headers: {Accept: "text/html", "Txwork-Update": "1"}});
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("main");
    const version = (of) => of.querySelector("script[src]")?.getAttribute("src");
    if (answer.redirected || answer.status === 401 || answer.status === 403 ||
        answer.ok && version(page) !== version(document)) {
      location.reload();
    } else if (!answer.ok || !next) {
      throw new Error(page.querySelector("h1")?.textContent);
    } else {
      const focused = document.activeElement;
      localTimes(next);
      cards(next);
      morph(main, next);
      if (focused !== document.activeElement && focused.isConnected) {
        focused.focus({preventScroll: true});
      }
      trouble.textContent = "";
    }
  } catch (error) {
    trouble.textContent = "Not up to date: " + (error.message || "the server cannot be reached") + ".";
  } finally {
    busy = false;
  }
}

// A stream says when figures are new. Without signs of life, as behind a proxy that keeps them back, or if there are too
// many streams, the page is read at intervals. So is a page that asks for it, such as that of an action that goes on.
let stream, heard = 0, asked = Date.now();
function listen() {
  stream?.close();
  stream = undefined;
  if (!document.hidden) {
    stream = new EventSource(main.dataset.live);
    stream.addEventListener("beat", () => { heard = Date.now(); });
    stream.addEventListener("figures", () => { heard = asked = Date.now(); update(); });
  }
}

function tick() {
  const every = main.querySelector("[data-every]")?.dataset.every;
  const deaf = main.dataset.live && Date.now() - heard > 15000;
  if (Date.now() - asked > (every ? every * 1000 : deaf ? 15000 : Infinity)) {
    asked = Date.now();
    update();
    if (deaf && stream?.readyState !== EventSource.CONNECTING) {
      listen();
    }
  }
}

localTimes(document);
cards(document);
setInterval(tick, 1000);
if (main.dataset.live) {
  listen();
  document.addEventListener("visibilitychange", () => { listen(); update(); });
  addEventListener("pagehide", () => stream?.close());
  addEventListener("pageshow", (event) => event.persisted && listen());
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("q").focus();
  }
});
