/** The target of a request (RFC 9112, section 3.2). The host of an absolute URL replaces the Host header. */
import type { IncomingMessage } from "node:http";

const ABSOLUTE = /^https?:\/\/([^/?#]+)([^#]*)/i;

/** Converts a target in absolute form into origin form, so that all later code finds path and host in their usual places. */
export function toOriginForm(incoming: Pick<IncomingMessage, "url" | "headers">): void {
  const [, host, rest = ""] = ABSOLUTE.exec(incoming.url ?? "") ?? [];
  if (host === undefined) return;
  incoming.url = rest.startsWith("/") ? rest : `/${rest}`;
  incoming.headers.host = host;
}
