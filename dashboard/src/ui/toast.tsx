/** Short notices about what was done, or what failed and what to do about it. Errors stay until the user closes them. */

import { asProblem } from "../api/use-live.ts";
import { Cell, useCell } from "../core/cell.ts";
import { Button } from "./button.tsx";

interface Toast {
  readonly id: number;
  readonly kind: "done" | "error";
  readonly text: string;
  readonly hint: string;
}

const toasts = new Cell<readonly Toast[]>([]);
const SHOWN_MS = 5_000;
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

/** Shows a notice about a failure. */
export function tellProblem(thrown: unknown): void {
  const problem = asProblem(thrown);
  if (problem.status === 401) return;
  show({ kind: "error", text: problem.message, hint: problem.hint });
}

/** Runs an action of the user; shows a notice if it fails. */
export function attempt(work: () => Promise<void>): void {
  work().catch(tellProblem);
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
          <Button kind="bare" icon="close" label="Dismiss" onClick={() => drop(toast.id)} />
        </div>
      ))}
    </div>
  );
}
