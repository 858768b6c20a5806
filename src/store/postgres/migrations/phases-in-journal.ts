/**
 * The commit of write-commit.ts, with one thing more. Most changes of a head are of its phase alone, and a change of a
 * row is the dearest part of a commit; so the phase travels with the journal's rows, which are appended anyway. The
 * phase of the last row counts; where it has none, the head's is right. A head that is written wholly begins anew.
 * Nodes of older versions write heads wholly and rows without a phase, which is the same thing.
 */
import { writeCommit } from "./write-commit.ts";

export const PHASES_IN_JOURNAL = `
  ALTER TABLE journal ADD COLUMN IF NOT EXISTS phase text;
  ${writeCommit({ name: "write_commit_2", phases: true, leases: false })}
`;
