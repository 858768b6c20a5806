// Children, schedules, sleeps and waits, in phases and in tasks, while the server is killed at points that a seed chooses
// and two workers work: everything ends, with the right outputs.
import { expect, test, vi } from "vitest";
import { SeededRandom } from "../../src/std/random.ts";
import type { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { expectWell, openFixture, openProxy } from "../fixtures/faults/open-fault-fixture.ts";
import { effort } from "../fixtures/long.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 150_000 });

const KILLS = effort({ usual: 8, long: 20 });
const JOURNEYS = 8;

test.each(["journeys-1"])(
  `everything that can be waited for, through ${KILLS} lives of the server (seed %s)`,
  async (seed) => {
    const random = new SeededRandom(seed);
    const fixture = await openFixture();
    const proxy = await openProxy(fixture);
    await fixture.worker({ url: proxy.url });
    await fixture.worker({ url: proxy.url, args: ["--spool", "spool"] });
    const schedule = {
      id: "tick",
      workflow: "kid",
      input: { value: 21 },
      cron: "* * * * * *",
      misfire: "all",
    };
    await fixture.insist("POST", "/v1/schedules", schedule);

    const travel = async (i: number): Promise<void> => {
      const tasks = random.between(3, 10);
      const kids = random.between(0, 4);
      const output = {
        fan: tasks * (tasks - 1),
        told: `told ${i}`,
        kids: kids * (kids - 1),
        approved: { by: i },
      };
      const id = await fixture.start("journey", { tasks, kids }, output, `j${i}`);
      await fixture.signal(id, "told", `told ${i}`);
      await fixture.signal(id, "approved", { by: i });
    };
    const travels = (async () => {
      for (let i = 0; i < JOURNEYS; i++) {
        await travel(i);
        await proxy.reached(random.between(1, 20));
      }
    })();

    for (let kill = 0; kill < KILLS; kill++) {
      await proxy.reached(random.between(1, 24));
      await fixture.restartServer();
    }
    await travels;
    await fixture.insist("POST", "/v1/schedules/tick/pause");
    const fired = await firedOf(fixture);
    // Every second was started once, those while the server was away included.
    expect(fired).toEqual(Array.from({ length: fired.length }, (_, i) => (fired[0] ?? 0) + i));
    for (const due of fired) fixture.acknowledged.set(`tick~${due * 1_000}`, { output: 42 });
    await expectWell(fixture);
  },
);

/** The seconds for which the schedule has started something, in order. */
async function firedOf(fixture: FaultFixture): Promise<number[]> {
  let ids: string[] = [];
  await until("no start of the schedule is under way", async () => {
    const { data } = (await fixture.insist("GET", "/v1/executions?limit=1000&workflow=kid")) as {
      data: { id: string }[];
    };
    const before = ids.length;
    ids = data.map(({ id }) => id).filter((id) => id.startsWith("tick~"));
    return ids.length > 0 && ids.length === before;
  });
  return ids.map((id) => Number(id.split("~")[1]) / 1_000).sort((a, b) => a - b);
}
