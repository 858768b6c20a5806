/** Converts places in compiled code to places in the TypeScript source. */
import { readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A place in compiled code; line and column count from 0. */
export interface SourcePlace {
  readonly url: string;
  readonly line: number;
  readonly column: number;
}

/** The file and line, and the line with the most ticks. Ticks are given by line, counted from 1. */
export function showPlace({ url, line, column }: SourcePlace, ticks: ReadonlyMap<number, number>): string {
  if (!url.startsWith("file:")) return url;
  const place = inSource(url, line, column);
  const [hottest] = [...ticks].sort((a, b) => b[1] - a[1]);
  if (hottest === undefined) return place;
  const hot = inSource(url, hottest[0] - 1, Number.MAX_SAFE_INTEGER).replace(/^.*:/, "");
  return place.endsWith(`:${hot}`) ? place : `${place}, hot ${hot}`;
}

const maps = new Map<string, SourceMap | null>();

function inSource(url: string, line: number, column: number): string {
  const file = fileURLToPath(url);
  let map = maps.get(file);
  if (map === undefined) {
    map = readMap(file);
    maps.set(file, map);
  }
  const entry = map?.findEntry(line, column);
  if (entry === undefined || !("originalLine" in entry)) return `${short(file)}:${line + 1}`;
  return `${short(join(dirname(file), entry.originalSource))}:${entry.originalLine + 1}`;
}

function readMap(file: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(`${file}.map`, "utf8")));
  } catch {
    // A module without a source map keeps its own lines.
    return null;
  }
}

function short(file: string): string {
  return `${basename(dirname(file))}/${basename(file)}`;
}
