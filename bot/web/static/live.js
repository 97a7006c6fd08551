// Keeps the regions of the page equal to the server's, block by block.
// Nobody loses what they type, their focus, or what they unfolded.

const body = document.body;
const PAUSE = 400; // milliseconds between two looks: a busy agent changes many times a second
let looking = false;
let again = false;
let events = null;
let lostTimer = null;

/** Looks at the server once more; many calls become few. */
export async function refresh() {
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  try {
    await look();
    offline(false);
  } catch (problem) {
    if (problem.status === 401) offline(true, body.dataset.signedOut);
  } finally {
    await new Promise((done) => setTimeout(done, PAUSE));
    looking = false;
    if (again) {
      again = false;
      refresh();
    }
  }
}

/** Follows the server's events; mends a broken connection by itself. */
export function follow() {
  events?.close();
  events = new EventSource("/api/events");
  const here = body.dataset.live.startsWith("/live/t/") ? body.dataset.live.slice("/live/t/".length) : null;
  events.addEventListener("open", () => {
    clearTimeout(lostTimer);
    lostTimer = null;
    body.dataset.connected = "yes";
    refresh();
  });
  events.addEventListener("task", (event) => {
    const { task, what } = JSON.parse(event.data);
    if (what !== "progress" || task === here) refresh();
  });
  events.addEventListener("resync", () => refresh());
  events.addEventListener("error", () => {
    delete body.dataset.connected;
    lostTimer ??= setTimeout(() => offline(true), 3000);
    if (events.readyState === EventSource.CLOSED) {
      setTimeout(follow, 3000);
      refresh();
    }
  });
}

function offline(yes, words) {
  const banner = document.getElementById("offline");
  banner.dataset.words ??= banner.textContent;
  banner.textContent = words ?? banner.dataset.words;
  banner.hidden = !yes;
}

async function look() {
  let url = body.dataset.live;
  const keep = document.querySelector("[data-keep]");
  if (keep) {
    const keys = [...keep.querySelectorAll(".card[data-inquiry]")].map((card) => card.dataset.inquiry);
    url += `?keep=${encodeURIComponent(keys.join(","))}`;
  }
  const answer = await fetch(url, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok) throw Object.assign(new Error("no page"), { status: answer.status });
  show(await answer.json());
}

function show(page) {
  const scroll = document.getElementById("scroll");
  const height = scroll?.scrollHeight;
  const atEnd = scroll && height - scroll.scrollTop - scroll.clientHeight < 120;
  for (const [name, html] of Object.entries(page.regions)) {
    const region = document.querySelector(`[data-region="${name}"]`);
    if (region) bring(region, html);
  }
  if (atEnd && scroll.scrollHeight > height && !scroll.querySelector("form:focus-within")) toEnd(scroll);
  const name = page.title || document.title.replace(/^\(\d+\) | · Countersign$/g, "");
  document.title = `${page.waiting ? `(${page.waiting}) ` : ""}${name} · Countersign`;
  const count = document.getElementById("waiting");
  count.hidden = !page.waiting;
  count.firstElementChild.textContent = page.waiting;
  count.lastElementChild.textContent = page.waiting_label ? ` ${page.waiting_label}` : "";
  const reply = document.getElementById("reply");
  if (reply && page.placeholder) reply.placeholder = page.placeholder;
}

/** Scrolls a thread to its end, but not past the beginning of what waits for a decision. */
export function toEnd(scroll) {
  scroll.scrollTop = scroll.scrollHeight;
  const waiting = scroll.querySelector(".card-pending");
  if (waiting && waiting.getBoundingClientRect().top < scroll.getBoundingClientRect().top) {
    waiting.scrollIntoView({ block: "start" });
  }
}

/** Makes a region's blocks those of `html`, touching only what differs. */
function bring(region, html) {
  const fresh = document.createElement("template");
  fresh.innerHTML = html;
  const old = new Map([...region.children].map((block) => [block.dataset.key, block]));
  let before = region.firstElementChild;
  for (const block of [...fresh.content.children]) {
    const there = old.get(block.dataset.key);
    old.delete(block.dataset.key);
    if (!there) {
      region.insertBefore(block, before);
      announce(block, region);
      continue;
    }
    if (there.dataset.hash !== block.dataset.hash) replace(there, block, region);
    if (there === before) before = before.nextElementSibling;
    else region.insertBefore(there, before);
  }
  for (const gone of old.values()) gone.remove();
}

function replace(there, block, region) {
  const kept = remember(there);
  const notes = [...there.children].filter((child) => child.matches(".note, .kept"));
  const state = there.querySelector(".card")?.dataset.state;
  there.dataset.hash = block.dataset.hash;
  there.replaceChildren(...block.children, ...notes);
  const lost = restore(there, kept);
  if (lost.length) keepDraft(there, lost);
  if (there.querySelector(".card")?.dataset.state !== state) announce(there, region);
}

/** What a person has going in a block: typed and ticked, unfolded, focus. */
function remember(block) {
  const fields = [];
  for (const field of block.querySelectorAll("form[data-verb] [name]")) {
    if (field.form.dataset.sent || !touched(field)) continue;
    fields.push({ path: pathOf(field), value: field.value, checked: field.checked, words: isWords(field) });
  }
  const open = [...block.querySelectorAll("details[open]")].map(pathOf);
  const active = block.contains(document.activeElement) ? document.activeElement : null;
  const focus = active && { path: pathOf(active), from: active.selectionStart, to: active.selectionEnd };
  return { fields, open, focus };
}

function restore(block, kept) {
  const at = new Map();
  for (const element of block.querySelectorAll("[name], details, summary, button, a, [tabindex]")) {
    at.set(pathOf(element), element);
  }
  for (const path of kept.open) {
    const details = at.get(path);
    if (!details) continue;
    details.dataset.restored = "yes";
    details.open = true;
  }
  const lost = [];
  for (const { path, value, checked, words } of kept.fields) {
    const field = at.get(path);
    if (!field) {
      if (words) lost.push(value);
    } else if (field.type === "radio" || field.type === "checkbox") field.checked = checked;
    else field.value = value;
  }
  if (kept.focus) {
    const target = at.get(kept.focus.path) ?? block.querySelector(".card") ?? block;
    if (target.tabIndex < 0) target.tabIndex = -1;
    target.focus({ preventScroll: true });
    if (kept.focus.from != null && target.setSelectionRange) target.setSelectionRange(kept.focus.from, kept.focus.to);
  }
  return lost;
}

/** Whether a person changed a field. */
export function touched(field) {
  if (field.type === "radio" || field.type === "checkbox") return field.checked !== field.defaultChecked;
  if (field.tagName === "SELECT") return [...field.options].some((o) => o.selected !== o.defaultSelected);
  return field.value !== field.defaultValue;
}

function isWords(field) {
  return field.tagName === "TEXTAREA" || field.type === "text";
}

/** Where an element is in its card, in a way that survives drawing the card again. */
function pathOf(element) {
  const step = element.closest("[data-step]");
  const form = element.closest("form[data-verb]");
  const verb = `${step?.dataset.step ?? ""}/${form?.dataset.verb ?? ""}`;
  if (element.name) return `${verb}/${element.name}/${element.type === "radio" || element.type === "checkbox" ? element.value : ""}`;
  const tag = element.tagName.toLowerCase();
  const outer = element.closest("details");
  const which = element.dataset.verb ?? (outer ? outer.className : element.className);
  const alike = [...(step ?? element.closest(".block")).querySelectorAll(tag)].filter((other) => other.className === element.className);
  return `${verb}/${tag}/${which}/${alike.indexOf(element)}`;
}

/** Words that were typed into a form that is no longer there stay readable. */
function keepDraft(block, words) {
  const box = document.createElement("div");
  box.className = "kept";
  box.setAttribute("role", "status");
  const label = document.createElement("p");
  label.textContent = body.dataset.draft;
  box.append(label);
  for (const text of words) {
    const area = document.createElement("textarea");
    area.readOnly = true;
    area.value = text;
    area.setAttribute("aria-label", body.dataset.draft);
    box.append(area);
  }
  block.append(box);
}

/** Says aloud what is new, but not every tick of a status. */
function announce(block, region) {
  if (region.dataset.region === "list" || block.dataset.key === "status") return;
  const words = block.querySelector(".card-outcome, .card-title, .bubble")?.textContent;
  if (words) document.getElementById("announce").textContent = words;
}
