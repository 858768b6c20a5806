/** Finds and reads the configuration file. JSON files are read as data; `.js` and `.ts` files have a default export. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, extname, join, resolve } from "node:path";
import { fieldsOf } from "../std/decode.ts";
import { RondoError, reject } from "../std/rejection.ts";

/** Loads a module in JavaScript or TypeScript. If the module fails to load, the error says where and why. */
export type LoadModule = (path: string) => Promise<Readonly<Record<string, unknown>>>;

export interface ConfigFile {
  /** The absolute path of the configuration file. */
  readonly path: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

const NAMES = ["rondo.config.ts", "rondo.config.js", "rondo.config.json"];

/** Reads the configuration file that RONDO_CONFIG (`named`) names, else the one in the folder; null if there is none. */
export async function readConfigFile(options: {
  readonly cwd: string;
  readonly named: string | undefined;
  readonly loadModule: LoadModule;
}): Promise<ConfigFile | null> {
  const path = options.named === undefined ? find(options.cwd) : resolve(options.cwd, options.named);
  if (path === null) return null;
  if (!existsSync(path))
    throw new RondoError(
      reject("not_found", `RONDO_CONFIG names the file ${options.named}, which does not exist`, {
        hint: `looked at ${path}`,
      }),
    );
  const fields = fieldsOf(await read(path, options.loadModule));
  if (fields === null)
    throw new RondoError(
      reject("invalid_input", `${basename(path)} does not contain an object of settings`, {
        hint:
          extname(path) === ".json"
            ? '{ "store": "file:.rondo" }'
            : 'export default { store: "file:.rondo" };',
      }),
    );
  return { path, fields };
}

function find(cwd: string): string | null {
  const found = NAMES.filter((name) => existsSync(join(cwd, name)));
  if (found.length > 1)
    throw new RondoError(
      reject("conflict", `there are several configuration files: ${found.join(", ")}`, {
        hint: "keep one of them",
      }),
    );
  return found[0] === undefined ? null : join(cwd, found[0]);
}

async function read(path: string, loadModule: LoadModule): Promise<unknown> {
  if (extname(path) !== ".json") return (await loadModule(path))["default"];
  return parse(await readText(path), path);
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new RondoError(
      reject("invalid_input", `${basename(path)} cannot be read: ${(cause as Error).message}`, { path }),
      { cause },
    );
  }
}

function parse(text: string, path: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new RondoError(
      reject("invalid_json", `${basename(path)} is not JSON: ${(cause as Error).message}`, { path }),
      { cause },
    );
  }
}
