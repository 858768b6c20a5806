/** Shows a JSON value as text, coloured by kind; a long value is cut until the user expands it. */
import { useState } from "preact/hooks";
import { Problem } from "../api/client.ts";
import { count } from "../core/format.ts";
import { Button } from "./button.tsx";
import { copy } from "./toast.tsx";

const CHARS_SHOWN = 20_000;
const PART = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

/** Parses a JSON text that the user typed. An empty text gives `undefined`. Throws a problem that names the field. */
export function parseTyped(text: string, field: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (thrown) {
    const why = thrown instanceof Error ? thrown.message : String(thrown);
    throw new Problem({
      status: 0,
      code: "invalid_input",
      detail: `${field}: this is not valid JSON.`,
      hint: why,
      path: field,
    });
  }
}

export function JsonView({ value, label }: { readonly value: unknown; readonly label: string }) {
  const [isWhole, setIsWhole] = useState(false);
  const text = JSON.stringify(value, null, 2) ?? "null";
  const isCut = !isWhole && text.length > CHARS_SHOWN;
  return (
    <div class="json">
      <pre tabIndex={0} aria-label={label}>
        {coloured(isCut ? text.slice(0, CHARS_SHOWN) : text)}
      </pre>
      <div class="json-tools">
        {isCut ? (
          <Button onClick={() => setIsWhole(true)}>Show all {count(text.length)} characters</Button>
        ) : null}
        <Button kind="bare" icon="copy" label={`Copy ${label}`} onClick={() => copy(text)} />
      </div>
    </div>
  );
}

function coloured(text: string) {
  const parts: (string | preact.JSX.Element)[] = [];
  let at = 0;
  for (const match of text.matchAll(PART)) {
    const [whole, string, colon, word] = match;
    parts.push(text.slice(at, match.index));
    const kind =
      string === undefined
        ? word === undefined
          ? "number"
          : "word"
        : colon === undefined
          ? "string"
          : "name";
    parts.push(
      <span key={match.index} class={`j-${kind}`}>
        {string ?? whole}
      </span>,
    );
    if (colon !== undefined) parts.push(colon);
    at = match.index + whole.length;
  }
  parts.push(text.slice(at));
  return parts;
}
