/**
 * A loader hook in front of jiti's. It repairs two things:
 * 1. jiti puts compiled code into a function, whose head is on the first line of the code, so that the columns of that line are wrong
 *    in its source map. The hook moves the head to a line of its own, and the map along. Imports of the code are loaded by
 *    register-jiti.ts.
 * 2. jiti makes an ES module of a CommonJS file that has an `import()`. Node 20 cannot require that, so the hook gives Node the file itself.
 */
import { readFile } from "node:fs/promises";
import type { LoadHook } from "node:module";

const HEAD = "jitiImport) { ";
/** How the compiled code imports jiti, on its first line. */
const IMPORT = /^import \{ createJiti as __createJiti__ \} from "[^"]*";/;
/** A statement that only an ES module has. */
const STATIC = /^\s*(?:import|export)(?:\s*["'{*]|\s+\w)/m;
const MAP = /\/\/# sourceMappingURL=data:application\/json;charset=utf-8;base64,([A-Za-z0-9+/=]+)/;

export const load: LoadHook = async (url, context, nextLoad) => {
  const loaded = await nextLoad(url, context);
  const { source } = loaded;
  if (typeof source !== "string") return loaded;
  const head = source.indexOf(HEAD);
  if (head >= 0 && url.endsWith(".js") && url.includes("/node_modules/")) {
    const file = await readFile(new URL(url), "utf8");
    if (!STATIC.test(file)) return { format: "commonjs", source: file, shortCircuit: true };
  }
  const map = MAP.exec(source);
  if (head < 0 || map === null || source.lastIndexOf("\n", head) >= 0) return loaded;
  const begin = head + HEAD.length;
  const moved = `${source.slice(0, begin)}\n${source.slice(begin)}`;
  // A comment of jiti's cache may follow on the line of the map; Node.js reads a map only from a line of its own.
  const later = `//# sourceMappingURL=data:application/json;charset=utf-8;base64,${lineLater(map[1] as string)}\n`;
  const jiti = new URL("./register-jiti.js", import.meta.url).href;
  const mapped = moved
    .replace(map[0], later)
    .replace(IMPORT, `import { createExplained as __createJiti__ } from ${JSON.stringify(jiti)};`);
  return { ...loaded, source: mapped };
};

/** A source map, in base64, of code that begins one line later. */
function lineLater(map: string): string {
  const parsed = JSON.parse(Buffer.from(map, "base64").toString()) as { mappings: string };
  return Buffer.from(JSON.stringify({ ...parsed, mappings: `;${parsed.mappings}` })).toString("base64");
}
