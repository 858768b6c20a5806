// `rondo run FILE` as its users meet it: a file in a folder of its own, which has neither rondo nor zod installed.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

const GREET = `
import { workflow } from "rondo";
import { z } from "zod";
import { greeting } from "./greeting";
import type { Absent } from "./nowhere";

enum Mood { Good = "good" }
const suffix = await Promise.resolve("!");

export const greet = workflow({ name: "greet", input: z.object({ names: z.array(z.string()) }) })
  .phase("say", {
    *enumerate({ input }) { yield* input.names; },
    process({ task, log }) {
      log("greeting", { to: task });
      console.log("on the console");
      return greeting(task) + suffix;
    },
  })
  .returns(async ({ phases }) => ({ mood: Mood.Good, count: phases.say.count }));
`;
const FILES = {
  "greet.ts": GREET,
  "greeting.ts": "export const greeting = (name: string): string => `hello ${name}`;",
};
const INPUT = '{"names":["a","b","c"]}';

describe("a TypeScript file outside of the package", () => {
  test("runs; the output is one line of JSON on stdout, all else is on stderr", async () => {
    const cwd = folder(FILES);
    const { code, stdout, stderr } = await cli(["run", "greet.ts", "-i", INPUT, "--id", "g1"], { cwd });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '{"mood":"good","count":3}\n' });
    expect(stderr).toContain("greet: execution g1 started in file:.rondo\n");
    expect(stderr).toContain("say/say#1 greeting { to: 'b' }\n");
    expect(stderr.match(/on the console/g)).toHaveLength(3);
    expect(stderr).toMatch(/^say: done, 3 tasks/m);
    expect(stderr).not.toContain("\x1b");
    expect(existsSync(join(cwd, ".rondo"))).toBe(true);
  });

  test("gets the very rondo that runs it, and can use all of it", async () => {
    const cwd = folder({
      "nested.ts": `
        import { Fatal, RondoError, openRondo, workflow } from "rondo";
        const inner = workflow<number>({ name: "inner" }).phase("double", { process: ({ task }) => task * 2 })
          .returns(async ({ phases }) => phases.double.reduce((sum, n) => sum + n, 0));
        let refused = false;
        try { workflow({ name: "9" }); } catch (error) { refused = error instanceof RondoError; }
        export default workflow({ name: "outer" })
          .phase("ask", {
            async process() {
              await using rondo = await openRondo({ store: "memory:" });
              return await rondo.serve(inner).run(inner, 21);
            },
          })
          .phase("fail", { process() { throw new Fatal("once is enough"); }, tolerate: 1 })
          .returns(async ({ phases }) => {
            const answers: number[] = [];
            for await (const answer of phases.ask.results()) answers.push(answer);
            return { refused, answers, failed: phases.fail.failed };
          });`,
    });
    const { code, stdout, stderr } = await cli(["run", "nested.ts"], { cwd });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.stringContaining("1 failed") as string });
    expect(JSON.parse(stdout)).toEqual({ refused: true, answers: [42], failed: 1 });
    expect(stderr).not.toContain("retried");
  });

  test("takes zod from its own folder if it is there", async () => {
    const cwd = folder({
      "own.mjs": `
        import { mark } from "zod";
        import { workflow } from "rondo";
        export const own = workflow({ name: "own" }).phase("a", { process: () => null }).returns(() => mark);`,
      "node_modules/zod/package.json":
        '{"name":"zod","version":"0.0.0","type":"module","exports":"./index.js"}',
      "node_modules/zod/index.js": 'export const mark = "the user\'s zod";',
    });
    const { stdout, code } = await cli(["run", "own.mjs", "--store", "memory:"], { cwd });
    expect({ stdout, code }).toEqual({ stdout: '"the user\'s zod"\n', code: 0 });
  });
});

describe("the input", () => {
  test.each([
    ["from a file", "@in.json", ""],
    ["from stdin", "-", INPUT],
  ])("comes %s", async (_, given, stdin) => {
    const cwd = folder({ ...FILES, "in.json": INPUT });
    const { code, stdout } = await cli(["run", "greet.ts", "-i", given, "--store", "memory:"], {
      cwd,
      stdin,
    });
    expect({ code, stdout }).toEqual({ code: 0, stdout: '{"mood":"good","count":3}\n' });
  });

  test("that is no JSON is shown with the place where it stops being it", async () => {
    const cwd = folder(FILES);
    const { code, stdout, stderr } = await cli(["run", "greet.ts", "-i", "{names: 3}"], { cwd });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain('-i is not JSON: unexpected "n" at position 1 (line 1, column 2)');
    expect(existsSync(join(cwd, ".rondo"))).toBe(false);
  });

  test("that the schema refuses, or that is missing, is refused before anything is stored", async () => {
    const cwd = folder(FILES);
    const refused = await cli(["run", "greet.ts", "-i", '{"names":[1]}'], { cwd });
    expect({ code: refused.code, stderr: refused.stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/input\.names.*expected string/) as string,
    });
    const missing = await cli(["run", "greet.ts"], { cwd });
    expect({ code: missing.code, stderr: missing.stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining("give the input: -i") as string,
    });
  });
});

test("an id that is refused has no hint about the input", async () => {
  const rests = JSON.stringify({ name: "rests", phases: [{ name: "a", handlers: { a: { sleep: "1ms" } } }] });
  const { code, stderr } = await cli(["run", "rests.json", "--id", ".."], {
    cwd: folder({ "rests.json": rests }),
  });
  expect(code).toBe(2);
  expect(stderr).toMatch(/^rondo: id: /);
  expect(stderr).not.toContain("give the input");
});

describe("which workflow", () => {
  const TWO = `
    import { workflow } from "rondo";
    export const one = workflow({ name: "one" }).phase("a", { process: () => 1 }).returns(() => "one");
    export const two = workflow({ name: "two" }).phase("a", { process: () => 2 }).returns(() => "two");
    export default one;`;

  test("is asked for if a file exports several, and said if it does not exist", async () => {
    const cwd = folder({ "two.ts": TWO });
    const asked = await cli(["run", "two.ts"], { cwd });
    expect(asked.code).toBe(2);
    expect(asked.stderr).toMatch(
      /two\.ts exports 2 workflows: (?:one, two|two, one)\n {2}choose one: --workflow/,
    );
    const absent = await cli(["run", "two.ts", "--workflow", "three"], { cwd });
    expect(absent).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no workflow named "three"') as string,
    });
    const chosen = await cli(["run", "./two.ts", "--workflow", "two"], { cwd });
    expect(chosen).toMatchObject({ code: 0, stdout: '"two"\n' });
  });

  test("of a definition file is run if it needs no code, else it is said what to do", async () => {
    const phases = [{ name: "nap", handlers: { nap: { sleep: "1ms" } } }];
    const coded = [{ name: "map", handlers: { map: { use: "data.map" } } }];
    const cwd = folder({
      "nap.json": JSON.stringify({ rondo: 1, name: "nap", phases }),
      "coded.json": JSON.stringify({ rondo: 1, name: "coded", phases: coded }),
      "bad.json": JSON.stringify({ rondo: 1, name: "bad", phases: [] }),
      "nap.yaml": "rondo: 1\nname: nap\nphases:\n  - name: nap\n    handlers:\n      nap: { sleep: 1ms }\n",
      "bad.yml": "rondo: 1\nphases: [\n",
    });
    for (const file of ["nap.json", "nap.yaml"])
      expect(await cli(["run", file, "--store", "memory:"], { cwd })).toMatchObject({
        code: 0,
        stdout: "null\n",
      });
    const refusals: [file: string, says: string][] = [
      ["coded.json", "is a data file without code, but its handlers are code (data.map)"],
      ["bad.json", "is not a definition"],
      ["bad.yml", "bad.yml:3:1: not YAML"],
    ];
    for (const [file, says] of refusals) {
      const { code, stderr } = await cli(["run", file], { cwd });
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(says) as string });
    }
  });
});

test("--json prints the whole execution on one line", async () => {
  const cwd = folder(FILES);
  const { stdout } = await cli(["run", "greet.ts", "-i", INPUT, "--id", "j", "--json"], {
    cwd,
    env: { RONDO_STORE: "file:elsewhere" },
  });
  expect(stdout.trimEnd().split("\n")).toHaveLength(1);
  expect(JSON.parse(stdout)).toMatchObject({
    id: "j",
    status: "done",
    output: { count: 3 },
    phases: [{ name: "say", handlers: [{ total: 3, done: 3 }] }, { name: "returns" }],
  });
  expect([existsSync(join(cwd, "elsewhere")), existsSync(join(cwd, ".rondo"))]).toEqual([true, false]);
});
