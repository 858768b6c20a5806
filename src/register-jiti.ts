/**
 * jiti, with source maps that Node.js uses. jiti runs the files that a file imports as scripts, and Node.js reads no source maps of
 * scripts: stacks would have the columns of the compiled code, which differ inside of blocks with `using`.
 */
import { dirname } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createJiti as createPlain, type Jiti, type JitiOptions, type TransformOptions } from "jiti";
import { explainTsconfig } from "./register-tsconfig.ts";

const MAP = /\/\/# sourceMappingURL=data:application\/json[^\n]*/;

/** Makes a jiti as `createJiti` does. If it cannot use a tsconfig.json, the error names the file. */
export function createExplained(path: string, options?: JitiOptions): Jiti {
  try {
    return createJiti(path, options);
  } catch (thrown) {
    throw explainTsconfig(thrown, dirname(path.startsWith("file:") ? fileURLToPath(path) : path));
  }
}

/** Makes a jiti whose files have stacks with the lines and columns of their sources. */
export function createJiti(path: string, options: JitiOptions = {}): Jiti {
  process.setSourceMapsEnabled(true);
  const compiler = createPlain(path, { fsCache: false });
  const transform = (given: TransformOptions): { code: string } => {
    const code = compiler.transform(given);
    const map = MAP.exec(code)?.[0];
    if (map !== undefined && given.filename !== undefined) registerMap(map, given.filename);
    return { code };
  };
  // A file in jiti's cache would not be transformed, and its map would be unknown.
  return createPlain(path, { ...options, sourceMaps: true, fsCache: false, transform });
}

/**
 * Makes the source map of a file known to Node.js, which reads source maps of evaluated strings. The string is empty but for
 * the map, and has the name of the file.
 */
function registerMap(map: string, filename: string): void {
  try {
    globalThis.eval(`${map}\n//# sourceURL=${pathToFileURL(filename).href}`);
  } catch (thrown) {
    // If the runtime forbids `eval`, some columns in stacks are those of the compiled code.
    if (!(thrown instanceof EvalError)) throw thrown;
  }
}
