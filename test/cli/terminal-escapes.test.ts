// What users and scripts say never steers the terminal of whoever reads it.
import { expect, test } from "vitest";
import { tableLines } from "../../src/cli/output/table.ts";
import { jsonText, visible } from "../../src/cli/output/visible.ts";
import { Painter } from "../../src/cli/style.ts";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import { cli, folder, jsonLines, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

test("control characters become signs; lines and tabs stay", () => {
  expect(visible("a\x1b[2Jb\x07\x00\x7f\x9b31m\x85")).toBe("a␛[2Jb␇␀␡\\x9b31m\\x85");
  expect(visible("a\r\nb\tc\rd é 😀")).toBe("a\nb\tc␍d é 😀");
});

test("as JSON they are escaped, so that the value is the same", () => {
  const value = { "k\x9b": "\x1b\x7f\x80\x9f" };
  const text = jsonText(value);
  expect(text).toBe('{"k\\u009b":"\\u001b\\u007f\\u0080\\u009f"}');
  expect(JSON.parse(text)).toEqual(value);
});

test("a painter's own colours are the only ones, and a line that is redrawn is one line", () => {
  const painter = new Painter(true);
  expect(painter.line([["\x1b[2Ja", "red"], "\x1b]0;t\x07"])).toBe("\x1b[31m␛[2Ja\x1b[0m␛]0;t␇");
  expect(painter.line(["a\nb\tc"], 10)).toBe("a b c");
  expect(tableLines([{ title: "T", value: (row: string) => row }], ["a\x1bb\r\nc"], {})).toEqual([
    "T",
    "a␛b c",
  ]);
});

const EVIL = String.raw`\x1b]0;title\x07\x1b[2J\x9b31m\x08\x7f`;
const FLOW = `
import { workflow } from "rondo";
const evil = "${EVIL}";
export const evils = workflow({ name: "evils" }).phase("p", {
  tasks: [evil],
  process({ task, log }) {
    log(task, "logged");
    log.error({ [evil]: evil });
    throw new Error("first\\n" + evil);
  },
  retry: { attempts: 2, min: 1 },
});
export const echo = workflow({ name: "echo" }).phase("p", { process: () => evil }).returns(() => evil);`;
const SCRIPT = JSON.stringify({
  rondo: 1,
  name: "script",
  phases: [
    {
      name: "p",
      handlers: {
        p: {
          script: [{ name: "r", expression: `s => { console.log("${EVIL}"); throw new Error("${EVIL}"); }` }],
          retry: { attempts: 1 },
        },
      },
    },
  ],
});

/** Everything but line ends that a terminal would act on. */
const CONTROLS = /[^\P{Cc}\n\t]/u;

test("no verb lets them through, for people or as JSON", async () => {
  const cwd = folder({ "flow.ts": FLOW, "script.json": SCRIPT });
  await startServer({ cwd });
  const evil = "\x1b]0;title\x07\x1b[2J\x9b31m\x08\x7f";
  const outputs: { what: string; text: string }[] = [];
  const rondo = async (...args: string[]): Promise<string> => {
    const { stdout, stderr } = await ask(args, { cwd });
    outputs.push({ what: args.join(" "), text: stdout + stderr });
    return stdout + stderr;
  };
  const input = JSON.stringify({ evil });
  expect(await rondo("run", "flow.ts", "--workflow", "evils", "--id", "e", "-i", input)).toContain(
    "␛]0;title␇",
  );
  expect(await rondo("run", "script.json", "--id", "s", "--unsafe-no-jail")).toContain("␛]0;title␇");
  const echoed = await cli(["run", "flow.ts", "--workflow", "echo", "--id", "o"], { cwd });
  outputs.push({ what: "run echo", text: echoed.stdout + echoed.stderr });
  expect(jsonLines(echoed.stdout)).toEqual([evil]);
  for (const verb of ["inspect", "events", "tasks", "logs", "why", "wait"]) {
    await rondo(verb, "e");
    await rondo(verb, "s");
    await rondo(verb, "e", "--json");
  }
  await rondo("inspect", "o");
  await rondo("events", "e", "--full");
  await rondo("tasks", "e", "--full");
  for (const verb of ["ps", "dlq"]) await rondo(verb);
  await rondo("dlq", "--json");
  for (const bad of [
    ["inspect", evil],
    ["run", evil],
    ["logs", "e", "--level", evil],
    ["ps", "--status", evil],
  ])
    await rondo(...bad);
  expect(outputs.filter(({ text }) => CONTROLS.test(text)).map(({ what }) => what)).toEqual([]);
  // Each was there to be let through.
  expect(outputs.filter(({ text }) => /title|u001b/.test(text)).length).toBeGreaterThan(15);
}, 120_000);

test("a worker's own log lines are safe too", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  await startServer({ cwd });
  const worker = startCli(["worker", "flow.ts"], { cwd });
  await worker.line(/serves/);
  await cli(["run", "evils", "--wait"], { cwd });
  await worker.line(/␛\]0;title␇.* logged/);
  worker.kill("SIGTERM");
  const { stdout, stderr } = await worker.ended;
  expect(CONTROLS.test(stdout + stderr)).toBe(false);
});
