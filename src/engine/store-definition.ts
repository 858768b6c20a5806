/**
 * Stores definitions with versions. Each version is kept under its own name (`NAME@VERSION`). Starts by the plain name use the
 * highest released version. So a worker with older code that restarts does not make its version the newest again.
 */
import { compare, prerelease, valid } from "semver";
import type { Plan } from "../kernel/definition/plan.ts";
import { usableDefinition } from "../kernel/definition/read-definition.ts";
import { splitVersionedName, versionedName } from "../kernel/definition/version-name.ts";
import { assert } from "../std/assert.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";
import type { DocumentStore } from "../store/store.ts";

const PAGE = 200;

/** The stored definition of a version. */
export interface StoredVersion {
  readonly version: string;
  readonly hash: string;
}

type DefinitionStore = Pick<DocumentStore, "putDefinition" | "getDefinition" | "listDefinitions">;

/**
 * Stores the definition of a plan, and returns whether it is now the newest of its name. A definition without a version becomes the
 * newest at once. Among definitions with versions, the highest version is the newest.
 */
export async function storeDefinition(
  store: DefinitionStore,
  { definition, hash }: Pick<Plan, "definition" | "hash">,
): Promise<boolean> {
  const { name, version } = definition;
  const body = JSON.stringify(definition);
  if (version === undefined) {
    await store.putDefinition(name, hash, body);
    return true;
  }
  await store.putDefinition(versionedName(name, version), hash, body);
  // Several processes may store versions at the same time. Each stores its own version first, and reads all versions after its last
  // write. So the process that writes last has seen the highest version.
  for (;;) {
    const highest = highestOf(await storedVersions(store, name));
    assert(highest !== null, "the list of versions must contain the version that was just stored");
    const newest = await store.getDefinition({ newestOf: name });
    if (newest?.hash === highest.hash) return highest.hash === hash;
    const found = highest.hash === hash ? { body } : await store.getDefinition({ hash: highest.hash });
    // The text of the highest version is lost, so it could not be started. The newest definition stays as it is.
    if (found === null) return newest?.hash === hash;
    await store.putDefinition(name, highest.hash, found.body);
  }
}

/** A definition of a workflow, by its version or its hash. */
export type DefinitionTarget = { readonly version: string } | { readonly hash: string };

/** Finds the text of a definition of a workflow. */
export async function findDefinition(
  store: Pick<DocumentStore, "getDefinition">,
  workflow: string,
  target: DefinitionTarget,
): Promise<string | Rejection> {
  const by = "hash" in target ? target : { newestOf: versionedName(workflow, target.version) };
  const found = await store.getDefinition(by);
  if (found === null) {
    const what = "hash" in target ? `definition ${target.hash.slice(0, 12)}` : `version ${target.version}`;
    return reject("not_found", `the workflow "${workflow}" has no ${what}`, {
      path: "hash" in target ? "hash" : "version",
      hint: `to list its versions: rondo versions ${workflow}`,
    });
  }
  const definition = usableDefinition(found);
  return isRejection(definition) ? definition : found.body;
}

/** The stored versions of a workflow, in the order of their names. */
export async function storedVersions(
  store: Pick<DocumentStore, "listDefinitions">,
  workflow: string,
): Promise<readonly StoredVersion[]> {
  const prefix = versionedName(workflow, "");
  const versions: StoredVersion[] = [];
  for (let after = prefix; ; ) {
    const page = await store.listDefinitions({ after, max: PAGE });
    for (const { name, hash } of page) {
      if (!name.startsWith(prefix)) return versions;
      versions.push({ version: splitVersionedName(name).version ?? "", hash });
    }
    if (page.length < PAGE) return versions;
    after = page.at(-1)?.name ?? prefix;
  }
}

/**
 * Compares two versions. A released version is above every pre-release; otherwise the higher number is above. A missing version is
 * below all others.
 */
export function compareVersions(a: string | undefined, b: string | undefined): number {
  const [one, other] = [valid(a), valid(b)];
  if (one === null || other === null) return Number(one !== null) - Number(other !== null);
  return Number(prerelease(one) === null) - Number(prerelease(other) === null) || compare(one, other);
}

function highestOf(versions: readonly StoredVersion[]): StoredVersion | null {
  let highest: StoredVersion | null = null;
  for (const one of versions)
    if (highest === null || compareVersions(one.version, highest.version) > 0) highest = one;
  return highest;
}
