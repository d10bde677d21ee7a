// Everything works without this file. It shows times by the reader's clock, brings figures up to date, and puts the
// cursor into the search field when / is pressed.
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

// update replaces the figures by those of the same page as it is now. It leaves the page alone while the reader is in
// it: with the focus, a selection or an opened part.
async function update(live) {
  const busy = live.contains(document.activeElement) || !getSelection().isCollapsed || live.querySelector("details[open]");
  if (document.hidden || busy) {
    return;
  }
  const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.querySelector("[data-live]");
  if (answer.ok && next) {
    localTimes(next);
    live.replaceChildren(...next.childNodes);
    live.dataset.live = next.dataset.live;
  }
}

localTimes(document);

const live = document.querySelector("[data-live]");
function later() {
  setTimeout(() => update(live).catch(() => {}).then(later), Number(live.dataset.live) * 1000);
}
if (live) {
  later();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("q").focus();
  }
});
