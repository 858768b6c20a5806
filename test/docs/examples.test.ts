// Every example runs by its one command, and the list of them is whole.
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, onTestFinished, test } from "vitest";
import { openTestBroker } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { ROOT } from "../fixtures/docs/page-fixture.ts";
import { needCommand } from "../fixtures/need-command.ts";

/** What is on stdout at the end. */
const OUTPUTS: Readonly<Record<string, RegExp>> = {
  "fan-out": /^\{"files":2,"different":2\}\n$/,
  crawler: /^\{"pages":5000,"links":20000\}\n$/,
  "build-graph": /^\{"steps":300,"early":0,"criticalPathMs":\d+,"ratio":[\d.]+\}\n$/,
  timers: /"sent book"\n$/,
  endings:
    /^reserve book\ncharge 4711\ncharge 0815\nrefund 4711 \(done, .*refund 0815 \(.*release book from shelf 7\napologise\nclose\n$/s,
  saga: /^\{"sold":false,"why":"step \\"ship\\" failed: no van is free"\}\n$/,
  agent: /"where is my order: A-17 is refunded"\n$/,
  webhooks: /^forged: 401\nrepeated: 202\nada \(last change: city\)\nbob \(last change: email\)\n$/,
  etl: /^\{"loaded":49950,"failed":50,"cents":\{.*\},"bad":\["line \d+: \\"n\/a\\" is not an amount",.*\]\}\n$/,
  embedded: /^\{"team":"sales","total":60\}\nthe schedule has started two reports\n$/,
  entity: /\{"customer":"ann","points":78,"bookings":12\}\n$/,
  scripts: /"status":"done".*"done":1,"failed":0/,
  children: /^\{"invoices":3,"total":800\}\n$/,
  "python-http": /\{"lines":2,"words":6\}\n$/,
  amqp: /\{"reserved":2\}\n$/,
  python: /\{.*\}\n$/,
};
const NEEDS_BROKER = ["amqp", "python"];
/** Those that other tests run, with these. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  commands: "test/broker/commands/guide.test.ts",
  chat: "test/dashboard/chat.test.ts",
};

const hasPython = needCommand("python3", "python3");

/** What an example needs besides: where its broker is; null if that cannot be had, which has been said. */
async function surroundings(name: string): Promise<Record<string, string> | null> {
  if (name === "crawler") return { PAGES: "5000" };
  if (name.startsWith("python") && !hasPython) return null;
  if (!NEEDS_BROKER.includes(name)) return {};
  const broker = await openTestBroker();
  onTestFinished(() => broker.remove());
  return { RONDO_BROKER: broker.url };
}

describe("examples", () => {
  test.each(Object.entries(OUTPUTS))(
    "%s",
    async (name, wanted) => {
      const given = await surroundings(name);
      if (given === null) return;
      const outside = Object.entries(process.env).filter(([key]) => !key.startsWith("RONDO_"));
      const env = { ...Object.fromEntries(outside), ...given };
      const child = spawn("sh", [`examples/${name}/run.sh`], { cwd: ROOT, env, detached: true });
      onTestFinished(() => {
        if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      });
      const ended = new Promise((resolve) => child.once("close", resolve));
      const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
      expect(await ended, stderr).toBe(0);
      expect(stdout).toMatch(wanted);
    },
    90_000,
  );

  test("are all on the list, and all run", () => {
    const folders = readdirSync(join(ROOT, "examples"), { withFileTypes: true }).filter((one) =>
      one.isDirectory(),
    );
    const names = folders.map(({ name }) => name).toSorted();
    expect([...Object.keys(OUTPUTS), ...Object.keys(ELSEWHERE)].toSorted()).toEqual(names);
    for (const file of Object.values(ELSEWHERE)) expect(existsSync(join(ROOT, file))).toBe(true);
    const list = readFileSync(join(ROOT, "examples/readme.md"), "utf8");
    for (const name of names) {
      expect(list).toContain(`| [${name}](${name}) | \`sh examples/${name}/run.sh\` |`);
      expect(readFileSync(join(ROOT, `examples/${name}/run.sh`), "utf8")).toContain(
        `sh examples/${name}/run.sh`,
      );
    }
  });
});
