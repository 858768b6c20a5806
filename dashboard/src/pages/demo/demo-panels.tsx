/** Three panels of the demo: received broadcasts, the live log of the script, and news about workers and messages. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { LogLine } from "../../api/shapes.ts";
import { follow } from "../../api/stream.ts";
import { clock } from "../../core/format.ts";
import { Panel } from "../../ui/panel.tsx";
import { Empty } from "../../ui/state.tsx";
import { tellProblem } from "../../ui/toast.tsx";
import type { DemoFacts } from "./demo-shape.ts";

const LINES_MAX = 200;

/** The broadcasts that the demo's own receiver got. */
export function Broadcasts({ demo }: { readonly demo: DemoFacts }) {
  const { received, round } = demo;
  return (
    <Panel title="Broadcasts received">
      {received.length === 0 ? (
        <Empty title="The last command sends one.">Its receiver is this demo's own, on loopback.</Empty>
      ) : (
        <ul class="demo-received">
          {received.toReversed().map(({ id, at, body }) => (
            <li key={id} class={id.startsWith(`${round?.commands ?? ""}/`) ? "new" : ""}>
              <span class="muted mono">{clock(at)}</span> <b>✓ signature holds</b>
              <pre class="mono">{JSON.stringify(body, null, 2)}</pre>
              <span class="muted mono clip" title={id}>
                webhook-id {id}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The log of the script in the current round. */
export function ScriptLog({ demo }: { readonly demo: DemoFacts }) {
  const hasBegun = demo.step === "script" || demo.step === "proof" || demo.step === "done";
  const lines = useTail(hasBegun ? (demo.round?.script ?? null) : null);
  const end = useRef<HTMLOListElement>(null);
  useEffect(() => {
    if (end.current !== null) end.current.scrollTop = end.current.scrollHeight;
  }, [lines]);
  return (
    <Panel title="The script's log">
      {lines.length === 0 ? (
        <Empty title="It has its turn after the commands.">Its lines come as they are written.</Empty>
      ) : (
        <ol class="demo-log mono" ref={end} tabIndex={0} aria-label="Lines of the script">
          {lines.map((line) => (
            <li key={line.id}>
              <span class="muted">{line.run ?? ""}</span> {line.text}
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** News about workers and messages. */
export function News({ demo }: { readonly demo: DemoFacts }) {
  return (
    <Panel title="News">
      {demo.news.length === 0 ? (
        <Empty title="Nothing bad so far.">Kill or freeze a worker, or have messages delivered twice.</Empty>
      ) : (
        <ol class="demo-news" aria-live="polite">
          {demo.news.toReversed().map(({ at, text }) => (
            <li key={`${at} ${text}`}>
              <span class="muted mono">{clock(at)}</span> {text}
            </li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

/** The last log lines of an execution, live; null for no execution. */
function useTail(execution: string | null): readonly LogLine[] {
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  useEffect(() => {
    setLines([]);
    if (execution === null) return;
    const abort = new AbortController();
    const path = `/v1/executions/${encodeURIComponent(execution)}/logs`;
    const take = (events: readonly { readonly data: string }[]): void => {
      const more = events
        .map(({ data }) => JSON.parse(data) as LogLine)
        .filter(({ level }) => level !== "run");
      setLines((before) => [...before, ...more].slice(-LINES_MAX));
    };
    follow({ path, take }, abort.signal).catch((thrown: unknown) => {
      if (!abort.signal.aborted) tellProblem(thrown);
    });
    return () => abort.abort();
  }, [execution]);
  return lines;
}
