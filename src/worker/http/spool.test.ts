// Events on disk until they are acknowledged, over real files.
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { Spool, type SpooledEvent } from "./spool.ts";

const event = (n: number, isReceipt = false): SpooledEvent => ({
  attempt: "e1.a.1.a.1.0.1.0.1",
  token: "t",
  n,
  isReceipt,
  json: `{"attempt":"e1.a.1.a.1.0.1.0.1","n":${n},"kind":"log","text":"line ${n}"}`,
});

function directory(): string {
  const path = mkdtempSync(join(tmpdir(), "rondo-spool-"));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return join(path, "spool");
}

function append(spool: Spool, events: readonly SpooledEvent[]): Promise<void> {
  return new Promise((resolve, fail) => spool.append(events, resolve, fail));
}

/** A process number that was in use and is not any more. */
function deadPid(): number {
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  return pid;
}

/** As if the process that wrote the only file had died. */
function orphan(path: string): string {
  const name = readdirSync(path).find((one) => one.endsWith(".spool")) ?? "";
  const other = join(path, `${deadPid()}-0.spool`);
  renameSync(join(path, name), other);
  return other;
}

test("what is appended is on disk when it is said to be, and the next process gets it", async () => {
  const path = directory();
  const { spool, left } = Spool.open(path);
  expect(left).toEqual([]);
  await Promise.all([append(spool, [event(1)]), append(spool, [event(2), event(3, true)])]);
  orphan(path);
  const next = Spool.open(path);
  expect(next.left).toEqual([event(1), event(2), event(3, true)]);
  expect(readdirSync(path)).toHaveLength(1);
});

test("a line that was cut off by the end of its process is not there", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  await append(spool, [event(1)]);
  appendFileSync(orphan(path), '{"attempt":"e1","token":"t","n":2,"isRe');
  expect(Spool.open(path).left).toEqual([event(1)]);
});

test("the file of a process that lives is left alone", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  await append(spool, [event(1)]);
  const [name] = readdirSync(path) as [string];
  const text = readFileSync(join(path, name), "utf8");
  expect(Spool.open(path).left).toEqual([]);
  expect(readFileSync(join(path, name), "utf8")).toBe(text);
  expect(readdirSync(path)).toHaveLength(2);
});

test("what former processes left is in this one's file until it is acknowledged here", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  await append(spool, [event(1)]);
  orphan(path);
  const second = Spool.open(path);
  expect(second.left).toHaveLength(1);
  orphan(path);
  expect(Spool.open(path).left).toEqual([event(1)]);
});

test("when everything is acknowledged the file is empty; closed, it is gone", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  const unacknowledged = new Set<SpooledEvent>([event(1)]);
  spool.unacknowledged = unacknowledged;
  await append(spool, [event(1)]);
  spool.acknowledged();
  const [name] = readdirSync(path) as [string];
  expect(readFileSync(join(path, name), "utf8")).not.toBe("");
  unacknowledged.clear();
  spool.acknowledged();
  expect(statSync(join(path, name)).size).toBe(0);
  spool.close();
  expect(readdirSync(path)).toEqual([]);
});

test("closed with something owed, the file stays", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  spool.unacknowledged = new Set([event(1)]);
  await append(spool, [event(1)]);
  spool.close();
  expect(readdirSync(path)).toHaveLength(1);
});

test("a long file is written anew with what is not acknowledged", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  const large = { ...event(1), json: JSON.stringify({ text: "x".repeat(5_000_000) }) };
  const last = new Set<SpooledEvent>();
  spool.unacknowledged = last;
  for (let n = 1; n <= 6; n++) {
    last.clear();
    last.add({ ...large, n });
    await append(spool, [...last]);
  }
  const [name] = readdirSync(path) as [string];
  expect(statSync(join(path, name)).size).toBeLessThan(15_000_000);
  orphan(path);
  expect(Spool.open(path).left.at(-1)).toEqual({ ...large, n: 6 });
});

test("a damaged file is kept and told, and what can be read of it is sent", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  await append(spool, [event(1), event(2), event(3)]);
  const file = orphan(path);
  const [first = "", second = "", third = ""] = readFileSync(file, "utf8").split("\n");
  const broken = [first, second.replace('"n"', "n"), '{"attempt":"garbage","token":"t","n":1}', "5", third];
  writeFileSync(file, Buffer.concat([Buffer.from(broken.join("\n")), Buffer.from([10, 0xff, 0xfe, 10])]));
  const next = Spool.open(path);
  expect(next.left).toEqual([event(1), event(3)]);
  expect(next.damaged).toEqual([{ path: expect.stringMatching(/\.spool\.damaged$/), lines: 4 }]);
  expect(readFileSync(next.damaged[0]?.path ?? "", "utf8")).toContain("garbage");
  // The damage is reported once, and the events are sent once.
  orphan(path);
  expect(Spool.open(path)).toMatchObject({ left: [event(1), event(3)], damaged: [] });
});

test("a close waits for the writes that are under way, and keeps the file for the next process", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  spool.unacknowledged = new Set();
  const written = [append(spool, [event(1)]), append(spool, [event(2, true)])];
  spool.close();
  await Promise.all(written);
  orphan(path);
  expect(Spool.open(path).left).toEqual([event(1), event(2, true)]);
});

test("a close removes the file if no event is left", async () => {
  const path = directory();
  const { spool } = Spool.open(path);
  spool.unacknowledged = new Set();
  await append(spool, [event(1)]);
  await new Promise((resolve) => setImmediate(resolve));
  spool.close();
  expect(readdirSync(path)).toEqual([]);
});
