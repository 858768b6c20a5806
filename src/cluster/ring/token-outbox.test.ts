// The messages that a node sends around the ring, and those that it keeps until they have arrived.
import { describe, expect, test } from "vitest";
import { DEFAULT_RING_SETTINGS } from "./settings.ts";
import type { TokenMessage } from "./token.ts";
import { TokenOutbox } from "./token-outbox.ts";

const SENDER = { from: "a", incarnation: "a#1", watchers: ["b"] };
const timer = (execution: string, due = 100) => ({ execution, timer: "t", due });
const outbox = () => new TokenOutbox({ ...DEFAULT_RING_SETTINGS, messageTimersMax: 10, timersMax: 20 });
/** The message as it returns to its sender when all nodes have read it. */
const read = (message: TokenMessage | null): TokenMessage => ({
  ...(message as TokenMessage),
  hints: [],
  watchers: [],
});

describe("a message", () => {
  test("holds hints merged by partition, and is forgotten when they were taken out", () => {
    const one = outbox();
    one.hint(3, 1);
    one.hint(3, 2);
    one.hint(5, 1);
    const message = one.pack(SENDER);
    expect(message).toMatchObject({
      urgent: true,
      hints: [
        { partition: 3, count: 3 },
        { partition: 5, count: 1 },
      ],
    });
    one.home(read(message), ["b"]);
    expect(one.pack(SENDER)).toBeNull();
  });

  test("that comes home with a hint takes it along again, without haste", () => {
    const one = outbox();
    one.hint(3, 1);
    one.hint(5, 1);
    const message = one.pack(SENDER) as TokenMessage;
    one.home({ ...message, hints: [{ partition: 5, count: 1 }] }, ["b"]);
    expect(one.isUrgent).toBe(false);
    expect(one.pack(SENDER)).toMatchObject({ urgent: false, hints: [{ partition: 5, count: 1 }] });
  });

  test("that does not come home is sent again, whatever else is aboard under its name", () => {
    for (const other of [null, { number: 7 }, { incarnation: "a#0" }]) {
      const one = outbox();
      one.hint(3, 1);
      one.timerSet(timer("e1"));
      const message = one.pack(SENDER) as TokenMessage;
      one.home(other === null ? null : { ...read(message), ...other }, ["b"]);
      expect(one.pack(SENDER)).toMatchObject({
        urgent: true,
        hints: [{ partition: 3 }],
        timers: [timer("e1")],
      });
    }
  });

  test("keeps its timers while a watcher of now has not read them, and newer word counts", () => {
    const one = outbox();
    one.timerSet(timer("e1"));
    one.timerSet(timer("e2"));
    const message = one.pack(SENDER) as TokenMessage;
    one.timerEnded(timer("e1"));
    one.home(message, ["b"]);
    const next = one.pack(SENDER) as TokenMessage;
    expect(next.timers).toEqual([timer("e2")]);
    expect(next.ended).toEqual([{ execution: "e1", timer: "t" }]);
    one.home(next, ["c"]);
    expect(one.pack(SENDER)).toBeNull();
  });

  test("says nothing of a timer that ended before it was told, and nothing at all when nobody watches", () => {
    const one = outbox();
    one.timerSet(timer("e1"));
    one.timerEnded(timer("e1"));
    expect(one.pack(SENDER)).toBeNull();
    one.timerSet(timer("e2"));
    expect(one.pack({ ...SENDER, watchers: [] })).toBeNull();
    expect(one.pack(SENDER)).toBeNull();
  });

  test("tells the end of a timer that it did not set: watchers may have read of it", () => {
    const one = outbox();
    one.timerEnded(timer("e1"));
    expect(one.pack(SENDER)).toMatchObject({ timers: [], ended: [{ execution: "e1", timer: "t" }] });
  });

  test("asks for a scan when there is more to say of timers than it holds, until its watchers have read that", () => {
    const one = outbox();
    for (let i = 0; i < 25; i++) one.timerSet(timer(`e${i}`));
    const message = one.pack(SENDER) as TokenMessage;
    expect(message).toMatchObject({ scan: true, timers: [], watchers: ["b"] });
    one.home(message, ["b"]);
    const next = one.pack(SENDER);
    expect(next).toMatchObject({ scan: true });
    one.home(read(next), ["b"]);
    expect(one.pack(SENDER)).toBeNull();
  });

  test("asks for a scan when too many timers were told to remember each", () => {
    const one = outbox();
    const scans = [0, 1, 2].map((round) => {
      for (let i = 0; i < 8; i++) one.timerSet(timer(`e${round}-${i}`));
      const message = one.pack(SENDER);
      one.home(read(message), ["b"]);
      return message?.scan;
    });
    expect(scans).toEqual([false, false, true]);
  });

  test("that never left gives everything back; a death that was on its way is old news", () => {
    const death = { url: "b", incarnation: "b#1", by: "a" };
    const one = outbox();
    one.death(death);
    one.pack(SENDER);
    one.takeBack(["b"]);
    expect(one.pack(SENDER)).toMatchObject({ deaths: [death] });
    one.home(null, ["b"]);
    expect(one.pack(SENDER)).toBeNull();
  });

  test("leaves out hints of partitions that are the node's own by now", () => {
    const one = outbox();
    one.hint(3, 1);
    one.hint(4, 1);
    expect(one.takeHints((partition) => partition === 3)).toEqual([3]);
    expect(one.pack(SENDER)?.hints).toEqual([{ partition: 4, count: 1 }]);
  });
});
