/** The auditor: recounts the execution from its journal, and shows its findings. */
import { useState } from "preact/hooks";
import { get } from "../../api/client.ts";
import type { ExecutionAudit } from "../../api/shapes.ts";
import { count, plural } from "../../core/format.ts";
import { Badge } from "../../ui/badge.tsx";
import { Button } from "../../ui/button.tsx";
import { attempt } from "../../ui/toast.tsx";

/** Requests an audit and shows the result. */
export function Audit({ path }: { readonly path: string }) {
  const [found, setFound] = useState<ExecutionAudit | null>(null);
  const [isBusy, setIsBusy] = useState(false);
  const run = (): void =>
    attempt(async () => {
      setIsBusy(true);
      try {
        setFound(await get<ExecutionAudit>(`${path}/audit`));
      } finally {
        setIsBusy(false);
      }
    });
  return (
    <section class="dropped">
      <h3>Check the counts</h3>
      <div class="row" aria-live="polite">
        <Button icon="check" isBusy={isBusy} onClick={run}>
          Verify
        </Button>
        {found === null ? (
          <span class="muted">Recounts all tasks from the journal and compares.</span>
        ) : (
          <>
            <Badge
              state={found.findings.length === 0 ? "done" : "failed"}
              text={`${count(found.lost)} lost, ${count(found.countedTwice)} counted twice`}
            />
            <span class="muted">
              {plural(found.events, "event")}, {plural(found.tasks, "task")}, {count(found.settled)} settled
            </span>
          </>
        )}
      </div>
      {found === null || found.findings.length === 0 ? null : (
        <ul>
          {found.findings.map(({ seq, message }, i) => (
            <li key={i} class="failed-text">
              {message} <span class="muted">at event {count(seq)}</span>
            </li>
          ))}
          {found.more > 0 ? <li class="muted">and {count(found.more)} more</li> : null}
        </ul>
      )}
    </section>
  );
}
