// A task that takes its process down, whatever way: after a bounded number of deaths it is a dead letter, and its
// neighbours are done.
import { expect, test } from "vitest";
import { cli, type Ended, folder } from "../fixtures/cli/cli-process-fixture.ts";

const TASKS = 200;
const POISON = 77;
const DEATHS_MAX = 7;

const FILE = `
import { workflow } from "rondo";
export const poison = workflow<{ how: string }>({ name: "poison" }).phase("p", {
  *enumerate() { for (let n = 0; n < ${TASKS}; n++) yield n; },
  process({ task, input }) {
    if (task !== ${POISON}) return task;
    if (input.how === "exit") process.exit(1);
    const all: unknown[] = [];
    for (;;) all.push(new Array(10_000).fill(task));
  },
  tolerate: 1,
}).returns(async ({ phases }) => {
  const failures: unknown[] = [];
  for await (const { task, error } of phases.p.failures()) failures.push({ task, code: (error as { code: string }).code });
  let sum = 0;
  for await (const n of phases.p.results()) sum += n as number;
  return { done: phases.p.count, sum, failures };
});`;

test.each([
  ["calls process.exit", "exit", [], "code ended this process by process.exit(1)"],
  ["exhausts the memory", "memory", ["--max-old-space-size=48"], "heap out of memory"],
])(
  "a task that %s ends as a dead letter",
  async (_, how, nodeArgs, says) => {
    const cwd = folder({ "poison.ts": FILE });
    const args = ["run", "poison.ts", "--id", "x", "-i", JSON.stringify({ how })];
    const deaths: Ended[] = [];
    let last = await cli(args, { cwd, nodeArgs });
    for (; last.code !== 0 && deaths.length < DEATHS_MAX; last = await cli(args, { cwd, nodeArgs }))
      deaths.push(last);
    expect(last.code).toBe(0);
    expect(JSON.parse(last.stdout)).toEqual({
      done: TASKS - 1,
      sum: (TASKS * (TASKS - 1)) / 2 - POISON,
      failures: [{ task: POISON, code: "crashes" }],
    });
    expect(deaths.length).toBeGreaterThanOrEqual(4);
    for (const { stderr } of deaths) expect(stderr).toContain(says);
  },
  120_000,
);
