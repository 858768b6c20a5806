// Notices about stored mail: this node's own, posted to the owner, or a hint for the ring.
import { expect, test } from "vitest";
import { MailPoster } from "./mail-poster.ts";
import type { Owner } from "./owners.ts";

class Fixture {
  readonly owners = new Map<number, Owner>();
  readonly posted: {
    url: string;
    name: string;
    partitions: readonly number[];
    end: (isHeard: boolean) => void;
  }[] = [];
  readonly hints: number[] = [];
  scans = 0;
  readonly poster = new MailPoster({
    owners: { ownerAt: (partition) => this.owners.get(partition) ?? { kind: "nobody" } },
    client: {
      call: (url: string, name: string, body: unknown) =>
        new Promise<never>((resolve) => {
          const { partitions } = body as { partitions: readonly number[] };
          const end = (isHeard: boolean) =>
            resolve(
              (isHeard ? { kind: "answered", value: {} } : { kind: "unreached", why: "down" }) as never,
            );
          this.posted.push({ url, name, partitions, end });
        }),
    },
    scan: () => this.scans++,
    hint: (partition) => this.hints.push(partition),
  });

  peer(url: string, ...partitions: number[]): void {
    for (const partition of partitions) this.owners.set(partition, { kind: "peer", url, incarnation: url });
  }

  /** Lets callbacks run. */
  async turn(): Promise<void> {
    for (let i = 0; i < 5; i++) await Promise.resolve();
  }
}

test("mail of this node is scanned here; mail without an owner is a hint", () => {
  const fixture = new Fixture();
  fixture.owners.set(1, { kind: "me" });
  fixture.poster.stored([1, 2]);
  expect([fixture.scans, fixture.hints, fixture.posted]).toEqual([1, [2], []]);
});

test("F2 mail of another node is posted to it; only if that fails it is a hint", async () => {
  const fixture = new Fixture();
  fixture.peer("b", 3);
  fixture.peer("c", 4);
  fixture.poster.stored([3, 4]);
  expect(fixture.posted.map(({ url, name, partitions }) => [url, name, partitions])).toEqual([
    ["b", "mail", [3]],
    ["c", "mail", [4]],
  ]);
  fixture.posted[0]?.end(true);
  fixture.posted[1]?.end(false);
  await fixture.turn();
  expect(fixture.hints).toEqual([4]);
});

test("while a notice is under way, partitions are gathered for the next one", async () => {
  const fixture = new Fixture();
  fixture.peer("b", 3, 5);
  for (const partition of [3, 3, 5, 3]) fixture.poster.stored([partition]);
  expect(fixture.posted).toHaveLength(1);
  fixture.posted[0]?.end(true);
  await fixture.turn();
  expect(fixture.posted.map(({ partitions }) => partitions)).toEqual([[3], [3, 5]]);
  fixture.posted[1]?.end(true);
  await fixture.turn();
  fixture.poster.stored([5]);
  expect(fixture.posted.map(({ partitions }) => partitions)).toEqual([[3], [3, 5], [5]]);
  expect(fixture.hints).toEqual([]);
});
