/** `rondo openapi`: prints the OpenAPI description of the server, or of this version if no server answers. */
import { print, printJson } from "../output/print.ts";
import { NoServer, type Server, type ServerFlags, withServer } from "../server/find-server.ts";

type Document = Readonly<Record<string, unknown>>;

/** The default address of a server. */
const USUAL_URL = "http://127.0.0.1:7777";

/** Prints the document: indented for people, on one line with --json. */
export async function openapi(options: ServerFlags): Promise<void> {
  const document = await documentOf(options);
  if (options.json) printJson(document);
  else print(JSON.stringify(document, null, 2));
}

async function documentOf(options: ServerFlags): Promise<Document> {
  try {
    return await withServer(options, read);
  } catch (thrown) {
    if (!(thrown instanceof NoServer)) throw thrown;
    return { ...(await ownDocument()), servers: [{ url: USUAL_URL }] };
  }
}

/** The document of this version, made from its route table without starting a server. */
async function ownDocument(): Promise<Document> {
  const { openServer } = await import("../../compose/compose-server.ts");
  const own = await openServer({ store: "memory:", host: "127.0.0.1", port: 0, adminToken: null });
  try {
    return await withServer({ url: own.url }, read);
  } finally {
    await own.close();
  }
}

function read({ rondo }: Server): Promise<Document> {
  return rondo.requester.json<Document>("/openapi.json");
}
