/**
 * The demo:
 * 1. It opens the server, and searches for a round that a killed demo left; otherwise it begins a new one.
 * 2. It prints which tasks were kept and which were in flight, and starts the workers.
 * 3. It plays the round, in the terminal and on the page, and proves that every task was counted exactly once.
 * 4. On a terminal, it stays for more rounds and for harm until the user ends it.
 */
import { EXIT, type ExitCode } from "../../src/cli/exit-code.ts";
import { showCount } from "../../src/cli/progress/phase-line.ts";
import { Screen } from "../../src/cli/progress/screen.ts";
import { Detach } from "../../src/cli/run/detach.ts";
import type { Piece } from "../../src/cli/style.ts";
import type { ExecutionView } from "../../src/index.ts";
import { RondoError } from "../../src/std/rejection.ts";
import { listenToKeys } from "./keys.ts";
import { type Demo, openDemo } from "./open-demo.ts";
import { DEMO_HELP, parseDemoOptions } from "./options.ts";
import { DEMO, type DemoInput, PHASES } from "./parts/fan-out.ts";
import { JournalFacts } from "./parts/journal-facts.ts";
import { type Left, playRound } from "./play-round.ts";
import type { Round } from "./stage.ts";

/** How long it waits for a page to be opened before it begins. */
const PAGE_MS = 10_000;

/** Runs the demo and returns the exit code. */
export async function runDemo(args: readonly string[]): Promise<ExitCode> {
  const isTerminal = process.stdout.isTTY === true && process.stdin.isTTY === true;
  const options = parseDemoOptions(args, isTerminal);
  const screen = new Screen(process.stdout);
  if (options.help) {
    screen.write(DEMO_HELP);
    return EXIT.ok;
  }
  const demo = await openDemo(options, (text) => screen.print(["  ⚡ ", "yellow"], text));
  let leave = (): void => {};
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  const detach = new Detach({
    screen,
    close: (grace) => {
      leave();
      return demo.close(grace);
    },
    says: "leaving: the workers end, the server closes; press Ctrl-C again to leave at once",
    leave: (exit) => process.exit(exit),
  });
  const keys = options.isExiting ? null : listenToKeys(demo.stage, screen, () => detach.ask());
  try {
    let isProven = await demonstrate(demo, screen);
    if (!options.isExiting)
      isProven = await stay(demo, screen, { isProven, left, isLeft: () => detach.exit !== null });
    return isProven ? EXIT.ok : EXIT.failed;
  } catch (thrown) {
    if (detach.exit === null) throw thrown;
    screen.print(
      demo.stage.step === "opening"
        ? "Left before it began."
        : "Left half-way. Start the demo again: it goes on from here.",
    );
    return detach.exit;
  } finally {
    screen.still();
    keys?.stop();
    await (detach.exit === null ? demo.close() : detach.closed());
    detach.stop();
  }
}

/** Plays the first round. */
async function demonstrate(demo: Demo, screen: Screen): Promise<boolean> {
  const { server, options } = demo;
  const newest = (await server.rondo.list({ workflow: DEMO, limit: 1 })).data[0] ?? null;
  const isOpen = newest !== null && !(await isOver(demo, roundOf(newest.id, 0)));
  const id = newest === null ? DEMO : isOpen ? newest.id : nextId(newest.id);
  const tasks = isOpen ? (newest.input as unknown as DemoInput).tasks : options.tasks;
  const round = roundOf(id, tasks);
  tellBeginning(demo, screen, { newest, isOpen, round });
  const found = isOpen && newest.finishedAt === null ? newest : null;
  const left = found === null ? null : await lookBack(demo, screen, { found, tasks });
  if (isOpen && found === null) screen.print(`Found execution ${id} at its end: the next parts follow.`);
  // The file has entries of earlier executions only.
  if (found === null) demo.deliveries.clear();
  const waited = options.isExiting ? null : waitForPage(demo, screen);
  await Promise.all([demo.hire(), waited]);
  return playRound(demo, screen, { round, left });
}

/** Plays more rounds on request. */
async function stay(
  demo: Demo,
  screen: Screen,
  going: { isProven: boolean; left: Promise<void>; isLeft: () => boolean },
): Promise<boolean> {
  let { isProven } = going;
  let round = demo.stage.round as Round;
  for (;;) {
    screen.print("");
    screen.print(
      ["It stays up", "bold"],
      ` at ${demo.server.url}/demo. `,
      ["r", "bold"],
      " and Enter: another round; ",
      ["q", "bold"],
      " and Enter, or Ctrl-C: the end.",
    );
    await Promise.race([demo.stage.askedAgain(), going.left]);
    if (going.isLeft()) return isProven;
    round = roundOf(nextId(round.id), round.tasks);
    isProven = (await playRound(demo, screen, { round, left: null })) && isProven;
  }
}

/** Waits for a page to be opened, because a page shows more. */
async function waitForPage(demo: Demo, screen: Screen): Promise<void> {
  screen.print(
    ["Open the page now", "bold"],
    "; it begins as soon as you have, by Enter, or in ten seconds.",
  );
  let timer: NodeJS.Timeout | null = null;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, PAGE_MS).unref();
  });
  await Promise.race([late, demo.stage.wanted()]);
  if (timer !== null) clearTimeout(timer);
}

function tellBeginning(
  { options, server }: Demo,
  screen: Screen,
  now: { newest: ExecutionView | null; isOpen: boolean; round: Round },
): void {
  const { newest, isOpen, round } = now;
  const { id, tasks } = round;
  const line = (what: string, ...rest: Piece[]): void =>
    screen.print([`  ${what.padEnd(9)}`, "cyan"], ...rest);
  screen.print(
    ["Rondo demo", "bold"],
    `: ${showCount(tasks)} tasks, commands, a script, a timer; all of it durable, in ${options.store}`,
  );
  if (newest !== null && !isOpen)
    screen.print(`A finished demo exists already (execution ${newest.id}): this one is execution ${id}.`);
  if (isOpen && options.isTasksGiven && options.tasks !== tasks)
    screen.print(`Execution ${id} is open and has ${showCount(tasks)} tasks: it continues with those.`);
  line(
    "page",
    [`${server.url}/demo`, "bold"],
    isElsewhere(server.url, options.port) ? "  (7777 is taken)" : "",
  );
  if (!isOpen) for (const [phase, what] of Object.entries(PHASES)) line(phase, what);
  if (!options.isExiting)
    line(
      "keys",
      "and Enter: ",
      ["k", "bold"],
      " kills a worker, ",
      ["f", "bold"],
      " freezes one, ",
      ["d", "bold"],
      " delivers messages twice, ",
      ["q", "bold"],
      " ends it",
    );
  screen.print("Stop it half-way, as hard as you like, from another terminal: ", [
    `kill -9 ${process.pid}`,
    "bold",
  ]);
  screen.print(
    `Then start it again. If it is too quick for that: npm run demo -- --tasks ${showCount(tasks * 10).replaceAll(",", "_")}`,
  );
  screen.print("");
}

function isElsewhere(url: string, asked: number | null): boolean {
  return asked === null && new URL(url).port !== "7777";
}

/** The state that the last demo left, according to the journal and the noted deliveries. */
async function lookBack(
  { server, deliveries }: Demo,
  screen: Screen,
  { found, tasks }: { found: ExecutionView; tasks: number },
): Promise<Left> {
  const facts = await JournalFacts.read(server.rondo.execution(found.id), tasks, found.revision);
  const settled = tasks - facts.count().lost;
  const inFlight = deliveries.compare(facts);
  screen.print(["Found", "bold"], ` execution ${found.id} as the last process left it:`);
  screen.print(`  ${showCount(settled)} of ${showCount(tasks)} tasks are settled: kept, and not run again`);
  screen.print(
    `  ${showCount(inFlight)} were in flight, delivered but not counted: they are delivered again`,
  );
  screen.print(`  ${showCount(tasks - settled - inFlight)} are still to be done`);
  screen.print("");
  return { view: found, settled, inFlight };
}

/** Whether a round has ended, which means that its last part has. */
async function isOver({ server }: Demo, { script }: Round): Promise<boolean> {
  try {
    return (await server.rondo.execution(script).describe()).finishedAt !== null;
  } catch (thrown) {
    if (thrown instanceof RondoError && thrown.code === "not_found") return false;
    throw thrown;
  }
}

function roundOf(id: string, tasks: number): Round {
  return { id, tasks, commands: `${id}-commands`, script: `${id}-script` };
}

function nextId(id: string): string {
  const n = Number(/-(\d+)$/.exec(id)?.[1] ?? "1");
  return `${DEMO}-${n + 1}`;
}
