/**
 * The seal of a backup: a line after the last page of the database, with a checksum of all before it. SQLite's own check
 * looks at the structure only, so that flipped bits in somebody's data would pass it; with the seal every bit counts. A
 * database has whole pages, so a length that fits none tells that there is, or was, a seal. SQLite takes no notice of it.
 */
import { createHash } from "node:crypto";
import { appendFileSync, closeSync, openSync, readSync, statSync } from "node:fs";

const MARK = "rondo-backup sha256 ";
const SEAL_BYTES = MARK.length + 64 + 1;
const PAGE_MIN_BYTES = 512;
const CHUNK_BYTES = 1_048_576;
const MAGIC = "SQLite format 3\0";

/** Puts the seal on a database that nobody has open. */
export function sealFile(file: string): void {
  appendFileSync(file, sealOf(file, statSync(file).size));
}

/**
 * How many bytes of the file are the database, or null if it is not as it was sealed. A database without a seal, which
 * nothing can be said about here, is all of the file; so is what is no database.
 */
export function sealedBytes(file: string): number | null {
  const { size } = statSync(file);
  if (size % PAGE_MIN_BYTES === 0 || readText(file, { at: 0, bytes: MAGIC.length }) !== MAGIC) return size;
  const bytes = size - SEAL_BYTES;
  return bytes > 0 && readText(file, { at: bytes, bytes: SEAL_BYTES }) === sealOf(file, bytes) ? bytes : null;
}

/** The line for the first bytes of a file. */
function sealOf(file: string, bytes: number): string {
  const hash = createHash("sha256");
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const handle = openSync(file, "r");
  try {
    for (let at = 0; at < bytes; ) {
      const read = readSync(handle, chunk, 0, Math.min(CHUNK_BYTES, bytes - at), at);
      // Cut off meanwhile: then it is not what was sealed.
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
