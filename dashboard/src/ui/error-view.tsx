import type { ComponentChildren } from "preact";
import { useCell } from "../core/cell.ts";
import { editor, sourceLink } from "../core/preferences.ts";
import { Button } from "./button.tsx";
import { JsonView } from "./json.tsx";
import { copy } from "./toast.tsx";

/** The message of an error. */
export function messageOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { name, message } = error as { name?: unknown; message?: unknown };
  const said = typeof message === "string" ? message : JSON.stringify(error);
  return typeof name === "string" && name !== "Error" ? `${name}: ${said}` : said;
}

/** Messages with more characters may scroll. */
const LONG = 200;

const FRAME = /^\s*at /;

/** Whether a line of a stack is in the user's own code. */
function isOwn(line: string): boolean {
  return FRAME.test(line) && !/node:|node_modules/.test(line);
}

interface Parts {
  readonly stack: string | null;
  /** The first line of the stack in the user's own code, or the run of a script. */
  readonly source: string | null;
  /** Fields that the message and the stack do not show. */
  readonly rest: Readonly<Record<string, unknown>>;
}

function partsOf(error: unknown): Parts {
  if (typeof error !== "object" || error === null) return { stack: null, source: null, rest: {} };
  const { name: _, message: __, stack, run, line, ...rest } = error as Record<string, unknown>;
  const inRun =
    typeof run === "string" ? `in run ${run}${typeof line === "number" ? `, line ${line}` : ""}` : null;
  const text = typeof stack === "string" && stack !== "" ? stack : null;
  const own = text?.split("\n").find(isOwn)?.trim() ?? null;
  return { stack: text, source: inRun ?? own, rest };
}

/** The error as a text to paste elsewhere. */
export function errorText(error: unknown): string {
  const { stack, source } = partsOf(error);
  const message = messageOf(error);
  if (stack === null) return source === null ? message : `${message}\n    ${source}`;
  return stack.includes(message) ? stack : `${message}\n${stack}`;
}

/** A line of a stack, which opens its file if the user has chosen an editor. */
function SourceLine({ line }: { readonly line: string }) {
  const link = sourceLink(line, useCell(editor));
  return link === null ? <>{line}</> : <a href={link}>{line}</a>;
}

/** Shows an error: its message, the first line of the user's own code, and the stack trace as text. */
export function ErrorView({
  error,
  children,
  title = "Error",
  isOpen = false,
}: {
  readonly error: unknown;
  readonly children?: ComponentChildren;
  readonly title?: string;
  /** Whether the stack trace is shown at first. */
  readonly isOpen?: boolean;
}) {
  const { stack, source, rest } = partsOf(error);
  return (
    <div class="error-view">
      <div class="row spread">
        <h3>{title}</h3>
        <Button kind="bare" icon="copy" label="Copy the error" onClick={() => copy(errorText(error))} />
      </div>
      {/* A long message scrolls, so that the source line below it is in sight. */}
      <p class="failed-text error-message" tabIndex={messageOf(error).length > LONG ? 0 : undefined}>
        {messageOf(error)}
      </p>
      {source === null ? null : (
        <p class="mono error-line">
          <SourceLine line={source} />
        </p>
      )}
      {children}
      {stack === null ? null : (
        <details open={isOpen}>
          <summary>Stack trace</summary>
          <pre class="stack-trace" tabIndex={0} aria-label="Stack trace">
            {stack.split("\n").map((line, i) => (
              <span key={i} class={isOwn(line) ? "is-own" : ""}>
                {isOwn(line) ? <SourceLine line={line} /> : line}
                {"\n"}
              </span>
            ))}
          </pre>
        </details>
      )}
      {Object.keys(rest).length === 0 ? null : (
        <details>
          <summary>Raw error</summary>
          <JsonView value={error} label="Raw error" />
        </details>
      )}
    </div>
  );
}
