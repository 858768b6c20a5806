/** Short notices about what was done, or what failed and what to do about it. Errors stay until the user closes them. */

import { asProblem, reloadAll } from "../api/use-live.ts";
import { Cell, useCell } from "../core/cell.ts";
import { Button } from "./button.tsx";

interface Toast {
  readonly id: number;
  readonly kind: "done" | "warn" | "error";
  readonly text: string;
  readonly hint: string;
  /** Takes the action back. */
  readonly undo?: () => void;
}

const toasts = new Cell<readonly Toast[]>([]);
const SHOWN_MS = 5_000;
/** How long a notice with Undo is shown. */
const UNDO_MS = 12_000;
let last = 0;

function show(toast: Omit<Toast, "id">): number {
  const id = ++last;
  toasts.set([...toasts.value.slice(-3), { ...toast, id }]);
  return id;
}

function drop(id: number): void {
  toasts.set(toasts.value.filter((toast) => toast.id !== id));
}

/** Shows a notice that an action was done. */
export function tell(text: string, hint = ""): void {
  const id = show({ kind: "done", text, hint });
  setTimeout(() => drop(id), SHOWN_MS);
}

/** Shows a notice that an action was done only in part, or not at all. It stays until the user closes it. */
export function warn(text: string, hint = ""): void {
  show({ kind: "warn", text, hint });
}

/** Shows a notice that an action was done, with a button that takes it back. */
export function tellUndo(text: string, undo: () => Promise<void>): void {
  const id = show({
    kind: "done",
    text,
    hint: "",
    undo: () => {
      drop(id);
      attempt(undo);
    },
  });
  setTimeout(() => drop(id), UNDO_MS);
}

/** Copies a text to the clipboard. */
export function copy(text: string): void {
  navigator.clipboard.writeText(text).then(() => tell("Copied."), tellProblem);
}

/** Shows a notice about a failure. */
export function tellProblem(thrown: unknown): void {
  const problem = asProblem(thrown);
  if (problem.status === 401) return;
  show({ kind: "error", text: problem.message, hint: problem.hint });
}

/** Runs an action of the user, and loads the page's data again; shows a notice if the action fails. */
export function attempt(work: () => Promise<void>): void {
  work().then(reloadAll, tellProblem);
}

/** The notices, in a corner of the page. */
export function Toasts() {
  const shown = useCell(toasts);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.id} class={`toast ${toast.kind}`}>
          <div>
            <p>{toast.text}</p>
            {toast.hint === "" ? null : <p class="muted">{toast.hint}</p>}
          </div>
          {toast.undo === undefined ? null : <Button onClick={toast.undo}>Undo</Button>}
          <Button kind="bare" icon="close" label="Dismiss" onClick={() => drop(toast.id)} />
        </div>
      ))}
    </div>
  );
}
