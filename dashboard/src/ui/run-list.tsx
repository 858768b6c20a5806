/** A short list of the last executions of a workflow or a schedule; `children` are further rows. */
import type { ComponentChildren } from "preact";
import type { Summary } from "../api/shapes.ts";
import { executionPage } from "../core/address.ts";
import { duration } from "../core/format.ts";
import { Badge } from "./badge.tsx";
import { Ago } from "./time.tsx";

export function RunList({
  runs,
  children,
}: {
  readonly runs: readonly Summary[];
  readonly children?: ComponentChildren;
}) {
  return (
    <ul class="last-runs" aria-label="Last runs">
      {runs.map(({ id, status, createdAt, finishedAt }) => (
        <li key={id}>
          <Badge state={status} />
          <a class="mono clip" href={executionPage(id)}>
            {id}
          </a>
          <span class="muted nowrap">
            {finishedAt === null ? "" : `${duration(finishedAt - createdAt)}, `}
            <Ago at={createdAt} />
          </span>
        </li>
      ))}
      {children}
    </ul>
  );
}
