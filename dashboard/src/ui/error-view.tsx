import { JsonView } from "./json.tsx";

/** What an error says. */
export function messageOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { name, message } = error as { name?: unknown; message?: unknown };
  const said = typeof message === "string" ? message : JSON.stringify(error);
  return typeof name === "string" && name !== "Error" ? `${name}: ${said}` : said;
}

/** An error, its source line first. */
export function ErrorView({ error }: { readonly error: unknown }) {
  const { stack } = (typeof error === "object" && error !== null ? error : {}) as { stack?: unknown };
  const lines = typeof stack === "string" ? stack.split("\n").filter((line) => /^\s+at /.test(line)) : [];
  const own = lines.find((line) => !/node:|node_modules/.test(line));
  return (
    <div class="error-view">
      <h3>Error</h3>
      <p class="failed-text">{messageOf(error)}</p>
      {own === undefined ? null : <p class="mono error-line">{own.trim()}</p>}
      <details>
        <summary>Everything it says</summary>
        <JsonView value={error} label="The error" />
      </details>
    </div>
  );
}
