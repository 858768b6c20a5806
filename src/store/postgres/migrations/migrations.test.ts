import { expect, test } from "vitest";
import { sha256 } from "../../../std/hash.ts";
import { MIGRATIONS } from "./migrations.ts";

/** Hashes of the migrations of released versions; a release adds its own. */
const LANDED = ["823e81c270f3d121fdb096e700094b125311a2880692e8d3b75b4f5c7d39bd13"];

test("a step that has landed is never edited: databases that had it would differ from those that get it now", () => {
  expect(MIGRATIONS.slice(0, LANDED.length).map(({ sql }) => sha256(sql))).toEqual(LANDED);
});
