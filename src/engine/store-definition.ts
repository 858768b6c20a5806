/**
 * Stores definitions with versions. Each version is kept under its own name (`NAME@VERSION`). Starts by the plain name use the
 * highest released version that was stored, so that a worker with older code that restarts does not take the starts back.
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
 * Stores the definition of a plan. One without a version becomes the newest of its name; of those with a version, the highest
 * one is the newest. Returns whether this definition is the newest.
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
  // Others may store versions at the same time. Each stores its own version first and reads all of them after its last write,
  // so the one that writes last has seen the highest.
  for (;;) {
    const highest = highestOf(await storedVersions(store, name));
    assert(highest !== null, "a version that was stored is listed");
    const newest = await store.getDefinition({ newestOf: name });
    if (newest?.hash === highest.hash) return highest.hash === hash;
    const found = highest.hash === hash ? { body } : await store.getDefinition({ hash: highest.hash });
    // A definition that is lost cannot be started, so the newest one stays.
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
 * Compares versions. A released version is above every pre-release; otherwise the higher number is above. A definition without a
 * version is below all that have one.
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
