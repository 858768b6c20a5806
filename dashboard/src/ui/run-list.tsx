/** A short list of the last executions of a workflow or a schedule; `children` are further rows. */
import type { ComponentChildren } from "preact";
import type { Summary } from "../api/shapes.ts";
import { executionPage } from "../core/address.ts";
import { duration } from "../core/format.ts";
import { Badge, type BadgeState } from "./badge.tsx";
import { Ago } from "./time.tsx";

export function RunList({
  runs,
  stateOf = ({ status }) => status,
  labelOf,
  children,
}: {
  readonly runs: readonly Summary[];
  /** The state that the badge shows. */
  readonly stateOf?: (run: Summary) => BadgeState;
  /** The text of the link; the id of the execution if it is missing or null. */
  readonly labelOf?: (run: Summary) => string | null;
  readonly children?: ComponentChildren;
}) {
  return (
    <ul class="last-runs" aria-label="Last runs">
      {runs.map((run) => {
        const label = labelOf?.(run) ?? null;
        return (
          <li key={run.id}>
            <Badge state={stateOf(run)} />
            <a class={label === null ? "mono clip" : "clip"} href={executionPage(run.id)} title={run.id}>
              {label ?? run.id}
            </a>
            <span class="muted nowrap">
              {run.finishedAt === null ? "" : `${duration(run.finishedAt - run.createdAt)}, `}
              <Ago at={run.createdAt} />
            </span>
          </li>
        );
      })}
      {children}
    </ul>
  );
}
