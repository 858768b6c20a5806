import type { Execution } from "../../api/shapes.ts";
import { ErrorView } from "../../ui/error-view.tsx";
import { JsonView } from "../../ui/json.tsx";
import type { About } from "./execution.tsx";
import { Streams } from "./streams.tsx";
import { TaskLink } from "./task-link.tsx";

/** The tab with the input, published values, output, error, unread signals and streams of an execution. */
export function DataTab({ path, facts, stamp }: About) {
  return (
    <div class="pad stack">
      <Values facts={facts} />
      <Streams path={path} endedAt={stamp.finishedAt} />
    </div>
  );
}

function Values({ facts }: { readonly facts: Execution }) {
  return (
    <div class="columns">
      <div>
        <h3>Input</h3>
        <JsonView value={facts.input} label="Input" />
      </div>
      {facts.error === null ? null : (
        <ErrorView error={facts.error}>
          <OfTask facts={facts} />
        </ErrorView>
      )}
      {facts.published === undefined ? null : (
        <div>
          <h3>Published</h3>
          <JsonView value={facts.published} label="Published values" />
        </div>
      )}
      <div>
        <h3>Output</h3>
        {facts.finishedAt === null ? (
          <p class="muted">Available when the execution has ended.</p>
        ) : (
          <JsonView value={facts.output} label="Output" />
        )}
      </div>
      <Unread facts={facts} />
    </div>
  );
}

/** The signals that nothing has read, by name and count. */
function Unread({ facts: { unread = [] } }: { readonly facts: Execution }) {
  if (unread.length === 0) return null;
  return (
    <div>
      <h3>Unread signals</h3>
      <ul>
        {unread.map(({ signal, count }) => (
          <li key={signal}>
            <code>{signal}</code> {count}
          </li>
        ))}
      </ul>
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
