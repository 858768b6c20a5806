import { describe, expect, test } from "vitest";
import { SeededRandom } from "../../std/random.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { VirtualClock } from "../../testing/virtual-clock.ts";
import { FreshCopy } from "./fresh-copy.ts";
import { Tokens } from "./tokens.ts";

/** A read that ends when the test says so. */
function world() {
  const clock = new VirtualClock();
  const reads: { end: () => void; fail: (why: Error) => void }[] = [];
  const faults: Error[] = [];
  const read = () => new Promise<void>((end, fail) => void reads.push({ end, fail }));
  const copy = new FreshCopy({ clock, read, onFault: (fault) => void faults.push(fault) });
  return { clock, reads, faults, copy };
}

describe("a copy", () => {
  test("is read every two seconds, one read at a time", async () => {
    const { clock, reads, copy } = world();
    await clock.advance("2s");
    expect(reads).toHaveLength(1);
    await clock.advance("10s");
    expect(reads).toHaveLength(1);
    reads[0]?.end();
    await clock.advance("2s");
    expect(reads).toHaveLength(2);
    copy.close();
  });

  test("that is asked for waits for a read that begins after that, shared by all, with a pause before the next", async () => {
    const { clock, reads, copy } = world();
    const order: string[] = [];
    const ask = (name: string) => copy.renew().then(() => void order.push(name));
    const first = ask("first");
    await clock.settle();
    expect(reads).toHaveLength(1);
    const rest = [ask("second"), ask("third")];
    reads[0]?.end();
    await first;
    await clock.settle();
    expect([reads.length, order]).toEqual([1, ["first"]]);
    await clock.advance(100);
    expect(reads).toHaveLength(2);
    reads[1]?.end();
    await Promise.all(rest);
    expect(order).toEqual(["first", "second", "third"]);
    copy.close();
  });

  test("that could not be read says so to those who asked, and is read again", async () => {
    const { clock, reads, copy, faults } = world();
    const asked = copy.renew();
    await clock.settle();
    reads[0]?.fail(new Error("no store"));
    await expect(asked).rejects.toThrow("no store");
    expect(faults).toEqual([]);
    await clock.advance("2s");
    reads[1]?.fail(new Error("still none"));
    await clock.advance("2s");
    expect([faults.length, reads.length]).toEqual([1, 3]);
    copy.close();
  });
});

test("a token that is revoked while all are read stays revoked, and one that is made stays", async () => {
  const clock = new VirtualClock();
  const store = new MemoryStore();
  await store.open();
  const random = new SeededRandom(1);
  const tokens = await Tokens.open({ store, clock, random, adminToken: null, isShared: true });
  const wanted = { name: "x", role: "viewer", project: null, createdBy: "test", expiresAt: null } as const;
  const old = await tokens.create(wanted);
  const list = store.listDocuments.bind(store);
  let made = old;
  store.listDocuments = async (kind, options) => {
    const found = await list(kind, options);
    store.listDocuments = list;
    await tokens.remove(old.token.id);
    made = await tokens.create(wanted);
    return found;
  };
  const gone: string[] = [];
  tokens.onRevoked = (id) => void gone.push(id);
  await tokens.renew();
  expect([tokens.find(old.text), tokens.find(made.text)?.id, gone]).toEqual([
    null,
    made.token.id,
    [old.token.id],
  ]);
  await store.putDocument("token", made.token.id, null);
  await clock.advance("3s");
  expect([tokens.find(made.text), gone]).toEqual([null, [old.token.id, made.token.id]]);
  tokens.close();
});
