import type { Execution } from "../../api/shapes.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";

/** What went in, what came out, what went wrong. */
export function DataTab({ facts }: { readonly facts: Execution }) {
  return (
    <div class="columns pad">
      <div>
        <h3>Input</h3>
        <JsonView value={facts.input} label="Input" />
      </div>
      {facts.error === null ? null : <ErrorView error={facts.error} />}
      <div>
        <h3>Output</h3>
        {facts.finishedAt === null ? (
          <p class="muted">There is none before it ends.</p>
        ) : (
          <JsonView value={facts.output} label="Output" />
        )}
      </div>
    </div>
  );
}
