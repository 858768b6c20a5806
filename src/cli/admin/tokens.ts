/** `rondo token`: makes, lists and revokes tokens for access over TCP. If no server runs, it works on the data directory. */
import type { TokenScope } from "../../sdk/operations.ts";
import type { NewToken, Token, TokenList } from "../../server/schemas/admin.ts";
import { defined } from "../../std/defined.ts";
import { CliError } from "../cli-error.ts";
import { durationOf } from "../duration-flag.ts";
import { EXIT } from "../exit-code.ts";
import { print, printAnswer, printJson, printLine, printRows } from "../output/print.ts";
import { showTime } from "../output/show-time.ts";
import type { Column } from "../output/table.ts";
import type { Flags, ServerFlags } from "../server/find-server.ts";
import { withServerOrDirectory } from "../server/server-or-directory.ts";

export type TokenFlags = Omit<ServerFlags, "token"> &
  Flags<"name" | "role" | "project" | "expires" | "execution" | "scopes">;

const PATH = "/v1/tokens";

/** Makes a token. Only the token itself is printed to stdout. */
export async function createToken(options: TokenFlags): Promise<void> {
  if (options.execution !== undefined || options.scopes !== undefined) return createExecutionToken(options);
  const { role = "operator", project, expires } = options;
  const now = Date.now();
  const name = options.name ?? `${role} ${showTime(now).slice(0, 10)}`;
  const expiresAt = expires === undefined ? undefined : now + durationOf(expires, "--expires");
  return withServerOrDirectory(options, { mayCreate: true }, async ({ rondo, name: where }, isHere) => {
    const body = { name, role, ...defined({ project, expiresAt }) };
    const made = await rondo.requester.json<NewToken>(PATH, { method: "POST", body });
    if (options.json) printJson(made);
    else {
      print(made.token);
      printLine(`token ${made.id} (${role}) was created for "${name}"; it is not shown again`);
      if (isHere) printLine(`  no server works on ${where}: the token is stored there for the next server`);
      if (made.notice !== undefined)
        printLine(`  ${made.notice}; commands send it by --token or RONDO_TOKEN`);
    }
  });
}

/** Makes a token for one execution. Only the token itself is printed to stdout. */
async function createExecutionToken(options: TokenFlags): Promise<void> {
  const { execution, scopes = "read", expires = "1h", name, role, project } = options;
  if (execution === undefined)
    throw new CliError(EXIT.usage, "--scopes: is allowed only with --execution <id>");
  const other = Object.entries({ name, role, project }).find(([, value]) => value !== undefined);
  if (other !== undefined)
    throw new CliError(
      EXIT.usage,
      `--${other[0]}: is not allowed with --execution; such a token has --scopes instead`,
    );
  return withServerOrDirectory(options, { mayCreate: false }, async ({ rondo }) => {
    const wanted = scopes.split(",").map((scope) => scope.trim()) as TokenScope[];
    const made = await rondo.tokenFor(execution, {
      scopes: wanted,
      expires: durationOf(expires, "--expires"),
    });
    if (options.json) return printJson(made);
    print(made.token);
    printLine(
      `the token opens the execution ${execution} (${made.scopes.join(", ")}) until ${showTime(made.expiresAt)}; the server does not store it`,
    );
  });
}

/** Lists the tokens. */
export async function listTokens(options: ServerFlags): Promise<void> {
  return withServerOrDirectory(options, { mayCreate: false }, async ({ rondo }) => {
    const { data } = await rondo.requester.json<TokenList>(PATH);
    printRows(data, COLUMNS, {
      json: options.json,
      none: "there are no tokens: every user of this machine may use the server",
    });
  });
}

/** Revokes a token. */
export async function revokeToken(id: string, options: ServerFlags): Promise<void> {
  return withServerOrDirectory(options, { mayCreate: false }, async ({ rondo }) => {
    await rondo.requester.json(`${PATH}/${encodeURIComponent(id)}`, { method: "DELETE" });
    printAnswer(options, { id }, `token ${id} is revoked`);
  });
}

const COLUMNS: Column<Token>[] = [
  { title: "ID", value: ({ id }) => id },
  { title: "NAME", value: ({ name }) => name },
  { title: "ROLE", value: ({ role }) => role },
  { title: "PROJECT", value: ({ project }) => project },
  { title: "CREATED", value: ({ createdAt }) => showTime(createdAt) },
  { title: "BY", value: ({ createdBy }) => createdBy },
  { title: "EXPIRES", value: ({ expiresAt }) => (expiresAt === null ? null : showTime(expiresAt)) },
];
