/**
 * Back and Forward return to where the user was in a page. The browser cannot do that: the content of a page is loaded after its
 * address has changed, and long tables scroll in a box of their own.
 */

/** How far the window and the table of a page are scrolled. */
interface Place {
  readonly page: number;
  readonly table: number;
}

const TABLE = ".table.fill";
/** How long the content of a page is waited for. */
const WAIT_MS = 5_000;

const places = new Map<string, Place>();
let stop: (() => void) | null = null;

/** The key of the present entry of the browser's history. Entries that this page did not make have none. */
function keyNow(): string {
  const state: unknown = history.state;
  return typeof state === "object" && state !== null && "key" in state ? String(state.key) : "";
}

/** The state of a new entry of the history. */
export function newEntry(): { readonly key: string } {
  return { key: crypto.randomUUID?.() ?? String(Math.random()) };
}

/** Notes from now on how far each page is scrolled. */
export function startScroll(): void {
  history.scrollRestoration = "manual";
  const note = (): void => {
    if (stop !== null) return;
    const table = document.querySelector(TABLE)?.scrollTop ?? 0;
    places.set(keyNow(), { page: scrollY, table });
  };
  document.addEventListener("scroll", note, { capture: true, passive: true });
  // Who scrolls, types or clicks wants to be somewhere else.
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"])
    addEventListener(kind, () => stop?.(), { passive: true });
}

/** Ends a return to an earlier place: the user goes to another page. */
export function forgetPlace(): void {
  stop?.();
}

/** Scrolls to where the user was at this entry of the history, as soon as there is enough content. */
export function returnToPlace(): void {
  stop?.();
  const place = places.get(keyNow()) ?? { page: 0, table: 0 };
  const until = Date.now() + WAIT_MS;
  const step = (): void => {
    const table = document.querySelector(TABLE);
    if (table !== null && table.scrollTop !== place.table) table.scrollTop = place.table;
    if (scrollY !== place.page) scrollTo(0, place.page);
    const isThere = Math.abs(scrollY - place.page) < 2 && Math.abs((table?.scrollTop ?? 0) - place.table) < 2;
    if (isThere || Date.now() > until) stop?.();
    else frame = requestAnimationFrame(step);
  };
  let frame = requestAnimationFrame(step);
  stop = () => {
    cancelAnimationFrame(frame);
    stop = null;
  };
}
