/**
 * Workflows for tests with faults. Whatever user code does is noted in a ledger outside of the system: one line per
 * happening, appended in one write. Where the input says so, code stops at a gate: a file that a test makes.
 * A gate `<execution>.<task>.<where>` lets every attempt through, `<execution>.<task>.<where>.<attempt>` one of them.
 */
import { appendFileSync, existsSync, watch } from "node:fs";
import { join } from "node:path";
import { workflow } from "rondo";

const folder = process.env.FAULTS;
const heartbeat = process.env.HEARTBEAT ?? "2s";
const retry = { attempts: 5, crashes: 50, min: "1ms", max: "2ms" };

function note(what, { execution, attempt, idempotencyKey }, more = {}) {
  const line = { what, pid: process.pid, execution, key: idempotencyKey ?? null, attempt, ...more };
  appendFileSync(join(folder, "ledger.ndjson"), `${JSON.stringify(line)}\n`);
}

/** Waits until the gate is open; throws if the attempt is to stop. */
async function gate(context, where) {
  const gates = join(folder, "gates");
  const name = `${context.execution}.${context.task.id}.${where}`;
  const isOpen = () => existsSync(join(gates, name)) || existsSync(join(gates, `${name}.${context.attempt}`));
  note("held", context, { where });
  await new Promise((resolve) => {
    const watcher = watch(gates, look);
    function look() {
      if (!isOpen() && !context.signal.aborted) return;
      watcher.close();
      resolve();
    }
    context.signal.addEventListener("abort", look);
    look();
  });
  if (isOpen()) return;
  note("stopped", context, { where });
  context.signal.throwIfAborted();
}

/** Tasks of some steps each; `hold` says at which of them to stop: begin, in-<step>, after-<step>, end. */
async function work(context) {
  const { task, step, log, input } = context;
  const holds = (where) => (task.hold?.includes(where) ? gate(context, where) : undefined);
  note("begins", context);
  if (task.log) log(`task ${task.id}`);
  await holds("begin");
  if (input.again && context.attempt > 1)
    await step("again", () => note("step", context, { name: "again" }) ?? null);
  let sum = 0;
  for (const name of input.steps ?? []) {
    sum += await step(name, async () => {
      note("step", context, { name });
      await holds(`in-${name}`);
      return task.id;
    });
    await holds(`after-${name}`);
  }
  await holds("end");
  note("ends", context);
  return { id: task.id, sum, ...(input.pad === undefined ? {} : { pad: "x".repeat(input.pad) }) };
}

const listed = (input) =>
  Array.from({ length: input.tasks }, (_, id) => ({ id, log: input.log, hold: input.hold?.[id] }));

/** The first task comes at once, the others when the gate is open. */
async function* inTwoParts(context) {
  const [first, ...others] = listed(context.input);
  yield first;
  const { execution, attempt, signal } = context;
  await gate({ execution, attempt, signal, task: { id: -1 } }, "enumerate");
  yield* others;
}

const phase = {
  enumerate(context) {
    note("enumerates", context);
    return context.input.parts ? inTwoParts(context) : listed(context.input);
  },
  process: work,
  retry,
};

/** A phase of tasks whose workers may be silent for long: attempts are adopted, however slow the machine is. */
export const tasks = workflow({ name: "tasks" }).phase("work", { ...phase, heartbeat: "60s" });

/** The same with a short silence: attempts are lost soon. */
export const brisk = workflow({ name: "brisk" }).phase("work", { ...phase, heartbeat });

/** One task that nobody enumerates. */
export const kid = workflow({ name: "kid" })
  .phase("only", {
    async process(context) {
      note("begins", context);
      const twice = await context.step("twice", () => context.input.value * 2);
      return { value: twice };
    },
    retry,
    heartbeat,
  })
  .returns(async ({ phases }) => {
    for await (const { value } of phases.only.results()) return value;
    return null;
  });

/** Everything that an execution can wait for: tasks, steps, sleeps and signals in tasks, children, sleeps, signals. */
export const journey = workflow({ name: "journey" })
  .phase("fan", {
    async *enumerate(context) {
      note("enumerates", context);
      for (const task of listed(context.input)) yield task;
    },
    async process(context) {
      const { task, step, sleep, waitFor } = context;
      note("begins", context);
      const before = await step("before", () => {
        note("step", context, { name: "before" });
        return task.id;
      });
      if (task.id % 3 === 0) await sleep("nap", "50ms");
      const told = task.id === 0 ? await waitFor("told") : null;
      const after = await step("after", () => {
        note("step", context, { name: "after" });
        return before * 2;
      });
      note("ends", context);
      return { id: after, told };
    },
    retry,
    heartbeat,
  })
  .child("kids", kid, {
    enumerate: ({ input }) => Array.from({ length: input.kids }, (_, value) => ({ value })),
  })
  .sleep("rest", "100ms")
  .waitFor("approved")
  .phase("last", {
    async process(context) {
      note("begins", context);
      return { approved: context.phases.approved.value ?? null };
    },
    retry,
    heartbeat,
  })
  .returns(async ({ phases }) => {
    let told = null;
    for await (const result of phases.fan.results()) told ??= result.told;
    let kids = 0;
    for await (const value of phases.kids.results()) kids += value;
    const fan = await phases.fan.reduce((sum, { id }) => sum + id, 0);
    return { fan, told, kids, approved: phases.approved.value };
  });
