/** Placeholders for data: nothing found, loading, or a problem and what to do about it. */
import type { ComponentChildren } from "preact";
import type { Problem } from "../api/client.ts";
import { Button } from "./button.tsx";
import { Icon } from "./icon.tsx";

/** The placeholder if there is no data. */
export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children === undefined ? null : <div class="empty-body">{children}</div>}
    </div>
  );
}

/** The placeholder while data is loading. It appears after a delay, so that quick loads do not flicker. */
export function Loading({ rows = 4 }: { readonly rows?: number }) {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading</span>
      {Array.from({ length: rows }, (_, i) => (
        <span key={i} class="ghost" />
      ))}
    </div>
  );
}

/** The placeholder for a failed load: what happened, and what to do. */
export function Trouble({ problem, onRetry }: { readonly problem: Problem; readonly onRetry?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <Icon name="warn" />
      <div>
        <p class="trouble-title">{problem.message}</p>
        {problem.hint === "" ? null : <p class="muted">{problem.hint}</p>}
      </div>
      {onRetry === undefined ? null : (
        <Button icon="retry" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
