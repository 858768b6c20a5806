// A feed over a source that grows by hand.
import { describe, expect, test } from "vitest";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { Feed, type FeedSource, type SourcePiece } from "./feed.ts";

/** A text whose characters have one position each; reads wait until they are released. */
class Text implements FeedSource {
  text = "";
  readonly reads: string[] = [];
  readonly #held: (() => void)[] = [];
  isHolding = false;
  tell: (what: "more" | "end" | "stopped") => void = () => {};
  isWatched = true;

  async read(from: string): Promise<SourcePiece> {
    this.reads.push(from);
    const { text } = this;
    if (this.isHolding) await new Promise<void>((resolve) => this.#held.push(resolve));
    const piece = text.slice(Number(from), Number(from) + 4);
    const next = Number(from) + piece.length;
    return { bytes: Buffer.from(piece), next: String(next), isLast: next === text.length, endsAt: null };
  }

  async isOver(): Promise<boolean> {
    return false;
  }

  watch(tell: (what: "more" | "end" | "stopped") => void): () => void {
    this.tell = tell;
    return () => {
      this.isWatched = false;
    };
  }

  add(text: string): void {
    this.text += text;
    this.tell("more");
  }

  letGo(): void {
    for (const resolve of this.#held.splice(0)) resolve();
  }
}

function world() {
  const clock = new VirtualClock();
  const source = new Text();
  return { clock, source, feed: new Feed(source, clock) };
}

describe("a feed", () => {
  test("reads a piece once for all who are at the same place, and keeps it", async () => {
    const { source, feed } = world();
    source.text = "abcdef";
    const pieces = await Promise.all([feed.piece("0"), feed.piece("0"), feed.piece("2")]);
    expect(pieces.map(({ bytes }) => bytes.toString())).toEqual(["abcd", "abcd", "cdef"]);
    await feed.piece("0");
    expect(source.reads).toEqual(["0", "2"]);
    expect(pieces.map((piece) => feed.isNewest(piece))).toEqual([false, false, true]);
  });

  test("an empty piece is read again, since there may be something by then", async () => {
    const { source, feed } = world();
    expect((await feed.piece("0")).bytes).toHaveLength(0);
    source.text = "a";
    expect((await feed.piece("0")).bytes.toString()).toBe("a");
  });

  test("a read that began before a change does not say that it saw the end", async () => {
    const { clock, source, feed } = world();
    source.isHolding = true;
    const early = feed.piece("0");
    source.add("ab");
    await clock.advance(100);
    const late = feed.piece("0");
    source.letGo();
    expect((await early).bytes).toHaveLength(0);
    expect(feed.isNewest(await early)).toBe(false);
    expect((await late).bytes.toString()).toBe("ab");
    expect(feed.isNewest(await late)).toBe(true);
  });

  test("tells of changes at most every 50 ms, of many as one, and the first at once", async () => {
    const { clock, source, feed } = world();
    let told = 0;
    const watch = async (): Promise<void> => {
      for (;;) {
        const { version } = feed;
        await feed.changed(version);
        if (feed.isStopped) return;
        told++;
      }
    };
    const watching = watch();
    source.add("a");
    await clock.advance(0);
    expect(told).toBe(1);
    for (let i = 0; i < 49; i++) {
      source.add("b");
      await clock.advance(1);
    }
    expect(told).toBe(1);
    await clock.advance(1);
    expect(told).toBe(2);
    await clock.advance(1_000);
    expect(told).toBe(2);
    feed.stop();
    await watching;
  });

  test("who asks for a change that has come does not wait", async () => {
    const { clock, source, feed } = world();
    const { version } = feed;
    source.add("a");
    await clock.advance(100);
    await feed.changed(version);
    expect(feed.version).toBe(version + 1);
  });

  test("keeps only so much of what was read", async () => {
    const { source, feed } = world();
    source.read = async (from) => {
      source.reads.push(from);
      return { bytes: Buffer.alloc(1_000_000), next: String(Number(from) + 1), isLast: false, endsAt: null };
    };
    for (const from of ["0", "1", "2", "2", "1", "0"]) await feed.piece(from);
    expect(source.reads).toEqual(["0", "1", "2", "0"]);
  });

  test("a read that fails fails for those who asked, and not for the next", async () => {
    const { source, feed } = world();
    const { read } = source;
    source.read = () => Promise.reject(new Error("no disk"));
    const both = [feed.piece("0"), feed.piece("0")];
    for (const piece of both) await expect(piece).rejects.toThrow("no disk");
    source.read = read;
    source.text = "a";
    expect((await feed.piece("0")).bytes.toString()).toBe("a");
  });

  test("stops when its source does, or when it is told to: nobody waits any longer", async () => {
    const { source, feed } = world();
    const waiting = feed.changed(feed.version);
    source.tell("stopped");
    await waiting;
    expect([feed.isStopped, source.isWatched]).toEqual([true, false]);
    await feed.changed(feed.version);
  });
});
