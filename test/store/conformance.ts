/**
 * What the port promises, as one suite that every adapter passes. An adapter brings `makePlace`: a place where data
 * stays, which makes one store after the other over the same data.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { StoreFault } from "../../src/store/store.ts";
import { describeCommits } from "./conformance-commits.ts";
import { describeJournals } from "./conformance-journals.ts";
import { describeScans } from "./conformance-scans.ts";
import { Lives, type MakePlace } from "./lives.ts";

export function describeStore(name: string, makePlace: MakePlace): void {
  describe(`${name}:`, () => {
    let lives: Lives;
    beforeEach(async () => {
      lives = await Lives.begin(makePlace);
    });
    describeOpening(() => lives);
    describeCommits(() => lives);
    describeJournals(() => lives);
    describeScans(() => lives);
    describeDefinitions(() => lives);
    describeClosing(() => lives);
  });
}

function describeOpening(get: () => Lives): void {
  test("a new store is in epoch 1 and nothing is unclean", () => {
    const { info } = get();
    expect(info).toMatchObject({ fence: { epoch: 1 }, uncleanEpoch: 0, partitions: 1 });
    expect(info.key.length).toBeGreaterThanOrEqual(64);
    expect(info.fence.generation).not.toBe("");
  });

  test("each open is a new epoch of the same store", async () => {
    const lives = get();
    const first = lives.info;
    await lives.restart();
    expect(lives.info).toEqual({ ...first, fence: { ...first.fence, epoch: 2 } });
  });

  test("the epoch of a crash is unclean, and stays the newest unclean one after clean ends", async () => {
    const lives = get();
    await lives.restart({ clean: true });
    expect(lives.info.uncleanEpoch).toBe(0);
    await lives.restart({ clean: false });
    expect(lives.info).toMatchObject({ fence: { epoch: 3 }, uncleanEpoch: 2 });
    await lives.restart({ clean: true });
    expect(lives.info).toMatchObject({ fence: { epoch: 4 }, uncleanEpoch: 2 });
    await lives.restart({ clean: false });
    expect(lives.info).toMatchObject({ fence: { epoch: 5 }, uncleanEpoch: 4 });
  });
}

function describeDefinitions(get: () => Lives): void {
  test("a definition is found by hash and by name; the newest of a name is the last one put", async () => {
    const lives = get();
    const { store } = lives;
    await store.putDefinition("orders", "h1", "one");
    await store.putDefinition("orders", "h2", "two \0 \u{1F600}");
    await store.putDefinition("other", "h3", "three");
    expect(await store.getDefinition({ hash: "h1" })).toEqual({ hash: "h1", body: "one" });
    expect(await store.getDefinition({ newestOf: "orders" })).toEqual({
      hash: "h2",
      body: "two \0 \u{1F600}",
    });
    await store.putDefinition("orders", "h1", "one");
    await lives.restart({ clean: false });
    expect(await lives.store.getDefinition({ newestOf: "orders" })).toEqual({ hash: "h1", body: "one" });
    expect(await lives.store.getDefinition({ hash: "h3" })).toEqual({ hash: "h3", body: "three" });
  });

  test("a definition is null for what was never put", async () => {
    const { store } = get();
    expect(await store.getDefinition({ hash: "h" })).toBeNull();
    expect(await store.getDefinition({ newestOf: "orders" })).toBeNull();
  });
}

function describeClosing(get: () => Lives): void {
  test("a closed store refuses every call, and closing twice is fine", async () => {
    const { store, info } = get();
    await store.close({ clean: true });
    await store.close({ clean: true });
    await expect(store.commit({ fence: info.fence, writes: [] })).rejects.toThrow(StoreFault);
    await expect(store.load(["a"])).rejects.toThrow("not open");
  });
}
