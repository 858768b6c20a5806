// What an execution waits for is said while it is waited for, down to the child that holds it up.
import { expect, test } from "vitest";
import { whyChain } from "../../src/cli/executions/why-chain.ts";
import { cli, folder, startCli } from "../fixtures/cli/cli-process-fixture.ts";

const KID = `
import { workflow } from "rondo";
export const kid = workflow({ name: "kid" }).phase("k", { process: () => 1 }).returns(() => 2);`;
const PARENT = `
import { workflow } from "rondo";
export const parent = workflow({ name: "parent" }).child("sub", "kid", { tasks: [1] }).returns(() => 1);`;

test("run says that a child's workflow is not there, and then that nobody has its code", async () => {
  const cwd = folder({ "kid.ts": KID, "parent.ts": PARENT });
  const unknown = startCli(["run", "parent.ts", "--id", "a"], { cwd });
  await unknown.line(/^ {2}"sub" waits for a workflow: there is none with the name "kid"\.$/);
  unknown.kill("SIGTERM");
  await unknown.ended;
  expect(await cli(["run", "kid.ts"], { cwd })).toMatchObject({ code: 0 });
  const unserved = startCli(["run", "parent.ts", "--id", "b"], { cwd });
  const says = /"sub" waits for 1 child, such as b~\w+\. There: "k" waits for a worker: none serves .*kid\.k/;
  await unserved.line(says);
  // Others find the same through the directory's socket.
  expect((await cli(["why", "b"], { cwd })).stdout).toMatch(says);
  expect((await cli(["inspect", "b"], { cwd })).stdout).toMatch(says);
  unserved.kill("SIGTERM");
  expect(await unserved.ended).toMatchObject({ code: 143 });
}, 120_000);

test("a chain of children is followed to its last, and no further than it can be", async () => {
  const sentences: Record<string, string> = {
    p: '"c" waits for 2 children, such as p~1a.',
    "p~1a": '"d" waits for 1 child, such as p~1a~2b.',
    "p~1a~2b": '"e" waits for the signal "go".',
    loops: '"c" waits for 1 child, such as l~0.',
    "l~0": '"c" waits for 1 child, such as l~0.',
    signal: '"a" waits: 1 task waits for a signal, such as "go".',
  };
  let asked = 0;
  const why = (id: string) =>
    whyChain(id, async (each) => {
      asked++;
      return sentences[each] ?? "It does not exist.";
    });
  expect(await why("p")).toBe(`${sentences["p"]} There: ${sentences["p~1a~2b"]}`);
  expect(await why("signal")).toBe(sentences["signal"]);
  expect(asked).toBe(4);
  await why("loops");
  expect(asked).toBe(4 + 1 + 16);
});
