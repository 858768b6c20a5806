/** Reads which projects have tokens that are bound to them. Nodes without an API use it, because they have no list of tokens. */
import { EVERY_PROJECT } from "../kernel/command/topic-rules.ts";
import { KEPT, number, object, orNull, string } from "../std/decode.ts";
import { allDocuments, jsonForm } from "../store/document-form.ts";
import type { Store } from "../store/store.ts";

/** The fields of a stored token that code outside of the token list reads. */
interface BoundToken {
  readonly project: string | null;
}

export const TOKEN_FORM = jsonForm<BoundToken>(
  "token",
  object(
    {
      id: string,
      name: string,
      role: string,
      project: orNull(string),
      createdAt: number,
      createdBy: string,
      expiresAt: orNull(number),
      hash: string,
    },
    KEPT,
  ),
);

const PROJECT = /"project":(?:null|"([A-Za-z][A-Za-z0-9_-]*)")/;

/** Reads the projects of all stored tokens. */
export async function boundProjects(store: Pick<Store, "listDocuments">): Promise<ReadonlySet<string>> {
  const projects = new Set<string>();
  for await (const token of allDocuments(store, TOKEN_FORM)) {
    const project = token.damage === undefined ? token.value.project : guardedBy(token.body);
    if (project !== null) projects.add(project);
  }
  return projects;
}

/**
 * Returns the project that a damaged token protects: the token's project if it can be read, otherwise every project; null if the token
 * protects none.
 */
export function guardedBy(body: string): string | null {
  const found = PROJECT.exec(body);
  return found === null ? EVERY_PROJECT : (found[1] ?? null);
}
