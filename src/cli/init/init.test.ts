import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { dependencyOf } from "./init.ts";

/** A folder `project` with this manifest and the package installed in it; answers the place of both. */
function installed(manifest: object | null): { readonly place: string; readonly root: string } {
  const place = mkdtempSync(join(tmpdir(), "rondo-init-"));
  onTestFinished(() => rmSync(place, { recursive: true }));
  const root = join(place, "project", "node_modules", "rondo");
  mkdirSync(root, { recursive: true });
  if (manifest !== null) writeFileSync(join(place, "project", "package.json"), JSON.stringify(manifest));
  return { place, root };
}

test.each([
  ["a tarball", { dependencies: { rondo: "file:../rondo-1.2.3.tgz" } }, "file:../../rondo-1.2.3.tgz"],
  ["a tarball for development", { devDependencies: { rondo: "file:r.tgz" } }, "file:../r.tgz"],
  ["an address", { dependencies: { rondo: "https://host/rondo.tgz" } }, "https://host/rondo.tgz"],
  ["a range", { dependencies: { rondo: "~1.2.0" } }, "~1.2.0"],
  ["nothing of it", { dependencies: {} }, "file:../node_modules/rondo"],
  ["no manifest", null, "file:../node_modules/rondo"],
])("a project that has %s: the new one has the same", (_, manifest, expected) => {
  const { place, root } = installed(manifest);
  expect(dependencyOf(join(place, "project", "mine"), root)).toBe(expected);
});

test("a checkout is named by its place", () => {
  const { place } = installed(null);
  expect(dependencyOf(join(place, "mine"), join(place, "rondo"))).toBe("file:../rondo");
});
