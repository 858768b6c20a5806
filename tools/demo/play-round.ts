/**
 * One round of the demo, part after part, each of them durable and found again by its id if the demo was killed:
 * 1. the fan-out, with its timer; 2. the chain of commands; 3. the script; 4. the proof.
 */
import { follow } from "../../src/cli/progress/follow.ts";
import { showCount } from "../../src/cli/progress/phase-line.ts";
import { Progress } from "../../src/cli/progress/progress.ts";
import type { Screen } from "../../src/cli/progress/screen.ts";
import type { Piece } from "../../src/cli/style.ts";
import type { ExecutionView } from "../../src/index.ts";
import { executionsOf } from "./audit-watch.ts";
import type { Demo } from "./open-demo.ts";
import { type DemoOutput, fanOut, PHASES } from "./parts/fan-out.ts";
import { JournalFacts } from "./parts/journal-facts.ts";
import { NEWS_PROJECT, newsChain } from "./parts/news.ts";
import { primesWorkflow } from "./parts/primes.ts";
import { prove } from "./prove.ts";
import type { Round, Stage } from "./stage.ts";

/** The state of the fan-out that a killed demo left. */
export interface Left {
  readonly view: ExecutionView;
  readonly settled: number;
  readonly inFlight: number;
}

/** Plays a round; returns whether all checks hold. `left`: the part that was done before. */
export async function playRound(
  demo: Demo,
  screen: Screen,
  { round, left }: { round: Round; left: Left | null },
): Promise<boolean> {
  const { stage, audits, server } = demo;
  stage.begins(round);
  const executions = executionsOf(round);
  audits.watch(executions);
  const output = await playFanOut(demo, screen, { round, left });
  await playCommands(demo, screen, round);
  const primes = await playScript(demo, screen, round);
  stage.step = "proof";
  audits.stop();
  const handle = server.rondo.execution(round.id);
  const view = await handle.describe();
  const facts = await JournalFacts.read(handle, round.tasks, view.revision);
  const isProven = prove(screen, {
    view,
    output,
    facts,
    tasks: round.tasks,
    kept: left,
    deliveries: demo.deliveries.since(),
    received: demo.receiver.of(round.commands),
    primes: primes?.found ?? null,
    audit: await audits.audit(executions),
    harm: { killed: stage.killed, frozen: stage.frozen, doubled: demo.network.doubled },
  });
  demo.deliveries.clear();
  stage.step = "done";
  return isProven;
}

async function playFanOut(
  { stage, server, audits, network }: Demo,
  screen: Screen,
  { round, left }: { round: Round; left: Left | null },
): Promise<DemoOutput> {
  stage.step = "fan-out";
  tellPart(screen, 1, `A fan-out of ${showCount(round.tasks)} tasks, then a timer`);
  // The workers have the code; the server needs only the definition.
  const handle = await server.rondo.start(
    fanOut(() => {}),
    { tasks: round.tasks },
    { id: round.id },
  );
  const progress = left === null ? new Progress() : Progress.of(left.view);
  stage.isAtWork = () => progress.current?.name === "work" && progress.current.done > 0;
  const shown = follow(handle, {
    screen,
    progress,
    from: left === null ? 1 : left.view.revision + 1,
    names: Object.keys(PHASES),
    why: () => handle.why(),
    tellsTenths: true,
    totals: { work: round.tasks },
    beneath: () => [workersLine(stage, network), auditLine(audits.found)],
  });
  // Closing interrupts the reading of events. Only a demo that reaches its end handles that error.
  shown.catch(() => {});
  const output = await handle.result();
  await shown;
  return output;
}

async function playCommands(
  { stage, server, client, receiver }: Demo,
  screen: Screen,
  { id, commands, tasks }: Round,
): Promise<void> {
  stage.step = "commands";
  tellPart(screen, 2, "A chain of commands, each with the result of the one before; the last is broadcast");
  await client.submit(
    NEWS_PROJECT,
    newsChain({ id: commands, execution: id, tasks, receiver: receiver.url }),
  );
  await server.rondo.execution(commands).result();
  const { steps } = await client.submitted(NEWS_PROJECT, commands);
  for (const { cmd, proc } of steps)
    screen.print(
      [proc.proc_status === "COMPLETE" ? "✓" : "✗", proc.proc_status === "COMPLETE" ? "green" : "red"],
      ` ${cmd.cmd_type.padEnd(13)}  `,
      [`${proc.target_topic_name.padEnd(17)}  ${JSON.stringify(cmd.cmd_result)}`, "dim"],
    );
  for (const { body } of receiver.of(commands))
    screen.print(["◂", "cyan"], " received, signed                ", [
      JSON.stringify(body).slice(0, 400),
      "dim",
    ]);
}

async function playScript({ stage, server }: Demo, screen: Screen, { script }: Round) {
  tellPart(screen, 3, "A script in a sandbox: four runs that hand their state on, and log as they go");
  const handle = await server.rondo.start(primesWorkflow(), null, { id: script });
  // Set after the start, because the page reads the execution's log.
  stage.step = "script";
  for await (const { level, text, run } of handle.logs({ follow: true }))
    if (level !== "run") screen.print(["│", "cyan"], [` ${(run ?? "").padEnd(8)} `, "dim"], text);
  return handle.result();
}

function tellPart(screen: Screen, n: number, what: string): void {
  screen.print("");
  screen.print([`${n}  ${what}`, "bold"]);
}

const WORKER_MARKS = {
  starting: ["○", "dim"],
  working: ["●", "green"],
  frozen: ["‖", "cyan"],
  killed: ["✗", "red"],
} as const satisfies Record<string, Piece>;

function workersLine({ crew }: Stage, { isDoubling }: Demo["network"]): Piece[] {
  return [
    ["  workers  ", "dim"],
    ...(crew?.shown ?? []).flatMap(({ name, state }): Piece[] => [
      WORKER_MARKS[state],
      ` ${name}${state === "working" ? "" : ` (${state})`}  `,
    ]),
    ...(isDoubling ? [["⚡ every message twice", "yellow"] as const] : []),
  ];
}

function auditLine(found: Demo["audits"]["found"]): Piece[] {
  if (found === null)
    return [
      ["  auditor  ", "dim"],
      ["has not run yet", "dim"],
    ];
  const { lost, countedTwice, settled, findings } = found;
  const isFine = lost + countedTwice + findings.length === 0;
  return [
    ["  auditor  ", "dim"],
    [`${showCount(lost)} lost, ${showCount(countedTwice)} counted twice`, isFine ? "green" : "red"],
    [`  of ${showCount(settled)} settled so far`, "dim"],
  ];
}
