/**
 * Counts the transactions of a write-ahead log (WAL) that are lost after a damaged frame. SQLite reads a log up to the first
 * frame with a wrong checksum and silently ignores the rest. Frames of the current log have the salts of its header, and the
 * last frame of a transaction is marked.
 * If several transactions follow from the damaged frame on, they are lost. A single one may be a transaction that a crash
 * interrupted before it was acknowledged, which is no loss.
 */
import { existsSync, readFileSync } from "node:fs";
import type { OpenedStore } from "./directory-lock.ts";

const HEADER = 32;
const FRAME_HEADER = 24;
const MAGIC_LITTLE = 0x377f0682;
const MAGIC_BIG = 0x377f0683;
const PAGE_DEFAULT = 4_096;

/**
 * Returns the number of complete transactions in a write-ahead log that cannot be read; 0 if there are none, or if there is no
 * log. Overwritten transactions are not counted.
 */
export function lostInWal(file: string): number {
  if (!existsSync(file)) return 0;
  const wal = readFileSync(file);
  if (wal.length < HEADER + FRAME_HEADER) return 0;
  const { size, isBig, sums, isWhole } = readHeader(wal);
  const starts: number[] = [];
  for (let at = HEADER; at + FRAME_HEADER + size <= wal.length; at += FRAME_HEADER + size) starts.push(at);
  // If the header of the log is damaged, the salts of the first frame are used.
  const saltAt = isWhole ? 16 : HEADER + 8;
  const isOurs = (at: number): boolean => wal.compare(wal, saltAt, saltAt + 8, at + 8, at + 16) === 0;
  const firstBad = isWhole ? firstMisfit(wal, { starts, size, isBig, sums, isOurs }) : 0;
  const behind = starts.slice(firstBad);
  // Frames of an earlier log can follow the last frame of the current one.
  if (!behind.slice(1).some(isOurs)) return 0;
  const complete = behind.filter((at, i) => (i === 0 || isOurs(at)) && wal.readUInt32BE(at + 4) !== 0).length;
  return complete > 1 ? complete : 0;
}

/** The state of the store before this process opened it in a new epoch. */
export interface FoundStore extends OpenedStore {
  readonly hasFile: boolean;
  readonly hasLog: boolean;
  readonly isClean: boolean;
}

/** Whether the WAL of a killed owner, or the whole database, is missing. */
export function isLogLost(left: OpenedStore | null, found: FoundStore): boolean {
  if (left === null) return false;
  if (!found.hasFile) return true;
  if (found.generation !== left.generation) return false;
  return found.epoch < left.epoch || (!found.hasLog && !found.isClean);
}

type Sums = readonly [number, number];

interface Header {
  readonly size: number;
  readonly isBig: boolean;
  readonly sums: Sums;
  /** Whether the checksum of the WAL's header is right. */
  readonly isWhole: boolean;
}

function readHeader(wal: Buffer): Header {
  const magic = wal.readUInt32BE(0);
  const isBig = magic === MAGIC_BIG;
  const size = wal.readUInt32BE(8);
  const isPage = size >= 512 && size <= 65_536 && (size & (size - 1)) === 0;
  const sums = addUp(wal.subarray(0, 24), [0, 0], isBig);
  const fits = sums[0] === wal.readUInt32BE(24) && sums[1] === wal.readUInt32BE(28);
  const isWhole = fits && isPage && (isBig || magic === MAGIC_LITTLE);
  return { size: isPage ? size : PAGE_DEFAULT, isBig, sums, isWhole };
}

/** Returns the index of the first frame that belongs to an earlier log or has a wrong checksum; the number of frames if there is none. */
function firstMisfit(
  wal: Buffer,
  log: Omit<Header, "isWhole"> & {
    readonly starts: readonly number[];
    readonly isOurs: (at: number) => boolean;
  },
): number {
  const { starts, size, isBig, isOurs } = log;
  let { sums } = log;
  for (const [i, at] of starts.entries()) {
    if (!isOurs(at)) return i;
    sums = addUp(wal.subarray(at, at + 8), sums, isBig);
    sums = addUp(wal.subarray(at + FRAME_HEADER, at + FRAME_HEADER + size), sums, isBig);
    if (sums[0] !== wal.readUInt32BE(at + 16) || sums[1] !== wal.readUInt32BE(at + 20)) return i;
  }
  return starts.length;
}

/** Adds bytes to SQLite's checksum of a WAL. The bytes are read as 32-bit words in the given byte order. */
function addUp(bytes: Buffer, [a, b]: Sums, isBig: boolean): Sums {
  let [s0, s1] = [a, b];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let i = 0; i + 8 <= bytes.length; i += 8) {
    s0 = (s0 + view.getUint32(i, !isBig) + s1) >>> 0;
    s1 = (s1 + view.getUint32(i + 4, !isBig) + s0) >>> 0;
  }
  return [s0, s1];
}
