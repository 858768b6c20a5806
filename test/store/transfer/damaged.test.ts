// A damaged execution is exported as far as it can be read, and one of an earlier export takes its place.
import { join } from "node:path";
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { openInProcess } from "../../../src/compose/compose.ts";
import { importInto, restoreDamagedIn } from "../../../src/compose/compose-transfer.ts";
import { exportToFile } from "../../fixtures/store/export-to-file.ts";
import { type StoreKind, useStores } from "../../fixtures/store/stores-on-disk-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const kinds = useStores();

const approval = workflow({ name: "approval" })
  .waitFor("first")
  .waitFor("second")
  .returns(({ phases }) => [phases.first.value, phases.second.value]);

async function life<T>(
  { open }: StoreKind,
  live: (rondo: Awaited<ReturnType<typeof openInProcess>>) => Promise<T>,
): Promise<T> {
  const rondo = await openInProcess({ store: open(), onFault: () => {} });
  rondo.serve(approval);
  try {
    return await live(rondo);
  } finally {
    await rondo.close();
  }
}

test.each(kinds.names)(
  "a damaged execution is replaced by its export, and nothing else is: %s",
  async (name) => {
    const kind = kinds.make(name);
    const { place } = kind;
    const folder = temporaryDirectory();
    await life(kind, async (rondo) => {
      for (const id of ["e1", "e2"]) {
        await rondo.start(approval, {}, { id });
        await rondo.execution(id).signal("first", `${id} before`);
      }
    });
    const file = join(folder, "whole");
    expect(await exportToFile(place, file)).not.toHaveProperty("damaged");
    await life(kind, async (rondo) => {
      for (const id of ["e1", "e2"]) await rondo.execution(id).signal("second", `${id} behind the export`);
      await rondo.execution("e2").result();
    });
    await kind.run(
      (of) =>
        `UPDATE ${of}journal SET body = 'garbled' WHERE seq = 1 AND e = (SELECT e FROM ${of}executions WHERE id = 'e1')`,
    );
    await life(kind, async (rondo) =>
      expect(await rondo.execution("e1").describe()).toMatchObject({ status: "damaged", damage: { row: 1 } }),
    );

    const late = join(folder, "late");
    expect(await exportToFile(place, late)).toMatchObject({ executions: 2, damaged: ["e1"] });
    // A file that has it damaged too, and an import without saying so, change nothing.
    expect(await restoreDamagedIn({ ...place, file: late })).toEqual({ restored: [], stillDamaged: ["e1"] });
    await expect(importInto({ ...place, file })).rejects.toMatchObject({ code: "conflict" });

    expect(await restoreDamagedIn({ ...place, file })).toEqual({ restored: ["e1"], stillDamaged: [] });
    await life(kind, async (rondo) => {
      expect(await rondo.execution("e1").describe()).toMatchObject({ status: "running", phase: "second" });
      expect(await rondo.execution("e2").result()).toEqual(["e2 before", "e2 behind the export"]);
      await rondo.execution("e1").signal("second", "again");
      expect(await rondo.execution("e1").result()).toEqual(["e1 before", "again"]);
    });
    expect(await restoreDamagedIn({ ...place, file })).toEqual({ restored: [], stillDamaged: [] });
  },
);
