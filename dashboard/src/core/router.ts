/** The router. Everything that a page shows by choice (filters, tabs, selections) is in the address. */
import { Cell, useCell } from "./cell.ts";

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
  addEventListener("popstate", () => place.set(readPlace()));
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

/**
 * Navigates to an address. `isSame`: it is the same page with another choice, so it replaces the entry in the browser's
 * history.
 */
export function go(address: string, options: { readonly isSame?: boolean } = {}): void {
  if (address === location.pathname + location.search) return;
  if (options.isSame === true) history.replaceState(null, "", address);
  else {
    history.pushState(null, "", address);
    scrollTo(0, 0);
  }
  place.set(readPlace());
}

/** Changes query parameters in the address; null removes one. */
export function choose(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  const text = query.toString();
  go(location.pathname + (text === "" ? "" : `?${text}`), { isSame: true });
}
