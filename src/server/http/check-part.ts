/** Checks one part of a request by its schema and turns what is wrong into a rejection with the path to it. */
import type { z } from "@hono/zod-openapi";
import { type Rejection, reject } from "../../std/rejection.ts";
import type { Parsed } from "./read-body.ts";

type Issue = z.core.$ZodIssue;

/** The value as its schema gives it, or the first thing that is wrong with it. */
export function checkPart(
  schema: z.ZodType,
  value: unknown,
  part: "path" | "query" | "body",
): Parsed | Rejection {
  const result = schema.safeParse(value);
  return result.success
    ? { kind: "parsed", value: result.data }
    : rejectionOf(result.error.issues[0] as Issue, part);
}

function rejectionOf(issue: Issue, part: string): Rejection {
  if (issue.code === "unrecognized_keys") {
    const path = pathText([...issue.path, issue.keys[0] as string]);
    return reject(
      "unknown_field",
      `${path.slice(0, 200)}: there is no such ${part === "query" ? "parameter" : "field"}`,
      {
        path: path.slice(0, 200),
      },
    );
  }
  const path = pathText(issue.path).slice(0, 200);
  return reject(
    "invalid_input",
    path === "" ? `the ${part} ${plainly(issue.message)}` : `${path}: ${plainly(issue.message)}`,
    {
      ...(path === "" ? {} : { path }),
    },
  );
}

/** `events[3].kind` of ["events", 3, "kind"]. */
function pathText(path: readonly PropertyKey[]): string {
  let text = "";
  for (const key of path)
    text += typeof key === "number" ? `[${key}]` : `${text === "" ? "" : "."}${String(key)}`;
  return text;
}

function plainly(message: string): string {
  if (message.endsWith("received undefined")) return "is missing";
  return message.replace(/^Invalid input: /, "").replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase());
}
