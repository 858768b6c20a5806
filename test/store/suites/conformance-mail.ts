/** The port with partitions, mail and hints, where many nodes share a store; part of conformance-cluster.ts. */
import { expect, test } from "vitest";
import type { Hint } from "../../../src/store/cluster-store.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import {
  type Cluster,
  IN,
  idIn,
  Node,
  PARTITIONS,
  startIn,
} from "../../fixtures/store/cluster-node-fixture.ts";
import { commit, headOf, start, step } from "../../fixtures/store/example-writes.ts";

/** Writes and scans are about the partitions that they name. */
export function describePartitions(get: () => Cluster): void {
  test("a wrong write refuses its partition only, with everything in it", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    await a.commit(IN.map((_, partition) => startIn(partition)));
    const other = Array.from({ length: 99 }, (_, n) => `x${n}`).find(
      (id) => partitionOf(id, PARTITIONS) === 1,
    );
    const beside = start(other as string, { head: headOf(other as string, { partition: 1 }) });
    const mail = [{ id: "l", to: idIn(0), body: "{}" }];
    const writes = [step(idIn(0), 1), beside, step(idIn(1), 7, { mail: mail }), step(idIn(2), 1), startIn(3)];
    expect(await a.commit(writes)).toEqual({ kind: "ok", exists: [idIn(3)], fenced: [1] });
    const loaded = await a.store.load([...IN, other as string]);
    expect(loaded.map((execution) => execution?.entries.length)).toEqual([2, 1, 2, 1, undefined]);
    expect(await a.store.scanMail({ after: 0, max: 9, partitions: null })).toEqual([]);
    expect(await a.commit([step(idIn(1), 7), step(idIn(2), 7)])).toMatchObject({
      kind: "fenced",
      partitions: [1, 2],
    });
  });

  test("scans are about the partitions they name", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    const mail = IN.map((to) => ({ id: `to ${to}`, to, body: "{}" }));
    await a.commit(
      IN.map((_, p) =>
        startIn(p, { timersSet: [{ timer: "t", due: p }], ...(p === 0 ? { mail: mail } : {}) }),
      ),
    );
    for (const partitions of [[], [2], [3, 1], [0, 1, 2, 3]]) {
      const ids = IN.filter((_, partition) => partitions.includes(partition));
      const work = await a.store.scanWork({ after: {}, each: 9, partitions });
      expect(work.map(({ id }) => id)).toEqual(ids);
      const timers = await a.store.scanTimers({ until: 9, max: 9, partitions });
      expect(timers.map(({ execution }) => execution)).toEqual(ids);
      const found = await a.store.scanMail({ after: 0, max: 9, partitions });
      expect(found.map(({ to }) => to)).toEqual(ids);
    }
    expect((await a.store.scanMail({ after: 0, max: 2, partitions: [1, 3] })).map(({ to }) => to)).toEqual([
      idIn(1),
      idIn(3),
    ]);
  });
}

/** Letters between executions of any partitions. */
export function describeMail(get: () => Cluster): void {
  test("a message goes to any partition, and is taken by the owner of its receiver's only", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    await a.take([0]);
    await b.take([1]);
    const mail = [0, 1, 2].map((partition) => ({ id: `l${partition}`, to: idIn(partition), body: "{}" }));
    await a.commit([startIn(0, { mail: mail })]);
    expect(await a.commit([], ["l1"])).toMatchObject({ kind: "fenced", partitions: [1] });
    expect(await a.commit([step(idIn(0), 1)], ["l0", "l1", "never"])).toEqual({
      kind: "ok",
      exists: [],
      fenced: [1],
    });
    expect(await a.mail()).toEqual(["l1", "l2"]);
    expect(await b.commit([], ["l1"])).toEqual({ kind: "ok", exists: [], fenced: [] });
    expect(await a.mail()).toEqual(["l2"]);
    expect(await a.commit([], ["never"])).toEqual({ kind: "ok", exists: [], fenced: [] });
  });

  test("a commit takes a message that it stores if it writes beside it, whatever others write at the same time", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2]);
    const mail = [{ id: "l", to: idIn(1), body: "{}" }];
    await Promise.all([a.commit([startIn(0, { mail: mail })], ["l"]), a.commit([startIn(1)])]);
    expect(await a.mail()).toEqual(["l"]);
    await Promise.all([a.commit([step(idIn(0), 1)]), a.commit([step(idIn(1), 1)], ["l"])]);
    expect(await a.mail()).toEqual([]);
  });

  test("mail are posted without owning anything, and each id once", async () => {
    const a = await Node.join(get(), "http://a");
    const message = (id: string, body: string) => ({ id, to: idIn(2), body });
    await a.store.post([message("x", "one \0"), message("x", "two"), message("y", "three")]);
    await a.store.post([message("y", "four")]);
    await a.store.post([]);
    expect(await a.store.scanMail({ after: 0, max: 9, partitions: [2] })).toEqual([
      { order: 1, ...message("x", "one \0") },
      { order: 2, ...message("y", "three") },
    ]);
  });

  test("orders follow creation over all partitions", async () => {
    const a = await Node.join(get(), "http://a");
    await a.take([0, 1, 2, 3]);
    await a.commit([startIn(3), startIn(0)]);
    await a.commit([startIn(0), startIn(2)]);
    const heads = await a.store.listHeads({}, { before: null, max: 9 });
    expect(heads.map(({ id, order, partition }) => [id, order, partition])).toEqual([
      [idIn(2), 3, 2],
      [idIn(0), 2, 0],
      [idIn(3), 1, 3],
    ]);
  });
}

/** What nodes are told of each other. */
export function describeHints(get: () => Cluster): void {
  test("others are hinted at mail for partitions that the sender does not have, and at releases", async () => {
    const a = await Node.join(get(), "http://a");
    const b = await Node.join(get(), "http://b");
    // That a node has joined may be told late.
    const mail: Hint[] = [];
    const members: Hint[] = [];
    b.store.onHint((hint) => (hint.kind === "mail" ? mail : members).push(hint));
    await a.take([0]);
    await commit(a.store, a.info, [
      startIn(0, {
        mail: [2, 0, 1].map((partition) => ({ id: `l${partition}`, to: idIn(partition), body: "{}" })),
      }),
    ]);
    await get().hintsCome(mail, 1);
    expect(mail).toEqual([{ kind: "mail", partitions: [1, 2] }]);
    const before = members.length;
    await a.store.release([0], { clean: true });
    await get().hintsCome(members, before + 1);
    await a.store.post([{ id: "l3", to: idIn(3), body: "{}" }]);
    await get().hintsCome(mail, 2);
    expect(mail[1]).toEqual({ kind: "mail", partitions: [3] });
  });
}
