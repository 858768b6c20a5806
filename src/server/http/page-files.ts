/**
 * Serves the dashboard's files: read once from the build folder, kept in memory with a compressed copy, and sent with a strict
 * content security policy. Files with a hash in their names may be cached for ever; the page itself is revalidated each time.
 * All page addresses of the dashboard get the same HTML page; every other path belongs to the API.
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
  /** The compressed copy, made on first use. */
  zipped: Promise<Buffer> | null;
}

/** First path segments of the dashboard's pages; "" is the overview. */
const PAGES: readonly string[] = [
  "",
  "executions",
  "workers",
  "ring",
  "queues",
  "schedules",
  "dead-letters",
  "definitions",
  "alerts",
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

/**
 * The content security policy: only resources of this server, no inline script or style, and no conversion of text to markup.
 */
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

  /** `folder`: the build folder; without it there are no pages. `more`: additional pages of this server. */
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

  get any(): boolean {
    return this.#files.size > 0;
  }

  /** Sends a file; false if the request is not for the dashboard. */
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
    // A path that begins with two slashes also has an empty first segment, but is not a page.
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
