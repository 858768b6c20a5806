import { describe, expect, test } from "vitest";
import { LIMITS } from "../definition/definition.ts";
import { compilePlan } from "../definition/plan.ts";
import type { Execution } from "../execution.ts";
import { encodeEntries } from "../journal/journal-entry.ts";
import { restore } from "../journal/replay.ts";
import { readSnapshot, writeSnapshot } from "../journal/snapshot.ts";
import type { Sent, SignalMessage, StartMessage } from "../message.ts";
import { create, step } from "../step.ts";
import { gateMessage, isCarryDue } from "./gate.ts";
import { type GateEntry, type GatePolicy, RELAY_DEFINITIONS, TARGETS_MAX } from "./relay.ts";

const PLAN = compilePlan(RELAY_DEFINITIONS[1] as (typeof RELAY_DEFINITIONS)[0]);

/** A gate with a policy, and the messages that it sends. */
class Gate {
  readonly policy: GatePolicy;
  execution: Execution | null = null;
  sent: Sent[] = [];

  constructor(policy: Partial<GatePolicy>) {
    this.policy = { workflow: "w", hash: "h", project: "default", trigger: "e", ...policy };
  }

  take(event: string, now: number, more: Partial<GateEntry> = {}): void {
    const message = gateMessage("gate", { event, data: `"${event}"`, policy: this.policy, ...more });
    if (this.execution === null) {
      const created = create(message, PLAN, now);
      this.execution = created.execution;
      this.sent.push(...created.sent);
    } else this.#step({ kind: "gate", entry: message.gate as NonNullable<typeof message.gate> }, now);
  }

  due(now: number): void {
    this.#step({ kind: "timer", timer: "gate" }, now);
  }

  ended(execution: string, now: number): void {
    this.#step({ kind: "gate.ended", execution }, now);
  }

  /** Compacts the journal, and continues with the state that a replay of only the new rows gives. */
  carry(now: number): void {
    const execution = this.execution as Execution;
    const { events } = step(execution, { kind: "carry" }, now);
    const entries = encodeEntries(events, execution.id);
    this.execution = restore(execution.id, PLAN, { snapshot: null, entries });
    if (writeSnapshot(this.execution) !== writeSnapshot(execution))
      throw new Error("a replay gives another state");
  }

  #step(message: Parameters<typeof step>[1], now: number): void {
    const execution = this.execution as Execution;
    // A gate that is read from a snapshot continues in the same way.
    this.execution = readSnapshot(execution.id, PLAN, writeSnapshot(execution));
    this.sent.push(...step(this.execution, message, now).sent);
  }

  get starts(): StartMessage[] {
    return this.sent.flatMap(({ message }) => (message.kind === "start" ? [message] : []));
  }

  get inputs(): unknown[] {
    return this.starts.map(({ input }) => JSON.parse(input) as unknown);
  }

  get dueAt(): number | undefined {
    return this.execution?.timers.get("gate")?.due;
  }
}

describe("a gate", () => {
  test("passes the last event after a quiet time, at most `max` after the first", () => {
    const gate = new Gate({ debounce: { quiet: 10, max: 25 } });
    gate.take("a", 0);
    gate.take("b", 8);
    gate.due(10);
    expect(gate.inputs).toEqual([]);
    expect(gate.dueAt).toBe(18);
    gate.take("c", 17);
    gate.due(18);
    expect(gate.dueAt).toBe(25);
    gate.due(25);
    expect(gate.inputs).toEqual(["c"]);
    expect(gate.execution?.status).toBe("done");
  });

  test("opens again with the next event after its end", () => {
    const gate = new Gate({ debounce: { quiet: 10 } });
    gate.take("a", 0);
    gate.due(10);
    gate.take("b", 20);
    expect(gate.execution?.status).toBe("running");
    gate.due(30);
    expect(gate.inputs).toEqual(["a", "b"]);
    expect(new Set(gate.starts.map(({ execution }) => execution)).size).toBe(2);
  });

  test("collects a batch until it is full or old", () => {
    const gate = new Gate({ batch: { max: 2, wait: 10 } });
    for (const event of ["a", "b", "c"]) gate.take(event, 0);
    expect(gate.inputs).toEqual([["a", "b"]]);
    gate.due(10);
    expect(gate.inputs).toEqual([["a", "b"], ["c"]]);
  });

  test("passes a batch on before it is larger than an input may be", () => {
    const gate = new Gate({ batch: { max: 100, wait: 10 } });
    const data = JSON.stringify("x".repeat(250_000));
    for (let n = 0; n < 6; n++) gate.take(`e${n}`, 0, { data });
    expect(gate.starts.map(({ input }) => (JSON.parse(input) as string[]).length)).toEqual([4]);
    gate.due(10);
    expect(gate.starts.map(({ input }) => (JSON.parse(input) as string[]).length)).toEqual([4, 2]);
    expect(gate.starts.every(({ input }) => input.length <= LIMITS.inputBytes)).toBe(true);
  });

  test("passes a batch on if the trigger collects none any more", () => {
    const gate = new Gate({ batch: { max: 100, wait: 10 } });
    gate.take("a", 0);
    gate.take("b", 1);
    const policy = { workflow: "w", hash: "h2", project: "default", trigger: "e" };
    gate.take("c", 2, { policy });
    expect(gate.inputs).toEqual([["a", "b"], "c"]);
  });

  test("keeps the events of a batch apart that comes back from an execution that has ended", () => {
    const gate = new Gate({
      batch: { max: 2, wait: 10 },
      singleton: "signal",
      signal: "items",
      tracks: true,
    });
    for (const event of ["a", "b", "c", "d"]) gate.take(event, 0);
    const first = gate.starts[0]?.execution ?? "";
    const signal = gate.sent[1]?.message as SignalMessage;
    expect(JSON.parse(signal.data)).toEqual(["c", "d"]);
    const entry = signal.from?.entry as GateEntry;
    gate.take("e", 1);
    gate.take(entry.event, 2, { ...entry, returnedBy: first });
    gate.due(20);
    expect(gate.inputs).toEqual([
      ["a", "b"],
      ["e", "c"],
    ]);
    expect(gate.sent.at(-1)?.message).toMatchObject({ kind: "signal", data: '["d"]' });
  });

  test("starts no more than the throttle allows within any time of its length", () => {
    const gate = new Gate({ throttle: { limit: 2, per: 100 } });
    for (const [event, at] of [
      ["a", 0],
      ["b", 90],
      ["c", 95],
      ["d", 96],
    ] as const)
      gate.take(event, at);
    expect(gate.starts.map(({ startAt }) => startAt)).toEqual([undefined, undefined, 100, 190]);
    gate.due(100);
    expect(gate.execution?.status).toBe("running");
    gate.due(290);
    expect(gate.execution?.status).toBe("done");
  });

  test("skips events while an execution of its key is open", () => {
    const gate = new Gate({ singleton: "skip", tracks: true });
    gate.take("a", 0);
    gate.take("b", 1);
    gate.ended(gate.starts[0]?.execution ?? "", 2);
    expect(gate.execution?.status).toBe("done");
    gate.take("c", 3);
    expect(gate.inputs).toEqual(["a", "c"]);
    expect(gate.starts.every(({ notifies }) => notifies === "gate")).toBe(true);
  });

  test("cancels the open execution for a new one", () => {
    const gate = new Gate({ singleton: "cancel", tracks: true });
    gate.take("a", 0);
    gate.take("b", 1);
    expect(gate.sent.map(({ to, message }) => [message.kind, to === gate.starts[0]?.execution])).toEqual([
      ["start", true],
      ["cancel", true],
      ["start", false],
    ]);
  });

  test("signals the open execution, and starts one with a signal that comes back", () => {
    const gate = new Gate({ singleton: "signal", signal: "item", tracks: true });
    gate.take("a", 0);
    const first = gate.starts[0]?.execution ?? "";
    gate.take("b", 1);
    expect(gate.sent[1]).toMatchObject({
      to: first,
      message: { kind: "signal", signal: "item", data: '"b"' },
    });
    gate.take("b", 2, { returnedBy: first });
    expect(gate.inputs).toEqual(["a", "b"]);
    expect(gate.execution?.gate?.open).toEqual([gate.starts[1]?.execution]);
    // The notice of the end comes after the signal that came back.
    gate.ended(first, 3);
    expect(gate.execution?.gate?.open).toEqual([gate.starts[1]?.execution]);
  });

  test("cancels what is open and drops what it holds", () => {
    const gate = new Gate({ debounce: { quiet: 10 }, tracks: true });
    gate.take("a", 0);
    gate.due(10);
    gate.take("b", 11);
    gate.take("x", 12, { cancels: true });
    expect(gate.sent.map(({ message }) => message.kind)).toEqual(["start", "cancel"]);
    expect(gate.execution?.gate?.held).toEqual([]);
    gate.ended(gate.starts[0]?.execution ?? "", 13);
    expect(gate.execution?.status).toBe("done");
  });

  test("ends at once if a cancelling event is its first", () => {
    const gate = new Gate({ tracks: true });
    gate.take("x", 0, { cancels: true });
    expect(gate.execution?.status).toBe("done");
    expect(gate.sent).toEqual([]);
  });

  test("takes no signals, and ends at once if it is started by its name", () => {
    const gate = new Gate({ debounce: { quiet: 10 } });
    gate.take("a", 0);
    const message = { kind: "signal", id: "s", signal: "go", data: "1" } as const;
    expect(step(gate.execution as Execution, message, 1).answer).toMatchObject({ code: "not_found" });
    const { gate: _, ...start } = gateMessage("g", { event: "a", data: "1", policy: gate.policy });
    expect(create(start, PLAN, 0).execution.status).toBe("done");
  });

  test("cannot be cancelled or retried", () => {
    const gate = new Gate({ debounce: { quiet: 10 } });
    gate.take("a", 0);
    const message = { kind: "cancel", id: "c", by: "user", reason: null } as const;
    expect(step(gate.execution as Execution, message, 1).answer).toMatchObject({ code: "wrong_status" });
  });
});

describe("a gate whose journal is compacted", () => {
  test("continues with what it holds, its timer and its open executions", () => {
    const gate = new Gate({ batch: { max: 3, wait: 10 }, tracks: true });
    for (const [i, event] of ["a", "b", "c", "d"].entries()) gate.take(event, i);
    gate.carry(4);
    expect(gate.execution?.gate?.open).toHaveLength(1);
    gate.due(13);
    expect(gate.inputs).toEqual([["a", "b", "c"], ["d"]]);
    for (const { execution } of gate.starts) gate.ended(execution, 20);
    expect(gate.execution?.status).toBe("done");
  });

  test("is done again if it was done", () => {
    const gate = new Gate({ debounce: { quiet: 10 } });
    gate.take("a", 0);
    gate.due(10);
    gate.carry(20);
    expect(gate.execution).toMatchObject({ status: "done", createdAt: 0, project: "default" });
    gate.take("b", 30);
    gate.due(40);
    expect(gate.inputs).toEqual(["a", "b"]);
  });

  test("keeps the times of its throttle", () => {
    const gate = new Gate({ throttle: { limit: 1, per: 100 } });
    gate.take("a", 0);
    gate.carry(1);
    gate.take("b", 2);
    expect(gate.starts.map(({ startAt }) => startAt)).toEqual([undefined, 100]);
  });

  test("waits for as many events as its state is large", () => {
    const gate = new Gate({ tracks: true });
    for (let i = 0; i < 20; i++) gate.take(`e${i}`, i);
    const execution = gate.execution as Execution;
    expect(isCarryDue(execution, execution.seq)).toBe(true);
    expect(isCarryDue(execution, execution.seq + 1)).toBe(false);
    gate.carry(20);
    for (let i = 0; i < 15; i++) gate.take(`f${i}`, 30 + i);
    expect(isCarryDue(gate.execution as Execution, 10)).toBe(false);
  });
});

describe("a gate that cancels", () => {
  const cancelled = (gate: Gate) =>
    gate.sent.flatMap(({ to, message }) => (message.kind === "cancel" ? [to] : []));

  test("cancels many executions page by page, each once, and none that started later", () => {
    const gate = new Gate({ tracks: true });
    const count = 2 * TARGETS_MAX + 5;
    for (let i = 0; i < count; i++) gate.take(`e${i}`, 0);
    const open = gate.starts.map(({ execution }) => execution);
    gate.take("stop", 1, { cancels: true });
    expect(cancelled(gate)).toEqual(open.slice(0, TARGETS_MAX));
    expect(gate.dueAt).toBe(1);
    // Some end while the others are still to be cancelled; another one starts.
    gate.ended(open[3] as string, 1);
    gate.ended(open[TARGETS_MAX] as string, 1);
    gate.take("later", 1);
    gate.carry(1);
    gate.due(1);
    gate.due(1);
    const due = open.filter((_, i) => i !== TARGETS_MAX);
    expect(cancelled(gate)).toEqual(due);
    expect(gate.dueAt).toBeUndefined();
  });

  test("does not cancel again what is being cancelled", () => {
    const gate = new Gate({ singleton: "cancel", tracks: true });
    for (let i = 0; i < 5; i++) gate.take(`e${i}`, i);
    const started = gate.starts.map(({ execution }) => execution);
    expect(cancelled(gate)).toEqual(started.slice(0, 4));
    gate.ended(started[0] as string, 6);
    gate.take("stop", 7, { cancels: true });
    expect(cancelled(gate)).toEqual(started);
  });
});
