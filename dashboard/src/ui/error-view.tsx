import type { ComponentChildren } from "preact";
import { JsonView } from "./json.tsx";

/** The message of an error. */
export function messageOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { name, message } = error as { name?: unknown; message?: unknown };
  const said = typeof message === "string" ? message : JSON.stringify(error);
  return typeof name === "string" && name !== "Error" ? `${name}: ${said}` : said;
}

/** The place where an error was thrown: the first line of the user's own code, or the run of a script. */
function sourceOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { stack, run, line } = error as { stack?: unknown; run?: unknown; line?: unknown };
  if (typeof run === "string") return `in run ${run}${typeof line === "number" ? `, line ${line}` : ""}`;
  const lines = typeof stack === "string" ? stack.split("\n").filter((one) => /^\s+at /.test(one)) : [];
  return lines.find((one) => !/node:|node_modules/.test(one))?.trim();
}

/** Shows an error, its place in the source first. */
export function ErrorView({
  error,
  children,
}: {
  readonly error: unknown;
  readonly children?: ComponentChildren;
}) {
  const source = sourceOf(error);
  return (
    <div class="error-view">
      <h3>Error</h3>
      <p class="failed-text">{messageOf(error)}</p>
      {source === undefined ? null : <p class="mono error-line">{source}</p>}
      {children}
      <details>
        <summary>Everything it says</summary>
        <JsonView value={error} label="The error" />
      </details>
    </div>
  );
}
