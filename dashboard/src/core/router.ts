/** Where the user is. Everything that a page shows by choice (filters, tabs, selections) is in the address. */
import { Cell, useCell } from "./cell.ts";

/** An address of the dashboard. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

const place = new Cell<Place>(readPlace());

/** What the browser says where one is. */
export function readPlace(): Place {
  return { path: location.pathname, query: new URLSearchParams(location.search) };
}

/** Follows links and the browser's own buttons. */
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

/** The address, watched. */
export function usePlace(): Place {
  return useCell(place);
}

/** Goes to an address. `isSame`: it is the same place with another choice, so the way back stays short. */
export function go(address: string, options: { readonly isSame?: boolean } = {}): void {
  if (address === location.pathname + location.search) return;
  if (options.isSame === true) history.replaceState(null, "", address);
  else {
    history.pushState(null, "", address);
    scrollTo(0, 0);
  }
  place.set(readPlace());
}

/** Changes choices in the address; null takes one away. */
export function choose(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  const text = query.toString();
  go(location.pathname + (text === "" ? "" : `?${text}`), { isSame: true });
}
