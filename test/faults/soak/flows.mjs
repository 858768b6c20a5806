/**
 * The workflows of the soak: those of the tests with faults, tasks that fail, orders that clean up, digests of signals, a
 * script and a topic for commands. User code notes its actions in the ledger outside of the system.
 */
import { appendFileSync, readlinkSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Fatal, topic, workflow } from "rondo";

export { brisk, journey, kid } from "../../fixtures/faults/flows.mjs";

const folder = process.env.FAULTS;
const heartbeat = process.env.HEARTBEAT;
const retry = { attempts: 5, crashes: 100, min: "1ms", max: "20ms" };

function note(what, { execution, attempt, idempotencyKey }) {
  const line = { what, pid: process.pid, execution, key: idempotencyKey, attempt };
  appendFileSync(join(folder, "ledger.ndjson"), `${JSON.stringify(line)}\n`);
}

/** Every third task fails the first time, every seventh for good; three run at a time in the whole cluster. */
export const tolerant = workflow({ name: "tolerant" })
  .phase("work", {
    enumerate: ({ input }) => Array.from({ length: input.tasks }, (_, id) => ({ id })),
    async process(context) {
      const { id } = context.task;
      note("begins", context);
      context.log(`task ${id}, attempt ${context.attempt}`);
      if (id % 7 === 6) throw new Fatal("never");
      if (context.attempt === 1 && id % 3 === 0) throw new Error("not yet");
      return { id };
    },
    tolerate: "50%",
    concurrency: 3,
    retry,
    heartbeat,
  })
  .returns(async ({ phases }) => {
    let failed = 0;
    for await (const { task } of phases.work.failures()) if (task >= 0) failed++;
    return { done: phases.work.count, failed };
  });

/**
 * A payment service: the first to come decides whether a key is charged or void. A symbolic link is made in one step, and its
 * target is the decision.
 */
function decide(key, wanted) {
  const path = join(folder, "payments", encodeURIComponent(key));
  try {
    symlinkSync(wanted, path);
    return wanted;
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
    return readlinkSync(path);
  }
}

/** Charges cards; a cancel or a declined card refunds those that were charged. */
export const order = workflow({
  name: "order",
  onCancel: "apologise",
  onFailure: "apologise",
  finally: "close",
})
  .phase("charge", {
    enumerate: ({ input }) => input.cards,
    async process(context) {
      note("begins", context);
      if (context.task === "declined") throw new Fatal("declined");
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (decide(context.idempotencyKey, "charged") === "void") throw new Fatal("the payment is void");
      note("charges", context);
      return { receipt: context.idempotencyKey };
    },
    compensate(context) {
      if (decide(context.idempotencyKey, "void") !== "charged") return;
      // A worker that was killed between its charge and its note has charged all the same.
      note("charges", context);
      note("refunds", context);
    },
    compensation: { retry },
    retry,
    heartbeat,
  })
  .sleep("delivery", "300ms")
  .phase("apologise", { process: ({ log }) => log("apologise"), retry, heartbeat })
  .phase("close", { process: ({ log }) => log("close"), retry, heartbeat })
  .returns(({ phases }) => phases.charge.count);

/** Collects items until none has come for a moment. */
export const digest = workflow({ name: "digest", unread: { item: "collect" } })
  .waitFor("collect", { signal: "item" })
  .waitFor(
    "quiet",
    { signal: "item", timeout: "100ms", optional: true },
    { next: ({ phases }) => (phases.quiet.value === null ? "send" : "quiet"), among: ["quiet", "send"] },
  )
  .phase("send", { process: (context) => note("sends", context), retry, heartbeat });

/** A script of two runs that logs. */
export const prices = workflow({ name: "prices" })
  .script("sum", {
    runs: [
      { name: "take", expression: "(state, ctx) => ({ all: ctx.input.prices })" },
      {
        name: "sum",
        expression:
          "state => { console.log('adding', state.all.length); return state.all.reduce((a, b) => a + b, 0) }",
      },
    ],
    retry,
  })
  .returns(async ({ phases }) => {
    for await (const sum of phases.sum.results()) return sum;
    return null;
  });

export const double = topic("SOAK_DOUBLE", ({ cmd }) => ({ value: cmd.cmd_data.value * 2 }));
