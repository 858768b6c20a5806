import { expect, test } from "vitest";
import { VirtualClock } from "../testing/virtual-clock.ts";
import { Alarms } from "./alarms.ts";

function world() {
  const clock = new VirtualClock();
  const beginning = clock.now();
  const rung: [string, number][] = [];
  const alarms = new Alarms(clock, (name) => rung.push([name, clock.now() - beginning]));
  return { clock, beginning, rung, alarms };
}

test("alarms ring at their times, in order, also those that are far", async () => {
  const { clock, beginning, rung, alarms } = world();
  alarms.set("far", beginning + 7_200_001);
  alarms.set("near", beginning + 10);
  alarms.set("past", beginning - 5);
  alarms.set("twin", beginning + 10);
  await clock.advance("3h");
  expect(rung).toEqual([
    ["past", 0],
    ["near", 10],
    ["twin", 10],
    ["far", 7_200_001],
  ]);
  expect(alarms.size).toBe(0);
});

test("an alarm that is set anew rings at the new time only, a cleared one never", async () => {
  const { clock, beginning, rung, alarms } = world();
  alarms.set("later", beginning + 10);
  alarms.set("later", beginning + 500);
  alarms.set("sooner", beginning + 400);
  alarms.set("sooner", beginning + 20);
  alarms.set("gone", beginning + 30);
  alarms.clear("gone");
  for (let n = 0; n < 1_000; n++) alarms.set("restless", beginning + 100_000 - n);
  await clock.advance("10m");
  expect(rung).toEqual([
    ["sooner", 20],
    ["later", 500],
    ["restless", 99_001],
  ]);
});

test("after close nothing rings", async () => {
  const { clock, beginning, rung, alarms } = world();
  alarms.set("a", beginning + 10);
  alarms.close();
  alarms.set("b", beginning + 10);
  await clock.advance("1m");
  expect(rung).toEqual([]);
});
