/**
 * The seal of a backup file: a line after the last page, with a checksum of everything before it. It is needed because SQLite's
 * integrity check does not find flipped bits in values. If the length of a file is not a whole number of pages, the file has a
 * seal, or a part of one.
 */
import { createHash } from "node:crypto";
import { appendFileSync, closeSync, openSync, readSync, statSync } from "node:fs";

const MARK = "rondo-backup sha256 ";
const SEAL_BYTES = MARK.length + 64 + 1;
const PAGE_MIN_BYTES = 512;
const CHUNK_BYTES = 1_048_576;
const MAGIC = "SQLite format 3\0";

/** Seals a database file that is not open. */
export function sealFile(file: string): void {
  appendFileSync(file, sealOf(file, statSync(file).size));
}

/** Returns the length of the database in a backup file; null if the checksum is wrong. Without a seal, the length is that of the file. */
export function sealedBytes(file: string): number | null {
  const { size } = statSync(file);
  if (size % PAGE_MIN_BYTES === 0 || readText(file, { at: 0, bytes: MAGIC.length }) !== MAGIC) return size;
  const bytes = size - SEAL_BYTES;
  return bytes > 0 && readText(file, { at: bytes, bytes: SEAL_BYTES }) === sealOf(file, bytes) ? bytes : null;
}

function sealOf(file: string, bytes: number): string {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const handle = openSync(file, "r");
  try {
    for (let at = 0; at < bytes; ) {
      const read = readSync(handle, chunk, 0, Math.min(CHUNK_BYTES, bytes - at), at);
      // The file was truncated while it was read.
      if (read === 0) break;
      hash.update(chunk.subarray(0, read));
      at += read;
    }
  } finally {
    closeSync(handle);
  }
  return `${MARK}${hash.digest("hex")}\n`;
}

function readText(file: string, { at, bytes }: { at: number; bytes: number }): string {
  const buffer = Buffer.alloc(bytes);
  const handle = openSync(file, "r");
  try {
    return buffer.toString("latin1", 0, readSync(handle, buffer, 0, bytes, at));
  } finally {
    closeSync(handle);
  }
}
