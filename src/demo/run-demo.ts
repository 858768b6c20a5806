/**
 * The demo:
 * 1. opens the store and looks for an execution that a killed demo left; else begins a new one;
 * 2. says what was kept and what was in flight;
 * 3. shows how it goes;
 * 4. proves from the journal that every task was counted exactly once.
 */
import { join } from "node:path";
import { EXIT, type ExitCode } from "../cli/exit-code.ts";
import { follow } from "../cli/progress/follow.ts";
import { showCount } from "../cli/progress/phase-line.ts";
import { Progress } from "../cli/progress/progress.ts";
import { Screen } from "../cli/progress/screen.ts";
import { Detach } from "../cli/run/detach.ts";
import { type ExecutionView, type LocalRondo, openRondo } from "../index.ts";
import { Deliveries } from "./deliveries.ts";
import { DEMO, type DemoInput, type DemoOutput, demoWorkflow, PHASES } from "./demo-workflow.ts";
import { JournalFacts } from "./journal-facts.ts";
import { DEMO_HELP, type DemoOptions, parseDemoOptions } from "./options.ts";
import { prove } from "./prove.ts";

/** Runs the demo; resolves with the exit code. */
export async function runDemo(args: readonly string[]): Promise<ExitCode> {
  const options = parseDemoOptions(args);
  const screen = new Screen(process.stdout);
  if (options.help) {
    screen.write(DEMO_HELP);
    return EXIT.ok;
  }
  const rondo = await openRondo({ store: options.store });
  const detach = new Detach({
    screen,
    close: (grace) => rondo.close(grace),
    leave: (exit) => process.exit(exit),
  });
  try {
    return await demonstrate(rondo, screen, options);
  } catch (thrown) {
    if (detach.exit === null) throw thrown;
    screen.say("Left half-way. Start the demo again: it goes on from here.");
    return detach.exit;
  } finally {
    screen.still();
    await (detach.exit === null ? rondo.close() : detach.closed());
    detach.stop();
  }
}

async function demonstrate(rondo: LocalRondo, screen: Screen, options: DemoOptions): Promise<ExitCode> {
  const newest = (await rondo.list({ workflow: DEMO, limit: 1 })).data[0] ?? null;
  const found = newest !== null && newest.finishedAt === null ? newest : null;
  const id = found?.id ?? (newest === null ? DEMO : nextId(newest.id));
  const tasks = found === null ? options.tasks : (found.input as unknown as DemoInput).tasks;
  tellBeginning(screen, options, { newest, found, id, tasks });

  const deliveries = new Deliveries(deliveriesFile(options.store, id), tasks);
  const kept = found === null ? null : await lookBack(rondo, screen, { found, tasks, deliveries });
  const demo = demoWorkflow((task, attempt) => deliveries.note(task, attempt));
  rondo.serve(demo);
  const handle = await rondo.start(demo, { tasks }, { id });
  const shown = follow(handle, {
    screen,
    progress: found === null ? new Progress() : Progress.of(found),
    from: found === null ? 1 : found.revision + 1,
    names: Object.keys(PHASES),
    why: () => handle.why(),
    tellsTenths: true,
  });
  // Closing breaks off what is being read; only a demo that gets to its end needs to know.
  shown.catch(() => {});
  const output: DemoOutput = await handle.result();
  await shown;
  const view = await handle.status();
  const facts = await JournalFacts.read(handle, tasks, view.revision);
  const isProven = prove(screen, { view, output, facts, tasks, kept, deliveries });
  deliveries.close({ isOver: true });
  return isProven ? EXIT.ok : EXIT.failed;
}

function tellBeginning(
  screen: Screen,
  options: DemoOptions,
  now: { newest: ExecutionView | null; found: ExecutionView | null; id: string; tasks: number },
): void {
  const { newest, found, id, tasks } = now;
  screen.say(
    ["Rondo demo", "bold"],
    `: ${showCount(tasks)} tasks, one durable execution, in ${options.store}`,
  );
  if (newest !== null && found === null)
    screen.say(`A finished demo is there already (execution ${newest.id}): this one is execution ${id}.`);
  if (found !== null && options.isTasksGiven && options.tasks !== tasks)
    screen.say(`Execution ${id} is open and has ${showCount(tasks)} tasks: it goes on with those.`);
  if (found === null)
    for (const [phase, what] of Object.entries(PHASES)) screen.say([`  ${phase.padEnd(7)}`, "cyan"], what);
  screen.say("Stop it half-way, as hard as you like, from another terminal: ", [
    `kill -9 ${process.pid}`,
    "bold",
  ]);
  screen.say(
    `Then start it again. If it is too quick for that: npm run demo -- --tasks ${showCount(tasks * 10).replaceAll(",", "_")}`,
  );
  screen.say("");
}

/** What the process before left, as the journal and the witness say. */
async function lookBack(
  rondo: LocalRondo,
  screen: Screen,
  left: { found: ExecutionView; tasks: number; deliveries: Deliveries },
): Promise<{ settled: number; inFlight: number }> {
  const { found, tasks, deliveries } = left;
  const facts = await JournalFacts.read(rondo.execution(found.id), tasks, found.revision);
  const settled = tasks - facts.count().lost;
  const inFlight = deliveries.compare(facts);
  screen.say(["Found", "bold"], ` execution ${found.id} as the process before left it:`);
  screen.say(`  ${showCount(settled)} of ${showCount(tasks)} tasks are settled: kept, and not run again`);
  screen.say(`  ${showCount(inFlight)} were in flight, delivered but not counted: they are delivered again`);
  screen.say(`  ${showCount(tasks - settled - inFlight)} are still to be done`);
  screen.say("");
  return { settled, inFlight };
}

/** The witness lives beside the database; a store in memory leaves nothing to compare with. */
function deliveriesFile(store: string, id: string): string | null {
  return store.startsWith("file:") ? join(store.slice(5), `${id}.deliveries`) : null;
}

function nextId(id: string): string {
  const n = Number(/-(\d+)$/.exec(id)?.[1] ?? "1");
  return `${DEMO}-${n + 1}`;
}
