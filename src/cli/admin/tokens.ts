/** `rondo token`: who may use the server over TCP. */
import { defined } from "../../std/defined.ts";
import { parseDuration } from "../../std/duration.ts";
import { unwrap } from "../../std/rejection.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print, printJson, printRows, tell } from "../output/print.ts";
import { showTime } from "../output/show-time.ts";
import type { Column } from "../output/table.ts";
import { type ServerFlags, withServer } from "../server/find-server.ts";
import type { Page } from "../server/read-pages.ts";

export interface TokenFlags extends Omit<ServerFlags, "token"> {
  readonly name: string;
  readonly role?: string;
  readonly project?: string;
  /** A duration from now. */
  readonly expires?: string;
}

interface ShownToken {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly project: string | null;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly expiresAt: number | null;
}

const PATH = "/v1/tokens";

/** Makes one. Its text is the only thing on stdout. */
export async function createToken(options: TokenFlags): Promise<ExitCode> {
  const { name, role = "operator", project, expires } = options;
  const expiresAt =
    expires === undefined ? undefined : Date.now() + unwrap(parseDuration(expires, "--expires"));
  return withServer(options, async ({ rondo }) => {
    const body = { name, role, ...defined({ project, expiresAt }) };
    const made = await rondo.requester.json<ShownToken & { token: string }>(PATH, { method: "POST", body });
    if (options.json) printJson(made);
    else {
      print(made.token);
      tell(`token ${made.id} (${role}) is made for "${name}"; it is not shown again`);
      tell("  every request over TCP needs a token from now on: --token, RONDO_TOKEN");
    }
    return EXIT.ok;
  });
}

/** Lists them. */
export async function listTokens(options: ServerFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    const { data } = await rondo.requester.json<Page<ShownToken>>(PATH);
    printRows(data, COLUMNS, {
      json: options.json,
      none: "no tokens: every user of this machine may use the server",
    });
    return EXIT.ok;
  });
}

/** Revokes one. */
export async function revokeToken(id: string, options: ServerFlags): Promise<ExitCode> {
  return withServer(options, async ({ rondo }) => {
    await rondo.requester.json(`${PATH}/${encodeURIComponent(id)}`, { method: "DELETE" });
    if (options.json) printJson({ id });
    else tell(`token ${id} is good for nothing from now on`);
    return EXIT.ok;
  });
}

const COLUMNS: Column<ShownToken>[] = [
  { title: "ID", value: ({ id }) => id },
  { title: "NAME", value: ({ name }) => name },
  { title: "ROLE", value: ({ role }) => role },
  { title: "PROJECT", value: ({ project }) => project },
  { title: "CREATED", value: ({ createdAt }) => showTime(createdAt) },
  { title: "BY", value: ({ createdBy }) => createdBy },
  { title: "EXPIRES", value: ({ expiresAt }) => (expiresAt === null ? null : showTime(expiresAt)) },
];
