/** Keyboard shortcuts: each page declares the keys that it handles while it is shown; the help and the palette list them. */
import { useEffect, useRef } from "preact/hooks";

/** A key, or two keys in sequence (`g e`), and its action. */
export interface KeyAction {
  readonly keys: string;
  readonly label: string;
  readonly run: () => void;
  /** Whether the key also works while the user is typing a text. */
  readonly isAlways?: boolean;
  /** Whether the key is listed in the help only. */
  readonly isHidden?: boolean;
}

const groups: { title: string; actions: readonly KeyAction[] }[] = [];
const SECOND_MS = 1_200;
let first = "";
let firstAt = 0;

/** Starts to handle keys. */
export function startKeys(): void {
  addEventListener("keydown", (event) => {
    const name = nameOf(event);
    if (name === null) return;
    const isWriting =
      event.target instanceof Element &&
      event.target.closest("input,textarea,select,[contenteditable]") !== null;
    const hasDialog = document.querySelector("dialog[open]") !== null;
    const isSecond = first !== "" && event.timeStamp - firstAt < SECOND_MS;
    const wanted = isSecond ? `${first} ${name}` : name;
    first = "";
    for (const { actions } of [...groups].reverse())
      for (const action of actions) {
        if ((isWriting || hasDialog) && action.isAlways !== true) continue;
        if (action.keys === wanted) {
          event.preventDefault();
          action.run();
          return;
        }
        if (!isSecond && action.keys.startsWith(`${name} `)) {
          first = name;
          firstAt = event.timeStamp;
        }
      }
  });
}

function nameOf(event: KeyboardEvent): string | null {
  if (event.defaultPrevented || event.altKey || event.isComposing) return null;
  if (event.ctrlKey || event.metaKey) return `Ctrl-${event.key.toUpperCase()}`;
  return event.key.length === 1 || event.key === "Escape" ? event.key : null;
}

/** Handles keys while the component is shown. */
export function useKeys(title: string, actions: readonly KeyAction[]): void {
  const newest = useRef(actions);
  newest.current = actions;
  useEffect(() => {
    const group = {
      title,
      get actions() {
        return newest.current;
      },
    };
    groups.push(group);
    return () => void groups.splice(groups.indexOf(group), 1);
  }, [title]);
}

/** All active keys with their actions, grouped by the component that declared them. */
export function keyGroups(): readonly { readonly title: string; readonly actions: readonly KeyAction[] }[] {
  const byTitle = new Map<string, readonly KeyAction[]>();
  for (const { title, actions } of groups)
    if (actions.length > 0) byTitle.set(title, [...(byTitle.get(title) ?? []), ...actions]);
  return Array.from(byTitle, ([title, actions]) => ({ title, actions }));
}
