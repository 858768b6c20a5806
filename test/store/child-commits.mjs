/**
 * What a process that is killed was doing: one commit after the other, each of which creates a pair of executions,
 * sends a letter, takes the one of the commit before, and stores logs and a dead letter. Says each number once it is
 * acknowledged.
 */
import { writeSync } from "node:fs";

export const say = (text) => writeSync(1, `${text}\n`);

/** Never returns. `store` owns everything under `fence`. */
export async function commitPairs(store, fence) {
  const [newest] = await store.listHeads({}, { before: null, max: 1 });
  let n = (newest?.order ?? 0) / 2;
  say(`open ${n}`);
  for (;;) {
    n++;
    const verdict = await store.commit({
      fence,
      writes: [
        { ...created(`left-${n}`, n), mail: [{ id: `letter-${n}`, to: `right-${n}`, body: "{}" }] },
        { ...created(`right-${n}`, n), logs: [logRow(n)], deadLetters: [{ seq: 1, tasks: [n] }] },
      ],
      mailTaken: [`letter-${n - 1}`],
    });
    if (verdict.kind !== "ok" || verdict.exists.length > 0) throw new Error(JSON.stringify(verdict));
    say(n);
  }
}

function logRow(n) {
  const attempt = { attempt: `attempt-${n}`, phase: "p", visit: 1, handler: "h", task: 0, number: 1 };
  const line = { n, at: n, level: "info", text: "x".repeat((n * 313) % 3000) };
  return { ...attempt, worker: "w", mayRepeat: n % 2 === 0, lines: [line] };
}

function created(id, n) {
  const body = JSON.stringify({ v: 1, id, text: "x".repeat((n * 997) % 9000) });
  return {
    execution: id,
    create: true,
    after: 0,
    entries: [{ seq: 1, count: 1, at: n, body }],
    chain: `chain-${id}`,
    head: {
      id,
      partition: 0,
      workflow: "pairs",
      hash: "h",
      project: "default",
      status: "running",
      phase: null,
      want: "work",
      priority: 0,
      createdAt: n,
      finishedAt: null,
      tags: {},
      error: null,
    },
    timersSet: [{ timer: "t", due: n }],
    timersCleared: [],
    opened: null,
    snapshot: null,
  };
}
