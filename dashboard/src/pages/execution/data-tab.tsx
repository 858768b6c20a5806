import type { Execution } from "../../api/shapes.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import { TaskLink } from "./task-link.tsx";

/** The tab with the input, the output and the error of an execution. */
export function DataTab({ facts }: { readonly facts: Execution }) {
  return (
    <div class="columns pad">
      <div>
        <h3>Input</h3>
        <JsonView value={facts.input} label="Input" />
      </div>
      {facts.error === null ? null : (
        <ErrorView error={facts.error}>
          <OfTask facts={facts} />
        </ErrorView>
      )}
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

/** A link to the task that failed the execution. */
function OfTask({ facts: { id, error, phases } }: { readonly facts: Execution }) {
  const { phase, handler, task } = error ?? {};
  const visit = phases.findLast(({ name }) => name === phase)?.visit;
  if (phase === undefined || handler === undefined || task === undefined || visit === undefined) return null;
  return (
    <p>
      <TaskLink execution={id} lane={{ phase, visit, handler }} task={task} />
    </p>
  );
}
