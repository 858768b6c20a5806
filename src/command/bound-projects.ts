/** Which projects a token is bound to, read from the store; for nodes that serve no API and so have no token list. */
import type { Store } from "../store/store.ts";

const KIND = "token";
const PAGE = 1_000;

/** The projects of all tokens that are stored. */
export async function boundProjects(store: Pick<Store, "listDocuments">): Promise<ReadonlySet<string>> {
  const projects = new Set<string>();
  for (let after = ""; ; ) {
    const page = await store.listDocuments(KIND, { after, max: PAGE });
    for (const { id, body } of page) {
      after = id;
      const { project } = JSON.parse(body) as { readonly project?: string | null };
      if (typeof project === "string") projects.add(project);
    }
    if (page.length < PAGE) return projects;
  }
}
