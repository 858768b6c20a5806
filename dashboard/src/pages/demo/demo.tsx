/** The page of the demo: its tasks, its workers with buttons that disturb them, and the result of the auditor. */
import { useEffect } from "preact/hooks";
import { change, get, may, Problem } from "../../api/client.ts";
import type { Execution } from "../../api/shapes.ts";
import { useLive } from "../../api/use-live.ts";
import { count, plural } from "../../core/format.ts";
import { useSession } from "../../shell/frame.tsx";
import { useKeys } from "../../shell/keys.ts";
import { isDemo } from "../../shell/nav.ts";
import { Button } from "../../ui/button.tsx";
import { PageHead, Panel } from "../../ui/panel.tsx";
import { Empty, Loading, Trouble } from "../../ui/state.tsx";
import { attempt, tell } from "../../ui/toast.tsx";
import { HeatMap } from "../execution/heat-map.tsx";
import { shownLane } from "../execution/place.ts";
import { Broadcasts, News, ScriptLog } from "./demo-panels.tsx";
import type { DemoFacts } from "./demo-shape.ts";
import { Steps } from "./demo-steps.tsx";
import "../execution/execution.css";
import "./demo.css";

const LIVE_MS = 500;
const OVER_MS = 5_000;

export function Demo() {
  const {
    data: demo,
    problem,
    reload,
  } = useLive("demo", (signal) => get<DemoFacts>("/v1/demo", { signal }), LIVE_MS);
  const id = demo?.round?.id ?? null;
  const path = id === null ? null : `/v1/executions/${encodeURIComponent(id)}`;
  const isPlaying = demo !== null && demo.step !== "done";
  const execution = useLive(
    path,
    (signal) => readExecution(path ?? "", signal),
    isPlaying ? LIVE_MS : OVER_MS,
  ).data;
  useEffect(() => {
    if (demo !== null) isDemo.set(true);
  }, [demo === null]);
  if (demo === null)
    return (
      <>
        <PageHead title="Demo" />
        {problem === null ? <Loading rows={8} /> : <Trouble problem={problem} onRetry={reload} />}
      </>
    );
  return (
    <div class="demo">
      <PageHead
        title="Demo"
        about={
          demo.round === null
            ? "It begins in a moment."
            : `${count(demo.round.tasks)} tasks, a timer, commands and a script, all durable. Do your worst.`
        }
      >
        <Deeds demo={demo} onDone={reload} />
      </PageHead>
      {problem === null ? null : <Trouble problem={problem} />}
      <Steps demo={demo} execution={execution} />
      <Auditor demo={demo} />
      {path === null || id === null || execution === null || !hasTasks(execution) ? (
        <Panel title="Tasks">
          <Empty title="No task has come yet." />
        </Panel>
      ) : (
        <Tasks path={path} execution={execution} />
      )}
      <div class="demo-panels">
        <Broadcasts demo={demo} />
        <ScriptLog demo={demo} />
        <News demo={demo} />
      </div>
    </div>
  );
}

function hasTasks({ phases }: Execution): boolean {
  return phases.some(({ handlers }) => handlers.some(({ total }) => total > 0));
}

/** Reads an execution; null if it does not exist yet: a round is shown a moment before its fan-out is started. */
async function readExecution(path: string, signal: AbortSignal): Promise<Execution | null> {
  try {
    return await get<Execution>(path, { signal });
  } catch (thrown) {
    if (thrown instanceof Problem && thrown.status === 404) return null;
    throw thrown;
  }
}

/** The heat map of the handler with most tasks. */
function Tasks({ path, execution }: { path: string; execution: Execution }) {
  const lane = shownLane(null, execution.phases);
  if (lane === null) return null;
  return <HeatMap path={path} facts={execution} stamp={execution} at={null} lane={lane} liveMs={LIVE_MS} />;
}

function Deeds({ demo, onDone }: { readonly demo: DemoFacts; readonly onDone: () => void }) {
  const who = useSession();
  const whyNot = may("operator", who) ? null : "Only operators may do this.";
  const act = (deed: string): void =>
    attempt(async () => {
      const { told } = await change<{ told: string }>("POST", "/v1/demo", { deed });
      tell(`${told.slice(0, 1).toUpperCase()}${told.slice(1)}.`);
      onDone();
    });
  const deeds = [
    { deed: "kill", label: "Kill a worker", keys: "x", icon: "close" },
    { deed: "freeze", label: "Freeze a worker", keys: "z", icon: "pause" },
    { deed: "duplicate", label: "Duplicate messages", keys: "d", icon: "copy" },
  ] as const;
  const again = demo.step === "done" ? null : "A round is under way.";
  useKeys("Demo", [
    ...deeds.map(({ deed, label, keys }) => ({ keys, label, run: () => act(deed) })),
    { keys: "a", label: "Play again", run: () => again === null && act("again") },
  ]);
  return (
    <>
      {deeds.map(({ deed, label, keys, icon }) => (
        <Button
          key={deed}
          icon={icon}
          keys={keys}
          label={label}
          kind={deed === "kill" ? "danger" : "plain"}
          whyNot={whyNot}
          onClick={() => act(deed)}
          {...(deed === "duplicate" ? { isPressed: demo.doubled.isOn } : {})}
        >
          {label}
        </Button>
      ))}
      {demo.isStaying ? (
        <Button
          icon="retry"
          kind="main"
          label="Play again"
          keys="a"
          whyNot={whyNot ?? again}
          onClick={() => act("again")}
        >
          Play again
        </Button>
      ) : null}
    </>
  );
}

/** The findings of the auditor, and the faults that happened. */
function Auditor({ demo }: { readonly demo: DemoFacts }) {
  const { audit, doubled, killed, frozen } = demo;
  const isFine = audit !== null && audit.lost + audit.countedTwice + audit.findings.length === 0;
  const coped = [
    ...(killed > 0 ? [`${plural(killed, "worker")} killed`] : []),
    ...(frozen > 0 ? [`${plural(frozen, "worker")} frozen`] : []),
    ...(doubled.sent > 0
      ? [`${count(doubled.sent)} receipts delivered twice, ${count(doubled.recognised)} recognised`]
      : []),
  ];
  return (
    <section class={`demo-audit ${audit === null ? "" : isFine ? "fine" : "bad"}`} aria-label="Auditor">
      <strong>
        {audit === null
          ? "The auditor has not run yet."
          : `${isFine ? "✓" : "✕"} ${count(audit.lost)} lost, ${count(audit.countedTwice)} counted twice`}
      </strong>
      <span class="muted">
        {audit === null
          ? "It recounts everything from the journal, by its own rules."
          : `The auditor recounted ${plural(audit.executions, "execution")} from ${count(audit.events)} events: ${count(audit.settled)} tasks settled so far.`}
        {coped.length === 0 ? "" : ` It had to cope with: ${coped.join(", ")}.`}
      </span>
      {audit?.findings.map((finding) => (
        <span key={finding}>{finding}</span>
      ))}
    </section>
  );
}
