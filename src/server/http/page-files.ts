/**
 * The dashboard's files: read once from the folder that the build writes, held in memory with a compressed copy, and sent
 * with headers under which a page can run nothing but its own scripts. Files whose names carry a hash of their content
 * may be kept forever; the page itself is asked for each time. Addresses of the dashboard's own pages all get the page,
 * which finds out by itself what to show; everything else is the API's.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { checksum } from "../../std/hash.ts";
import { COMMON_HEADERS } from "./send-answer.ts";

interface PageFile {
  readonly type: string;
  readonly body: Buffer;
  readonly etag: string;
  readonly isHashed: boolean;
  /** Made when somebody first takes it. */
  zipped: Promise<Buffer> | null;
}

/** First parts of the addresses that the dashboard has pages for; "" is the overview. */
const PAGES: readonly string[] = [
  "",
  "executions",
  "workers",
  "ring",
  "queues",
  "schedules",
  "dead-letters",
  "definitions",
  "settings",
  "sign-in",
];
const INDEX = "/index.html";
const ASSETS = "/assets/";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Only what comes from here, no inline script or style, and no way to make markup of a text. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const zip = promisify(gzip);

export class PageFiles {
  readonly #files = new Map<string, PageFile>();

  readonly #pages: readonly string[];

  /** `folder`: what the build wrote; one that is not there has no pages. `more`: pages of this server alone. */
  constructor(folder: string | null, more: readonly string[] = []) {
    this.#pages = [...PAGES, ...more];
    if (folder === null || !existsSync(join(folder, INDEX))) return;
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const type = TYPES[extname(entry.name)];
      if (!entry.isFile() || type === undefined) continue;
      const file = join(entry.parentPath, entry.name);
      const path = file.slice(folder.replace(/[/\\]$/, "").length).replaceAll("\\", "/");
      const body = readFileSync(file);
      const etag = `"${checksum(body.toString("latin1"), 0).toString(36)}-${body.length.toString(36)}"`;
      this.#files.set(path, { type, body, etag, isHashed: path.startsWith(ASSETS), zipped: null });
    }
  }

  /** Whether there are any. */
  get any(): boolean {
    return this.#files.size > 0;
  }

  /** Sends what a request is for; false: it is for somebody else. */
  answer(incoming: IncomingMessage, outgoing: ServerResponse): boolean {
    if (incoming.method !== "GET" && incoming.method !== "HEAD") return false;
    const file = this.#find(incoming.url ?? "");
    if (file === undefined) return false;
    const headers = {
      ...COMMON_HEADERS,
      "content-security-policy": POLICY,
      "cross-origin-opener-policy": "same-origin",
      "cache-control": file.isHashed ? "public, max-age=31536000, immutable" : "no-cache",
      "content-type": file.type,
      etag: file.etag,
      vary: "accept-encoding",
    };
    if (incoming.headers["if-none-match"] === file.etag) {
      outgoing.writeHead(304, headers).end();
      return true;
    }
    const takesZipped = /\bgzip\b/.test(String(incoming.headers["accept-encoding"] ?? ""));
    if (!takesZipped) {
      send(incoming, outgoing, { headers, body: file.body });
      return true;
    }
    file.zipped ??= zip(file.body, { level: 9 });
    file.zipped.then(
      (body) => send(incoming, outgoing, { headers: { ...headers, "content-encoding": "gzip" }, body }),
      () => send(incoming, outgoing, { headers, body: file.body }),
    );
    return true;
  }

  #find(url: string): PageFile | undefined {
    const [path = ""] = url.split(/[?#]/, 1);
    const found = this.#files.get(path);
    if (found !== undefined) return found;
    // A path that begins with two slashes has an empty first part too, and is no page.
    const isPage = path === "/" || this.#pages.includes(path.split("/")[1] || "?");
    return isPage ? this.#files.get(INDEX) : undefined;
  }
}

function send(
  { method }: IncomingMessage,
  outgoing: ServerResponse,
  { headers, body }: { readonly headers: Readonly<Record<string, string>>; readonly body: Buffer },
): void {
  outgoing.writeHead(200, { ...headers, "content-length": body.length });
  outgoing.end(method === "HEAD" ? undefined : body);
}
