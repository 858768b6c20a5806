/** The router. Everything that a page shows by choice (filters, tabs, selections) is in the address. */
import { Cell, useCell } from "./cell.ts";
import { forgetPlace, newEntry, returnToPlace, startScroll } from "./scroll.ts";

/** An address of the dashboard. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

const place = new Cell<Place>(readPlace());

/** Reads the current address from the browser. */
export function readPlace(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

/** Handles clicks on links and the browser's back and forward buttons. */
export function startRouter(): void {
  startScroll();
  addEventListener("popstate", () => {
    const isOther = location.pathname !== place.value.path;
    place.set(readPlace());
    if (isOther) returnToPlace();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey)
      return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (
      link === null ||
      link.target !== "" ||
      link.origin !== location.origin ||
      link.hasAttribute("download")
    )
      return;
    if (link.getAttribute("href")?.startsWith("#") === true) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
}

/** Returns the current address; the component is rendered again when it changes. */
export function usePlace(): Place {
  return useCell(place);
}

/** Navigates to an address. Another page begins at its top, with the keyboard focus on the page. */
export function go(address: string): void {
  if (address === location.pathname + location.search) return;
  const isOther = new URL(address, location.origin).pathname !== location.pathname;
  forgetPlace();
  history.pushState(newEntry(), "", address);
  place.set(readPlace());
  if (!isOther) return;
  scrollTo(0, 0);
  document.getElementById("page")?.focus({ preventScroll: true });
}

/** Parameters that change in small steps: a step makes no entry in the browser's history. */
const STEPPED: readonly string[] = ["q", "at", "from", "to"];

/**
 * Changes query parameters in the address; null removes one. A choice makes an entry in the browser's history, so that Back
 * undoes it. Steps (typing, dragging, walking from task to task) replace the entry.
 */
export function choose(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(location.search);
  const before = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  const text = query.toString();
  const address = location.pathname + (text === "" ? "" : `?${text}`);
  const changed = Object.keys(changes).filter((name) => query.get(name) !== before.get(name));
  const isStep = changed.every(
    (name) => STEPPED.includes(name) || (name === "task" && before.has("task") && query.has("task")),
  );
  if (address === location.pathname + location.search) return;
  if (isStep) history.replaceState(history.state, "", address);
  else history.pushState(newEntry(), "", address);
  place.set(readPlace());
}
